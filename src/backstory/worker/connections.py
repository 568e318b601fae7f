"""Limits of HTTP connections: how many may be open over TCP, and how long each may take."""

from __future__ import annotations

import asyncio
import functools
import json
import resource
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Files that the worker may have open, if the system allows it.
OPEN_FILES = 4096
#: Connections that the event loop accepts in one turn, and that wait in the kernel on TCP.
BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of connections."""

    #: Connections over TCP at the same time. The socket has no limit, because only its owner can open it.
    connections: int = 256
    #: Seconds for the head of a request.
    head_s: float = 10.0
    #: Seconds for the body, after the head.
    body_s: float = 120.0
    #: Seconds in which a client must read a part of its response.
    stalled_s: float = 30.0

    @property
    def backlog(self) -> int:
        return min(BACKLOG, self.connections)


def limits() -> Limits:
    """Raise the limit of open files and return limits that fit it: a quarter of the files is for connections over TCP,
    a quarter for those that arrive in one turn of the loop. Half of them stay free for the socket and the database."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return Limits() if soft == resource.RLIM_INFINITY else Limits(min(Limits().connections, max(soft // 4, 1)))


class Pool:
    """The connections over TCP, oldest first. If there are too many, the oldest without a credential is closed, so that
    strangers cannot lock the owner out."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._strangers: dict[Connection, None] = {}
        self._admitted: set[Connection] = set()

    @property
    def protocol(self) -> Any:
        """What uvicorn calls for each connection."""
        return functools.partial(Connection, self)

    def add(self, connection: Connection) -> bool:
        """Add a connection. Return False if the pool is full of the owner's."""
        if len(self._strangers) + len(self._admitted) >= self.limits.connections:
            oldest = next(iter(self._strangers), None)
            if oldest is None:
                return False
            self.remove(oldest)
            oldest.transport.abort()
        self._strangers[connection] = None
        return True

    def admit(self, connection: Connection) -> None:
        if connection in self._strangers:
            del self._strangers[connection]
            self._admitted.add(connection)

    def remove(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        self._admitted.discard(connection)


class Connection(HttpToolsProtocol):
    """A connection of uvicorn with limits. Its errors are JSON, like those of routes."""

    def __init__(self, pool: Pool, config: uvicorn.Config, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        self._pool, self._limits = pool, pool.limits
        self._reading: asyncio.TimerHandle | None = None  #: runs until the request is complete
        self._writing: asyncio.TimerHandle | None = None  #: runs while the client leaves a part of the response unread
        self._unsent = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        is_tcp = self.server is not None and self.server[1] is not None
        if is_tcp and not self._pool.add(self):
            self._refuse(503, "Too many connections are open.", "Close some, or wait a moment.")
            return
        self._wait_for_request(self._limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.remove(self)
        self._wait_for_request(None)
        self._wait_for_reader(False)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        # The guard calls it for a request with a credential.
        self.scope["admit"] = functools.partial(self._pool.admit, self)  # type: ignore[typeddict-unknown-key]
        self._wait_for_request(self._limits.head_s)

    def on_headers_complete(self) -> None:
        self._wait_for_request(self._limits.body_s)
        if not self.url.startswith(b"/"):
            # `GET http://evil.example/` names a host beside the header that is checked. Only proxies are asked so.
            raise ValueError  # answered by `send_400_response`
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._wait_for_request(None)
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reader(True)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._wait_for_reader(False)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Even a rest that is too small to pause for keeps the connection open until it is sent.
        self._wait_for_reader(self.transport.get_write_buffer_size() > 0)

    def send_400_response(self, msg: str) -> None:
        problem = "This is not HTTP, its target is not a path, or its URL is longer than 64 KiB."
        self._refuse(400, problem, "Ask for a path, such as /api/health, and send long queries with POST.")

    def _wait_for_request(self, seconds: float | None) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._reading = self.loop.call_later(seconds, self._time_out) if seconds is not None else None

    def _time_out(self) -> None:
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.abort()
        else:
            self._refuse(408, "The request took too long to arrive.", "Send it without pauses.")

    def _wait_for_reader(self, waits: bool) -> None:
        if self._writing is not None:
            self._writing.cancel()
        self._unsent = self.transport.get_write_buffer_size() if waits else 0
        self._writing = self.loop.call_later(self._limits.stalled_s, self._check_reader) if waits else None

    def _check_reader(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent >= self._unsent > 0:
            self.transport.abort()
        else:
            self._wait_for_reader(unsent > 0)

    def _refuse(self, status: int, error: str, hint: str) -> None:
        body = json.dumps({"error": error, "hint": hint}).encode()
        head = f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.transport.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        self.transport.close()
