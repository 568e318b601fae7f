"""Finds observations that share rare words with a text, within a fixed budget of rows: an agent waits for it.

A word that many rows have is not looked at any further, and the project is checked row by row. So the work does not
grow with the memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from backstory.store.db import Tx
from backstory.store.index import bm25, match, tokens
from backstory.store.index.match import Match
from backstory.store.index.tokens import Term

#: Words of a text that are looked up.
MAX_WORDS = 80
#: Rows. A word of more rows is too common to tell anything.
MAX_ROWS = 600
#: Words that are counted at once. What was counted is kept, even if the time for the rest is up.
COUNTED = {"sqlite": 16, "postgres": MAX_WORDS}
#: Common words that are kept, at most.
MAX_COMMON = 20_000
#: Rows that are read in all, those of the rarest words first.
MAX_READ = 3000
#: Rows that are scored by their whole text.
MAX_SCORED = 16
#: Observations of a project that are counted.
MAX_COUNTED = 20_000


@dataclass(frozen=True, slots=True)
class Related:
    """Observations that share rare words with a text, and how rare these words are."""

    observation_ids: Sequence[int] = ()  #: best first
    weights: Mapping[str, float] = field(default_factory=dict)  #: token -> 1 if only one observation has it, else less


def find(tx: Tx, text: str, project_key: str, common: set[str] | None = None) -> Related:
    """Return the observations of a project that share the most and the rarest words with a text. `common` has words
    that are known to be too common, and gets more of them: most of the time is spent on counting these."""
    newest, words = tx.one("words_last"), _words(text)
    if newest is None or newest["last"] is None or not words:
        return Related()
    common = set() if common is None else common
    rows_of = _rare_rows(tx, words, project_key, newest["last"], common)
    counted = tx.one("observations_counted", project_key=project_key, limit=MAX_COUNTED)
    size = counted["count"] if counted else 0
    most = bm25.weight(size, 1)
    weights = {word: min(bm25.weight(size, len(rows)) / most, 1.0) for word, rows in rows_of.items() if most}
    weight_of: dict[int, float] = {}
    for word, weight in weights.items():
        for number in rows_of[word]:
            weight_of[number] = weight_of.get(number, 0.0) + weight
    heaviest = sorted(weight_of, key=lambda number: (weight_of[number], number), reverse=True)[:MAX_SCORED]
    return Related(_by_text(tx, heaviest, weights), weights)


def _words(text: str) -> list[str]:
    """Return the tokens of a text, without the commonest."""
    found = dict.fromkeys(tokens.of_text(text[: tokens.MAX_QUERY_CHARS]).split())
    return [token for token in found if len(token) > 2 and token not in tokens.COMMON][:MAX_WORDS]


def _rare_rows(tx: Tx, words: Sequence[str], project_key: str, last: int, common: set[str]) -> dict[str, list[int]]:
    """Return the rows of the project's observations for each rare word."""

    def expressions(some: Sequence[str]) -> str:
        matches = [Match((Term((word,)),)) for word in some]
        engine = [match.fts5(each) if tx.engine == "sqlite" else match.tsquery(each, last) for each in matches]
        return json.dumps(engine, ensure_ascii=False)

    unknown, counts = [word for word in words if word not in common], dict[str, int]()
    for start in range(0, len(unknown), COUNTED[tx.engine]):
        some = unknown[start : start + COUNTED[tx.engine]]
        counted = tx.all("words_counts", matches=expressions(some), budget=MAX_ROWS + 1, last=last)
        found = {word: json.loads(row["count_and_last"])[0] for word, row in zip(some, counted, strict=True)}
        if len(common) < MAX_COMMON:
            common.update(word for word, count in found.items() if count > MAX_ROWS)
        counts |= {word: count for word, count in found.items() if count <= MAX_ROWS}
    rare, left = list[str](), MAX_READ
    for word in sorted(counts, key=lambda word: counts[word]):
        left -= counts[word]
        if left < 0:
            break
        rare += [word] if counts[word] else []
    if not rare:
        return {}
    rows = tx.all("words_rows_of_project", matches=expressions(rare), project_key=project_key)
    numbers_of = {word: json.loads(row["numbers"]) for word, row in zip(rare, rows, strict=True)}
    return {word: numbers for word, numbers in numbers_of.items() if numbers}


def _by_text(tx: Tx, numbers: Sequence[int], weights: dict[str, float]) -> list[int]:
    """Return the observations of some rows, best first."""
    score = bm25.scorer({Term((word,)): weight for word, weight in weights.items()})
    rows = tx.all("words_texts", numbers=json.dumps(numbers)) if numbers else []
    rows.sort(key=lambda row: (score(row["title"], row["body"])[0], row["number"]), reverse=True)
    return [row["item_id"] for row in rows]
