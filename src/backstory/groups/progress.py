"""What a run of a group tells those who follow it: events, from where each of them came in to the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

#: Its name, and what it says.
ProgressEvent: TypeAlias = tuple[str, dict[str, Any]]


class RunProgress:
    """The events of a run so far. The last one is `ended`."""

    def __init__(self) -> None:
        self._events: list[ProgressEvent] = []
        self._changed = asyncio.Event()
        self.is_over = False

    @property
    def count(self) -> int:
        return len(self._events)

    def add(self, name: str, /, **data: Any) -> None:
        if not self.is_over:
            self._events.append((name, data))
            self._wake()

    def end(self, reason: str) -> None:
        """Add the last event, after which every reader ends."""
        self.add("ended", reason=reason)
        self.is_over = True
        self._wake()

    async def follow(self, since: int = 0, keep_alive_s: float | None = None) -> AsyncIterator[ProgressEvent | None]:
        """Yield the events from `since` on, and those to come. None after so many seconds without one."""
        while True:
            changed = self._changed
            while since < len(self._events):
                since += 1
                yield self._events[since - 1]
            if self.is_over:
                return
            try:
                async with asyncio.timeout(keep_alive_s):
                    await changed.wait()
            except TimeoutError:
                yield None

    def _wake(self) -> None:
        # Each reader waits for the event that it saw, so none misses a change.
        self._changed.set()
        self._changed = asyncio.Event()
