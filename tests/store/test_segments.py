"""Segments: compactions divide a conversation, every turn is in one part, and cancelled ones divide nothing."""

from __future__ import annotations

from test_turns import ask, at, report, says, session_of, uses

from backstory.model import Kind
from backstory.recall import turn_pages
from backstory.store import events, forget, forget_rows, segments, sessions
from backstory.store.db import Store, Tx


def compacts(tx: Tx, second: int, *kinds: Kind, source: str = "compact") -> None:
    """The events of a compaction, a second apart."""
    for later, kind in enumerate(kinds):
        payload = {"source": source} if kind == "session_start" else {}
        events.add(tx, session_of(tx), report(kind, second + later, **payload))


def spans(store: Store) -> list[tuple[int, str, str]]:
    found = store.read(lambda tx: segments.of_session(tx, 1))
    return [(one.number, one.since, one.until) for one in found]


def said(store: Store) -> list[list[str | None]]:
    """The texts of each segment."""

    def work(tx: Tx) -> list[list[str | None]]:
        return [[turn.text for turn in segments.turns_of(tx, 1, one)] for one in segments.of_session(tx, 1)]

    return store.read(work)


def page(store: Store, segment: int = 0, number: int = 1) -> str:
    return store.read(lambda tx: turn_pages.read(tx, sessions.get(tx, 1), segment, number)).text


def talk(tx: Tx, second: int, name: str) -> None:
    ask(tx, f"Ask {name}.", second)
    uses(tx, f"run {name}", second + 1)
    says(tx, f"Say {name}.", second + 2, f"m{name}")


def test_each_compaction_ends_a_segment_and_every_turn_is_in_one(store: Store) -> None:
    """None, one, two; and what a segment says is what was said in it, with its tools."""
    store.write(lambda tx: talk(tx, 0, "one"))
    assert spans(store) == [(1, "", segments.END)]
    store.write(lambda tx: compacts(tx, 10, "pre_compact", "session_start", "post_compact"))
    store.write(lambda tx: talk(tx, 20, "two"))
    store.write(lambda tx: compacts(tx, 30, "pre_compact", "session_start", "post_compact"))
    assert spans(store) == [(1, "", at(10)), (2, at(10), at(30)), (3, at(30), segments.END)]
    store.write(lambda tx: talk(tx, 40, "three"))
    assert said(store) == [[f"Ask {name}.", f"Say {name}."] for name in ("one", "two", "three")]
    for segment, name in enumerate(("one", "two", "three"), 1):
        assert page(store, segment).count(f"- Bash run {name}\n") == page(store).count(f"run {name}") == 1
        assert page(store, segment).count("Say ") == 1


def test_what_arrives_late_is_where_it_was_said(store: Store) -> None:
    """The worker was away: all prompts come first, then what the transcript has. Numbers stay, the order is right."""
    store.write(lambda tx: ask(tx, "Ask one.", 0))
    store.write(lambda tx: ask(tx, "Ask two.", 20))
    store.write(lambda tx: compacts(tx, 10, "pre_compact", "post_compact"))
    store.write(lambda tx: says(tx, "Say one.", 5, "m1"))
    store.write(lambda tx: says(tx, "Say two.", 25, "m2"))
    assert said(store) == [["Ask one.", "Say one."], ["Ask two.", "Say two."]]
    whole = page(store)
    places = [whole.index(text) for text in ("[0] user", "[2] assistant", "[1] user", "[3] assistant")]
    assert places == sorted(places)


def test_a_compaction_that_did_not_end_divides_nothing(store: Store) -> None:
    """Cancelled, then done; a start for another reason is no end of one."""
    store.write(lambda tx: compacts(tx, 10, "pre_compact"))
    assert len(spans(store)) == 1
    store.write(lambda tx: compacts(tx, 12, "session_start", source="resume"))
    assert len(spans(store)) == 1
    store.write(lambda tx: compacts(tx, 20, "pre_compact"))
    store.write(lambda tx: compacts(tx, 25, "session_start"))
    assert spans(store) == [(1, "", at(20)), (2, at(20), segments.END)]


def test_one_compaction_that_is_reported_twice_is_one(store: Store) -> None:
    """By hooks and by the transcript; and without its beginning it counts from its end."""
    store.write(lambda tx: compacts(tx, 10, "pre_compact", "session_start", "post_compact", "post_compact"))
    assert spans(store) == [(1, "", at(10)), (2, at(10), segments.END)]
    store.write(lambda tx: compacts(tx, 300, "post_compact"))
    assert spans(store)[1:] == [(2, at(10), at(300)), (3, at(300), segments.END)]


def test_compactions_in_quick_succession_are_told_apart_by_their_starts(store: Store) -> None:
    """Without their beginnings, and whether the transcript tells of their ends before the start or after it."""
    store.write(lambda tx: compacts(tx, 10, "session_start", "post_compact"))
    store.write(lambda tx: compacts(tx, 20, "post_compact", "session_start"))
    store.write(lambda tx: compacts(tx, 30, "session_start"))
    assert [since for _, since, _ in spans(store)] == ["", at(10), at(21), at(30)]


def test_what_is_private_or_forgotten_is_on_no_page(store: Store) -> None:
    """Its number is; its words and its tools are not."""
    store.write(lambda tx: ask(tx, "", 0))
    store.write(lambda tx: uses(tx, "cat diary", 1))
    store.write(lambda tx: says(tx, "The diary says so.", 2, "m1"))
    store.write(lambda tx: talk(tx, 10, "one"))
    assert page(store).count("(private or forgotten)") == 2
    assert "diary" not in page(store) and "Say one." in page(store)
    store.write(lambda tx: forget.session(tx, 1, forget_rows.Forgotten()))
    assert "one" not in page(store)
