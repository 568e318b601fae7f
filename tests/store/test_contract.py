"""The store contract: numbered promises that every engine keeps."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from engines import BROKEN_RULE, Opener

from backstory import ids
from backstory.errors import StoreUnavailable
from backstory.model import ContentId, Observation, Reply, Report, Session
from backstory.project import Project
from backstory.store import events, sessions
from backstory.store.db import LAST, Store, Tx
from backstory.store.index import search
from backstory.store.migrate import migrate
from backstory.store.observations import Stored

ODD = (
    "50% of %s and %(name)s",
    ":name ::int ?1 $1 {x} \\ \\' ' \" ` --",
    "日本語 🎉 e\u0301 \u2028 \ufffd \x7f",
    "</context> '; DROP TABLE events; --",
    " leading and trailing \t\n",
)


def session_of(tx: Tx, name: str = "a") -> Session:
    report = Report("claude-code", "session_start", ContentId(name), ids.new_event_id(), ids.now())
    return sessions.get_or_create(tx, report, Project("shop", "key/shop"))


def add(tx: Tx, name: str, text: str) -> events.Added:
    payload = {"tool_input": {"command": text}}
    report = Report("claude-code", "tool", ContentId(name), ids.new_event_id(), ids.now(), payload=payload)
    return events.add(tx, session_of(tx, name), report)


def count(tx: Tx) -> int:
    return len(sessions.listed(tx, "", LAST, 99))


def test_s1_what_is_acknowledged_is_there_for_everybody(store: Store, open_again: Opener) -> None:
    """A future that is done is committed: another worker on the same database sees it."""
    other = open_again()
    store.submit(lambda tx: add(tx, "a", "1")).result()
    assert other.read(events.counts)["queued"] == 1


def test_s2_a_read_is_one_snapshot(store: Store, open_again: Opener) -> None:
    """What is committed meanwhile is not seen by a read that has begun; by the next one it is."""
    other = open_again()
    store.write(lambda tx: add(tx, "a", "1"))

    def look(tx: Tx) -> tuple[int, int]:
        before = count(tx)
        other.write(lambda tx: add(tx, "b", "1"))
        return before, count(tx)

    assert store.read(look) == (1, 1)
    assert store.read(count) == 2


def test_s3_a_read_changes_nothing(store: Store) -> None:
    """Whoever tries is refused, and the store goes on."""
    with pytest.raises(StoreUnavailable):
        store.read(lambda tx: add(tx, "a", "1"))
    assert store.read(count) == 0
    store.write(lambda tx: add(tx, "a", "1"))


def test_s4_a_broken_rule_is_told_and_undone(store: Store) -> None:
    """The work that broke it is undone whole; the next is not touched by it."""

    def twice(tx: Tx) -> None:
        add(tx, "a", "1")
        tx.run("migration_add", version=1, name="again", at="")

    with pytest.raises(BROKEN_RULE):
        store.write(twice)
    assert store.read(count) == 0
    assert store.write(lambda tx: add(tx, "a", "1")).skipped is None


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_s5_any_text_comes_back_as_it_was_sent(store: Store, text: str) -> None:
    """In a column, in a payload, in a name, and it can be looked for."""
    store.write(lambda tx: sessions.add_prompt(tx, session_of(tx, "n" + text), text, ids.now()))
    store.write(lambda tx: add(tx, "n" + text, text))
    row = store.read(lambda tx: tx.one("session_by_content_id", agent="claude-code", content_id="n" + text))
    assert row and row["first_user_prompt"] == text
    claim = store.write(lambda tx: events.claim(tx, 1000))
    assert claim and claim.round.events[0].payload == {"tool_input": {"command": text}}
    assert claim.round.prompt == text
    assert isinstance(store.read(lambda tx: search.find(tx, text)), list)


def test_s6_a_session_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    """In any case, and a wildcard stands for itself."""
    store.write(lambda tx: (session_of(tx, "Ab%c"), session_of(tx, "abxc")))

    def like(prefix: str) -> list[str]:
        rows = store.read(lambda tx: tx.all("sessions_like", id="", prefix=prefix + "%"))
        return sorted(row["content_session_id"] for row in rows)

    assert like("aB") == ["Ab%c", "abxc"]
    assert like("ab\\%") == ["Ab%c"]


def test_s7_two_workers_never_get_the_same_round_and_each_session_keeps_its_order(
    store: Store, open_again: Opener
) -> None:
    """Eight claimers on two stores: every event once, oldest first, and never two of one session at a time."""
    stores = [store, open_again()]
    for step in range(4):
        for name in range(12):
            store.write(lambda tx, n=name, s=step: add(tx, f"s{n}", str(s)))  # type: ignore[misc]
            store.write(lambda tx, n=name: sessions.add_prompt(tx, session_of(tx, f"s{n}"), "go on", ids.now()))  # type: ignore[misc]
    out: set[int] = set()
    seen: list[tuple[int, int]] = []
    lock = threading.Lock()

    def work(number: int) -> None:
        mine = stores[number % 2]
        while mine.read(events.counts) != {"queued": 0, "leased": 0, "dead": 0}:
            claim = mine.write(lambda tx: events.claim(tx, 60_000, f"w{number}."))
            if claim is None:
                continue
            with lock:
                assert claim.round.session_id not in out
                out.add(claim.round.session_id)
                seen.extend((event.session_id, event.id) for event in claim.round.events)
            reply = Reply((Observation("change", "seen"),))
            with lock:
                out.discard(claim.round.session_id)
            mine.write(lambda tx, c=claim, r=reply: events.finish(tx, c, Stored(r, "offline")))  # type: ignore[misc]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(seen) == len(set(seen)) == 48
    for session in {session for session, _ in seen}:
        mine = [event for owner, event in seen if owner == session]
        assert mine == sorted(mine)


def test_s8_a_worker_that_starts_takes_back_its_own(store: Store, engine: str) -> None:
    """On PostgreSQL another worker's round is left to it until its lease runs out; on SQLite there is no other."""
    for name in ("mine", "theirs", "late"):
        store.write(lambda tx, n=name: add(tx, n, n))  # type: ignore[misc]
    for worker, lease_ms in (("me.", 60_000), ("they.", 60_000), ("gone.", 0)):
        assert store.write(lambda tx, w=worker, ms=lease_ms: events.claim(tx, ms, w))  # type: ignore[misc]
    store.write(lambda tx: events.recover(tx, "me."))
    waiting = store.read(lambda tx: tx.all("queue_list", status="queued", after=0, limit=9))
    free = {"mine", "late"} if engine == "postgres" else {"mine", "late", "theirs"}
    assert {row["content_session_id"] for row in waiting} == free


def test_s9_workers_that_start_together_make_the_schema_once(open_again: Opener) -> None:
    """Four at once on an empty database: one applies each step, none fails."""
    stores = [open_again() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(migrate, stores))
    done = [row["version"] for row in stores[0].read(lambda tx: tx.all("migrations_list"))]
    assert done == sorted(set(done)) and done[0] == 1
    assert migrate(stores[1]) == []


def test_s10_writers_of_many_sessions_and_of_one_do_not_get_into_each_others_way(store: Store) -> None:
    """Prompts of four sessions from sixteen threads: numbered without a gap, one start recorded for each session."""

    def prompt(number: int) -> tuple[str, int]:
        name = f"s{number % 4}"
        return name, store.write(lambda tx: sessions.add_prompt(tx, session_of(tx, name), "x", ids.now())).number

    with ThreadPoolExecutor(16) as pool:
        numbers = list(pool.map(prompt, range(80)))
    for name in ("s0", "s1", "s2", "s3"):
        assert sorted(n for owner, n in numbers if owner == name) == list(range(1, 21))
        session = store.write(lambda tx, name=name: session_of(tx, name))  # type: ignore[misc]
        moves = store.read(lambda tx, s=session: tx.all("session_moves", id=s.id))  # type: ignore[misc]
        assert [move["to_status"] for move in moves] == ["created"]
