"""The process of the worker: its lock, and how to find, start and stop it. Light, because every command imports it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from backstory import ids
from backstory.errors import BackstoryError
from backstory.paths import Paths, read_object
from backstory.settings import Settings, environment

#: Seconds that a starting worker waits for a lock that another process holds only to check it.
LOCK_S = 2.0


class AlreadyRunning(BackstoryError):
    """A worker is already running for this data directory."""


class Lock:
    """The lock of a data directory. The worker holds it until it ends; the kernel releases it even after a crash."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        until = time.monotonic() + LOCK_S
        while not _try_lock(self._handle):
            # `running_pid` and `remove_leftovers` hold it for a moment and write no process id.
            pid = _written_pid(self._handle)
            if (pid and not _is_gone(pid)) or time.monotonic() > until:
                os.close(self._handle)
                raise AlreadyRunning
            time.sleep(0.01)
        #: The previous worker crashed. One that stops empties the file.
        self.is_after_crash = os.fstat(self._handle).st_size > 0
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, str(os.getpid()).encode(), 0)

    @property
    def is_ours(self) -> bool:
        """Whether the file of this name is still the one that we hold. It is not if the data directory was removed."""
        try:
            return os.path.samestat(os.fstat(self._handle), self._path.stat())
        except OSError:
            return False

    def release(self) -> None:
        os.ftruncate(self._handle, 0)
        os.close(self._handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _written_pid(handle: int) -> int | None:
    return ids.number(os.pread(handle, 20, 0).decode("ascii", "replace"))


def running_pid(paths: Paths) -> int | None:
    """Return the process id of the running worker. It holds the lock and wrote its id there."""
    try:
        handle = os.open(paths.lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _written_pid(handle)
    else:
        return None
    finally:
        os.close(handle)


def serving_pid(paths: Paths) -> int | None:
    """Return the process id of a worker that answers requests; None while it starts or stops."""
    described = read_object(paths.worker)
    pid = running_pid(paths)
    return pid if described.get("pid") == pid else None


def stop(paths: Paths, patience_s: float = 10.0) -> bool:
    """Stop the running worker, and kill it if it does not stop. Return False if none was running."""
    pid = running_pid(paths)
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
    remove_leftovers(paths)
    return True


def remove_leftovers(paths: Paths) -> None:
    """Remove the files of a worker that was killed. The lock protects those of a worker that starts now."""
    try:
        handle = os.open(paths.lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if _try_lock(handle):
            paths.socket.unlink(missing_ok=True)
            paths.worker.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _is_gone(pid: int) -> bool:
    """Return whether a process has ended. A zombie counts as ended."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True
    except OSError:
        return not Path(f"/proc/{pid}").exists() and Path("/proc/self").exists()


def spawn(settings: Settings) -> subprocess.Popen[bytes]:
    """Start a worker that outlives this process."""
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
