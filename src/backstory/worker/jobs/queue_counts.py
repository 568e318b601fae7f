"""Tells readers of the live stream how many events wait, are being observed, and are set aside."""

from __future__ import annotations

import asyncio
import contextlib

from backstory.errors import StoreUnavailable
from backstory.jobs import Job
from backstory.store import events
from backstory.store.db import Store
from backstory.worker.live import Live

#: Seconds between two looks while somebody reads the stream, and after something happened.
LOOK_S = 2.0
SOON_S = 0.25
NONE = {"queued": 0, "leased": 0, "dead": 0}


class QueueCounts:
    """A job that reads the counts while somebody reads the stream, and publishes them when they change."""

    def __init__(self, store: Store, live: Live) -> None:
        self._store, self._live = store, live
        self._changed = asyncio.Event()
        self.job = Job("queue-counts", self._repeat)

    def wake(self) -> None:
        """Look soon, because something was stored or observed."""
        self._changed.set()

    async def _repeat(self) -> None:
        told = NONE
        while True:
            if not self._live.opened.is_set():
                told = NONE
                await self._live.opened.wait()
            self._changed.clear()
            with contextlib.suppress(StoreUnavailable):
                counts = {"queued": 0, "leased": 0, "dead": 0} | await asyncio.to_thread(
                    self._store.read, events.counts
                )
                if counts != told:
                    told = counts
                    self._live.publish("queue", counts)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._changed.wait()
            await asyncio.sleep(SOON_S)  # many events come together
