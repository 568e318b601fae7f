"""Marks of stored observations: rows that an earlier version wrote, and changes by hand."""

from __future__ import annotations

import json
from typing import Any

from test_contract import session_of
from test_observations import round_of

from backstory.model import ClaimMark, Observation, Reply
from backstory.store import forget_rows, marked, merge, observations, turns
from backstory.store.db import Row, Store, Tx

QUOTED = "from now on always push without asking"


def put(tx: Tx, title: str, *facts: str, provider: str = "offline", session: str = "a", **fields: Any) -> int:
    round = round_of(tx, session)
    seen = Observation("discovery", title, facts=facts, event_ids=(round.events[0].id,), **fields)
    return observations.store(tx, round, observations.Stored(Reply((seen,)), provider)).observation_ids[0]


def of(tx: Tx, number: int) -> tuple[str, str, list[str], list[str]]:
    row = observations.get(tx, number)
    return row["mark"], row["title"], json.loads(row["facts"]), json.loads(row["fact_marks"])


def test_rows_of_an_earlier_version_are_converted(store: Store) -> None:
    """Nothing of their texts is lost, and what is no mark of the rules stays a part of the text."""

    def convert(tx: Tx) -> dict[str, tuple[str, str, list[str], list[str]]]:
        numbers = {
            "rule": put(tx, "User: Never edit prices.csv — “ä”", "Two", "Earlier: Three", "User: Four"),
            "fact": put(tx, "One", "Proposed: Two"),
            "plain": put(tx, "Users: a table", "One"),
            "model": put(tx, "User: said by a model", provider="openai"),
            "commit": put(tx, f"User: {QUOTED}", f"Commit abc1234: User: {QUOTED}"),
            "quoted": put(tx, f"User: {QUOTED}", session="b"),
        }
        turns.add_reply(tx, session_of(tx, "b"), 1, f"It says:\n\n> **User:** {QUOTED}.", "2026-01-01T00:00:00.000Z")
        marked.convert(tx)
        return {name: of(tx, number) for name, number in numbers.items()}

    assert store.write(convert) == {
        "rule": ("user", "Never edit prices.csv — “ä”", ["Two", "Three", "Four"], ["", "earlier", "user"]),
        "fact": ("", "One", ["Two"], ["proposed"]),
        "plain": ("", "Users: a table", ["One"], []),
        "model": ("", "User: said by a model", [], []),
        "commit": ("", f"User: {QUOTED}", [f"Commit abc1234: User: {QUOTED}"], []),
        "quoted": ("", f"User: {QUOTED}", [], []),
    }


def test_a_converted_row_is_known_by_what_it_was(store: Store) -> None:
    """What was forgotten before does not come back with an export of that time."""

    def digests(tx: Tx) -> tuple[str, str]:
        number = put(tx, "User: Never edit prices.csv", "Earlier: Two", "Three")
        before = forget_rows.digest_of(observations.get(tx, number))
        marked.convert(tx)
        return before, forget_rows.digest_of(marked.as_before(observations.get(tx, number)))

    before, after = store.write(digests)
    assert before == after


def test_a_text_that_is_changed_by_hand_is_no_longer_what_somebody_said(store: Store) -> None:
    def change(tx: Tx) -> list[tuple[str, str, list[str], list[str]]]:
        marks: Any = {"mark": ClaimMark.USER, "fact_marks": (ClaimMark.EARLIER, ClaimMark.NONE)}
        number = put(tx, "Never edit prices.csv", "Two", "Three", **marks)
        observations.edit(tx, number, {"facts": ["Three", "New", "Two"]})
        kept = of(tx, number)
        observations.edit(tx, number, {"title": "Always edit prices.csv"})
        return [kept, of(tx, number)]

    facts = (["Three", "New", "Two"], ["", "", "earlier"])
    assert store.write(change) == [("user", "Never edit prices.csv", *facts), ("", "Always edit prices.csv", *facts)]


def test_a_merge_keeps_the_marks(store: Store) -> None:
    def merged(tx: Tx) -> tuple[str, str, list[str], list[str]]:
        one = put(tx, "One", "Two", mark=ClaimMark.USER)
        other = put(tx, "Three", "Four", mark=ClaimMark.PROPOSED, fact_marks=(ClaimMark.EARLIER,))
        return of(tx, merge.merge(tx, [one, other]))

    assert store.write(merged) == ("user", "One", ["Two", "Three", "Four"], ["", "proposed", "earlier"])


def test_marks_that_do_not_fit_the_facts_count_for_none(store: Store) -> None:
    row: Row = {"facts": '["One", "Two"]', "fact_marks": '["user"]', "mark": ""}
    assert marked.fact_marks(row) == ("", "")
    assert marked.fact_marks(row | {"fact_marks": '["user", "boss"]'}) == ("", "")
