"""Paths of all files in the data directory. Only the owner of the directory has access to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

#: Working directory of the observer's own sessions, in any data directory. Sessions in it are never observed.
OBSERVING = ".backstory-observer"


@dataclass(frozen=True, slots=True)
class Paths:
    """Every file and directory that backstory keeps, relative to the data directory."""

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
        """`{pid, port, version, started_at}` of the running worker."""
        return self.data / "worker.json"

    @property
    def lock(self) -> Path:
        """Lock file of the running worker. It contains the worker's process id."""
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
        """Launch scripts with stable paths. Settings of agents refer to them, so an upgrade need not edit settings."""
        return self.data / "bin"

    @property
    def hook(self) -> Path:
        return self.bin / "backstory-hook"

    @property
    def mcp(self) -> Path:
        """The MCP server that agents start. It forwards messages to the worker."""
        return self.bin / "backstory-mcp"

    @property
    def start_worker(self) -> Path:
        return self.bin / "backstory-worker"

    @property
    def command(self) -> Path:
        """The `backstory` command, at a path that never changes."""
        return self.bin / "backstory"

    @property
    def called(self) -> str:
        """The `backstory` command as an agent's shell can run it."""
        if not self.command.exists():
            return "backstory"
        home = Path.home()
        return f"~/{self.command.relative_to(home)}" if self.command.is_relative_to(home) else str(self.command)

    @property
    def backups(self) -> Path:
        """Recent intact copies of the database."""
        return self.data / "backups"

    @property
    def suspect(self) -> Path:
        """Exists while the database may be damaged. The next start then checks all of it, whatever its size."""
        return self.data / "suspect"

    @property
    def restored(self) -> Path:
        """Report of how a damaged database was repaired. Kept until it has been shown to the user."""
        return self.data / "restored.json"

    @property
    def rescued(self) -> Path:
        """Copy of the database, saved by a worker whose files were deleted. The next start restores it."""
        return self.data / "backstory.db.rescued"

    @property
    def extent(self) -> Path:
        """Number of rows in the database, as `{"rows": n}`. Used to notice a database that was emptied."""
        return self.data / "database.json"

    @property
    def forgotten_key(self) -> Path:
        """Key of the hashes in tombstones. Without it a hash does not reveal what was forgotten."""
        return self.data / "forgotten.key"

    @property
    def installs(self) -> Path:
        """Copies of agents' settings files from before backstory edited them."""
        return self.data / "installs"

    @property
    def modes(self) -> Path:
        """Modes that the user has defined."""
        return self.data / "modes"

    @property
    def observer(self) -> Path:
        """Files of the observer. Sessions in this directory are never observed."""
        return self.data / "observer"

    @property
    def observing(self) -> Path:
        """Working directory of the observer's own sessions. Its name identifies them."""
        return self.observer / OBSERVING

    def prepare(self) -> None:
        """Create the data directory, accessible only to its owner."""
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.data.stat().st_mode & 0o077:
            self.data.chmod(0o700)

    def spooled(self) -> tuple[int, int]:
        """Return the number of events in the spool and the number of rejected ones."""
        return sum(1 for _ in self.spool.glob("[!.]*.json")), sum(1 for _ in self.rejected.glob("*.json"))


def is_observers(transcript: Path) -> bool:
    """Whether a transcript belongs to the observer. `claude` names the folder after the working directory."""
    return transcript.parent.name.endswith("-" + OBSERVING.replace(".", "-"))


def write_private(path: Path, data: bytes) -> None:
    """Write a file atomically, readable only by its owner."""
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
