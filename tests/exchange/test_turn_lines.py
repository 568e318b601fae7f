"""Conversations of other programs, on both engines: each turn once, under its number, found by what was said."""

from __future__ import annotations

from typing import Any

import pytest

from backstory.exchange import turn_lines
from backstory.exchange.turn_lines import Said
from backstory.store.db import Store
from backstory.store.index import search

AT = "2023-03-10T07:53:00.000Z"
TALK = [Said("p", "s", number, ("user", "assistant")[number % 2], f"word{number} and more", AT) for number in range(20)]


def test_turns_are_stored_once_in_whatever_pieces_they_come(store: Store) -> None:
    """A reply belongs to the prompt before it, though that came in another piece; again nothing is added."""
    for first in (0, 7, 7, 13, 0):
        store.write(lambda tx, first=first: turn_lines.store(tx, "conversations", TALK[first : first + 7]))  # type: ignore[misc]
    assert store.write(lambda tx: turn_lines.store(tx, "conversations", TALK)) == 0
    rows = store.read(lambda tx: tx.all("turns_of_session", session_id=1, after=-1, limit=99))
    assert [(row["number"], row["text"]) for row in rows] == [(one.number, one.text) for one in TALK]
    assert [row["prompt_number"] for row in rows] == [1 + number // 2 for number in range(20)]
    whole = "\n".join(row["text"] for row in store.read(lambda tx: tx.all("chunks_from", session_id=1, number=0)))
    assert whole == "\n".join(one.text for one in TALK)
    (hit,) = store.read(lambda tx: search.find(tx, "word13", "p", "turn"))
    assert (hit["turn"], hit["content_session_id"], hit["created_at"]) == (13, "s", AT)
    assert store.read(lambda tx: search.find(tx, "word12", "p")) == [], "a prompt is not found beside its turn"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("4:04 pm on 20 January, 2023", "2023-01-20T16:04:00.000Z"),
        ("2023/03/10 (Fri) 07:53", AT),
        ("2023-03-10T08:53:00+01:00", AT),
        (1678434780, AT),
        (1678434780000, AT),
        ("some day", None),
        (None, None),
        (True, None),
        (10**30, None),
    ],
)
def test_times_as_people_write_them(given: Any, meant: str | None) -> None:
    """Read where they can be, and else none."""
    assert turn_lines.parse_time(given) == meant
