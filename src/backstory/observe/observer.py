"""The loop that turns events into memory: claim a round, ask the provider, store the answer; else put it back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from backstory import ids
from backstory.errors import LeaseLost, StoreUnavailable
from backstory.file_digests import digests
from backstory.jobs import Job
from backstory.model import Reply, Round
from backstory.observe.model_observer import Later
from backstory.store import events, ledger
from backstory.store.db import Store, Tx
from backstory.store.observations import Stored, StoredRows

log = logging.getLogger(__name__)
T = TypeVar("T")

Provider = Callable[[Round], Awaitable[Reply]]
NEVER = 1 << 62
#: Where workers share a database, one that has nothing to do looks this often: another may have died with a round.
LOOK_S = 30.0
#: Called with each round that was stored: the viewer is told.
Listener = Callable[[Round, StoredRows], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a round may take, how long one may go on before it is observed while it goes on, and who is asked."""

    lease_s: float = 60
    long_ms: int = events.LONG_MS
    provider: str = ""


class Observer:
    """Observes rounds of several sessions at a time, each session in its order."""

    def __init__(
        self,
        store: Store,
        provider: Provider,
        name: str = "offline",
        *,
        worker: str = "",
        parallel: int = 4,
        pace: Callable[[], Pace] = Pace,
        retry_s: float = 1,
        listener: Listener = lambda round, told: None,
    ) -> None:
        self._store, self._provider, self._name, self._worker = store, provider, name, worker
        self._pace, self._retry_s = pace, retry_s
        self._listener = listener
        self._places = asyncio.Semaphore(parallel)
        self._woken = asyncio.Event()
        self._planned_ms = NEVER
        self._running: set[asyncio.Task[None]] = set()
        self.job = Job("observer", self._work, self._give_up, retry_s)

    def wake(self, due_ms: int = 0) -> None:
        """Something was queued that falls due then; the loop is disturbed only if it plans to look later."""
        if due_ms < self._planned_ms:
            self._woken.set()

    async def _give_up(self) -> None:
        """What is under way is given up, and its lease with it."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            self._woken.clear()
            self._planned_ms = NEVER
            try:
                await self._claim_all()
                wait = await self._until_due()
            except StoreUnavailable as error:
                log.warning("the queue can not be read: %s", error)
                wait = 5.0
            # A signal, not a poll: the time-out is the moment at which something is known to fall due.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._woken.wait()

    async def _claim_all(self) -> None:
        while True:
            await self._places.acquire()
            pace = self._pace()
            try:
                claim = await self._claim(pace)
            except BaseException:
                self._places.release()
                raise
            if claim is None:
                self._places.release()
                return
            task = asyncio.create_task(self._observe(claim, pace.lease_s))
            self._running.add(task)
            task.add_done_callback(self._done)

    async def _claim(self, pace: Pace) -> events.Claim | None:
        lease_ms = int(pace.lease_s * 1000)
        return await self._write(lambda tx: events.claim(tx, lease_ms, self._worker, pace.long_ms, pace.provider))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.job.failed(error)  # its round is free again when the lease runs out
        self._places.release()
        # The session's next round waited for this one.
        self.wake()

    async def _until_due(self) -> float | None:
        """Seconds until something is known to fall due. A lease is seen before it runs out, so that what a dead worker
        had is taken over when it does."""
        due = await asyncio.to_thread(self._store.read, events.next_due)
        self._planned_ms = NEVER if due is None else due
        wait = None if due is None else max(0.01, (due - ids.now_ms()) / 1000)
        if self._store.engine == "sqlite":  # it has one worker
            return wait
        look_s = min(LOOK_S, self._pace().lease_s / 2)
        return look_s if wait is None else min(wait, look_s)

    async def _observe(self, claim: events.Claim, lease_s: float) -> None:
        reply = Reply()
        try:
            async with asyncio.timeout(lease_s * 0.9):
                reply = await self._provider(claim.round)
            held = await asyncio.to_thread(_marks, claim.round, reply)
            stored = Stored(reply, reply.provider or self._name, held)
            told = await self._write(lambda tx: events.finish(tx, claim, stored))
        except Later as later:
            await self._postpone(claim, later)
        except LeaseLost:
            log.warning("session %s: a round took too long and was given to another", claim.round.session_id)
            await self._bill(claim, reply)
        except StoreUnavailable as error:
            # Nothing was stored; the lease runs out and the round is observed again.
            log.warning("session %s: %s", claim.round.session_id, error)
            await asyncio.sleep(self._retry_s)
        except Exception as error:
            await self._put_back(claim, error)
        else:
            self._listener(claim.round, told)

    async def _bill(self, claim: events.Claim, reply: Reply) -> None:
        """What was asked for nothing was paid for."""
        with contextlib.suppress(StoreUnavailable):
            await self._write(lambda tx: ledger.add(tx, claim.round.session_id, reply.calls))

    async def _postpone(self, claim: events.Claim, later: Later) -> None:
        log.info("session %s: a round waits %.1f s (%s)", claim.round.session_id, later.wait_s, later.cause)
        with contextlib.suppress(StoreUnavailable):
            wait_ms = int(later.wait_s * 1000)
            await self._write(lambda tx: events.postpone(tx, claim, wait_ms, later.calls))

    async def _put_back(self, claim: events.Claim, error: Exception) -> None:
        # The kind of error and no more: its text may quote what was observed.
        cause = f"{type(error).__name__}"
        log.warning("session %s: a round could not be observed (%s)", claim.round.session_id, cause, exc_info=False)
        with contextlib.suppress(StoreUnavailable):
            await self._write(lambda tx: events.fail(tx, claim, cause, int(self._retry_s * 1000)))

    async def _write(self, work: Callable[[Tx], T]) -> T:
        return await asyncio.wrap_future(self._store.submit(work))


def _marks(round: Round, reply: Reply) -> dict[str, str]:
    """What the files of a round hold; of one that is long past, nobody knows what they held then."""
    if ids.now_ms() - ids.stored_ms(round.events[-1].occurred_at) > events.RECENT_MS:
        return {}
    told = (path for seen in reply.observations for path in (*seen.files_modified, *seen.files_read))
    return digests(round.cwd, told)
