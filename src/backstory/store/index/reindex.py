"""Rebuilds the index in small transactions, newest rows first. It continues where it was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from backstory.store import observations, sessions, smaller, turns
from backstory.store.db import LAST, Row, Tx
from backstory.store.index import chunks, indexing

#: Rows in one transaction, so that other writers do not wait long.
BATCH = 25


@dataclass(frozen=True, slots=True)
class Step:
    """A kind of rows to index."""

    rows: Callable[[Tx, int], list[Row]]  #: returns the next rows before an id, highest first; none at the end
    take: Callable[[Tx, Row], None]  #: indexes a row
    count: str = ""  #: the query that counts all rows


def _before(query: str, limit: int = BATCH) -> Callable[[Tx, int], list[Row]]:
    return lambda tx, before: tx.all(query, before=before, limit=limit)


def _indexed(kind: str) -> Callable[[Tx, Row], None]:
    def take(tx: Tx, row: Row) -> None:
        if session := sessions.by_id(tx, row["session_id"]):
            observations.index_row(tx, kind, row, session, indexing.index)

    return take


def _turn(tx: Tx, row: Row) -> None:
    if session := sessions.by_id(tx, row["session_id"]):
        turns.index(tx, session, turns.from_row(row), indexing.index)


def _chunks(tx: Tx, row: Row) -> None:
    """Make the chunks of a session. If it has no turns, make them from its prompts first."""
    turns.make_missing(tx, sessions.from_row(row))
    chunks.rebuild(tx, row["id"])


def _orphans(tx: Tx, _: int) -> list[Row]:
    return [row | {"id": LAST} for row in tx.all("words_orphans", limit=BATCH)]


#: The steps, in their order.
STEPS = {
    "observations": Step(_before("index_observations"), _indexed("observation"), "count_observations"),
    "summaries": Step(_before("index_summaries"), _indexed("summary"), "count_session_summaries"),
    "prompts": Step(_before("index_prompts"), _indexed("prompt"), "count_user_prompts"),
    "turns": Step(_before("index_turns"), _turn, "count_turns"),
    # One session at a time: a long one has many chunks.
    "chunks": Step(_before("index_sessions", 1), _chunks, "count_sdk_sessions"),
    "leftovers": Step(_orphans, lambda tx, row: indexing.remove_words(tx, row["kind"], row["item_id"])),
}


#: Steps that only a migration begins.
CONVERTING = {
    "smaller_words": Step(smaller.word_rows, smaller.words),
    "smaller_observations": Step(smaller.observation_rows, smaller.observation, "count_observations"),
    "smaller_events": Step(smaller.event_rows, smaller.event),
}
_ALL = STEPS | CONVERTING


def begin(tx: Tx) -> None:
    """Record every step as open."""
    for name in STEPS:
        tx.run("rebuild_add", step=name, before=LAST)


def progress(tx: Tx) -> list[Row]:
    """Return the open steps in order: `{step, done, total}`."""
    open_steps = {row["step"]: row for row in tx.all("rebuilds_open")}
    names = ("step", "done", "total")
    return [{name: open_steps[step][name] for name in names} for step in _ALL if step in open_steps]


def go_on(tx: Tx) -> bool:
    """Index the next rows. Return False when all steps are done."""
    open_steps = {row["step"]: row for row in tx.all("rebuilds_open")}
    name = next((step for step in _ALL if step in open_steps), None)
    if name is None:
        return False
    step, state = _ALL[name], open_steps[name]
    rows = step.rows(tx, state["before_id"])
    for row in rows:
        step.take(tx, row)
    if not rows:
        tx.run("rebuild_remove", step=name)
        return len(open_steps) > 1
    total = state["total"] or ((tx.one(step.count) or {}).get("count") if step.count else 0)
    tx.run("rebuild_move", step=name, before=rows[-1]["id"], done=state["done"] + len(rows), total=total or 0)
    return True
