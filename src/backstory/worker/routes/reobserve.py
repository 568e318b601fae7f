"""The route of `reobserve`: asks the model about rounds that the rules observed in its place, one round per request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec

from backstory import times
from backstory.model import ModelCall, Round
from backstory.observe.model_observer import ModelObserver, ReobserveFailed
from backstory.store import ledger, reobserve
from backstory.store.db import Store
from backstory.worker.endpoints import Call, Endpoint, needs_admin


class Over(msgspec.Struct):
    """The rounds to observe again. `after` is the `next` of the previous response. `dry_run` only counts."""

    project: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    since: Annotated[str, msgspec.Meta(max_length=40)] = ""
    after: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0
    dry_run: bool = False


class Done(msgspec.Struct):
    """What waits, the result of one round, and where to continue. Without `next` nothing is left."""

    rounds: int
    events: int
    observations: list[int] = []
    redone: bool = False
    tokens_estimate: int = 0  #: of the next prompt, in a dry run
    next: int | None = None


class Reobserve:
    """The route of `reobserve`."""

    def __init__(self, store: Store, model: ModelObserver, wake: Callable[[], None]) -> None:
        self._store, self._model, self._wake = store, model, wake

    def table(self) -> list[Endpoint]:
        return [needs_admin("POST", "/api/reobserve", self.reobserve, Done, Over, fails=(409,))]

    async def reobserve(self, call: Call) -> Done:
        """Ask the model about the next round that the rules observed in its place."""
        body: Over = call.body
        since = times.since(body.since)
        rounds = (body.project, since, body.after)
        waiting = await asyncio.to_thread(self._store.read, lambda tx: reobserve.waiting(tx, body.project, since))
        done = Done(waiting.rounds, waiting.events)
        if body.dry_run:
            if round := await asyncio.to_thread(self._store.read, lambda tx: reobserve.find(tx, *rounds)):
                done.next, done.tokens_estimate = round.events[-1].id, await self._model.estimate(round)
            return done
        lease_ms = int(self._model.settings.round_seconds * 1000)
        claim = await asyncio.wrap_future(self._store.submit(lambda tx: reobserve.claim(tx, *rounds, lease_ms)))
        if claim is not None:
            done.next = claim.round.events[-1].id
            try:
                await self._reobserve(claim.round, done)
            finally:
                await asyncio.wrap_future(self._store.submit(lambda tx: reobserve.release(tx, claim)))
        return done

    async def _reobserve(self, round: Round, done: Done) -> None:
        try:
            reply = await self._model.reobserve(round)
        except ReobserveFailed as failure:
            await self._bill(round, failure.calls)
            raise
        if reply.instead_of:  # the model's answer could not be read, twice
            await self._bill(round, reply.calls)
            return
        stored = await asyncio.wrap_future(self._store.submit(lambda tx: reobserve.put(tx, round, reply)))
        if stored is not None:
            done.observations, done.redone = list(stored.observation_ids), True
            self._wake()

    async def _bill(self, round: Round, calls: Sequence[ModelCall]) -> None:
        await asyncio.wrap_future(self._store.submit(lambda tx: ledger.add(tx, round.session_id, calls)))
