"""The ledger and doing over, on both engines."""

from __future__ import annotations

from dataclasses import replace

from test_queue import put

from backstory import ids
from backstory.model import ModelCall, Observation, Reply, Round, Summary
from backstory.store import events, forget, forget_rows, ledger, reobserve
from backstory.store.db import Store
from backstory.store.observations import Stored

CALL = ModelCall("anthropic", "m", 1000, 50, 400, 75)


def observe(store: Store, reply: Reply) -> Round:
    claim = store.write(lambda tx: events.claim(tx, 60_000))
    assert claim
    store.write(lambda tx: events.finish(tx, claim, Stored(reply, reply.provider)))
    return claim.round


def test_every_call_is_written_down_with_what_it_led_to(store: Store) -> None:
    """Calls of a finished and of a postponed round add up, by day, project, provider and model; an unknown price stays
    unknown; what a forgotten project cost stays in the sum without its name."""
    put(store, "a", kind="stop")
    observe(store, Reply((), Summary(request="x"), provider="anthropic", calls=(CALL, CALL)))
    put(store, "b", kind="stop")
    claim = store.write(lambda tx: events.claim(tx, 60_000))
    assert claim
    unpriced = replace(CALL, model="n", cost_micros=None)
    store.write(lambda tx: events.postpone(tx, claim, 0, (CALL, unpriced, unpriced)))
    assert store.read(lambda tx: ledger.spent(tx, ids.today())) == (5 * 1050, 3 * 75)
    assert store.read(lambda tx: ledger.spent(tx, "2026-01-01")) == (0, 0)
    rows = {row["model"]: row for row in store.read(lambda tx: ledger.by_day(tx, "", 14))}
    assert (rows["m"]["calls"], rows["m"]["cached_tokens"], rows["m"]["cost_micros"]) == (3, 1200, 225)
    assert (rows["n"]["calls"], rows["n"]["cost_micros"]) == (2, None)
    before = store.read(lambda tx: ledger.total(tx, ""))
    assert before["calls_without_price"] == 2 and rows["m"]["project"]
    store.write(lambda tx: forget.project(tx, rows["m"]["project"], forget_rows.Forgotten()))
    assert store.read(lambda tx: ledger.total(tx, "")) == before
    assert {row["project"] for row in store.read(lambda tx: ledger.by_day(tx, "", 14))} == {""}


def test_a_round_is_done_over_whole_or_not_at_all(store: Store) -> None:
    """The model's rows take the place of the rules'; if an event was forgotten meanwhile, nothing is changed."""
    put(store, "a")
    put(store, "a", kind="stop")
    rules = Reply(
        (Observation("change", "By rules"),), Summary(request="rules"), provider="offline", instead_of="openai"
    )
    observe(store, rules)
    assert store.read(lambda tx: reobserve.waiting(tx, "", "")) == reobserve.Waiting(1, 2)
    assert store.read(lambda tx: reobserve.waiting(tx, "elsewhere", "")) == reobserve.Waiting(0, 0)
    assert store.read(lambda tx: reobserve.find(tx, "", "2999", 0)) is None
    round = store.read(lambda tx: reobserve.find(tx, "", "", 0))
    assert round and round.stop and len(round.events) == 2
    model = Reply((Observation("bugfix", "By model"),), provider="openai", calls=(CALL,))
    told = store.write(lambda tx: reobserve.put(tx, round, model))
    assert told and [row["title"] for row in _observations(store, round)] == ["By model"]
    assert store.read(lambda tx: tx.all("summaries_of_whole_session", session_id=round.session_id)) == []
    assert store.read(lambda tx: reobserve.find(tx, "", "", 0)) is None
    assert store.write(lambda tx: reobserve.put(tx, round, model)) is None
    assert [row["title"] for row in _observations(store, round)] == ["By model"]
    assert store.read(lambda tx: ledger.total(tx, ""))["calls"] == 2


def _observations(store: Store, round: Round) -> list[dict[str, object]]:
    return store.read(lambda tx: tx.all("observations_of_whole_session", session_id=round.session_id))


def test_a_round_that_waits_for_a_model_is_not_blamed(store: Store) -> None:
    """However often it is postponed: it stays whole, keeps its tries, and blocks no other session."""
    for name in ("a", "a", "a"):
        put(store, name)
    put(store, "a", kind="stop")
    for _ in range(events.MAX_ATTEMPTS + 2):
        claim = store.write(lambda tx: events.claim(tx, 60_000))
        assert claim and len(claim.round.events) == 4
        assert {event.attempts for event in claim.round.events} == {0}
        store.write(lambda tx, claim=claim: events.postpone(tx, claim, 0))  # type: ignore[misc]
    claim = store.write(lambda tx: events.claim(tx, 60_000))
    assert claim
    store.write(lambda tx: events.postpone(tx, claim, 60_000))
    put(store, "b", kind="stop")
    other = store.write(lambda tx: events.claim(tx, 60_000))
    assert other and other.round.content_id == "b"
    assert store.write(lambda tx: events.claim(tx, 60_000)) is None
