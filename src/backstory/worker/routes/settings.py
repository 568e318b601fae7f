"""Routes of the settings: list and change them, and ask the provider a question to see whether it answers."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from backstory import setting_rows, settings
from backstory.capture import bodies
from backstory.errors import BadSetting
from backstory.model import ModelCall
from backstory.observe import modes
from backstory.observe.model_observer import ModelObserver, ProviderTest
from backstory.paths import write_private
from backstory.setting_rows import ONLY_BY_COMMAND
from backstory.settings import NAMES, Settings
from backstory.store import ledger
from backstory.store.db import Store
from backstory.worker.endpoints import Call, Endpoint, needs_admin

_Text = Annotated[str, msgspec.Meta(max_length=10_000)]
_TYPES: dict[type, Any] = {tuple: list[_Text] | _Text, int: int, float: float | int, str: _Text}
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Settings)}
#: A body with any of the settings. `null` stands for the default.
SettingChanges = msgspec.defstruct(
    "SettingChanges",
    [(name, _TYPES[type(_DEFAULTS[name])] | UnsetType | None, UNSET) for name in NAMES],
    forbid_unknown_fields=True,
)
#: What stands in the place of a password that is not shown. It is no value.
MASK = "***"


class SettingList(msgspec.Struct):
    """Every setting, in the order of `backstory config`. A secret has no value, only `is_set`."""

    items: list[dict[str, Any]]


class NoBody(msgspec.Struct):
    """Nothing."""


class TestedProvider(msgspec.Struct):
    """Whether the provider answered, and how long that took."""

    ok: bool
    provider: str
    model: str
    says: str  #: what happened, as a sentence
    seconds: float


class SettingRoutes:
    """The routes of the settings."""

    def __init__(self, started: Settings, store: Store, model: ModelObserver) -> None:
        self._started, self._store, self._model = started, store, model
        self._changing = asyncio.Lock()

    def table(self) -> list[Endpoint]:
        # Bodies are not stripped: a key is a secret, and it is stored in config.toml alone.
        return [
            needs_admin("GET", "/api/settings", self.listed, SettingList),
            needs_admin("PATCH", "/api/settings", self.change, SettingList, SettingChanges, read=bodies.whole),
            needs_admin("POST", "/api/settings/test", self.test, TestedProvider, NoBody),
        ]

    async def listed(self, call: Call) -> SettingList:
        """List the settings with their defaults and where each comes from. Secrets are not shown."""
        return SettingList(await asyncio.to_thread(setting_rows.rows, self._started))

    async def change(self, call: Call) -> SettingList:
        """Change settings in config.toml. Either all are changed, or none."""
        changes = {name: value for name in NAMES if (value := getattr(call.body, name)) is not UNSET}
        async with self._changing:
            return SettingList(await asyncio.to_thread(self._change, changes))

    def _change(self, changes: dict[str, Any]) -> list[dict[str, Any]]:
        paths = self._started.paths
        for name, value in changes.items():
            if name in ONLY_BY_COMMAND:
                raise BadSetting(f"`{name}` cannot be changed here.", f"Run `backstory config set {name} VALUE`.")
            if value is None:
                continue
            if isinstance(value, str) and MASK in value:
                raise BadSetting(f"`{name}` has a masked password.", "Write the whole value.")
            converted = settings.convert(name, value)
            if name == "mode":
                modes.load(converted, paths.modes)
        settings.load()  # a file that cannot be read is not written to
        before = paths.config.read_bytes() if paths.config.exists() else b""
        try:
            for name, value in changes.items():
                settings.change(paths.config, name, value)
        except BaseException:
            write_private(paths.config, before)
            raise
        return setting_rows.rows(self._started)

    async def test(self, call: Call) -> TestedProvider:
        """Ask the provider one question that contains nothing of the memory. It counts towards the budget."""
        tested: ProviderTest = await self._model.test()
        if tested.calls:
            calls: tuple[ModelCall, ...] = tested.calls
            await asyncio.wrap_future(self._store.submit(lambda tx: ledger.add_unnamed(tx, calls)))
        return TestedProvider(tested.ok, tested.provider, tested.model, tested.says, round(tested.seconds, 3))
