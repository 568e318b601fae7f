"""Makes the index anew in the background, while it is searched."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from backstory.errors import StoreUnavailable
from backstory.jobs import Job
from backstory.store.db import Store
from backstory.store.index import reindex
from backstory.worker.endpoints import Call, Endpoint, needs_admin, needs_read

#: A database that is away is asked again after so long.
PAUSE_S = 5.0


class Progress(msgspec.Struct):
    """What is left to do, in order, and how far each is; nothing when all is done."""

    left: list[dict[str, Any]]


class Reindex:
    """A task that works for as long as something is left, and waits to be told of more."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._more = asyncio.Event()
        self.job = Job("reindex", self._work)

    def table(self) -> list[Endpoint]:
        return [
            needs_admin("POST", "/api/reindex", self.begin, "The index is made anew from the rows.", Progress),
            needs_read("GET", "/api/reindex", self.progress, "How far that is.", Progress),
        ]

    async def begin(self, call: Call) -> Progress:
        await asyncio.to_thread(self._store.write, reindex.begin)
        self._more.set()
        return await self.progress(call)

    async def progress(self, call: Call) -> Progress:
        return Progress(await asyncio.to_thread(self._store.read, reindex.progress))

    async def _work(self) -> None:
        """Begin with what a worker before this one left, and what a new version of the index asks for."""
        while True:
            self._more.clear()
            try:
                while await asyncio.wrap_future(self._store.submit(reindex.go_on)):
                    pass
            except StoreUnavailable:
                await asyncio.sleep(PAUSE_S)
            else:
                await self._more.wait()
