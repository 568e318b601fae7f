"""What happens, as it happens: server-sent events, from where a reader left off."""

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

KEPT = 1000
READERS = 100
PULSE_S = 15.0


class Live:
    """The last messages, and whoever listens."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._wake: set[asyncio.Event] = set()
        self._last = 0
        self._closed = False

    def tell(self, event: str, data: Any) -> None:
        # By the clock, so that the numbers still grow after a restart and a reader's Last-Event-ID keeps its meaning.
        self._last = max(self._last + 1, time.time_ns() // 1000)
        text = f"id: {self._last}\nevent: {event}\ndata: {msgspec.json.encode(data).decode()}\n\n"
        self._kept.append((self._last, text.encode()))
        for wake in self._wake:
            wake.set()

    def forget(self) -> None:
        """What was told may quote what is now forgotten: nobody gets it again."""
        self._kept.clear()

    def close(self) -> None:
        """Let every reader go: an open stream must not hold up a stop."""
        self._closed = True
        for wake in self._wake:
            wake.set()

    def stream(self, last_id: str | None) -> StreamingResponse:
        if len(self._wake) >= READERS:
            raise TooMany("Too many streams are open.")
        seen = ids.number(last_id or "")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._messages(seen), media_type="text/event-stream", headers=headers)

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
                    async with asyncio.timeout(PULSE_S):
                        await wake.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._wake.discard(wake)
