"""Finding: a problem and its repair. Machine: what the checks look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backstory import settings as stored
from backstory.cli.worker import fetched
from backstory.client import Client
from backstory.errors import BackstoryError, BadSetting
from backstory.paths import read_object
from backstory.settings import Settings

#: How long the worker may take to answer a health request, in seconds.
HEALTH_S = 5.0
#: How long the worker may take to answer a check or a repair, in seconds.
ANSWER_S = 600.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem, or, with `note`, something that is worth knowing."""

    name: str
    says: str  #: what is wrong
    do: str  #: what the user can do about it
    #: The repair. It returns a sentence about what was done, or raises an error that says why it failed.
    repair: Callable[[], str] | None = None
    note: bool = False

    def shown(self) -> dict[str, Any]:
        level = "note" if self.note else "wrong"
        return {"name": self.name, "level": level, "says": self.says, "do": self.do, "mends": self.repair is not None}


@dataclass(slots=True)
class Machine:
    """The state of the machine at one moment."""

    settings: Settings
    config_error: BackstoryError | None
    pid: int | None  #: the process that holds the worker's lock
    health: dict[str, Any] | None  #: the worker's answer to /api/health
    worker_file: dict[str, Any]  #: the content of worker.json
    home: Path = field(default_factory=Path.home)
    cwd: Path = field(default_factory=Path.cwd)
    env: Mapping[str, str] = field(default_factory=stored.environment)

    @property
    def client(self) -> Client:
        return Client(self.settings.paths.socket, timeout=ANSWER_S)


Check = Callable[[Machine], Iterator[Finding]]


def look() -> Machine:
    """The state of the machine now. Defaults are used if the settings cannot be read."""
    from backstory.worker import process

    error: BackstoryError | None = None
    try:
        chosen = stored.load()
    except BadSetting as problem:
        chosen, error = Settings(data_dir=stored.data_dir(stored.environment())), problem
    health = fetched(Client(chosen.paths.socket, timeout=HEALTH_S), "/api/health")
    return Machine(chosen, error, process.running_pid(chosen.paths), health, read_object(chosen.paths.worker))
