"""Finds observations of other sessions that say the same, and counts them."""

from __future__ import annotations

import re

from backstory.model import Observation, Session
from backstory.store.db import Row, Tx
from backstory.store.index import search, search_rows
from backstory.store.index.hits import Filter
from backstory.text import words_of

#: Two titles say the same if this share of all their words is in both.
SAME = 0.6
#: The same for an observation that a later one of any session replaced: the value may be another.
SAME_REPLACED = 0.8
#: Observations with similar titles that are compared, the newest first.
MAX_SIMILAR = 50
#: Hidden observations of a project that are compared, the newest first.
MAX_HIDDEN = 200
#: The concepts of what is not learned: the same change may be made again.
CHANGE = ("what-changed",)
_NUMBER = re.compile(r"\d+")


def is_hidden(tx: Tx, session: Session, seen: Observation) -> bool:
    """Tell whether a hidden observation of the project says the same. Then the new one is hidden, too."""
    rows = tx.all("observations_hidden_of_project", project_key=session.project_key, limit=MAX_HIDDEN)
    return any(is_same(seen.title, row["title"]) for row in rows)


def earlier(tx: Tx, row: Row) -> list[Row]:
    """Return the observations that this one replaced and that say the same. They would stand again without it."""
    found: list[Row] = []
    waiting = [row]
    while waiting:
        one = waiting.pop()
        for old in tx.all("observations_superseded_by", id=one["id"]):
            known = tx.one("observation_by_id", id=old["id"])
            if known and (one["repeats"] == known["id"] or is_same(one["title"], known["title"], SAME_REPLACED)):
                found.append(known)
                waiting.append(known)
    return found


def is_same(title: str, other: str, share: float = SAME) -> bool:
    """Tell whether two titles say the same, with the same numbers: `port 8080` is not `port 9090`."""
    words, others = _words(title), _words(other)
    is_near = bool(words) and len(words & others) >= share * len(words | others)
    return is_near and set(_NUMBER.findall(title)) == set(_NUMBER.findall(other))


def _words(title: str) -> frozenset[str]:
    return words_of(title)


def find(tx: Tx, session: Session, seen: Observation) -> Row | None:
    """Return the standing observation of another session that says the same, with the same numbers."""
    words = _words(seen.title)
    if not words or tuple(seen.concepts) == CHANGE:
        return None
    where = Filter(project=session.project_key)
    similar = search.similar_titles(tx, words, SAME, ("observation",), where, MAX_SIMILAR)
    statuses = search_rows.observation_statuses(tx, similar)
    for row in (statuses[each] for each in similar if each in statuses):
        is_standing = row["session_id"] != session.id and not row["superseded_by"]
        if is_standing and is_same(seen.title, row["title"]):
            return row
    return None


def count_one_less(tx: Tx, row: Row) -> None:
    """Count one session less where an observation is repeated. The next one repeats what it repeated."""
    gone, repeats = row, row["repeats"]
    while (later := tx.one("observation_by_id", id=gone["superseded_by"] or 0)) and later["repeats"] == gone["id"]:
        tx.run("observation_repeat", id=later["id"], repeats=repeats, times=max(1, later["times_learned"] - 1))
        gone, repeats = later, later["id"]
