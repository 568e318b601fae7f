"""Gives vectors to what has none, in the background: small batches, in a thread, never in the way of a write."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading

import msgspec

from backstory.errors import StoreUnavailable
from backstory.jobs import Job, place_of
from backstory.recall.embed import EmbedderUnavailable
from backstory.recall.vectors import Vectors
from backstory.store.db import Store
from backstory.store.index import vectors
from backstory.worker.endpoints import Call, Endpoint, needs_admin, needs_read

log = logging.getLogger(__name__)
#: What comes together is embedded together.
GATHER_S = 0.2
#: Between two batches, so that whoever writes goes first.
BREATH_S = 0.005
#: Seconds of the first pause after a failure. It doubles with each.
RETRY_S = 1.0
#: Seconds of the longest pause. After it the job looks for work by itself.
LONGEST_S = 300.0
#: So long a batch that is under way is waited for when the worker stops; it is made again if it was not kept.
STOP_S = 2.0


class Told(msgspec.Struct):
    """Whose vectors are asked, whose are being made to take over, how many there are and are still to be made."""

    embedder: str
    next: str
    vectors: int
    due: int
    problem: str  #: why it goes by words alone


class EmbeddingJob:
    """A thread that is woken when something was stored. It is nobody's to wait for: an endpoint may take its time."""

    def __init__(self, store: Store, vectors: Vectors) -> None:
        self._store, self.vectors = store, vectors
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self.job = Job("meaning", self._run, self._end)
        self._pause = RETRY_S

    def table(self) -> list[Endpoint]:
        return [
            needs_read("GET", "/api/vectors", self.told, "How far search by meaning is.", Told),
            needs_admin(
                "POST", "/api/vectors", self.again, "Every vector is made anew; the old serve meanwhile.", Told
            ),
        ]

    async def told(self, call: Call) -> Told:
        return Told(**await asyncio.to_thread(self._store.read, self.vectors.status))

    async def again(self, call: Call) -> Told:
        await asyncio.to_thread(vectors.mark_all_due, self._store)
        self.wake()
        return await self.told(call)

    def wake(self) -> None:
        self._woken.set()

    async def forget(self) -> None:
        """What was removed is in memory no longer; what it leaves behind may have to be embedded anew."""
        await asyncio.to_thread(self.vectors.forget)
        self.wake()

    async def _end(self) -> None:
        self._stopping.set()
        self.wake()
        if self._thread:
            await asyncio.to_thread(self._thread.join, STOP_S)

    async def _run(self) -> None:
        """The thread, until it ends; its error is raised here. Not `asyncio.to_thread`: a process that ends would wait
        for it."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        errors: list[Exception] = []

        def work() -> None:
            try:
                self._work()
            except Exception as error:
                errors.append(error)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(ended.set)

        self._thread = threading.Thread(target=work, name="backstory-meaning", daemon=True)
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
                while not self._stopping.is_set() and (self.vectors.make_some() or self.vectors.settle()):
                    self._stopping.wait(BREATH_S)
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
            log.warning("no vectors for now, words go on: %s", problem)
        self.vectors.problem = problem
        self._stopping.wait(self._pause)
        self._pause = min(self._pause * 2, LONGEST_S)
