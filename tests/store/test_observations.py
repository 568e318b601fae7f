"""What is pinned and what was replaced, on both engines."""

from __future__ import annotations

from itertools import permutations

import pytest
from test_contract import add, session_of

from backstory import ids
from backstory.errors import BadInput, NotFound
from backstory.model import ClaimMark, ContentId, Event, Noted, Observation, Reply, Report, Round
from backstory.project import Project
from backstory.store import forget, forget_rows, observations, replaceable, sessions
from backstory.store.db import Row, Store, Tx
from backstory.store.index import search, vectors


def seen(tx: Tx, title: str, session: str = "a") -> int:
    """An observation of its own event."""
    added, row = add(tx, session, title), session_of(tx, session)
    event = Event(added.id, row.id, 1, "tool", "2026-01-01T00:00:00.000Z", None, None, {})
    whole = Round(row.id, ContentId(session), None, "claude-code", "shop", "", 1, "", (event,))
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
        store.write(lambda tx: observations.supersede(tx, old, new))

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
    store.write(lambda tx: observations.supersede(tx, one, two))
    store.write(lambda tx: observations.supersede(tx, two, three))
    store.write(lambda tx: forget.observation(tx, two, forget_rows.Forgotten()))
    assert store.read(lambda tx: of(tx, one))["superseded_by"] == three
    store.write(lambda tx: forget.observation(tx, three, forget_rows.Forgotten()))
    row = store.read(lambda tx: of(tx, one))
    assert (row["superseded_by"], row["superseded_at"]) == (None, None)


def test_a_pin_goes_on_to_what_replaces_it(store: Store) -> None:
    """What always stood in context still does, in its present form; history can't be pinned."""
    one, two = store.write(lambda tx: [seen(tx, title) for title in ("one", "two")])
    store.write(lambda tx: observations.pin(tx, one, True))
    store.write(lambda tx: observations.supersede(tx, one, two))

    def pinned(tx: Tx) -> list[int]:
        return [row["id"] for row in tx.all("observations_pinned", project_key="key/shop", limit=9)]

    assert store.read(pinned) == [two]
    store.write(lambda tx: observations.pin(tx, two, False))
    assert store.read(pinned) == []
    with pytest.raises(BadInput, match=f"replaced by #{two}"):
        store.write(lambda tx: observations.pin(tx, one, True))


def elsewhere(tx: Tx) -> None:
    """A session of another project."""
    report = Report("claude-code", "session_start", ContentId("elsewhere"), ids.new_event_id(), ids.now())
    sessions.get_or_create(tx, report, Project("till", "key/till"))


def round_of(tx: Tx, session: str = "b", at: str = "2026-02-01T00:00:00.000Z") -> Round:
    """A round that comes after all that is remembered."""
    added, row = add(tx, session, f"of {session} at {at}"), session_of(tx, session)
    event = Event(added.id, row.id, 1, "tool", at, "Bash", None, {})
    return Round(row.id, ContentId(session), None, "claude-code", "shop", "", 1, "", (event,))


def told(tx: Tx, round: Round, title: str, *replaces: int) -> int:
    """What a model said of a round, stored."""
    reply = Reply((Observation("decision", title, event_ids=(round.events[0].id,), replaces=replaces),))
    return observations.store(tx, round, observations.Stored(reply, "anthropic")).observation_ids[0]


def test_what_a_round_may_replace_is_about_the_same_and_holds(store: Store) -> None:
    """By its words or a file, a fix as well, which may have been undone; nothing that was replaced, is later, or
    another project's; a handful of it."""

    def remember(tx: Tx, title: str, kind: str = "decision", file: str = "", month: int = 1, name: str = "a") -> int:
        round = round_of(tx, name, at=f"2026-0{month}-01T00:00:00.000Z")
        seen = Observation(kind, title, files_read=(file,) if file else (), event_ids=(round.events[0].id,))
        return observations.store(tx, round, observations.Stored(Reply((seen,)), "offline")).observation_ids[0]

    def fill(tx: Tx) -> tuple[int, int, int]:
        for other in ("Releases are cut on Tuesdays", "Parser errors name a line", "Themes are kept in colours.css"):
            remember(tx, other)
        wanted = remember(tx, "Login sessions are cached in Redis")
        by_file = remember(tx, "Retries wait five seconds", "change", "src/retry.py")
        fix = remember(tx, "Fixed login sessions that Redis had cached", "bugfix")
        remember(tx, "Cached login sessions will leave Redis", month=3)
        elsewhere(tx)
        remember(tx, "Login sessions are cached in Redis there", name="elsewhere")
        old = remember(tx, "Cached login sessions: Redis in one process")
        observations.supersede(tx, old, wanted)
        return wanted, by_file, fix

    wanted, by_file, fix = store.write(fill)

    def shown(about: str, *files: str) -> list[int]:
        return [one.id for one in store.write(lambda tx: replaceable.find(tx, round_of(tx), about, files))]

    assert shown("Move the cached login sessions from Redis to Postgres") == [fix, wanted]
    assert shown("src/retry.py\nwait longer before retries", "src/retry.py") == [by_file]
    for nothing in ("Make the page wider", "login", "", '"* OR NEAR('):
        assert shown(nothing) == []
    store.write(lambda tx: [remember(tx, f"Login sessions are cached in Redis {n}") for n in range(10)])
    assert len(shown("Move the cached login sessions from Redis to Postgres")) == replaceable.MAX_SHOWN


def test_a_model_may_replace_what_holds_and_the_same_twice_is_once(store: Store) -> None:
    """What is gone, was replaced meanwhile, is later or of another project is passed over; a pin goes on."""
    old, pinned, done, by = store.write(lambda tx: [seen(tx, title) for title in ("old", "pinned", "done", "by")])
    store.write(elsewhere)
    other = store.write(lambda tx: seen(tx, "other", "elsewhere"))
    store.write(lambda tx: observations.pin(tx, pinned, True))
    store.write(lambda tx: observations.supersede(tx, done, by))
    round = store.write(round_of)
    new = store.write(lambda tx: told(tx, round, "new", 4711, other, done, old, pinned))
    again = store.write(lambda tx: told(tx, round, "new", old, pinned))
    pointers = {n: store.read(lambda tx, n=n: of(tx, n)["superseded_by"]) for n in (old, pinned, done, other, new)}  # type: ignore[misc]
    assert pointers == {old: new, pinned: new, done: by, other: None, new: None}
    assert store.read(lambda tx: of(tx, new))["pinned_at"] and not store.read(lambda tx: of(tx, again))["pinned_at"]
    before = store.write(lambda tx: round_of(tx, at="2025-01-01T00:00:00.000Z"))
    store.write(lambda tx: told(tx, before, "long ago", new))
    assert store.read(lambda tx: of(tx, new))["superseded_by"] is None


def test_what_two_sessions_learned_is_one_memory_with_a_count(store: Store) -> None:
    """The later one stands and names the earlier; with another number it is another thing. If the rules drop the later
    one, the earlier stands again."""
    gotcha = "The proxy cuts connections after 60 seconds"

    def learn(tx: Tx, session: str, month: int, title: str, *replaces: int) -> int:
        round = round_of(tx, session, at=f"2026-0{month}-01T00:00:00.000Z")
        seen = Observation("discovery", title, event_ids=(round.events[0].id,), replaces=replaces)
        return observations.store(tx, round, observations.Stored(Reply((seen,)), "offline")).observation_ids[0]

    first = store.write(lambda tx: learn(tx, "a", 1, gotcha))
    other = store.write(lambda tx: learn(tx, "b", 2, gotcha.replace("60", "90")))
    second = store.write(lambda tx: learn(tx, "c", 3, f"{gotcha}, always"))
    rows = store.read(lambda tx: [of(tx, number) for number in (first, other, second)])
    assert [row["superseded_by"] for row in rows] == [second, None, None]
    assert [row["times_learned"] for row in rows] == [1, 1, 2]
    assert rows[2]["repeats"] == first
    store.write(lambda tx: learn(tx, "c", 4, "The proxy is gone", second))
    assert store.read(lambda tx: of(tx, first))["superseded_by"] is None


def test_marks_are_no_words_of_an_observation(store: Store) -> None:
    """Two sessions learn the same whatever the mark, and neither words nor vectors know it."""

    def learn(tx: Tx, session: str, month: int, mark: ClaimMark) -> int:
        round = round_of(tx, session, at=f"2026-0{month}-01T00:00:00.000Z")
        seen = Observation(
            "discovery",
            "Proxies cut",
            facts=("It was two minutes",),
            event_ids=(round.events[0].id,),
            mark=mark,
            fact_marks=(ClaimMark.EARLIER,),
        )
        return observations.store(tx, round, observations.Stored(Reply((seen,)), "offline")).observation_ids[0]

    first = store.write(lambda tx: learn(tx, "a", 1, ClaimMark.USER))
    second = store.write(lambda tx: learn(tx, "b", 2, ClaimMark.EARLIER))
    assert store.read(lambda tx: of(tx, first))["superseded_by"] == second
    kinds = ("observation",)
    assert [hit.item_id for hit in store.read(lambda tx: search.by_words(tx, "proxies", kinds))] == [second, first]
    assert not store.read(lambda tx: search.by_words(tx, "earlier", kinds))
    assert not [one for one in store.read(lambda tx: vectors.due(tx, 100)) if "Earlier" in one.text]


def test_an_observation_whose_mark_changes_keeps_its_index(store: Store) -> None:
    def now(number: int) -> Noted:
        return Noted(number, 1, "Proxies cut", ("Always",), 40, ClaimMark.EARLIER, (ClaimMark.USER,))

    number = store.write(lambda tx: seen(tx, "Proxies cut"))
    store.write(lambda tx: observations.put_texts(tx, of(tx, number), now(number)))
    row = store.read(lambda tx: of(tx, number))
    assert (row["mark"], row["title"], row["importance"]) == ("earlier", "Proxies cut", 40)
    found = store.read(lambda tx: search.by_words(tx, "always", ("observation",)))
    assert [hit.item_id for hit in found] == [number], "a new fact is indexed"


@pytest.mark.parametrize("order", [*permutations((1, 2, 3))])
def test_sessions_that_learn_the_same_are_counted_in_any_order(store: Store, order: tuple[int, ...]) -> None:
    """They are observed side by side, or imported later. The newest stands, and one that goes is not counted."""
    title = "The report is late because the job runs at noon"

    def learn(month: int) -> int:
        at = f"2026-0{month}-01T00:00:00.000Z"
        return store.write(lambda tx: told(tx, round_of(tx, f"of month {month}", at), title))

    def times(tx: Tx) -> dict[int, int]:
        rows = [of(tx, number) for number in learned.values()]
        return {row["id"]: row["times_learned"] for row in rows if not row["superseded_by"]}

    learned = {month: learn(month) for month in order}
    newest = learned[3]
    assert store.read(times) == {newest: 3}
    for month in (1, 2):
        gone = learned.pop(month)
        store.write(lambda tx: observations.remove(tx, gone))  # noqa: B023 - it is called at once
        assert store.read(times) == {newest: 3 - month}
    learned[2] = learn(2)
    assert store.read(times) == {newest: 2}
    assert store.read(lambda tx: of(tx, newest))["repeats"] == learned[2]
