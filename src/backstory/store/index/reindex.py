"""Rebuilds the index from the rows: in small transactions, newest first. It goes on where it was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from backstory.store import observations, sessions, turns
from backstory.store.db import Row, Tx
from backstory.store.index import chunks, search

#: Rows in one transaction, so that other writers do not wait long.
BATCH = 25
#: Greater than every id.
LAST = 2**62


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the work."""

    rows: Callable[[Tx, int], list[Row]]  #: the next rows before an id, greatest first; none when it is done
    take: Callable[[Tx, Row], None]
    count: str = ""  #: the query that says how many there will be


def _listed(query: str, **values: object) -> Callable[[Tx, int], list[Row]]:
    return lambda tx, before: tx.all(query, project="", session_id=0, before=before, limit=BATCH, **values)


def _indexed(kind: str) -> Callable[[Tx, Row], None]:
    def take(tx: Tx, row: Row) -> None:
        if session := sessions.by_id(tx, row["session_id"]):
            observations.index_row(tx, kind, row, session, search.index)

    return take


def _turn(tx: Tx, row: Row) -> None:
    if session := sessions.by_id(tx, row["session_id"]):
        turns.index(tx, session, turns.from_row(row), search.index)


def _talk(tx: Tx, row: Row) -> None:
    """Cut a conversation into chunks. One from before there were turns gets them from its prompts first."""
    turns.fill(tx, sessions.from_row(row))
    chunks.rebuild(tx, row["id"])


def _orphans(tx: Tx, _: int) -> list[Row]:
    return [row | {"id": LAST} for row in tx.all("words_orphans", limit=BATCH)]


#: The steps, in their order.
STEPS = {
    "observations": Step(_listed("observations_list", type=""), _indexed("observation"), "count_observations"),
    "summaries": Step(_listed("summaries_list"), _indexed("summary"), "count_summaries"),
    "prompts": Step(_listed("prompts_list"), _indexed("prompt"), "count_prompts"),
    "turns": Step(_listed("turns_list"), _turn, "count_turns"),
    # One session at a time: a long one has many chunks.
    "chunks": Step(lambda tx, before: tx.all("sessions_before", before=before, limit=1), _talk, "count_sessions"),
    "leftovers": Step(_orphans, lambda tx, row: search.remove_words(tx, row["kind"], row["item_id"])),
}


def begin(tx: Tx) -> None:
    """Begin to rebuild everything."""
    for name in STEPS:
        tx.run("rebuild_add", step=name, before=LAST)


def progress(tx: Tx) -> list[Row]:
    """Return the steps that are left, in order: `{step, done, total}`."""
    left = {row["step"]: row for row in tx.all("rebuilds_open")}
    return [{name: left[step][name] for name in ("step", "done", "total")} for step in STEPS if step in left]


def go_on(tx: Tx) -> bool:
    """Index the next rows. Return False when nothing is left to do."""
    left = {row["step"]: row for row in tx.all("rebuilds_open")}
    name = next((step for step in STEPS if step in left), None)
    if name is None:
        return False
    step, state = STEPS[name], left[name]
    rows = step.rows(tx, state["before_id"])
    for row in rows:
        step.take(tx, row)
    if not rows:
        tx.run("rebuild_remove", step=name)
        return len(left) > 1
    total = state["total"] or ((tx.one(step.count) or {}).get("count") if step.count else 0)
    tx.run("rebuild_move", step=name, before=rows[-1]["id"], done=state["done"] + len(rows), total=total or 0)
    return True
