"""Where what the rules observed in a model's place is done over: a round at a time, as the caller asks for the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from backstory import ids
from backstory.errors import BadInput
from backstory.model import ModelCall, Round
from backstory.observe.model_observer import ModelObserver, ReobserveFailed
from backstory.store import ledger, reobserve
from backstory.store.db import Store
from backstory.worker.endpoints import Call, Endpoint, needs_admin


class Over(msgspec.Struct):
    """Which rounds; `after` is the `next` of the answer before. `dry_run` only counts."""

    project: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    since: Annotated[str, msgspec.Meta(max_length=40)] = ""
    after: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0
    dry_run: bool = False


class Done(msgspec.Struct):
    """How much waited, what was made of one round, and where to go on; no `next` means that nothing is left."""

    rounds: int
    events: int
    observations: list[int] = []
    redone: bool = False
    tokens_estimate: int = 0  #: of what would be read, in a dry run
    next: int | None = None


class Reobserve:
    """The route of `reobserve`."""

    def __init__(self, store: Store, asking: ModelObserver, wake: Callable[[], None]) -> None:
        self._store, self._asking, self._wake = store, asking, wake

    def table(self) -> list[Endpoint]:
        says = "The next round that the rules observed in a model's place is asked of the model."
        return [needs_admin("POST", "/api/reobserve", self.reobserve, says, Done, Over, fails=(409,))]

    async def reobserve(self, call: Call) -> Done:
        asked: Over = call.body
        since = _moment(asked.since)
        where = (asked.project, since, asked.after)
        found = await asyncio.to_thread(self._store.read, lambda tx: reobserve.waiting(tx, asked.project, since))
        done = Done(found.rounds, found.events)
        if asked.dry_run:
            if round := await asyncio.to_thread(self._store.read, lambda tx: reobserve.find(tx, *where)):
                done.next, done.tokens_estimate = round.events[-1].id, await self._asking.estimate(round)
            return done
        lease_ms = int(self._asking.settings.round_seconds * 1000)
        claim = await asyncio.wrap_future(self._store.submit(lambda tx: reobserve.claim(tx, *where, lease_ms)))
        if claim is not None:
            done.next = claim.round.events[-1].id
            try:
                await self._do(claim.round, done)
            finally:
                await asyncio.wrap_future(self._store.submit(lambda tx: reobserve.release(tx, claim)))
        return done

    async def _do(self, round: Round, done: Done) -> None:
        try:
            reply = await self._asking.reobserve(round)
        except ReobserveFailed as failure:
            await self._bill(round, failure.calls)
            raise
        if reply.instead_of:  # its answer could not be read, twice
            await self._bill(round, reply.calls)
            return
        told = await asyncio.wrap_future(self._store.submit(lambda tx: reobserve.put(tx, round, reply)))
        if told is not None:
            done.observations, done.redone = list(told.observation_ids), True
            self._wake()

    async def _bill(self, round: Round, calls: Sequence[ModelCall]) -> None:
        await asyncio.wrap_future(self._store.submit(lambda tx: ledger.add(tx, round.session_id, calls)))


def _moment(since: str) -> str:
    """A day or a time, on the user's clock, as it is stored."""
    if not since:
        return ""
    try:
        return ids.from_ms(int(datetime.fromisoformat(since).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise BadInput("`since` is no day or time.", "Write it as 2026-02-21 or 2026-02-21T03:39.") from None
