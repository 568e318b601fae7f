"""What doctor found: its name, a sentence, what to do, and how repair mends it; and what a check looks at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backstory import settings as stored
from backstory.client import Client
from backstory.errors import BackstoryError, BadSetting
from backstory.settings import Settings

HEALTH_S = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or, as a note, worth knowing."""

    name: str
    says: str
    do: str
    #: what repair does; it says what that was, or raises what stands in its way
    mend: Callable[[], str] | None = None
    note: bool = False

    def shown(self) -> dict[str, Any]:
        level = "note" if self.note else "wrong"
        return {"name": self.name, "level": level, "says": self.says, "do": self.do, "mends": self.mend is not None}


@dataclass(slots=True)
class Machine:
    """The machine as it is now."""

    settings: Settings
    config_error: BackstoryError | None
    pid: int | None  #: of the process that holds the worker's lock
    health: dict[str, Any] | None
    told: dict[str, Any]  #: what the worker wrote about itself
    home: Path = field(default_factory=Path.home)
    cwd: Path = field(default_factory=Path.cwd)
    env: Mapping[str, str] = field(default_factory=stored.environment)

    @property
    def client(self) -> Client:
        return Client(self.settings.paths.socket, timeout=600)


Check = Callable[[Machine], Iterator[Finding]]


def look() -> Machine:
    """See what is there; settings that can't be read are no reason to stop looking."""
    from backstory.worker import process

    error: BackstoryError | None = None
    try:
        chosen = stored.load()
    except BadSetting as problem:
        chosen, error = Settings(data_dir=stored.data_dir(stored.environment())), problem
    try:
        told = json.loads(chosen.paths.worker.read_bytes())
    except (OSError, ValueError):
        told = {}
    return Machine(chosen, error, process.holder(chosen.paths), _health(chosen), told if isinstance(told, dict) else {})


def _health(chosen: Settings) -> dict[str, Any] | None:
    try:
        found = Client(chosen.paths.socket, timeout=HEALTH_S).get("/api/health")
    except BackstoryError:
        return None
    return found if isinstance(found, dict) else None
