"""Forgets: rows first, then files. The order is on disk before, so that the next worker continues after a kill."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable

import msgspec

from backstory import ids
from backstory.capture.intake import Intake
from backstory.capture.spool import Spool
from backstory.errors import NotFound, StoreUnavailable
from backstory.jobs import Job
from backstory.observe.own_transcripts import OwnTranscripts
from backstory.paths import Paths, sync, write_private
from backstory.store import forget, observations, sessions
from backstory.store.db import Store, Tx
from backstory.store.forget_rows import Forgotten
from backstory.worker.forgotten_files import ForgottenFiles
from backstory.worker.jobs.embedding import EmbeddingJob
from backstory.worker.live import Live

log = logging.getLogger(__name__)
#: Seconds until an erasure that a reader held up is tried again.
RETRY_S = 5.0


class Order(msgspec.Struct):
    """What to forget, as it is kept in a file until it is done.

    An id comes with what else identifies its row: a database that is restored from a backup may give the id to another.
    """

    observations: dict[int, str] = {}  #: id -> `created_at`
    sessions: dict[int, str] = {}  #: id -> the agent's id
    project: str = ""
    matching: str = ""
    names: list[str] = []  #: ids of what was deleted so far, by which copies in the spool are found


class _DryRun(Exception):
    """Rolls the transaction of a dry run back."""


class Orders:
    """The files of the orders that are not done."""

    def __init__(self, paths: Paths) -> None:
        self._folder = paths.forgetting

    def put(self, name: str, order: Order) -> None:
        """Write an order, and wait until it is on disk."""
        file = self._folder / f"{name}.json"
        write_private(file, msgspec.json.encode(order))
        sync(file)
        sync(self._folder)

    def done(self, name: str) -> None:
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    def left(self) -> dict[str, Order]:
        """Return the orders that are not done, oldest first."""
        found = {}
        for file in sorted(self._folder.glob("[!.]*.json")):
            try:
                found[file.stem] = msgspec.json.decode(file.read_bytes(), type=Order)
            except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
                log.error("%s cannot be read, so what it names is not forgotten: %s", file, type(error).__name__)
        return found


class Forgetting:
    """Forgets. Every step may be repeated, and is repeated by the next worker if this one is killed."""

    def __init__(
        self,
        store: Store,
        intake: Intake,
        spool: Spool,
        live: Live,
        embedding: EmbeddingJob,
        own_transcripts: OwnTranscripts,
        files: ForgottenFiles,
        key: bytes,
    ) -> None:
        self._store, self._intake, self._spool, self._live = store, intake, spool, live
        self._embedding, self._own_transcripts, self._files = embedding, own_transcripts, files
        self._key, self._orders = key, Orders(intake.settings.paths)
        self._left: dict[str, Order] = {}  #: orders of the previous worker, and those that failed
        #: orders whose rows are deleted, but not their texts in files; None: only files that are in use are left
        self._unwiped: dict[str, Forgotten | None] = {}
        self._wiping = asyncio.Lock()
        self.job = Job("wipe", self._finish)

    async def resume(self) -> None:
        """Delete the rows that the previous worker was told to forget. Called before anybody can be told of them."""
        self._left = await asyncio.to_thread(self._orders.left)
        for name, order in self._left.items():
            try:
                await self._delete(name, order)
            except Exception as error:  # the job tries again; without a worker nobody would
                self.job.failed(error)

    async def preview(self, order: Order) -> Forgotten:
        """Return what would be deleted. It is deleted in a transaction that is rolled back."""
        gone = Forgotten(key=self._key)

        def roll_back(tx: Tx) -> None:
            _work(tx, order, gone)
            forget.unkeep(tx, gone)
            raise _DryRun

        with contextlib.suppress(_DryRun):
            await self._intake.write(roll_back)
        return gone

    async def order(
        self, numbers: Iterable[int] = (), session_numbers: Iterable[int] = (), project: str = "", matching: str = ""
    ) -> Order:
        """Return an order. Raises `NotFound` if it names what does not exist."""

        def read(tx: Tx) -> Order:
            if project and not matching:
                forget.check_project(tx, project)
            return Order(
                {number: _created_at(tx, number) for number in numbers},
                {number: _content_id(tx, number) for number in session_numbers},
                project,
                matching,
            )

        try:
            return await asyncio.to_thread(self._store.read, read)
        except NotFound:
            await self._spool.drain()
            return await asyncio.to_thread(self._store.read, read)

    async def forget(self, order: Order) -> tuple[Forgotten, bool]:
        """Forget what an order names. Return what it was, and whether no file has it any more."""
        name = ids.new_event_id()
        await asyncio.to_thread(self._orders.put, name, order)
        try:
            gone = await self._carry_out(name, order)
        except Exception:
            self._left[name] = order
            self.job.start()
            raise
        if not (wiped := await self._wipe()):
            self.job.start()
        return gone, wiped

    async def forget_project(self, project: str) -> int:
        """Forget all sessions of a project. Return how many there were."""
        try:
            return (await self.forget(await self.order(project=project)))[0].sessions
        except NotFound:
            return 0

    async def _carry_out(self, name: str, order: Order) -> Forgotten:
        # Entries of the spool are stored first, so that they are forgotten with the rest.
        await self._spool.drain()
        gone = await self._delete(name, order)
        self._unwiped[name] = gone
        self._live.clear()
        counts = {each: getattr(gone, each) for each in ("sessions", "summaries", "prompts")}
        self._live.publish("gone", {"observations": sorted(gone.observations)} | counts)
        if any(counts.values()):
            self._live.publish("reset", {})  # their ids are not known any more
        await self._embedding.forget()
        await asyncio.to_thread(self._spool.forget, {*order.names, *gone.names})
        # The conversations of the observer quote it, and are sent again with each round that continues them.
        await asyncio.to_thread(self._own_transcripts.remove)
        return gone

    async def _delete(self, name: str, order: Order) -> Forgotten:
        """Delete the rows."""

        def delete(tx: Tx) -> Forgotten:
            gone = Forgotten(key=self._key)  # made here, because the transaction may run twice
            _work(tx, order, gone)
            forget.finish(tx, gone)
            forget.request_erasure(tx)
            if not gone.names <= {*order.names}:
                # On disk before the commit: afterwards nothing tells which rows they were.
                order.names = sorted({*order.names, *gone.names})
                self._orders.put(name, order)
            return gone

        return await self._intake.write(delete)

    async def _finish(self) -> None:
        """Finish what the previous worker was told to forget, what failed, and erasures that a reader held up."""
        while True:
            while self._left:
                name, order = next(iter(self._left.items()))
                self._left[name] = self._left.pop(name)  # if it fails, the others come first
                await self._carry_out(name, order)
                del self._left[name]
            if await self._wipe() and not self._left:
                return
            await asyncio.sleep(RETRY_S)

    async def _wipe(self) -> bool:
        """Remove deleted text from the files. Return False if somebody uses them."""
        async with self._wiping:
            unwiped = dict(self._unwiped)
            try:
                erasure = await asyncio.to_thread(self._store.read, forget.open_erasure)
                # Another forgetting may have finished the erasure of one whose words it did not know yet.
                unclean = [gone for gone in unwiped.values() if gone is not None]
                if erasure is not None or unclean:
                    for gone in unclean or [Forgotten()]:
                        await asyncio.to_thread(self._files.clean, gone)
                    await asyncio.to_thread(self._store.scrub)
                    self._unwiped |= dict.fromkeys(unwiped)
                if erasure is not None:
                    await self._intake.write(lambda tx: forget.finish_erasures(tx, erasure))
                if not await asyncio.to_thread(self._files.clean_marked):
                    return False
            except StoreUnavailable as error:
                log.warning("%s", error)
                return False
            for name in unwiped:
                await asyncio.to_thread(self._orders.done, name)
                del self._unwiped[name]
            return True


def _work(tx: Tx, order: Order, gone: Forgotten) -> None:
    """Delete the rows that an order names and that are still there."""
    if order.matching:
        forget.matching(tx, order.matching, order.project, gone)
    elif order.project:
        forget.project(tx, order.project, gone)
    for number, created_at in order.observations.items():
        row = observations.by_id(tx, number)
        if row and row["created_at"] == created_at:
            forget.observation(tx, number, gone)
    for number, content_id in order.sessions.items():
        session = sessions.by_id(tx, number)
        if session and session.content_session_id == content_id:
            forget.session(tx, number, gone)


def _created_at(tx: Tx, number: int) -> str:
    row = observations.by_id(tx, number)
    if row is None:
        raise NotFound(f"There is no observation {number}.", "Search gives the ids.")
    return str(row["created_at"])


def _content_id(tx: Tx, number: int) -> str:
    session = sessions.by_id(tx, number)
    if session is None:
        raise NotFound(f"There is no session {number}.", "`backstory sessions` lists them.")
    return session.content_session_id
