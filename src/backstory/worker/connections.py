"""HTTP connections: how many may be open over TCP, and how long each may keep the worker waiting."""

from __future__ import annotations

import asyncio
import functools
import json
import resource
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: How many files the worker may have open, if the system lets it.
OPEN_FILES = 4096
#: How many connections one turn of the event loop takes in, and how many wait in the kernel on TCP.
BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Limits:
    """What a connection may take."""

    #: Connections over TCP at the same time. The socket has none: only its owner can open it.
    connections: int = 256
    #: Seconds until the head of a request is there.
    head_s: float = 10.0
    #: Seconds until the body is there, after the head.
    body_s: float = 120.0
    #: Seconds in which a reader has to take something of its answer.
    stalled_s: float = 30.0

    @property
    def backlog(self) -> int:
        return min(BACKLOG, self.connections)


def limits() -> Limits:
    """For as many files as the system allows, which are asked for here. Half of them are kept for the socket, the
    database and the rest: a quarter is for connections over TCP, a quarter for those that come in one turn."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return Limits() if soft == resource.RLIM_INFINITY else Limits(min(Limits().connections, max(soft // 4, 1)))


class Pool:
    """The connections over TCP, oldest first. When there are too many, the oldest that has shown no credential goes, so
    that nobody who has none can keep the owner out."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._strangers: dict[Connection, None] = {}
        self._admitted: set[Connection] = set()

    @property
    def protocol(self) -> Any:
        """What uvicorn makes for each connection."""
        return functools.partial(Connection, self)

    def add(self, connection: Connection) -> bool:
        """False if all that are open are the owner's."""
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
    """HTTP as uvicorn speaks it, with limits; what is refused here is refused in our words."""

    def __init__(self, pool: Pool, config: uvicorn.Config, *words: Any, **names: Any) -> None:
        super().__init__(config, *words, **names)
        self._pool, self._limits = pool, pool.limits
        self._reading: asyncio.TimerHandle | None = None  #: runs until the request is there
        self._writing: asyncio.TimerHandle | None = None  #: runs while the reader leaves something lying
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
        # The guard calls it when the request has shown a credential.
        self.scope["admit"] = functools.partial(self._pool.admit, self)  # type: ignore[typeddict-unknown-key]
        self._wait_for_request(self._limits.head_s)

    def on_headers_complete(self) -> None:
        self._wait_for_request(self._limits.body_s)
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
        # Too little to pause for, perhaps, but a connection is not closed before it is sent.
        self._wait_for_reader(self.transport.get_write_buffer_size() > 0)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "This is no HTTP, or its address is longer than 64 KiB.", "POST takes long queries.")

    def _wait_for_request(self, seconds: float | None) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._reading = self.loop.call_later(seconds, self._late) if seconds is not None else None

    def _late(self) -> None:
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.abort()
        else:
            self._refuse(408, "The request did not come in time.", "Send it at once.")

    def _wait_for_reader(self, waits: bool) -> None:
        if self._writing is not None:
            self._writing.cancel()
        self._unsent = self.transport.get_write_buffer_size() if waits else 0
        self._writing = self.loop.call_later(self._limits.stalled_s, self._look_at_reader) if waits else None

    def _look_at_reader(self) -> None:
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
