"""The observer's ids: whom they belong to, when one is gone on with, and that nothing is ever stored under another."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from box import rows_of
from debugging import LINKAGE, ORPHANS, STATE
from engines import BROKEN_RULE

from backstory import ids
from backstory.model import ContentId, MemoryId, Observation, Reply, Report, Session
from backstory.observe.providers import Ask
from backstory.project import Project
from backstory.store import events, sessions
from backstory.store.db import Row, Store, Tx
from backstory.store.observations import Stored

WITHOUT_ID = (
    "INSERT INTO observations (session_id, prompt_number, memory_session_id, project, project_key, type, title, "
    "observed_json, provider, created_at) VALUES (1, 1, NULL, '', '', 'change', 't', '{}', 'claude', '');"
)
ID = MemoryId("6e9f0c1e-0000-4000-8000-000000000001")


@pytest.mark.parametrize(
    ("memory_id", "last", "force", "issued_by", "provider", "goes_on"),
    [
        (ID, 2, False, "claude", "claude", True),
        (None, 2, False, "claude", "claude", False),  # not captured yet
        (MemoryId(""), 2, False, "claude", "claude", False),  # an empty text is no id
        (ID, 1, False, "claude", "claude", False),  # the first prompt: nothing to go on with
        (ID, 0, False, "claude", "claude", False),
        (ID, 2, True, "claude", "claude", False),  # a worker that has just started, or a long conversation
        (ID, 2, False, None, "claude", False),  # made up: nobody issued it
        (ID, 2, False, "offline", "claude", False),  # after a change of provider
        (ID, 2, False, "claude", "offline", False),
        (ID, 2, False, None, "", False),
        (ID, 2, False, "", "", False),
    ],
)
def test_the_rule(
    memory_id: MemoryId | None, last: int, force: bool, issued_by: str | None, provider: str, goes_on: bool
) -> None:
    """A real id, of this provider, after the first prompt, and not forced to begin anew: all of it, or fresh."""
    found = sessions.resume(memory_id, last, force, issued_by=issued_by, provider=provider)
    assert found == (memory_id if goes_on else None)


def test_the_agents_id_is_refused_by_the_type_checker() -> None:
    """Not needed is an error too, so these marks hold only as long as the checker refuses what they stand at."""
    theirs = ContentId("c1")
    sessions.resume(theirs, 2, False, issued_by="claude", provider="claude")  # type: ignore[arg-type]
    Ask("task", "prompt", resume=theirs)  # type: ignore[arg-type]
    Reply(memory_id=theirs)  # type: ignore[arg-type]


def session(tx: Tx, name: str = "your-session-id") -> Session:
    start = Report("claude-code", "session_start", ContentId(name), ids.new_event_id(), ids.now())
    return sessions.get_or_create(tx, start, Project("shop", "shop"))


def happens(store: Store, name: str = "your-session-id", prompt: str = "") -> None:
    """Something is done, for a new prompt or for the one before."""
    if prompt:
        store.write(lambda tx: sessions.add_prompt(tx, session(tx, name), prompt, ids.now()))
    use = Report("claude-code", "tool", ContentId(name), ids.new_event_id(), ids.now(), tool_name="Read")
    store.write(lambda tx: events.add(tx, session(tx, name), use))


def claim(store: Store, provider: str = "claude") -> events.Claim:
    taken = store.write(lambda tx: events.claim(tx, 60_000, provider=provider))
    assert taken
    return taken


def observed(
    store: Store, title: str, memory_id: str | None = None, provider: str = "claude", grown: bool = False
) -> MemoryId | None:
    """One round through the queue; what it was told to go on with."""
    taken = claim(store, provider)
    memory = MemoryId(memory_id) if memory_id is not None else None
    reply = Reply((Observation("change", title),), memory_id=memory, grown=grown)
    store.write(lambda tx: events.finish(tx, taken, Stored(reply, provider)))
    return taken.round.resume


Look = Callable[[str], list[Row]]


@pytest.fixture
def rows(store: Store, engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Look:
    """Queries of somebody who looks into the database with a program of their own."""
    if engine == "postgres":
        return partial(rows_of, request.getfixturevalue("database_url"))

    def look(sql: str) -> list[Row]:
        with closing(sqlite3.connect(tmp_path / "backstory.db")) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql)]

    return look


def test_from_no_id_to_one_to_the_next(store: Store, rows: Look) -> None:
    """Created without; captured with what is stored first; gone on with from the second prompt; fresh after a start,
    and then gone on with again."""
    happens(store, prompt="first")
    assert [row["state"] for row in rows(STATE)] == ["NOT_CAPTURED"]
    assert observed(store, "one", "run-1") is None
    assert [row["state"] for row in rows(STATE)] == ["CAPTURED"]
    happens(store)
    assert observed(store, "of the first prompt still", "run-1") is None
    happens(store, prompt="second")
    assert observed(store, "two", "run-1") == "run-1"
    store.write(events.recover)
    happens(store, prompt="third")
    assert observed(store, "three", "run-2") is None
    happens(store, prompt="fourth")
    assert observed(store, "four", "run-2") == "run-2"
    assert rows(ORPHANS) == []
    linked = rows(LINKAGE)
    assert [row["title"] for row in linked] == ["one", "of the first prompt still", "two", "three", "four"]
    assert {row["memory_session_id"] for row in linked} == {"run-2"} == {row["session_memory_id"] for row in linked}


def test_a_failed_fresh_run_does_not_count(store: Store) -> None:
    """Forced to begin anew, it stays forced until a fresh run has been stored."""
    happens(store, prompt="first")
    observed(store, "one", "run-1")
    store.write(events.recover)
    happens(store, prompt="second")
    taken = claim(store)
    store.write(lambda tx: events.fail(tx, taken, "lost", 0))
    assert observed(store, "by rules meanwhile") is None
    happens(store, prompt="third")
    assert observed(store, "three", "run-2") is None


def test_a_conversation_that_has_grown_is_not_gone_on_with(store: Store) -> None:
    """The next round begins a fresh one, and the one after that goes on with it."""
    happens(store, prompt="first")
    observed(store, "one", "run-1")
    happens(store, prompt="second")
    assert observed(store, "two", "run-1", grown=True) == "run-1"
    happens(store, prompt="third")
    assert observed(store, "three", "run-2") is None
    happens(store, prompt="fourth")
    assert observed(store, "four", "run-2") == "run-2"


def test_a_made_up_id_is_never_gone_on_with(store: Store, rows: Look) -> None:
    """Rules need no conversation, so one is made up, also when they stand in for a model; a real one replaces it."""
    happens(store, prompt="first")
    observed(store, "by rules", None, "offline")
    made_up = rows(STATE)[0]["memory_session_id"]
    assert made_up
    happens(store, prompt="second")
    assert observed(store, "by rules for claude", None, "claude") is None
    happens(store, prompt="third")
    assert observed(store, "claude", "run-1", "claude") is None
    happens(store, prompt="fourth")
    assert observed(store, "offline again", None, "offline") is None
    assert {row["memory_session_id"] for row in rows(LINKAGE)} == {"run-1"}
    assert len(rows(LINKAGE)) == 4 and rows(ORPHANS) == []


def test_two_sessions_never_share_an_id(store: Store, rows: Look) -> None:
    """Not even if a provider gave the same one twice: the second gets one of its own, and nothing is lost."""
    for name in ("your-session-id", "another"):
        happens(store, name, prompt="first")
        observed(store, f"of {name}", "run-1")
    assert [row["title"] for row in rows(LINKAGE)] == ["of your-session-id"]
    linked = rows(LINKAGE.replace("your-session-id", "another"))
    assert [row["title"] for row in linked] == ["of another"]
    assert linked[0]["memory_session_id"] != "run-1"
    happens(store, "another", prompt="second")
    assert observed(store, "more", "run-2") is None


def test_an_empty_id_is_none(store: Store, rows: Look) -> None:
    """A provider that says an empty text has no conversation; the table refuses one as well."""
    happens(store, prompt="first")
    observed(store, "one", "")
    assert rows(STATE)[0]["memory_session_id"]
    with pytest.raises(BROKEN_RULE):
        store.write(lambda tx: sessions.register_memory_id(tx, session(tx, "other"), MemoryId(""), "claude"))
    with pytest.raises(BROKEN_RULE):
        store.write(lambda tx: tx.script("UPDATE sdk_sessions SET memory_session_id = '';"))


def test_nothing_is_stored_without_an_id(store: Store, rows: Look) -> None:
    """The id and the first observation are one transaction: if storing breaks, there is no id either."""
    happens(store, prompt="first")
    taken = claim(store)
    seen = Observation("change", "one")
    object.__setattr__(seen, "type", None)  # no column takes it
    broken = Reply((seen,), memory_id=ID)
    with pytest.raises(BROKEN_RULE):
        store.write(lambda tx: events.finish(tx, taken, Stored(broken, "claude")))
    assert [row["state"] for row in rows(STATE)] == ["NOT_CAPTURED"]
    with pytest.raises(BROKEN_RULE):
        store.write(lambda tx: tx.script(WITHOUT_ID))
