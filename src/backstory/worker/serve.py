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
#: Seconds that open requests have when the worker stops.
STOP_S = 3
#: Connections of hooks that may wait in the kernel. A hook beyond that spools its event.
HOOKS_WAITING = 1024


class Server(uvicorn.Server):
    """A uvicorn server that ends open streams when it stops, and that stops when its data directory is removed."""

    def __init__(self, config: uvicorn.Config, app: App, lock: Lock, description: dict[str, Any]) -> None:
        super().__init__(config)
        self._app, self._lock, self._description = app, lock, description

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then write `worker.json`. It exists while requests are answered."""
        await super().startup(sockets)
        gc.freeze()  # what exists now stays, so the collector need not look at it
        gc.enable()
        for listening in sockets or []:
            if listening.family == socket.AF_UNIX:
                listening.listen(HOOKS_WAITING)  # uvicorn has set it to `backlog`, which is for TCP
        write_private(self._app.settings.paths.worker, json.dumps(self._description).encode())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._lock.is_ours:
            self._app.settings.paths.worker.unlink(missing_ok=True)
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        if counter % 20 == 0 and not self._lock.is_ours:  # every two seconds
            log.warning("the data directory was removed; stopping")
            self._app.close_streams()
            return True
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.close_streams()
        super().handle_exit(sig, frame)


def run(settings: Settings) -> None:
    """Run the worker in the foreground until it is stopped."""
    paths = settings.paths
    paths.prepare()
    spare_cores()
    os.umask(0o077)
    lock = Lock(paths.lock)
    try:
        _log_to(paths.log, settings.tuning.log_level)
        suspect = lock.is_after_crash
        while _serve(settings, _build(settings, suspect), lock) and lock.is_ours:
            suspect = True
    finally:
        if lock.is_ours:
            paths.socket.unlink(missing_ok=True)
            paths.worker.unlink(missing_ok=True)
        lock.release()


def _build(settings: Settings, suspect: bool) -> App:
    """Build the application. A damaged database is set aside first, and the last good backup replaces it."""
    if settings.database_url:
        return App(settings)
    paths = settings.paths
    backups.restore_if_needed(paths, suspect)
    try:
        return App(settings)
    except StoreUnavailable:
        # A large database is not checked before it is opened.
        paths.suspect.touch(mode=0o600)
        if backups.restore_if_needed(paths, doubtful=True) is None:
            raise
        return App(settings)


def _serve(settings: Settings, app: App, lock: Lock) -> bool:
    """Answer requests until the worker is stopped. Return True if it must restart, because the database is damaged."""
    limits = connections.limits()
    sockets = [_listen_unix(settings.paths), _listen_tcp(settings)]
    port = sockets[1].getsockname()[1]
    description = {"pid": os.getpid(), "port": port, "version": __version__, "started_at": ids.now()}
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
    server = Server(config, app, lock, description)
    # uvicorn handles signals only while it runs, and raises them again afterwards. These handlers keep a signal before
    # that from being lost, and one after that from ending the process before it has cleaned up.
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, server.handle_exit)
    log.info("worker %s started: pid %d, port %d", __version__, os.getpid(), port)
    server.run(sockets=sockets)
    log.info("worker stopped")
    return app.maintenance.damaged


def _listen_unix(paths: Paths) -> socket.socket:
    """Open the socket for hooks. It is bound by its file name alone, because a whole path may be too long."""
    paths.socket.unlink(missing_ok=True)
    os.chdir(paths.data)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(paths.socket.name)
    paths.socket.chmod(0o600)
    server.listen(HOOKS_WAITING)
    return server


def _listen_tcp(settings: Settings) -> socket.socket:
    """Open the port for browsers and the API. If it is taken, use a free one: hooks do not need it."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    for port in (settings.port, 0):
        # asyncio turns Nagle's algorithm off only if the protocol is named. It delays every second answer by 40 ms.
        server = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((settings.host, port))
        except OSError as error:
            server.close()
            if port == 0:
                message = f"The worker cannot listen on {settings.host}: {error.strerror}."
                raise WorkerAway(message, "Check the setting `host`.") from None
            log.warning("port %d is used by another program; using a free one", port)
            continue
        server.listen(connections.BACKLOG)
        return server
    raise AssertionError


def _log_to(path: Path, level: str) -> None:
    """Set up the log. It contains no payloads."""
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=1 << 20, backupCount=1, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Only warnings of libraries are logged. Clients of models would quote what they send.
    for name in ("uvicorn", "anthropic", "openai", "httpx", "httpx2", "httpcore", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("claude_agent_sdk").setLevel(logging.CRITICAL)  # the run of an agent tells how it failed
