"""The conversation: each turn once under a number that stays, in chunks that grow with it, and none of it private."""

from __future__ import annotations

from typing import Any

from backstory import ids
from backstory.model import ContentId, Kind, Observation, Reply, Report, Session
from backstory.project import Project
from backstory.store import events, forget, forget_rows, observations, rounds, sessions, turns
from backstory.store.db import Row, Store, Tx
from backstory.store.index import chunks, search
from backstory.store.observations import Stored
from backstory.store.turns import TurnDetails

SHOP = Project("shop", "key/shop")


def at(second: int) -> str:
    return ids.from_ms(1_700_000_000_000 + second * 1000)


def report(kind: Kind, second: int, session: str = "a", **payload: Any) -> Report:
    tool = kind == "tool"
    return Report(
        "claude-code",
        kind,
        ContentId(session),
        ids.new_event_id(),
        at(second),
        tool_name="Bash" if tool else None,
        tool_use_id=f"use-{session}-{second}" if tool else None,
        payload=payload,
    )


def session_of(tx: Tx, name: str = "a", second: int = 0) -> Session:
    return sessions.get_or_create(tx, report("session_start", second, name), SHOP)


def ask(tx: Tx, text: str, second: int, session: str = "a") -> int:
    return sessions.add_prompt(tx, session_of(tx, session), text, at(second)).number


def says(tx: Tx, text: str, second: int, mark: str | None = None, session: str = "a") -> bool:
    row = session_of(tx, session)
    number = sessions.prompt_for(tx, row, None, at(second)).number
    return turns.add_reply(tx, row, number, text, at(second), TurnDetails(mark))


def uses(tx: Tx, command: str, second: int, session: str = "a") -> events.Added:
    told = report("tool", second, session, tool_input={"command": command}, tool_response=f"output of {command}")
    return events.add(tx, session_of(tx, session), told)


def said(store: Store, session: str = "a") -> list[tuple[int, str, str | None]]:
    def work(tx: Tx) -> list[Row]:
        row = sessions.by_content_id(tx, "claude-code", ContentId(session))
        return tx.all("turns_of_session", session_id=row.id if row else 0, after=-1, limit=1000)

    return [(row["number"], row["role"], row["text"]) for row in store.read(work)]


def texts(store: Store) -> list[tuple[int, int, int, str]]:
    """The chunks: id, first and last turn, text."""

    def work(tx: Tx) -> list[Row]:
        return [row for number in (1, 2) for row in tx.all("chunks_from", session_id=number, number=0)]

    return [(row["id"], row["first_turn"], row["last_turn"], row["text"]) for row in store.read(work)]


def extend(store: Store, session: str = "a") -> None:
    store.write(lambda tx: chunks.extend(tx, session_of(tx, session)))


def found(store: Store, words: str, kind: str) -> int:
    kinds = (kind,) if kind else ("observation", "summary", "prompt")
    return len(store.read(lambda tx: search.by_words(tx, words, kinds, limit=99)))


def test_a_turn_is_kept_once_by_mark_or_by_words(store: Store) -> None:
    """What a hook told and the transcript tells is one turn; the same words twice, under two ids, are two."""
    store.write(lambda tx: ask(tx, "Mend the till.", 0))
    assert store.write(lambda tx: says(tx, "I look.", 1, "m1"))
    assert store.write(lambda tx: says(tx, "Done.", 2))
    assert not store.write(lambda tx: says(tx, "Done.", 3, "m2")), "the hook had told it"
    assert not store.write(lambda tx: says(tx, "Done.", 3)), "the hook again"
    assert not store.write(lambda tx: says(tx, "I look.", 1, "m1"))
    assert store.write(lambda tx: says(tx, "Done.", 4, "m3"))
    assert not store.write(lambda tx: says(tx, "I look. Closely.", 1, "m1")), "it was read before its end"
    assert said(store) == [
        (0, "user", "Mend the till."),
        (1, "assistant", "I look. Closely."),
        (2, "assistant", "Done."),
        (3, "assistant", "Done."),
    ]
    assert found(store, "closely", "turn") == 1
    assert found(store, "till", "turn") == found(store, "till", "prompt") == 1


def test_a_private_round_has_numbers_and_no_words(store: Store) -> None:
    """Neither the prompt nor the replies; told in time or late."""
    store.write(lambda tx: ask(tx, "", 0))
    store.write(lambda tx: says(tx, "a secret reply", 1, "m1"))
    store.write(lambda tx: says(tx, "another secret", 2))
    store.write(lambda tx: ask(tx, "Open again.", 10))
    store.write(lambda tx: says(tx, "It is about a diary.", 25, "m2"))
    store.write(lambda tx: uses(tx, "cat diary", 26))
    extend(store)
    assert [text for _, _, text in said(store)] == [None, None, None, "Open again.", "It is about a diary."]
    assert "diary" in texts(store)[-1][3]

    def late(tx: Tx) -> None:
        prompt = sessions.add_prompt(tx, session_of(tx), "", at(20))
        rounds.follow_prompt(tx, session_of(tx), prompt, at(20))

    store.write(late)
    assert [text for _, _, text in said(store)] == [None, None, None, "Open again.", None, None]
    assert [text for _, _, _, text in texts(store)] == ["Open again."]
    for kind in ("turn", "chunk"):
        assert found(store, "diary", kind) == found(store, "secret", kind) == 0


def talk(tx: Tx, session: str, first: int, last: int) -> None:
    """Short and long turns, with tools between them."""
    for number in range(first, last):
        second = number * 10
        ask(tx, f"Question {number} of {session}. " + "Why so? " * (number % 7), second, session)
        uses(tx, f"grep -n needle{number} " + "x" * 2000, second + 1, session)
        says(
            tx,
            f"Answer {number}.\n" + f"It is so because of {number}. " * (5 * (number % 13)),
            second + 2,
            None,
            session,
        )


def test_chunks_grow_with_their_session_and_finished_ones_stay(store: Store) -> None:
    """However it grew, the chunks are those that are made at once; of about one size, of one session, nothing lost."""
    for first in range(0, 30, 3):
        before = texts(store)
        store.write(lambda tx, first=first: talk(tx, "a", first, first + 3))  # type: ignore[misc]
        extend(store)
        assert before[:-3] == texts(store)[: max(len(before) - 3, 0)]
    store.write(lambda tx: talk(tx, "b", 0, 5))
    extend(store, "b")
    grown = [row[1:] for row in texts(store)]
    for session in ("a", "b"):
        store.write(lambda tx, session=session: chunks.rebuild(tx, session_of(tx, session).id))  # type: ignore[misc]
    assert sorted(row[1:] for row in texts(store)) == sorted(grown)
    assert max(len(text) for _, _, text in grown) <= chunks.SIZE
    assert sum(len(text) for _, _, text in grown) / len(grown) > chunks.SIZE / 2
    whole = "\n".join(text for _, _, text in grown)
    for number in range(30):
        assert f"Question {number} of a" in whole
        assert f"needle{number} " in whole
    assert "output of" not in whole, "what a tool answered is in no chunk"
    assert not any("of a." in text and "of b." in text for _, _, text in grown)
    assert all(first <= last for first, last, _ in grown)


def observed(store: Store, title: str) -> int:
    claim = store.write(lambda tx: events.claim(tx, 60_000))
    assert claim is not None
    seen = Observation("discovery", title, event_ids=(claim.round.events[0].id,))
    return store.write(lambda tx: events.finish(tx, claim, Stored(Reply((seen,)), "offline"))).observation_ids[0]


def test_i16_forgetting_reaches_turns_and_chunks(store: Store) -> None:
    """By observation, prompt, words and session: no turn, chunk or word is left, and a reply told again stays away."""
    for number, word in enumerate(("amber", "beryl", "coral", "dusty")):
        store.write(lambda tx, n=number, w=word: ask(tx, f"Ask {w if w != 'amber' else 'plainly'}.", n * 10))  # type: ignore[misc]
        store.write(lambda tx, n=number, w=word: uses(tx, f"cat {w}", n * 10 + 1))  # type: ignore[misc]
        store.write(lambda tx, n=number, w=word: says(tx, f"About {w}.", n * 10 + 2, f"m-{w}"))  # type: ignore[misc]
    extend(store)
    store.write(lambda tx: events.close_round(tx, 1))
    number = observed(store, "About amber")

    def gone(word: str) -> bool:
        whole = str(said(store)) + str(texts(store))
        return word not in whole and not any(found(store, word, kind) for kind in ("turn", "chunk", "prompt", ""))

    def run(tx: Tx, what: Any, *given: Any) -> None:
        lost = forget_rows.Forgotten()
        what(tx, *given, lost)
        forget.finish(tx, lost)

    store.write(lambda tx: run(tx, forget.observation, number))
    assert gone("amber")
    prompts = store.read(lambda tx: tx.all("prompts_list", project="", session_id=0, before=99, limit=9))
    store.write(lambda tx: run(tx, forget.prompt, next(p["id"] for p in prompts if p["prompt"] == "Ask beryl.")))
    store.write(lambda tx: run(tx, forget.matching, "coral", ""))
    assert gone("coral")
    assert said(store)[2][2] is None, "the prompt"
    assert not store.write(lambda tx: says(tx, "About amber.", 2, "m-amber"))
    store.write(lambda tx: says(tx, "More of amber.", 3, "m-new"))
    assert gone("amber")
    assert "About dusty." in str(texts(store))
    store.write(lambda tx: run(tx, forget.session, 1))
    assert texts(store) == []
    assert {text for _, _, text in said(store)} == {None}
    store.write(lambda tx: says(tx, "dusty again", 99, "m-9"))
    assert gone("dusty")


def test_an_observation_is_found_by_what_was_said_around_it(store: Store) -> None:
    """Also by words that it lacks; when they are forgotten it stays, and is found by its own."""
    store.write(lambda tx: ask(tx, "Mend the cart.", 0))
    store.write(lambda tx: says(tx, "The quagga iterator was never closed.", 1, "m-1"))
    store.write(lambda tx: uses(tx, "make test", 2))
    store.write(lambda tx: says(tx, "Also a zebu.", 3, "m-2"))
    store.write(lambda tx: events.close_round(tx, 1))
    observed(store, "Close what is read in the cart")
    assert found(store, "quagga", "observation") == 1
    assert not found(store, "zebu", "observation"), "said after it"

    def run(tx: Tx) -> None:
        lost = forget_rows.Forgotten()
        forget.matching(tx, "quagga", "", lost)
        forget.finish(tx, lost)
        assert not lost.observations

    store.write(run)
    assert not found(store, "quagga", "observation")
    assert found(store, "cart", "observation") == 1


def test_what_was_told_early_is_found_by_what_is_said_in_the_end(store: Store) -> None:
    """A long round is observed before its last words: they are added to what is found by them."""
    store.write(lambda tx: ask(tx, "Mend the cart.", 0))
    store.write(lambda tx: uses(tx, "make test", 1))
    store.write(lambda tx: events.close_round(tx, 1))
    observed(store, "Close what is read in the cart")
    assert not found(store, "quagga", "observation")
    last = report("stop", 2, last_assistant_message="The quagga is closed.")
    store.write(lambda tx: events.add(tx, session_of(tx), last))
    store.write(lambda tx: observations.end_round(tx, session_of(tx)))
    assert found(store, "quagga", "observation") == 1


def test_turns_are_searched_by_the_name_of_who_spoke(store: Store) -> None:
    """Where a conversation has names, they are words of the turn."""
    row = store.write(session_of)
    store.write(lambda tx: turns.add_prompt(tx, row, 1, "I lost my job.", at(0), TurnDetails(number=7, speaker="Jon")))
    assert said(store) == [(7, "user", "I lost my job.")]
    (hit,) = store.read(lambda tx: search.find(tx, "Jon job", kind="turn"))
    assert (hit["turn"], hit["content_session_id"]) == (7, "a")
