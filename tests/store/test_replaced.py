"""What is pinned and what was replaced, on both engines."""

from __future__ import annotations

import pytest
from test_contract import add, session_of

from backstory.errors import BadInput, NotFound
from backstory.model import ContentId, Event, Observation, Reply, Round
from backstory.store import forget, observations
from backstory.store.db import Row, Store, Tx


def seen(tx: Tx, title: str, session: str = "a") -> int:
    """An observation of its own event."""
    added, row = add(tx, session, title), session_of(tx, session)
    event = Event(added.id, row["id"], 1, "tool", "2026-01-01T00:00:00.000Z", None, None, {})
    whole = Round(row["id"], ContentId(session), None, "claude-code", "shop", "", 1, "", (event,))
    reply = Reply((Observation("decision", title, narrative=title, event_ids=(added.id,)),))
    return observations.store(tx, whole, observations.Stored(reply, "offline")).observation_ids[0]


def of(tx: Tx, number: int) -> Row:
    row = tx.one("observation_by_id", id=number)
    assert row
    return row


def test_one_that_is_replaced_points_to_what_holds(store: Store) -> None:
    """A line of them, no circle, nothing of another project, and taken back it holds again."""
    one, two, three = store.write(lambda tx: [seen(tx, title) for title in ("one", "two", "three")])

    def replace(old: int, new: int | None) -> None:
        store.write(lambda tx: observations.supersede(tx, of(tx, old), new))

    replace(one, two)
    replace(two, three)
    row = store.read(lambda tx: of(tx, one))
    assert row["superseded_by"] == two and row["superseded_at"]
    for old, new, says in ((three, one, "was itself replaced"), (one, one, "itself"), (one, 4711, "no observation")):
        with pytest.raises((BadInput, NotFound), match=says):
            replace(old, new)
    replace(one, None)
    row = store.read(lambda tx: of(tx, one))
    assert row["superseded_by"] is None and row["superseded_at"] is None


def test_what_replaced_it_is_forgotten(store: Store) -> None:
    """In the middle of a line, its neighbours meet; at the end, the one before it holds again."""
    numbers = store.write(lambda tx: [seen(tx, title) for title in ("one", "two", "three")])
    one, two, three = numbers
    store.write(lambda tx: observations.supersede(tx, of(tx, one), two))
    store.write(lambda tx: observations.supersede(tx, of(tx, two), three))
    store.write(lambda tx: forget.observation(tx, two, forget.Forgotten()))
    assert store.read(lambda tx: of(tx, one))["superseded_by"] == three
    store.write(lambda tx: forget.observation(tx, three, forget.Forgotten()))
    row = store.read(lambda tx: of(tx, one))
    assert (row["superseded_by"], row["superseded_at"]) == (None, None)


def test_a_pin_goes_on_to_what_replaces_it(store: Store) -> None:
    """What always stood in context still does, in its present form; history can't be pinned."""
    one, two = store.write(lambda tx: [seen(tx, title) for title in ("one", "two")])
    store.write(lambda tx: observations.pin(tx, of(tx, one), True))
    store.write(lambda tx: observations.supersede(tx, of(tx, one), two))

    def pinned(tx: Tx) -> list[int]:
        return [row["id"] for row in tx.all("observations_pinned", project_key="key/shop", limit=9)]

    assert store.read(pinned) == [two]
    store.write(lambda tx: observations.pin(tx, of(tx, two), False))
    assert store.read(pinned) == []
    with pytest.raises(BadInput, match=f"replaced by #{two}"):
        store.write(lambda tx: observations.pin(tx, of(tx, one), True))
