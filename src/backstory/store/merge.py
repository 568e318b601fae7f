"""Merges observations: one stands with the facts of all, the others point to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backstory.errors import BadInput
from backstory.model import ClaimMark
from backstory.store import forget, forget_rows, marked, observations
from backstory.store.db import Row, Tx
from backstory.text import json_list, one_line

#: Facts and concepts of an observation, at most.
MAX_FACTS = 50
MAX_CONCEPTS = 20


def merge(tx: Tx, numbers: Sequence[int], title: str = "") -> int:
    """Merge observations into the first of them. Return its id."""
    first, *others = dict.fromkeys(numbers)
    if not others:
        raise BadInput("There is nothing to merge.", "Name two observations or more.")
    stands = observations.get(tx, first)
    if stands["superseded_by"]:
        raise BadInput(f"#{first} was replaced by #{stands['superseded_by']}.", "Name that one first.")
    rows = [observations.get(tx, number) for number in others]
    facts = dict(_facts(stands, rows, title))
    if len(facts) > MAX_FACTS:
        raise BadInput(f"Together they have {len(facts)} facts.", f"Merge fewer: one has at most {MAX_FACTS}.")
    concepts = [*dict.fromkeys(concept for row in (stands, *rows) for concept in json_list(row["concepts"]))]
    said = {"facts": [*facts], "fact_marks": [*facts.values()]}
    changes = said | {"concepts": concepts[:MAX_CONCEPTS]} | ({"title": title} if title else {})
    change(tx, stands, changes)
    for row in rows:
        if row["superseded_by"] != first:
            observations.supersede(tx, row["id"], first)
        # What is forgotten with one of them is forgotten with the one that says it now.
        tx.run("observation_takes_events", id=first, other=row["id"])
    return first


def change(tx: Tx, before: Row, changes: Row) -> None:
    """Edit an observation. What it said before does not come back with an import."""
    after = observations.edit(tx, before["id"], changes)
    if forget_rows.digest_of(after) != forget_rows.digest_of(before):
        forget.keep_out_version(tx, before)


def _facts(stands: Row, others: Sequence[Row], title: str) -> Iterator[tuple[str, ClaimMark]]:
    """Yield the facts of all, each once, with their marks. What another is called is a fact of the one that stands."""
    said = {_plain(title or stands["title"])}
    for row in (stands, *others):
        own = [*zip(json_list(row["facts"]), marked.fact_marks(row), strict=True)]
        for fact, mark in own if row is stands and not title else [(row["title"], ClaimMark(row["mark"])), *own]:
            if _plain(fact) not in said:
                said.add(_plain(fact))
                yield fact, mark


def _plain(text: str) -> str:
    return one_line(text).rstrip(".").casefold()
