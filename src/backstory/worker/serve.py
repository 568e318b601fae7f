"""Runs the worker: its sockets, its log, and uvicorn around the application."""

from __future__ import annotations

import gc
import json
import logging
import logging.handlers
import os
import signal
import socket
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from backstory import __version__, ids
from backstory.errors import StoreUnavailable, WorkerAway
from backstory.paths import Paths, write_private
from backstory.settings import Settings, spare_cores
from backstory.store import backups
from backstory.worker import connections
from backstory.worker.app import App
from backstory.worker.process import Lock

log = logging.getLogger(__name__)
#: Seconds that open requests have when the worker is told to stop.
STOP_S = 3
#: How many hooks may wait in the kernel for their turn; one more would spool its event.
HOOKS_WAITING = 1024


class Server(uvicorn.Server):
    """uvicorn, which lets go of open streams when it is told to stop, and stops when its data directory is gone."""

    def __init__(self, config: uvicorn.Config, app: App, lock: Lock, told: dict[str, Any]) -> None:
        super().__init__(config)
        self._backstory, self._lock, self._told = app, lock, told

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """`worker.json` is there for as long as requests are answered: without it a worker comes up or goes down."""
        await super().startup(sockets)
        gc.freeze()  # what is there now stays there: it need not be looked through again and again
        gc.enable()
        for one in sockets or []:
            if one.family == socket.AF_UNIX:
                one.listen(HOOKS_WAITING)  # uvicorn has set it to `backlog`, which is for TCP
        write_private(self._backstory.settings.paths.worker, json.dumps(self._told).encode())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._lock.is_ours:
            self._backstory.settings.paths.worker.unlink(missing_ok=True)
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        if counter % 20 == 0 and not self._lock.is_ours:  # every two seconds
            log.warning("the data directory was taken away; going too")
            self._backstory.live.close()
            return True
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._backstory.live.close()
        super().handle_exit(sig, frame)


def run(settings: Settings) -> None:
    """The worker, in the foreground, until it is told to stop."""
    paths = settings.paths
    paths.prepare()
    spare_cores()
    os.umask(0o077)
    lock = Lock(paths.lock)
    try:
        _log_to(paths.log, settings.log_level)
        doubtful = lock.was_left
        while _serve(settings, _build(settings, doubtful), lock) and lock.is_ours:
            doubtful = True
    finally:
        if lock.is_ours:
            paths.socket.unlink(missing_ok=True)
            paths.worker.unlink(missing_ok=True)
        lock.release()


def _build(settings: Settings, doubtful: bool) -> App:
    """The application over a sound database: one that is damaged is set aside, and the last good backup takes over."""
    if settings.database_url:
        return App(settings)  # a server looks after its own
    paths = settings.paths
    backups.mend(paths, doubtful)
    try:
        return App(settings)
    except StoreUnavailable:
        # Too large to be read through before it was opened, perhaps.
        paths.suspect.touch(mode=0o600)
        if backups.mend(paths, doubtful=True) is None:
            raise
        return App(settings)


def _serve(settings: Settings, app: App, lock: Lock) -> bool:
    """Answer until told to stop; True if it is to start again, because the database turned out to be damaged."""
    paths = settings.paths
    limits = connections.limits()
    sockets = [_unix(paths), _tcp(settings)]
    port = sockets[1].getsockname()[1]
    told = {"pid": os.getpid(), "port": port, "version": __version__, "started_at": ids.now()}
    config = uvicorn.Config(
        app.asgi,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=STOP_S,
        timeout_keep_alive=30,
        http=connections.Pool(limits).protocol,
        backlog=limits.backlog,
    )
    server = Server(config, app, lock, told)
    # Before uvicorn listens to them, a signal is not lost; after it, when it raises them again, it does not end us
    # before we tidied up.
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, server.handle_exit)
    log.info("worker %s up: pid %d, port %d", __version__, os.getpid(), port)
    server.run(sockets=sockets)
    log.info("worker down")
    return app.maintenance.damaged


def _unix(paths: Paths) -> socket.socket:
    """The socket that hooks speak to. Bound by its bare name: a path may be longer than a socket's may."""
    paths.socket.unlink(missing_ok=True)
    os.chdir(paths.data)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(paths.socket.name)
    paths.socket.chmod(0o600)
    server.listen(HOOKS_WAITING)
    return server


def _tcp(settings: Settings) -> socket.socket:
    """The port for browsers and the API. Hooks do not need it, so a port that is taken is no reason to stay away."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    for port in (settings.port, 0):
        # Named as TCP, or asyncio would not turn Nagle's delay off: it holds every second answer back for 40 ms.
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
        server.listen(connections.BACKLOG)
        return server
    raise AssertionError


def _log_to(path: Path, level: str) -> None:
    """A small log of our own doings; never a payload."""
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=1 << 20, backupCount=1, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Their errors are ours to tell; their chatter is not, and clients of models would quote what they send.
    for name in ("uvicorn", "anthropic", "openai", "httpx", "httpx2", "httpcore", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
