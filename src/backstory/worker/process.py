"""The worker as a process: one for each data directory, started on its own, stopped without a trace. Light to import,
for every command asks whether it runs."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from backstory import ids
from backstory.errors import BackstoryError
from backstory.paths import Paths
from backstory.settings import Settings, environment

#: How long a worker that starts waits for a lock that somebody only looks at, in seconds.
LOCK_S = 2.0


class AlreadyRunning(BackstoryError):
    """A worker runs for this data directory already."""


class Lock:
    """Held for as long as the worker lives; the kernel lets go of it however the worker ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        until = time.monotonic() + LOCK_S
        while not _take(self._handle):
            # `holder` and `clear_away` hold it for an instant, and write no process id.
            pid = _written(self._handle)
            if (pid and not _is_gone(pid)) or time.monotonic() > until:
                os.close(self._handle)
                raise AlreadyRunning
            time.sleep(0.01)
        #: The worker before us did not end well: one that did leaves nothing written here.
        self.was_left = os.fstat(self._handle).st_size > 0
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, str(os.getpid()).encode(), 0)

    @property
    def is_ours(self) -> bool:
        """Whether the file under this name is still the one we hold; not if the data directory was taken away."""
        try:
            return os.path.samestat(os.fstat(self._handle), self._path.stat())
        except OSError:
            return False

    def release(self) -> None:
        os.ftruncate(self._handle, 0)
        os.close(self._handle)


def _take(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _written(handle: int) -> int | None:
    """The process id in the lock."""
    return ids.number(os.pread(handle, 20, 0).decode("ascii", "replace"))


def holder(paths: Paths) -> int | None:
    """The process id of the worker that runs, if one does: whoever holds the lock wrote it there."""
    try:
        handle = os.open(paths.lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _written(handle)
    else:
        return None
    finally:
        os.close(handle)


def serving(paths: Paths) -> int | None:
    """The process id of a worker that runs and has said that it answers; one that comes up or goes down has not."""
    try:
        told = json.loads(paths.worker.read_bytes())
    except (OSError, ValueError):
        return None
    pid = holder(paths)
    return pid if isinstance(told, dict) and told.get("pid") == pid else None


def stop(paths: Paths, patience_s: float = 10.0) -> bool:
    """End the worker that runs, gently, then firmly; False if none did."""
    pid = holder(paths)
    if pid is None:
        return False
    for sig, patience in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sig)
        until = time.monotonic() + patience
        while not _is_gone(pid) and time.monotonic() < until:
            time.sleep(0.02)
        if _is_gone(pid):
            break
    clear_away(paths)
    return True


def clear_away(paths: Paths) -> None:
    """Remove what a worker that was killed left. With the lock held: a worker that starts now may have made its own."""
    try:
        handle = os.open(paths.lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if _take(handle):
            paths.socket.unlink(missing_ok=True)
            paths.worker.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _is_gone(pid: int) -> bool:
    """Ended; one that nobody has collected yet counts as ended too."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True
    except OSError:
        return not Path(f"/proc/{pid}").exists() and Path("/proc/self").exists()


def spawn(settings: Settings) -> subprocess.Popen[bytes]:
    """Start a worker that outlives us."""
    settings.paths.prepare()
    with open(settings.paths.log, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "backstory", "worker"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=out,
            start_new_session=True,
            cwd=settings.paths.data,
            env={**environment(), "BACKSTORY_DATA_DIR": str(settings.data_dir)},
        )
