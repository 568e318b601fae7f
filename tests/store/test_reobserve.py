"""Doing over what the rules observed in a model's place: a round is asked about by one at a time."""

from __future__ import annotations

import asyncio

from engines import Opener
from test_queue import observe_all, put

from backstory.model import Observation, Reply, Round
from backstory.store import reobserve
from backstory.store.db import Store
from backstory.store.events import Claim


async def stand_in(round: Round) -> Reply:
    return Reply((Observation("change", "by the rules"),), instead_of="openai")


def test_a_round_that_is_asked_about_is_passed_over_by_others(store: Store, open_again: Opener) -> None:
    """Until it is done, given back, or its lease has run out; also by a worker of another machine."""
    for name in ("a", "b"):
        put(store, name, "1")
    asyncio.run(observe_all(store, stand_in, 2))
    other = open_again()

    def claim(of: Store, lease_ms: int = 60_000) -> Claim | None:
        return of.write(lambda tx: reobserve.claim(tx, "", "", 0, lease_ms))

    first, second = claim(store), claim(other)
    assert first and second and first.round.session_id != second.round.session_id
    assert claim(other) is None
    other.write(lambda tx: reobserve.release(tx, second))
    again = claim(store, lease_ms=0)
    assert again and again.round.session_id == second.round.session_id
    assert claim(other), "its lease ran out"
    assert store.write(lambda tx: reobserve.put(tx, first.round, Reply((Observation("change", "by the model"),))))
    assert store.read(lambda tx: reobserve.waiting(tx, "", "")).rounds == 1
