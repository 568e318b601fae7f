"""Paths of all files in the data directory. Only the owner of the directory has access to it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

#: Working directory of the observer's own sessions, in any data directory. Sessions in it are never observed.
OBSERVING = ".backstory-observer"


class Paths:
    """Every file and directory that backstory keeps."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.database = data / "backstory.db"
        self.config = data / "config.toml"
        self.token = data / "token"
        self.browsers = data / "browsers.json"  #: digests of the sessions of browsers, and when they end
        self.modes = data / "modes"  #: modes that the user has defined
        self.installs = data / "installs"  #: copies of agents' settings files from before backstory edited them
        self.forgotten_key = data / "forgotten.key"  #: key of the hashes in tombstones; without it they reveal nothing
        # The worker
        self.socket = data / "worker.sock"
        self.worker = data / "worker.json"  #: `{pid, port, version, started_at}` of the running worker
        self.lock = data / "worker.lock"  #: contains the process id of the running worker
        self.log = data / "worker.log"
        self.spool = data / "spool"
        self.rejected = self.spool / "rejected"
        # Launch scripts. Settings of agents refer to them by these paths, so an upgrade need not edit settings.
        self.bin = data / "bin"
        self.hook = self.bin / "backstory-hook"
        self.mcp = self.bin / "backstory-mcp"  #: the MCP server that agents start; it forwards messages to the worker
        self.start_worker = self.bin / "backstory-worker"
        self.command = self.bin / "backstory"
        # Sessions of the Python API: `{content id}/session.json` and the lock of whoever is using the session
        self.agent_sessions = data / "agent-sessions"
        self.agent_runs = data / "agent-runs"  #: pipes of running programs, which end them with their callers
        # Backups
        self.backups = data / "backups"  #: recent intact copies of the database
        self.suspect = data / "suspect"  #: exists if the database may be damaged; the next start then checks all of it
        self.restored = data / "restored.json"  #: how a damaged database was repaired, until the user has seen it
        #: Saved by a worker whose files were deleted. The next start restores it.
        self.rescued = data / "backstory.db.rescued"
        self.extent = data / "database.json"  #: `{"rows": n}`, to notice a database that was emptied
        # The observer's own files. Sessions in these directories are never observed.
        self.observer = data / "observer"
        self.observing = self.observer / OBSERVING  #: working directory of its sessions; the name identifies them

    @property
    def called(self) -> str:
        """The `backstory` command as an agent's shell can run it."""
        if not self.command.exists():
            return "backstory"
        home = Path.home()
        return f"~/{self.command.relative_to(home)}" if self.command.is_relative_to(home) else str(self.command)

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


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty if there is none, or if the file is damaged."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def expanded(path: str | Path) -> Path:
    """Return a path with the home directory in place of `~`. That of a user who does not exist stays as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - a Path would raise RuntimeError


def sync(path: Path) -> None:
    """Wait until a file or a directory is on disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
