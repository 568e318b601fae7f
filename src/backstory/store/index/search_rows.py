"""What ranking wants to know about what was found: where it stands, who said it, in which words."""

from __future__ import annotations

import json
from collections.abc import Iterable

from backstory.store.db import Row, Tx
from backstory.store.index import bm25, search, tokens
from backstory.store.index.hits import Filter, Hit


def turns_around(tx: Tx, ids: Iterable[int], around: int) -> list[Row]:
    """Turns without their text, and so many before and after each."""
    wanted = list(ids)
    return tx.all("turns_around", ids=json.dumps(wanted), around=around) if wanted else []


def chunk_spans(tx: Tx, ids: Iterable[int]) -> list[Row]:
    """From which turn to which each chunk goes."""
    wanted = list(ids)
    return tx.all("chunk_spans", ids=json.dumps(wanted)) if wanted else []


def words_said(tx: Tx, keys: Iterable[tuple[str, int]]) -> dict[tuple[str, int], frozenset[str]]:
    """The words of items as they are indexed, without those that everything has."""
    wanted = list(keys)
    rows = tx.all("item_words", keys=json.dumps(wanted)) if wanted else []
    said = {(row["kind"], row["item_id"]): f"{row['title']} {row['body']}" for row in rows}
    return {key: frozenset(text.split()) - tokens.COMMON for key, text in said.items()}


def standing(tx: Tx, ids: Iterable[int]) -> dict[int, Row]:
    """What weighs for an observation or against it: its type, whether it is pinned, whether another took its place."""
    wanted = list(ids)
    return {row["id"]: row for row in tx.all("observation_statuses", ids=json.dumps(wanted))} if wanted else {}


def worth(tx: Tx, text: str, where: Filter, among: int = 0) -> dict[str, float]:
    """The tokens of a text, each by how much it says among the observations there: 1 for what only one of them says.
    Fewer than `among` do not tell what is rare."""
    told = tokens.words_of(text[: tokens.ASKED_CHARS])[:80]
    counts, total = search.occurs(tx, told, ("observation",), where)
    total = max(total, among)
    most = bm25.weight(total, 1)
    made = {}
    for word, count in counts.items():
        for term in tokens.of_query(word)[:1]:
            if len(term.tokens) == 1 and len(term.tokens[0]) > 2:
                made[term.tokens[0]] = min(bm25.weight(total, count) / most, 1.0) if most else 0.0
    return made


def rows(tx: Tx, keys: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Row]:
    """Items as they are shown."""
    hits = [Hit(kind, number, 0, 0.0, "") for kind, number in keys]
    made = {(row["kind"], row["id"]): row for row in search.rows_of(tx, hits)}
    for kind, query in (("session", "shown_sessions"), ("chunk", "shown_chunks")):
        if wanted := [hit.item_id for hit in hits if hit.kind == kind]:
            made.update({(kind, row["id"]): row | {"kind": kind} for row in tx.all(query, ids=json.dumps(wanted))})
    return made
