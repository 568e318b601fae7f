"""Paths of all files in the data directory. Only the owner of the directory has access to it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

#: Seconds after which a temporary file is left of a process that was killed.
ABANDONED_S = 3600.0
#: Seconds in which a program that another thread starts closes the files of this process.
FORKED_S = 1.0
#: Errors of a file system that cannot lock directories, such as NFS.
NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP)
#: Temporary files, also those of earlier versions, which are named by a process.
_TEMPORARY = re.compile(r"\..+\.([0-9a-f]{16}|[0-9]+)\.tmp|\.backstory[a-z-]*\.[0-9]+")
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
        self.forgetting = data / "forgetting"  #: what is to be forgotten, until no file has it any more
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


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a directory, so that one thread of one process at a time makes or changes what is in it. Where
    directories cannot be locked, it is used without."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def written(path: Path, mode: int = 0o600, *, is_new: bool = False) -> Iterator[IO[bytes]]:
    """Write a file atomically. It gets its name when it is whole and has its mode. With `is_new`, one that has the name
    already stays, and FileExistsError is raised."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Threads write at the same time, too, so the process does not tell them apart.
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as out:
            os.fchmod(handle, mode)
            yield out
        if mode & 0o100:
            _wait_for_forks(temporary)
        if is_new:
            os.link(temporary, path)
        else:
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _wait_for_forks(path: Path) -> None:
    """Wait until nobody has a new program open for writing, because it could not be run (ETXTBSY). A process that
    another thread has just forked has it open until it runs its own program."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return
    handle, until = os.open(path, os.O_RDONLY | os.O_CLOEXEC), time.monotonic() + FORKED_S
    try:
        while time.monotonic() < until:
            try:
                fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)  # the kernel refuses it while there is a writer
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    return  # this file system has no leases
                time.sleep(0.001)
            else:
                fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
                return
    finally:
        os.close(handle)


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file atomically, accessible only to its owner."""
    with written(path, mode) as out:
        out.write(data)


def ensure_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file, unless it is as it would be written. One that a sandbox is about to mount must not be replaced."""
    with contextlib.suppress(OSError):
        if path.read_bytes() == data and stat.S_IMODE(path.stat().st_mode) == mode:
            return
    write_private(path, data, mode)


def remove_abandoned(folder: Path, name: str = "") -> None:
    """Remove the temporary files that killed processes have left in a directory: all, or those of one file."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(f".{name}") and _TEMPORARY.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < time.time() - ABANDONED_S:
                        Path(entry.path).unlink()
