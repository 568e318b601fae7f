"""What events hold takes little room, and can be let go of: packed, read as it was, and without its output in time."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from box import Box, until

from backstory import ids
from backstory.model import ContentId, Observation, Reply, Report
from backstory.project import Project
from backstory.store import events, forget, forget_rows, sessions
from backstory.store.db import Store, Tx
from backstory.store.observations import Stored
from backstory.store.payloads import drop_output

OUTPUT = "a line of output, and the word heron; ü 日本\n" * 400


def used(tx: Tx, number: int, answer: Any = OUTPUT) -> events.Added:
    payload = {"tool_input": {"command": f"cat {number}"}, "tool_response": answer}
    told = Report(
        "claude-code",
        "tool",
        ContentId("a"),
        f"e{number}",
        ids.now(),
        tool_name="Bash",
        tool_use_id=f"t{number}",
        payload=payload,
    )
    return events.add(tx, sessions.get_or_create(tx, told, Project("shop", "shop")), told)


def held(tx: Tx, number: int) -> Any:
    row = tx.one("event_by_event_id", session_id=1, event_id=f"e{number}")
    assert row is not None
    return json.loads(row["payload"])


def observed(store: Store) -> int:
    claim = store.write(lambda tx: events.claim(tx, 60_000))
    assert claim is not None
    seen = Observation("discovery", "Seen", event_ids=(claim.round.events[0].id,))
    return store.write(lambda tx: events.finish(tx, claim, Stored(Reply((seen,)), "offline"))).observation_ids[0]


def test_a_large_payload_is_packed_and_reads_as_it_was(store: Store, engine: str, tmp_path: Path) -> None:
    """Whoever reads it, finds words in it or forgets them sees the text; SQLite's file holds a fraction of it."""
    store.write(lambda tx: used(tx, 1))
    store.write(lambda tx: used(tx, 2, "small heron"))
    assert store.read(lambda tx: held(tx, 1))["tool_response"] == OUTPUT
    assert store.read(lambda tx: held(tx, 2))["tool_response"] == "small heron"
    if engine == "sqlite":
        with closing(sqlite3.connect(tmp_path / "backstory.db")) as db:
            sizes = [row[0] for row in db.execute("SELECT LENGTH(payload) FROM events WHERE typeof(payload) = 'blob'")]
        assert len(sizes) == 1
        assert sizes[0] < len(OUTPUT) / 20
    found = store.read(lambda tx: forget.find(tx, "HERON"))
    assert [event["event_id"] for event in found.events] == ["e1", "e2"]
    gone = forget_rows.Forgotten()
    store.write(lambda tx: forget.matching(tx, "heron", "", gone))
    assert gone.events == 2
    assert store.read(lambda tx: forget.find(tx, "heron")).events == []


def test_output_goes_and_what_was_asked_stays(store: Store) -> None:
    """Of observed events older than the moment; ids, arguments and the observation stay, another look changes none."""
    store.write(lambda tx: used(tx, 1))
    store.write(lambda tx: events.close_round(tx, 1))
    number = observed(store)
    store.write(lambda tx: used(tx, 2))
    assert store.write(lambda tx: drop_output(tx, "2020-01-01T00:00:00.000Z", 0)) is None
    later = ids.from_ms(ids.now_ms() + 60_000)
    assert store.write(lambda tx: drop_output(tx, later, 0)) == 1
    assert store.write(lambda tx: drop_output(tx, later, 1)) is None
    assert store.read(lambda tx: held(tx, 1)) == {"tool_input": {"command": "cat 1"}}
    assert store.read(lambda tx: held(tx, 2))["tool_response"] == OUTPUT, "nobody has observed it yet"
    row = store.read(lambda tx: tx.one("observation_by_id", id=number))
    assert row is not None
    assert (row["title"], row["tool_response_text"]) == ("Seen", None)
    assert row["tool_input_json"] == '{"command": "cat 1"}'
    assert store.write(lambda tx: used(tx, 1)).skipped == "duplicate"


def test_the_worker_lets_output_go_after_the_days_that_are_set(box: Box) -> None:
    """`output_days`: what is older goes at the next look, and without the setting nothing; `stats` tells the room."""
    worker = box.start()
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": OUTPUT}
    box.hook("PostToolUse", {"session_id": "s", "tool_use_id": "t1"} | call)
    box.hook("Stop", {"session_id": "s", "last_assistant_message": "Seen."})
    box.settle()
    assert "by content" in box.cli("stats").stdout
    room = box.client.get("/api/stats")["room"]
    assert set(room) == {"events", "conversation", "memory", "index", "vectors", "transcripts", "rest"}
    assert room["index"] > 0 < room["events"]
    box.stop(worker)
    with closing(sqlite3.connect(box.data / "backstory.db")) as db:
        db.execute("UPDATE events SET created_at = '2020-01-01T00:00:00.000Z'")
        db.commit()
    box.settings |= {"BACKSTORY_OUTPUT_DAYS": "30", "BACKSTORY_BACKUP_HOURS": "0.0001"}
    box.start()
    until(
        lambda: "heron" not in box.rows("SELECT payload FROM events WHERE tool_use_id = 't1'")[0]["payload"], "it to go"
    )
    (row,) = box.rows("SELECT payload, status FROM events WHERE tool_use_id = 't1'")
    assert (json.loads(row["payload"]), row["status"]) == ({"tool_input": {"command": "ls"}}, "done")
