"""What happened when, on both engines, and the pure parts of it."""

from __future__ import annotations

import time

import pytest
from test_ledger import CALL, observe
from test_queue import put

from backstory import ids
from backstory.model import Observation, Reply, Summary
from backstory.recall import activity
from backstory.store import counts, events, projects, segments, sessions, turns
from backstory.store.db import Store


def test_days_files_and_waiting_times(store: Store) -> None:
    """Today has what was just stored; files are those of observations that stand; a round waited for some seconds."""
    put(store, "a", kind="prompt")
    put(store, "a")
    put(store, "a", kind="stop")
    made = Observation("change", "By a model", files_read=("a.py",), files_modified=("a.py", "b.py"))
    observe(store, Reply((made,), Summary(request="x"), provider="anthropic", calls=(CALL,)))
    days = store.read(lambda tx: activity.days(tx, "", 3))
    assert [day["observations"] for day in days] == [0, 0, 1]
    assert days[-1]["day"] == ids.today()
    assert (days[-1]["summaries"], days[-1]["tokens_spent"], days[-1]["cost_micros"]) == (1, 1050, 75)
    (row,) = store.read(lambda tx: projects.listed(tx, 10))
    assert store.read(lambda tx: activity.days(tx, row["name"], 1))[0]["observations"] == 1
    assert store.read(lambda tx: activity.days(tx, "elsewhere", 1))[0]["observations"] == 0
    where = store.read(lambda tx: activity.where_learned(tx, ""))
    assert [(file["path"], file["observations"]) for file in where["files"]] == [("a.py", 1), ("b.py", 1)]
    assert where["types"] == [{"type": "change", "observations": 1}]
    assert [one["observations"] for one in where["projects"]] == [1]
    waited = store.read(activity.waiting)
    assert len(waited["rounds"]) == 1
    assert 0 <= waited["p50_s"] == waited["p95_s"] < 120

    session = store.read(lambda tx: sessions.by_prefix(tx, "a"))
    assert session
    assert store.read(lambda tx: turns.of_rounds(tx, session.id, 0, 9)) == turns_of(store, session.id)
    uses = store.read(lambda tx: segments.tools_of_rounds(tx, session.id, 0, 9, 10))
    assert [store.read(lambda tx, use=use: segments.tool_use(tx, use.id)) for use in uses] == uses  # type: ignore[misc]
    assert len(uses) == 1


def test_events_are_counted_by_their_state(store: Store) -> None:
    """Of all projects, and of one by its name."""
    assert store.read(lambda tx: counts.rows(tx, ""))["events"] == {}
    dropped = put(store, "a")
    put(store, "a")
    put(store, "a")
    store.write(lambda tx: events.drop(tx, dropped.id))
    for state in ("dead", "tombstone", "done", "done"):
        number = put(store, "a").id
        store.write(lambda tx, s=state, n=number: tx.script(f"UPDATE events SET status = '{s}' WHERE id = {n};"))  # type: ignore[misc]  # noqa: S608
    expected = {"dead": 1, "done": 2, "dropped": 1, "queued": 2, "tombstone": 1}
    for project in ("", "shop"):
        assert store.read(lambda tx, p=project: counts.rows(tx, p))["events"] == expected  # type: ignore[misc]
    assert store.read(lambda tx: counts.rows(tx, "elsewhere"))["events"] == {}


def test_files_of_a_group_are_counted_for_who_names_it(store: Store) -> None:
    put(store, "a", kind="prompt")
    put(store, "a", kind="stop")
    observe(store, Reply((Observation("change", "Made", files_modified=("a.py",)),)))
    assert store.read(lambda tx: activity.where_learned(tx, "shop"))["files"]
    for table in ("sdk_sessions", "observations"):
        store.write(lambda tx, t=table: tx.script(f"UPDATE {t} SET project = 'group:x', project_key = 'group:x';"))  # type: ignore[misc]  # noqa: S608
    assert store.read(lambda tx: activity.where_learned(tx, ""))["files"] == []
    assert store.read(lambda tx: activity.where_learned(tx, "group:x"))["files"]


def turns_of(store: Store, session_id: int) -> list[object]:
    return list(store.read(lambda tx: turns.of_session(tx, session_id)))


@pytest.mark.parametrize(
    ("values", "percent", "found"),
    [([], 50, None), ([1.0], 95, 1.0), ([1.0, 2.0], 50, 1.0), ([float(n) for n in range(1, 101)], 95, 95.0)],
)
def test_a_percentile(values: list[float], percent: int, found: float | None) -> None:
    assert activity.percentile(values, percent) == found


def test_an_hour_belongs_to_its_local_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert activity.local_day("2026-02-21T03") == "2026-02-20"
        assert activity.local_day("2026-02-21T12") == "2026-02-21"
        assert activity.local_day("not a time") == "not a time"[:10]
    finally:
        monkeypatch.undo()
        time.tzset()
