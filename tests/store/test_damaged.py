"""Rows that were edited by hand, or damaged: they are set aside or passed over, and stop nobody."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import pytest
from test_queue import observe_all, put

from backstory.model import Observation, Reply, Round
from backstory.observe.observer import Observer, Pace
from backstory.store import events, reobserve
from backstory.store.db import Store

#: Payloads that are no JSON object.
DAMAGED: dict[str, Any] = {
    "cut": '{"tool_input": {"command": "ls',
    "list": "[1, 2]",
    "number": "5",
    "word": "canary-of-a-payload",
    "deep": "[" * 100_000,
    "zlib": b"x\x9cno stream at all",
    "zlib cut": zlib.compress(b'{"tool_input": {}}' * 99)[:40],
    "no text": zlib.compress(b"\xff\xfe" * 600),
}


def damage(store: Store, number: int, payload: Any) -> None:
    if isinstance(payload, bytes) and store.engine == "postgres":
        pytest.skip("PostgreSQL packs payloads by itself")
    store.write(lambda tx: tx.run("event_put_payload", id=number, payload=payload))


async def provider(round: Round) -> Reply:
    return Reply(
        tuple(
            Observation("change", event.payload["tool_input"]["command"], event_ids=(event.id,))
            for event in round.events
        )
    )


def titles(store: Store) -> list[str]:
    rows = store.read(lambda tx: tx.all("observations_recent", project_key="shop", limit=9))
    return sorted(row["title"] for row in rows)


@pytest.mark.parametrize("payload", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_event_is_set_aside_and_blocks_nobody(store: Store, payload: Any) -> None:
    """Its round is observed without it, and so are all others. It can be tried again, and dropped."""
    damage(store, put(store, "a", "first").id, payload)
    for name, text in (("a", "second"), ("b", "other"), ("a", "third")):
        put(store, name, text)
    asyncio.run(observe_all(store, provider, 3))
    assert titles(store) == ["other", "second", "third"]
    (dead,) = store.read(lambda tx: tx.all("queue_list", status="dead", after=0, limit=9))
    assert dead["last_error"] == "Damaged"
    store.write(lambda tx: tx.run("queue_retry", id=dead["id"]))
    put(store, "a", "fourth")
    asyncio.run(observe_all(store, provider, 1))
    assert titles(store) == ["fourth", "other", "second", "third"]
    assert store.read(events.counts)["dead"] == 1
    assert store.write(lambda tx: tx.run("queue_drop", id=dead["id"])) == 1
    assert store.read(events.counts) == {"queued": 0, "leased": 0, "dead": 0}


def test_a_damaged_event_that_was_observed_is_passed_over(store: Store) -> None:
    """By the rest of its round, and by what is done over."""
    first = put(store, "a", "first").id
    asyncio.run(observe_all(store, provider, 1))
    damage(store, first, "{")
    put(store, "a", "second")
    asyncio.run(observe_all(store, provider, 1))
    assert titles(store) == ["first", "second"]
    other = put(store, "b", "other").id

    async def stand_in(round: Round) -> Reply:
        return Reply(instead_of="openai")

    asyncio.run(observe_all(store, stand_in, 1))
    damage(store, other, "{")
    assert store.read(lambda tx: reobserve.find(tx, "", "", 0)) is None


def test_a_row_of_odd_types_is_set_aside(store: Store) -> None:
    """SQLite keeps whatever it is given, in any column."""
    if store.engine == "postgres":
        pytest.skip("PostgreSQL keeps numbers only in a column of numbers")
    put(store, "a", "first")
    put(store, "b", "other")
    store.write(lambda tx: tx.script("UPDATE events SET attempts = 'many' WHERE session_id = 1;"))
    asyncio.run(observe_all(store, provider, 1))
    assert titles(store) == ["other"] and store.read(events.counts)["dead"] == 1


def test_an_observer_that_fails_is_started_again_and_reports_it(store: Store) -> None:
    """Whatever it fails by: what waits is observed as soon as it can be."""
    left = 2

    def pace() -> Pace:
        nonlocal left
        left -= 1
        if left >= 0:
            raise RuntimeError("canary-of-a-payload")
        return Pace()

    async def run() -> str:
        observer = Observer(store, provider, pace=pace, retry_s=0.01)
        observer.job.start()
        async with asyncio.timeout(120):
            while not titles(store):
                await asyncio.sleep(0.01)
        await observer.job.stop()
        return observer.job.trouble

    put(store, "a", "first")
    trouble = asyncio.run(run())
    assert titles(store) == ["first"]
    assert trouble.startswith("observer: RuntimeError in ") and "canary" not in trouble
