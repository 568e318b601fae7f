"""The queue: what waits is claimed in order, finished whole, tried again, and set aside when it can't be done."""

from __future__ import annotations

import asyncio

import pytest
from engines import BROKEN_RULE, Opener

from backstory import ids
from backstory.errors import LeaseLost
from backstory.model import ContentId, Observation, Reply, Report, Round, Session, Summary
from backstory.observe.observer import Observer, Pace
from backstory.project import Project
from backstory.store import events, noted, sessions
from backstory.store.db import Store, Tx
from backstory.store.observations import Stored


def session_of(tx: Tx, name: str) -> Session:
    report = Report("claude-code", "session_start", ContentId(name), ids.new_event_id(), ids.now())
    return sessions.get_or_create(tx, report, Project("shop", "shop"))


def put(
    store: Store,
    name: str,
    text: str = "",
    kind: str = "tool",
    event_id: str | None = None,
    use: str | None = None,
    settle_ms: int = 0,
) -> events.Added:
    report = Report(
        agent="claude-code",
        kind=kind,  # type: ignore[arg-type]
        content_id=ContentId(name),
        event_id=event_id or ids.new_event_id(),
        occurred_at=ids.now(),
        tool_name="Bash" if kind == "tool" else None,
        tool_use_id=use,
        payload={"tool_input": {"command": text}},
    )
    return store.write(lambda tx: events.add(tx, session_of(tx, name), report, settle_ms))


def take(store: Store, lease_ms: int = 60_000) -> events.Claim | None:
    return store.write(lambda tx: events.claim(tx, lease_ms))


def done(*titles: str) -> Stored:
    return Stored(Reply(tuple(Observation("change", title) for title in titles)), "offline")


def commands(claim: events.Claim | None) -> list[str]:
    return [e.payload["tool_input"]["command"] for e in claim.round.events] if claim else []


def test_i8_replaying_an_event_changes_nothing(store: Store) -> None:
    """A second sending by event id, or by tool use id, is a no-op; the same ids elsewhere are not."""
    first = put(store, "a", event_id="e1", use="t1")
    assert first.skipped is None
    assert put(store, "a", event_id="e1").skipped == "duplicate"
    assert put(store, "a", use="t1").id == first.id
    assert put(store, "b", event_id="e1", use="t1").skipped is None
    assert len(store.read(lambda tx: tx.all("queue_list", status="", after=0, limit=99))) == 2


def test_a_round_is_claimed_together_and_in_order_and_sessions_go_in_parallel(store: Store) -> None:
    """One claim is one session's round; while it is out, another session's can be had, its own can't."""
    for text in ("1", "2", "3"):
        put(store, "a", text)
    put(store, "b", "b1")
    first = take(store)
    assert commands(first) == ["1", "2", "3"]
    put(store, "a", "4")
    second = take(store)
    assert commands(second) == ["b1"]
    assert take(store) is None
    assert first
    store.write(lambda tx: events.finish(tx, first, done("seen")))
    third = take(store)
    assert commands(third) == ["4"]
    assert third and [e.payload["tool_input"]["command"] for e in third.round.earlier] == ["1", "2", "3"]


def test_a_round_waits_until_it_is_quiet_or_over(store: Store) -> None:
    """While it goes on it is left alone; its end lets it be observed at once."""
    put(store, "a", "1", settle_ms=60_000)
    assert take(store) is None
    due = store.read(events.next_due)
    assert due is not None and due > ids.now_ms() + 50_000
    put(store, "a", kind="stop", settle_ms=60_000)
    claim = take(store)
    assert claim and claim.round.stop is not None and len(claim.round.events) == 2


def test_a_session_that_ended_settles_until_its_last_round_is_stored(store: Store) -> None:
    """While its transcript is read, and while its events wait or are being observed."""

    def is_settling(project: str = "shop") -> bool:
        return store.read(lambda tx: events.is_settling(tx, project))

    put(store, "a", "1")
    assert not is_settling()  # it may go on
    session = store.write(lambda tx: session_of(tx, "a"))
    store.write(lambda tx: sessions.move(tx, session, "end", "clear", ids.now()))
    assert is_settling()
    assert not is_settling("another")
    claim = take(store)
    assert claim and is_settling()
    summary = Summary(request="Count.", notes="Not committed: a.py.")
    store.write(lambda tx: events.finish(tx, claim, Stored(Reply(summary=summary), "offline")))
    assert not is_settling()
    store.write(lambda tx: events.close_round(tx, session.id, hold_ms=60_000))
    assert is_settling()
    number = claim.round.prompt_number
    assert store.read(lambda tx: noted.notes_before(tx, session.id, number)) == ""
    assert store.read(lambda tx: noted.notes_before(tx, session.id, number + 1)) == summary.notes


def test_what_happens_now_goes_before_an_import(store: Store) -> None:
    """A hundred rounds of last year were queued first; the one of this moment is claimed before them."""

    def old(tx: Tx, number: int) -> None:
        at = f"2025-01-01T00:{number % 60:02}:00.000Z"
        report = Report("claude-code", "stop", ContentId(f"old{number}"), f"e{number}", at)
        events.add(tx, session_of(tx, f"old{number}"), report)

    for number in range(100):
        store.write(lambda tx, number=number: old(tx, number))  # type: ignore[misc]
    put(store, "live", kind="stop")
    claims = [take(store), take(store)]
    assert [claim.round.content_id for claim in claims if claim] == ["live", "old0"]


def test_a_newer_prompt_ends_the_round_before_it(store: Store) -> None:
    """What was left of the first round is observed although the second goes on."""
    put(store, "a", "1", settle_ms=60_000)
    store.write(lambda tx: sessions.add_prompt(tx, session_of(tx, "a"), "next", ids.now()))
    put(store, "a", "2", settle_ms=60_000)
    assert commands(take(store)) == ["1"]


def test_i7_a_batch_is_stored_whole_or_not_at_all(store: Store) -> None:
    """If one row of an answer can't be stored, nothing of it is, and its events are still to be done."""
    put(store, "a", "1")
    claim = take(store)
    assert claim
    broken = Stored(Reply((Observation("change", "fine"), Observation("change", None))), "offline")  # type: ignore[arg-type]
    with pytest.raises((*BROKEN_RULE, TypeError, AttributeError)):
        store.write(lambda tx: events.finish(tx, claim, broken))
    assert store.read(lambda tx: tx.all("observations_recent", project_key="shop", limit=9)) == []
    assert store.read(events.counts)["leased"] == 1
    assert store.write(lambda tx: session_of(tx, "a")).memory_session_id is None


def test_a_lease_that_ran_out_gives_the_round_to_another_and_only_one_stores(store: Store) -> None:
    """The late one is refused: observed once."""
    put(store, "a", "1")
    late = take(store, lease_ms=0)
    second = take(store)
    assert late and second
    store.write(lambda tx: events.finish(tx, second, done("second")))
    with pytest.raises(LeaseLost):
        store.write(lambda tx: events.finish(tx, late, done("late")))
    assert [o["title"] for o in store.read(lambda tx: tx.all("observations_recent", project_key="shop", limit=9))] == [
        "second"
    ]


def test_what_a_dead_worker_had_taken_is_free_again_at_the_next_start(store: Store) -> None:
    """No waiting for the lease."""
    put(store, "a", "1")
    take(store)
    store.write(events.recover)
    assert commands(take(store)) == ["1"]


def is_open(store: Store) -> bool:
    """Whether anything waits or is being observed; in one look, between two of which it could change its state."""
    counts = store.read(events.counts)
    return bool(counts["queued"] + counts["leased"])


async def observe_all(store: Store, provider: object, wanted: int) -> list[Round]:
    """Run the real observer until nothing is open."""
    seen: list[Round] = []
    observer = Observer(store, provider, retry_s=0.005, listener=lambda r, t: seen.append(r))  # type: ignore[arg-type]
    observer.job.start()
    async with asyncio.timeout(120):
        while is_open(store):
            await asyncio.sleep(0.01)
    await observer.job.stop()
    return seen


def test_i10_poison_is_set_aside_and_blocks_nobody(store: Store) -> None:
    """One event that can't be observed is dead after five tries; its neighbours and other sessions are not held up."""
    tries: list[int] = []

    async def provider(round: Round) -> Reply:
        if any(e.payload["tool_input"]["command"] == "poison" for e in round.events):
            tries.append(len(round.events))
            raise ValueError("canary-in-an-error")
        return Reply(
            tuple(Observation("change", e.payload["tool_input"]["command"], event_ids=(e.id,)) for e in round.events)
        )

    for text in ("1", "poison", "3"):
        put(store, "a", text)
    put(store, "b", "b1")
    asyncio.run(observe_all(store, provider, 4))
    titles = {o["title"] for o in store.read(lambda tx: tx.all("observations_recent", project_key="shop", limit=9))}
    assert titles == {"1", "3", "b1"}
    dead = store.read(lambda tx: tx.all("queue_list", status="dead", after=0, limit=9))
    assert [row["attempts"] for row in dead] == [5]
    assert "canary" not in dead[0]["last_error"]
    assert store.write(lambda tx: tx.run("queue_retry", id=dead[0]["id"])) == 1
    assert store.read(events.counts)["queued"] == 1


def test_a_provider_that_hangs_is_cut_off(store: Store) -> None:
    """The lease's time is all it gets; then the round is tried again."""
    calls = 0

    async def provider(round: Round) -> Reply:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(60)
        return Reply((), Summary(request="done"))

    put(store, "a", kind="stop")

    async def run() -> None:
        observer = Observer(store, provider, pace=lambda: Pace(0.2), retry_s=0.005)
        observer.job.start()
        async with asyncio.timeout(120):
            while is_open(store):
                await asyncio.sleep(0.01)
        await observer.job.stop()

    asyncio.run(run())
    assert calls >= 2  # on a busy machine the second may take too long, too


def test_an_idle_worker_takes_over_what_a_dead_one_had(open_again: Opener, store: Store) -> None:
    """It had nothing to do when the other took the round, and nobody wakes it: it looks when the lease runs out."""
    if store.engine == "sqlite":
        pytest.skip("SQLite has one worker")
    other = open_again()

    async def run() -> None:
        observer = Observer(other, provider, worker="b.", pace=lambda: Pace(1.0), retry_s=0.005)
        observer.job.start()
        while not observer._wake_event._waiters:
            await asyncio.sleep(0.01)
        put(store, "a", "1")
        assert store.write(lambda tx: events.claim(tx, 1000, "a."))  # and dies
        async with asyncio.timeout(120):
            while store.read(events.counts)["leased"]:
                await asyncio.sleep(0.02)
        await observer.job.stop()

    async def provider(round: Round) -> Reply:
        return Reply((Observation("change", "taken over"),))

    asyncio.run(run())
    assert [o["title"] for o in store.read(lambda tx: tx.all("observations_recent", project_key="shop", limit=9))] == [
        "taken over"
    ]


def test_one_bad_write_takes_no_other_along(store: Store) -> None:
    """Writers share a commit, not their mistakes."""

    def bad(tx: Tx) -> int:
        session_of(tx, "half")
        raise RuntimeError

    futures = [store.submit(bad), store.submit(lambda tx: session_of(tx, "good").id), store.submit(bad)]
    assert futures[1].result() > 0
    for future in (futures[0], futures[2]):
        with pytest.raises(RuntimeError):
            future.result()
    assert store.read(lambda tx: tx.one("session_by_content_id", agent="claude-code", content_id="half")) is None


def test_any_text_is_a_safe_query(store: Store) -> None:
    """Operators, quotes, emoji and nonsense give results or an empty list."""
    from backstory.store.index import indexing, search
    from backstory.store.index.hits import IndexedItem

    item = IndexedItem("prompt", 1, 1, "", "p", "p", "claude-code")
    store.write(lambda tx: indexing.put_words(tx, item, "", "parseDate handles week_numbers in src/dates.py"))
    for query in (
        '"',
        "AND OR NOT",
        "a* ^b",
        "NEAR(x, y)",
        '%_*"',
        "foo::bar->baz",
        "🎉",
        "",
        "日本語",
        "x" * 10_000,
        "-",
        "title:x",
    ):
        assert isinstance(store.read(lambda tx, q=query: search.find(tx, q)), list)  # type: ignore[misc]
