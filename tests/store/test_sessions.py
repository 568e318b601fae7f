"""Sessions and their ids."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest
from engines import BROKEN_RULE, Opener

from backstory import ids
from backstory.model import ContentId, Kind, MemoryId, Observation, Prompt, Reply, Report, Session, SessionStatus, Turn
from backstory.project import Project
from backstory.sessions.states import SessionKind
from backstory.store import events, queries, sessions
from backstory.store.db import Store, Tx
from backstory.store.migrate import migrate
from backstory.store.observations import Stored

SHOP = Project("shop", "github.com/dev/shop")


def make(tx: Tx, content_id: str = "c1", agent: str = "claude-code", source: str = "startup") -> Session:
    start = Report(
        agent, "session_start", ContentId(content_id), ids.new_event_id(), ids.now(), payload={"source": source}
    )
    return sessions.get_or_create(tx, start, SHOP)


def tool(content_id: str = "c1", name: str = "Read", use: str | None = None, event_id: str | None = None) -> Report:
    return Report(
        agent="claude-code",
        kind="tool",
        content_id=ContentId(content_id),
        event_id=event_id or ids.new_event_id(),
        occurred_at=ids.now(),
        tool_name=name,
        tool_use_id=use,
        payload={"tool_input": {"file_path": "a.py"}, "tool_response": "text"},
    )


def observe(store: Store, text: str = "seen", memory_id: str | None = None, provider: str = "offline") -> events.Claim:
    claim = store.write(lambda tx: events.claim(tx, 60_000))
    assert claim is not None
    made = Observation("change", text, event_ids=tuple(e.id for e in claim.round.events))
    reply = Reply((made,), memory_id=MemoryId(memory_id) if memory_id else None)
    store.write(lambda tx: events.finish(tx, claim, Stored(reply, provider)))
    return claim


def test_i2_agent_and_its_id_are_unique(store: Store) -> None:
    """The same id of two agents is two sessions; of one agent it can't be stored twice."""
    first = store.write(lambda tx: make(tx, "same", "claude-code"))
    other = store.write(lambda tx: make(tx, "same", "codex"))
    assert first.id != other.id
    with pytest.raises(BROKEN_RULE):
        store.write(
            lambda tx: tx.script(
                "INSERT INTO sdk_sessions (agent, content_session_id, created_at, last_event_at) "
                "VALUES ('codex', 'same', '', '');"
            )
        )


def test_i3_our_key_never_changes(store: Store) -> None:
    """Whatever becomes of a session, its number stays."""
    number = store.write(make).id
    store.write(lambda tx: sessions.add_prompt(tx, make(tx), "hello", ids.now()))
    store.write(lambda tx: sessions.register_memory_id(tx, make(tx), MemoryId("m1"), "claude"))
    store.write(lambda tx: sessions.move(tx, make(tx), "end", "clear"))
    assert store.write(make).id == number


def test_i4_nothing_is_stored_before_its_session(store: Store) -> None:
    """No child without its session, and no observation without a memory id."""
    for sql in (
        "INSERT INTO events (event_id, session_id, kind, occurred_at, created_at, status) "
        "VALUES ('e', 99, 'tool', '', '', 'done');",
        "INSERT INTO user_prompts (session_id, prompt_number, created_at) VALUES (99, 1, '');",
        "INSERT INTO observations (session_id, prompt_number, memory_session_id, project, project_key, type, "
        "title, observed_json, provider, created_at) "
        "VALUES (99, 1, 'm', '', '', 'change', 't', '{}', 'x', '');",
    ):
        with pytest.raises(BROKEN_RULE):
            store.write(lambda tx, sql=sql: tx.script(sql))  # type: ignore[misc]
    session = store.write(make)
    assert session.memory_session_id is None
    store.write(lambda tx: events.add(tx, make(tx), tool()))
    observe(store)
    stored = store.write(make).memory_session_id
    assert stored
    assert store.read(lambda tx: tx.all("observations_standing", session_id=session.id))


def test_i5_get_or_create_is_idempotent_under_concurrency(store: Store) -> None:
    """Two hundred at once make one row."""
    with ThreadPoolExecutor(32) as pool:
        numbers = list(pool.map(lambda _: store.write(make).id, range(200)))
    assert set(numbers) == {numbers[0]}


def test_i6_a_late_event_belongs_to_the_prompt_it_happened_under(store: Store) -> None:
    """By the agent's own id of the prompt, and by the clock where it gives none."""
    session = store.write(make)
    store.write(lambda tx: sessions.add_prompt(tx, make(tx), "first", "2026-01-01T10:00:00.000Z", prompt_id="p1"))
    store.write(lambda tx: sessions.add_prompt(tx, make(tx), "second", "2026-01-01T11:00:00.000Z", prompt_id="p2"))
    by_id = store.read(lambda tx: sessions.prompt_for(tx, session, "p1", "2026-01-01T12:00:00.000Z"))
    by_clock = store.read(lambda tx: sessions.prompt_for(tx, session, None, "2026-01-01T10:30:00.000Z"))
    newest = store.read(lambda tx: sessions.prompt_for(tx, session, None, "2026-01-01T12:00:00.000Z"))
    assert (by_id.number, by_clock.number, newest.number) == (1, 1, 2)


def test_an_end_that_is_reported_late_does_not_complete_a_resumed_session(store: Store) -> None:
    """A slow hook leaves the end in the spool, too. It is read after the next prompt has resumed the session."""
    store.write(lambda tx: sessions.move(tx, make(tx), "prompt", at="2026-01-01T00:00:01Z"))
    store.write(lambda tx: sessions.move(tx, make(tx), "end", "other", "2026-01-01T00:00:02Z"))
    store.write(lambda tx: sessions.move(tx, make(tx), "prompt", at="2026-01-01T00:00:03Z"))
    assert store.write(lambda tx: sessions.move(tx, make(tx), "end", "other", "2026-01-01T00:00:02Z")) == "active"
    assert store.write(lambda tx: sessions.move(tx, make(tx), "end", "other", "2026-01-01T00:00:04Z")) == "completed"


def test_a_completed_session_opens_again_with_a_prompt_and_each_move_is_recorded(store: Store) -> None:
    """SessionEnd completes, a late tool use does not re-open, a prompt does."""
    session = store.write(make)
    for cause in ("prompt", "end", "work", "prompt"):
        store.write(lambda tx, cause=cause: sessions.move(tx, make(tx), cause))  # type: ignore[misc]
    moves = store.read(lambda tx: tx.all("session_moves", id=session.id))
    assert [m["to_status"] for m in moves] == ["created", "active", "completed", "active"]


@pytest.mark.parametrize(("kind", "cause", "status"), [("hook", "idle", "paused"), ("agent", "fail", "failed")])
def test_what_is_reported_late_leaves_a_session_at_rest(store: Store, kind: str, cause: str, status: str) -> None:
    """A prompt opens it again, unless it was sent before. A rest in the future is that of a wrong clock."""
    earlier, now, later = (ids.from_ms(ids.now_ms() + minutes * 60_000) for minutes in (-10, 0, 10))

    def work(tx: Tx, moment: str, reported: str) -> SessionStatus:
        session = make(tx, f"{cause} {moment}")
        sessions.move(tx, session, "prompt", at=earlier)
        sessions.move(tx, sessions.get(tx, session.id), cause, at=moment, kind=SessionKind(kind))
        assert sessions.get(tx, session.id).status == status
        return sessions.move(tx, sessions.get(tx, session.id), "prompt", at=reported)

    before = ids.from_ms(ids.now_ms() - 5 * 60_000)
    assert store.write(lambda tx: work(tx, before, earlier)) == status
    assert store.write(lambda tx: work(tx, before, now)) == "active"
    assert store.write(lambda tx: work(tx, later, now)) == "active"


def test_a_cleared_session_is_the_parent_of_the_next(store: Store) -> None:
    """`/clear` gives a new id; the two are linked."""
    old = store.write(make)
    store.write(lambda tx: sessions.move(tx, make(tx), "end", "clear"))
    new = store.write(lambda tx: make(tx, "c2", source="clear"))
    row = store.read(lambda tx: tx.one("session_by_id", id=new.id))
    assert row and row["parent_id"] == old.id


def test_i17_migrations_are_idempotent_and_lossless(store: Store, open_again: Opener) -> None:
    """Run again they do nothing, and a database that was in use opens with all it had."""
    store.write(lambda tx: events.add(tx, make(tx), tool()))
    observe(store, "kept")
    assert migrate(store) == []
    store.close()
    again = open_again()
    assert migrate(again) == []
    assert again.read(lambda tx: tx.all("observations_recent", project_key=SHOP.key, limit=9))[0]["title"] == "kept"


def test_a_database_of_a_newer_version_is_left_alone(store: Store) -> None:
    """An old program does not touch what it does not understand."""
    from backstory.errors import StoreUnavailable

    store.write(lambda tx: tx.run("migration_add", version=9999, name="later", at=ids.now()))
    with pytest.raises(StoreUnavailable, match="newer"):
        migrate(store)


@pytest.mark.parametrize(("record", "table"), [(Session, "sdk_sessions"), (Prompt, "user_prompts"), (Turn, "turns")])
def test_a_record_has_the_columns_of_its_table_in_their_order(record: type, table: str) -> None:
    """The routes show records, so the order of their fields is the order of the JSON."""
    names = [field.name for field in dataclasses.fields(record) if field.name != "is_new"]
    assert names == list(queries.owned()[table].columns)


def test_the_states_of_a_session_are_those_of_the_schema() -> None:
    """A state is added in both places."""
    assert queries.owned()["sdk_sessions"].columns["status"].choices == tuple(SessionStatus)


def test_a_stop_that_two_hooks_report_is_stored_once(store: Store) -> None:
    """Also if the second comes late. With other words, or after another event, it is another stop."""

    def stop(tx: Tx, second: int, says: str, kind: Kind = "stop") -> str:
        at, payload = f"2026-01-01T00:00:{second:02}.000Z", {"last_assistant_message": says}
        report = Report("claude-code", kind, ContentId("a"), ids.new_event_id(), at, prompt_id="p", payload=payload)
        return str(events.add(tx, sessions.get_or_create(tx, report, Project("shop", "key/shop")), report).skipped)

    assert store.write(lambda tx: stop(tx, 0, "Done.")) == "None"
    assert store.write(lambda tx: stop(tx, 20, "Done.")) == "duplicate"
    assert store.write(lambda tx: stop(tx, 21, "All done.")) == "None"
    store.write(lambda tx: stop(tx, 22, "", "tool"))
    assert store.write(lambda tx: stop(tx, 23, "Done.")) == "None"
