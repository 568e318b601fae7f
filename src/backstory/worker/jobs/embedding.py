"""Creates missing vectors in the background: in a thread and in small batches, so that writers do not wait."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading

import msgspec

from backstory.errors import StoreUnavailable
from backstory.jobs import Job, place_of
from backstory.recall.embed import EmbedderUnavailable
from backstory.recall.vectors import BATCH, Vectors
from backstory.store.db import Store
from backstory.store.index import vectors
from backstory.worker.endpoints import Call, Endpoint, needs_admin, needs_read

log = logging.getLogger(__name__)
#: Seconds to wait after a wake-up, so that rows that are stored together are embedded together.
GATHER_S = 0.2
#: Seconds between two batches, so that writers go first.
BETWEEN_BATCHES_S = 0.005
#: Seconds of the first pause after a failure. The pause doubles with each further failure.
RETRY_S = 1.0
#: Seconds of the longest pause. After it the job looks for work without a wake-up.
LONGEST_S = 300.0
#: Seconds that a stopping worker waits for the current batch. A batch that is not stored is made again.
STOP_S = 2.0


class Told(msgspec.Struct):
    """The embedder that search uses, the one that is taking over, and how many vectors exist and are due."""

    embedder: str
    next: str
    vectors: int
    due: int
    problem: str  #: why search uses words alone


class EmbeddingJob:
    """A thread that `wake` wakes when something was stored. Nothing waits for it: an embedder may be slow."""

    def __init__(self, store: Store, vectors: Vectors) -> None:
        self._store, self.vectors = store, vectors
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self.job = Job("embedding", self._run, self._end)
        self._pause = RETRY_S

    def table(self) -> list[Endpoint]:
        return [
            needs_read("GET", "/api/vectors", self.status, Told),
            needs_admin("POST", "/api/vectors", self.rebuild, Told),
        ]

    async def status(self, call: Call) -> Told:
        """Show the progress of the vectors."""
        return Told(**await asyncio.to_thread(self._store.read, self.vectors.status))

    async def rebuild(self, call: Call) -> Told:
        """Make every vector again. The old ones serve meanwhile."""
        await asyncio.to_thread(vectors.mark_all_due, self._store)
        self.wake()
        return await self.status(call)

    def wake(self) -> None:
        self._woken.set()

    async def forget(self) -> None:
        """Remove vectors of deleted rows from memory. Rows that changed with them are embedded again."""
        await asyncio.to_thread(self.vectors.forget)
        self.wake()

    async def _end(self) -> None:
        self._stopping.set()
        self.wake()
        if self._thread:
            await asyncio.to_thread(self._thread.join, STOP_S)

    async def _run(self) -> None:
        """Run the thread until it ends, and raise its error. Exiting would wait for `asyncio.to_thread`."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        errors: list[Exception] = []

        def work() -> None:
            try:
                self._work()
            except Exception as error:
                errors.append(error)
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nothing waits
                loop.call_soon_threadsafe(ended.set)

        self._thread = threading.Thread(target=work, name="backstory-embedding", daemon=True)
        self._thread.start()
        await ended.wait()
        if errors:
            raise errors[0]

    def _work(self) -> None:
        begun = False
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                if not begun:
                    self.vectors.begin()
                    begun = True
                while not self._stopping.is_set() and (self.vectors.make_some() >= BATCH or self.vectors.settle()):
                    self._stopping.wait(BETWEEN_BATCHES_S)
                self._pause = RETRY_S
            except (EmbedderUnavailable, StoreUnavailable) as error:
                self._fail(str(error))
            except Exception as error:
                self.vectors.problem = f"An embedding failed ({place_of(error)})."
                raise
            else:
                self._woken.wait(LONGEST_S)
                self._stopping.wait(GATHER_S)

    def _fail(self, problem: str) -> None:
        if self.vectors.problem != problem and not self._stopping.is_set():
            log.warning("no vectors for now, search uses words alone: %s", problem)
        self.vectors.problem = problem
        self._stopping.wait(self._pause)
        self._pause = min(self._pause * 2, LONGEST_S)
