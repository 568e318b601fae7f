"""What ranking needs to know about search results: their places, speakers, words and states."""

from __future__ import annotations

import json
from collections.abc import Iterable

from backstory.store.db import Row, Tx
from backstory.store.index import bm25, search, tokens
from backstory.store.index.hits import Filter


def turns_around(tx: Tx, ids: Iterable[int], around: int) -> list[Row]:
    """Return turns and `around` turns before and after each, without their text."""
    wanted = list(ids)
    return tx.all("turns_around", ids=json.dumps(wanted), around=around) if wanted else []


def chunk_spans(tx: Tx, ids: Iterable[int]) -> list[Row]:
    """Return the first and the last turn of each chunk."""
    wanted = list(ids)
    return tx.all("chunk_spans", ids=json.dumps(wanted)) if wanted else []


def item_tokens(tx: Tx, keys: Iterable[tuple[str, int]]) -> dict[tuple[str, int], list[str]]:
    """Return (kind, id) -> the tokens of an item in their order."""
    wanted = list(keys)
    rows = tx.all("item_words", keys=json.dumps(wanted)) if wanted else []
    return {(row["kind"], row["item_id"]): f"{row['title']} {row['body']}".split() for row in rows}


def open_rounds(tx: Tx) -> frozenset[tuple[str, int]]:
    """Return (kind, id) of the prompts that agents are answering, and of what was said in these rounds."""
    return frozenset((row["kind"], row["id"]) for row in tx.all("items_of_open_rounds"))


def observation_statuses(tx: Tx, ids: Iterable[int]) -> dict[int, Row]:
    """Return observations by id: type, title and time, and whether they are pinned or superseded."""
    wanted = list(ids)
    return {row["id"]: row for row in tx.all("observation_statuses", ids=json.dumps(wanted))} if wanted else {}


def token_weights(tx: Tx, text: str, where: Filter, min_total: int = 0) -> dict[str, float]:
    """Return the weight of each token of a text among observations: 1 if only one of them has it, else less. At least
    `min_total` observations are assumed, because in a small memory no token is common."""
    words = tokens.words_of(text[: tokens.MAX_QUERY_CHARS])[:80]
    counts, total = search.count_words(tx, words, ("observation",), where)
    total = max(total, min_total)
    most = bm25.weight(total, 1)
    weights = {}
    for word, count in counts.items():
        for term in tokens.of_query(word)[:1]:
            if len(term.tokens) == 1 and len(term.tokens[0]) > 2:
                weights[term.tokens[0]] = min(bm25.weight(total, count) / most, 1.0) if most else 0.0
    return weights
