"""Rebuilds the index in the background. Search continues meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from backstory.errors import StoreUnavailable
from backstory.jobs import Job
from backstory.store.db import Store
from backstory.store.index import reindex
from backstory.worker.endpoints import Call, Endpoint, needs_admin, needs_read

#: Seconds until a database that is not available is tried again.
PAUSE_S = 5.0


class Progress(msgspec.Struct):
    """The steps that are left, in order, and the progress of each; empty when the index is complete."""

    left: list[dict[str, Any]]


class Reindex:
    """The job that rebuilds the index, and its routes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._more = asyncio.Event()
        self.job = Job("reindex", self._work)

    def table(self) -> list[Endpoint]:
        return [
            needs_admin("POST", "/api/reindex", self.begin, Progress),
            needs_read("GET", "/api/reindex", self.progress, Progress),
        ]

    async def begin(self, call: Call) -> Progress:
        """Rebuild the index from the rows."""
        await asyncio.to_thread(self._store.write, reindex.begin)
        self._more.set()
        return await self.progress(call)

    async def progress(self, call: Call) -> Progress:
        """Show the progress of a rebuild."""
        return Progress(await asyncio.to_thread(self._store.read, reindex.progress))

    async def _work(self) -> None:
        """Continue a rebuild that was interrupted or that a new version needs, then wait for the next one."""
        while True:
            self._more.clear()
            try:
                while await asyncio.wrap_future(self._store.submit(reindex.go_on)):
                    pass
            except StoreUnavailable:
                await asyncio.sleep(PAUSE_S)
            else:
                await self._more.wait()
