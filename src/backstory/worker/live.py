"""The live stream: server-sent events, which a reader can resume where it left off."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from backstory import ids
from backstory.errors import TooMany

#: Messages that a reader can catch up on.
KEPT = 1000
#: Streams that are open at the same time, at most.
READERS = 100
#: Seconds without a message after which a comment is sent, so that the connection stays open.
KEEP_ALIVE_S = 15.0


class Live:
    """The latest messages, and their readers."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._wake: set[asyncio.Event] = set()
        self._last = 0
        self._closed = False

    def publish(self, event: str, data: Any) -> None:
        # Ids come from the clock: they still grow after a restart, so a reader's Last-Event-ID stays valid.
        self._last = max(self._last + 1, time.time_ns() // 1000)
        text = f"id: {self._last}\nevent: {event}\ndata: {msgspec.json.encode(data).decode()}\n\n"
        self._kept.append((self._last, text.encode()))
        for wake in self._wake:
            wake.set()

    def clear(self) -> None:
        """Drop the messages. They may quote what was forgotten."""
        self._kept.clear()

    def close(self) -> None:
        """End every stream, so that none delays a stop."""
        self._closed = True
        for wake in self._wake:
            wake.set()

    def stream(self, last_id: str | None) -> StreamingResponse:
        if len(self._wake) >= READERS:
            raise TooMany("Too many streams are open.")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        messages = self._messages(ids.number(last_id or ""))
        return StreamingResponse(messages, media_type="text/event-stream", headers=headers)

    async def _messages(self, seen: int | None) -> AsyncIterator[bytes]:
        wake = asyncio.Event()
        self._wake.add(wake)
        seen = self._last if seen is None else seen
        try:
            yield b"retry: 1000\n: connected\n\n"
            while not self._closed:
                wake.clear()
                for number, text in list(self._kept):
                    if number > seen:
                        seen = number
                        yield text
                try:
                    async with asyncio.timeout(KEEP_ALIVE_S):
                        await wake.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._wake.discard(wake)
