"""The observer loop: it claims a round of events, asks the provider about it and stores the reply."""

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
from backstory.observe.model_observer import AskLater
from backstory.store import events, ledger
from backstory.store.db import Store, Tx
from backstory.store.observations import Stored, StoredRows

log = logging.getLogger(__name__)
T = TypeVar("T")

Provider = Callable[[Round], Awaitable[Reply]]
NEVER = 1 << 62
#: Workers that share a database look at the queue at least this often, because another worker may have died.
SHARED_QUEUE_POLL_S = 30.0
#: The pause after the queue could not be read.
STORE_RETRY_S = 5.0
#: The part of a lease in which the provider must reply. The rest is for storing the reply.
PROVIDER_SHARE = 0.9
#: Called with each stored round and its rows. The viewer listens.
Listener = Callable[[Round, StoredRows], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """The time limits of a round, and the provider that observes it."""

    lease_s: float = 60
    long_ms: int = events.LONG_MS  #: a round that lasts longer is observed before it ends
    provider: str = ""


class Observer:
    """Observes several sessions at the same time. The rounds of a session are observed in order."""

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
        listener: Listener = lambda round, rows: None,
    ) -> None:
        self._store, self._provider, self._name, self._worker = store, provider, name, worker
        self._pace, self._retry_s = pace, retry_s
        self._listener = listener
        self.after: asyncio.Event | None = None  #: set when what happened without a worker is stored
        self._slots = asyncio.Semaphore(parallel)
        self._wake_event = asyncio.Event()
        self._next_look_ms = NEVER
        self._running: set[asyncio.Task[None]] = set()
        self.job = Job("observer", self._run, self._cancel_running, retry_s)

    def wake(self, due_ms: int = 0) -> None:
        """Wake the loop for an event that falls due at `due_ms`, unless it looks at the queue before that anyway."""
        if due_ms < self._next_look_ms:
            self._wake_event.set()

    async def _cancel_running(self) -> None:
        """Cancel the rounds that are being observed. Their leases run out."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self) -> None:
        if self.after:
            await self.after.wait()
        while True:
            self._wake_event.clear()
            self._next_look_ms = NEVER
            try:
                await self._claim_all()
                wait = await self._until_due()
            except StoreUnavailable as error:
                log.warning("the queue cannot be read: %s", error)
                wait = STORE_RETRY_S
            # This waits for a signal and does not poll. The timeout ends when the next event falls due.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake_event.wait()

    async def _claim_all(self) -> None:
        while True:
            await self._slots.acquire()
            pace = self._pace()
            lease = (int(pace.lease_s * 1000), self._worker, pace.long_ms, pace.provider)
            try:
                claim = await self._write(lambda tx, lease=lease: events.claim(tx, *lease))  # type: ignore[misc]
            except BaseException:
                self._slots.release()
                raise
            if claim is None:
                self._slots.release()
                return
            task = asyncio.create_task(self._observe(claim, pace.lease_s))
            self._running.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.job.failed(error)  # its round can be claimed again when the lease runs out
        self._slots.release()
        # The next round of this session waited for this one.
        self.wake()

    async def _until_due(self) -> float | None:
        """Seconds until the next event falls due, or None. A shared queue is read again before a lease can run out, so
        that the rounds of a dead worker are taken over in time."""
        due = await asyncio.to_thread(self._store.read, events.next_due)
        self._next_look_ms = NEVER if due is None else due
        wait = None if due is None else max(0.01, (due - ids.now_ms()) / 1000)
        if self._store.engine == "sqlite":  # only one worker uses it
            return wait
        poll_s = min(SHARED_QUEUE_POLL_S, self._pace().lease_s / 2)
        return poll_s if wait is None else min(wait, poll_s)

    async def _observe(self, claim: events.Claim, lease_s: float) -> None:
        reply = Reply()
        try:
            async with asyncio.timeout(lease_s * PROVIDER_SHARE):
                reply = await self._provider(claim.round)
            contents = await asyncio.to_thread(_file_digests, claim.round, reply)
            stored = Stored(reply, reply.provider or self._name, contents)
            rows = await self._write(lambda tx: events.finish(tx, claim, stored))
        except AskLater as later:
            await self._postpone(claim, later)
        except LeaseLost:
            log.warning("session %s: a round took too long and was given to another worker", claim.round.session_id)
            with contextlib.suppress(StoreUnavailable):  # the calls were paid for
                await self._write(lambda tx: ledger.add(tx, claim.round.session_id, reply.calls))
        except StoreUnavailable as error:
            # Nothing was stored. The round is observed again after its lease runs out.
            log.warning("session %s: %s", claim.round.session_id, error)
            await asyncio.sleep(self._retry_s)
        except Exception as error:
            await self._put_back(claim, error)
        else:
            self._listener(claim.round, rows)

    async def _postpone(self, claim: events.Claim, later: AskLater) -> None:
        log.info("session %s: a round waits %.1f s (%s)", claim.round.session_id, later.wait_s, later.cause)
        with contextlib.suppress(StoreUnavailable):
            wait_ms = int(later.wait_s * 1000)
            await self._write(lambda tx: events.postpone(tx, claim, wait_ms, later.calls))

    async def _put_back(self, claim: events.Claim, error: Exception) -> None:
        cause = type(error).__name__  # the text of the error may quote a payload
        log.warning("session %s: a round could not be observed (%s)", claim.round.session_id, cause)
        with contextlib.suppress(StoreUnavailable):
            await self._write(lambda tx: events.fail(tx, claim, cause, int(self._retry_s * 1000)))

    async def _write(self, work: Callable[[Tx], T]) -> T:
        return await asyncio.wrap_future(self._store.submit(work))


def _file_digests(round: Round, reply: Reply) -> dict[str, str]:
    """The digests of the files that a reply names. An old round has none: its files may have changed since."""
    if ids.now_ms() - ids.stored_ms(round.events[-1].occurred_at) > events.RECENT_MS:
        return {}
    paths = (path for one in reply.observations for path in (*one.files_modified, *one.files_read))
    return digests(round.home, paths)
