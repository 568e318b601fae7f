"""Where things lie in the data directory, and its modes: nobody but its owner looks in."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

#: Whatever happens in a directory of this name is the observer's own doing, be it of another data directory.
OBSERVING = ".backstory-observer"


@dataclass(frozen=True, slots=True)
class Paths:
    """Every file and folder of ours, by name."""

    data: Path

    @property
    def database(self) -> Path:
        return self.data / "backstory.db"

    @property
    def config(self) -> Path:
        return self.data / "config.toml"

    @property
    def token(self) -> Path:
        return self.data / "token"

    @property
    def socket(self) -> Path:
        return self.data / "worker.sock"

    @property
    def worker(self) -> Path:
        """`{pid, port, version, started_at}` of the worker that runs."""
        return self.data / "worker.json"

    @property
    def lock(self) -> Path:
        """Held by the one worker; its text is that worker's process id."""
        return self.data / "worker.lock"

    @property
    def log(self) -> Path:
        return self.data / "worker.log"

    @property
    def spool(self) -> Path:
        return self.data / "spool"

    @property
    def rejected(self) -> Path:
        return self.spool / "rejected"

    @property
    def bin(self) -> Path:
        """The shims that agents' settings name, so that an upgrade never rewrites those."""
        return self.data / "bin"

    @property
    def hook(self) -> Path:
        return self.bin / "backstory-hook"

    @property
    def mcp(self) -> Path:
        """The bridge between an agent and the worker's tools."""
        return self.bin / "backstory-mcp"

    @property
    def start_worker(self) -> Path:
        return self.bin / "backstory-worker"

    @property
    def command(self) -> Path:
        """`backstory` itself, by a name that never changes."""
        return self.bin / "backstory"

    @property
    def called(self) -> str:
        """How an agent's shell calls `backstory`."""
        if not self.command.exists():
            return "backstory"
        home = Path.home()
        return f"~/{self.command.relative_to(home)}" if self.command.is_relative_to(home) else str(self.command)

    @property
    def backups(self) -> Path:
        """The last good copies of the database."""
        return self.data / "backups"

    @property
    def suspect(self) -> Path:
        """There while the database is thought to be damaged: the next start reads it through, however large it is."""
        return self.data / "suspect"

    @property
    def restored(self) -> Path:
        """What was done about a damaged database, until somebody has read it."""
        return self.data / "restored.json"

    @property
    def rescued(self) -> Path:
        """The database, written out by a worker whose files were removed; the next start puts it in place."""
        return self.data / "backstory.db.rescued"

    @property
    def extent(self) -> Path:
        """How many rows the database had, as `{"rows": n}`: by this a database that was emptied is noticed."""
        return self.data / "database.json"

    @property
    def forgotten_key(self) -> Path:
        """Without it nobody can tell from a tombstone what was forgotten."""
        return self.data / "forgotten.key"

    @property
    def installs(self) -> Path:
        """What each settings file was before we touched it."""
        return self.data / "installs"

    @property
    def modes(self) -> Path:
        """The user's own modes."""
        return self.data / "modes"

    @property
    def observer(self) -> Path:
        """What the observer needs: sessions in here are never observed."""
        return self.data / "observer"

    @property
    def observing(self) -> Path:
        """The directory that the observer's own sessions work in, of a name that tells them from everybody else's."""
        return self.observer / OBSERVING

    def prepare(self) -> None:
        """Make the data directory, closed to others."""
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.data.stat().st_mode & 0o077:
            self.data.chmod(0o700)

    def spooled(self) -> tuple[int, int]:
        """How many events wait in the spool, and how many were rejected."""
        return sum(1 for _ in self.spool.glob("[!.]*.json")), sum(1 for _ in self.rejected.glob("*.json"))


def is_observers(transcript: Path) -> bool:
    """Whether a transcript is of the observer's own session: `claude` names its folder after the working directory."""
    return transcript.parent.name.endswith("-" + OBSERVING.replace(".", "-"))


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner reads, whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
