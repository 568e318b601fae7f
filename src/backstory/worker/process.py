"""The worker as a process: one for each data directory, started on its own, stopped without a trace."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import logging.handlers
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import uvicorn

from backstory import __version__, ids
from backstory.errors import BackstoryError, WorkerAway
from backstory.paths import Paths, write_private
from backstory.settings import Settings
from backstory.worker.app import App

log = logging.getLogger(__name__)
STOP_S = 3


class AlreadyRunning(BackstoryError):
    """A worker runs for this data directory already."""


class Lock:
    """Held for as long as the worker lives; the kernel lets go of it however the worker ends."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise AlreadyRunning from None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        os.ftruncate(self._handle, 0)
        os.close(self._handle)


class Server(uvicorn.Server):
    """uvicorn, which lets go of open streams when it is told to stop."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._backstory = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._backstory.live.close()
        super().handle_exit(sig, frame)


def run(settings: Settings) -> None:
    """The worker, in the foreground, until it is told to stop."""
    paths = settings.paths
    paths.prepare()
    os.umask(0o077)
    lock = Lock(paths.lock)
    try:
        _log_to(paths.log, settings.log_level)
        app = App(settings)
        sockets = [_unix(paths), _tcp(settings)]
        port = sockets[1].getsockname()[1]
        told = {"pid": os.getpid(), "port": port, "version": __version__, "started_at": ids.now()}
        write_private(paths.worker, json.dumps(told).encode())
        config = uvicorn.Config(
            app.asgi,
            log_config=None,
            access_log=False,
            lifespan="on",
            ws="none",
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=STOP_S,
            timeout_keep_alive=30,
            h11_max_incomplete_event_size=64 * 1024,
        )
        # uvicorn raises the signal again when it is done; the default action would end us before we tidied up.
        for sig in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sig, lambda *_: None)
        log.info("worker %s up: pid %d, port %d", __version__, os.getpid(), port)
        Server(config, app).run(sockets=sockets)
        log.info("worker down")
    finally:
        paths.socket.unlink(missing_ok=True)
        paths.worker.unlink(missing_ok=True)
        lock.release()


def _unix(paths: Paths) -> socket.socket:
    """The socket that hooks speak to. Bound by its bare name: a path may be longer than a socket's may."""
    paths.socket.unlink(missing_ok=True)
    os.chdir(paths.data)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(paths.socket.name)
    paths.socket.chmod(0o600)
    server.listen(1024)
    return server


def _tcp(settings: Settings) -> socket.socket:
    """The port for browsers and the API. Hooks do not need it, so a port that is taken is no reason to stay away."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    for port in (settings.port, 0):
        # Named as TCP: only then does asyncio send small answers at once, instead of 40 ms later.
        server = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((settings.host, port))
        except OSError as error:
            server.close()
            if port == 0:
                raise WorkerAway(
                    f"Nothing can listen on {settings.host}: {error.strerror}.", "Look at the setting `host`."
                ) from None
            log.warning("port %d is taken by another program; taking a free one", port)
            continue
        server.listen(1024)
        return server
    raise AssertionError


def _log_to(path: Path, level: str) -> None:
    """A small log of our own doings; never a payload."""
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=1 << 20, backupCount=1, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Its errors are ours to tell; its chatter is not.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def holder(paths: Paths) -> int | None:
    """The process id of the worker that runs, if one does: whoever holds the lock wrote it there."""
    try:
        handle = os.open(paths.lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        text = os.pread(handle, 20, 0)
        return int(text) if text.isdigit() else None
    else:
        return None
    finally:
        os.close(handle)


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
    # What a worker that had to be killed could not clear away.
    if holder(paths) is None:
        paths.socket.unlink(missing_ok=True)
        paths.worker.unlink(missing_ok=True)
    return True


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
        )
