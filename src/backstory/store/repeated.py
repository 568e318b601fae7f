"""Finds an observation of another session that says the same as a new one."""

from __future__ import annotations

import re

from backstory.model import Observation, Session
from backstory.store.db import Row, Tx
from backstory.store.index import search, search_rows
from backstory.store.index.hits import Filter
from backstory.text import words_of

#: Two titles say the same if this share of all their words is in both.
SAME = 0.6
#: Search results that are compared.
MAX_HITS = 5
#: The concepts of what is not learned: the same change may be made again.
CHANGE = ("what-changed",)
_NUMBER = re.compile(r"\d+")


def find(tx: Tx, session: Session, seen: Observation, at: str) -> Row | None:
    """Return the standing observation of an earlier session that says the same, with the same numbers."""
    words, numbers = words_of(seen.title), set(_NUMBER.findall(seen.title))
    if not words or tuple(seen.concepts) == CHANGE:
        return None
    hits = search.by_words(tx, seen.title, ("observation",), Filter(project=session.project_key), MAX_HITS)
    for row in search_rows.observation_statuses(tx, (hit.item_id for hit in hits)).values():
        is_earlier = row["session_id"] != session.id and row["created_at"] < at and not row["superseded_by"]
        others = words_of(row["title"])
        is_same = len(words & others) >= SAME * len(words | others) and set(_NUMBER.findall(row["title"])) == numbers
        if is_earlier and is_same:
            return row
    return None
