"""The word index as one search reads it: how many rows match, which rows match, and their approximate scores.

Counts and rows are bounded by a budget, so that a search takes about as long in a large memory as in a small one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from backstory.store.db import Tx
from backstory.store.index import match
from backstory.store.index.hits import Filter
from backstory.store.index.match import Match
from backstory.store.index.tokens import Term

#: Matching rows that an engine may read in one search.
BUDGET = {"sqlite": 6_000, "postgres": 6_000}
#: Matches that are counted, as a multiple of the budget. SQLite extrapolates from the first ones, and the rows of a
#: project are stored together, so it counts more of them.
COUNTED = {"sqlite": 2, "postgres": 1}
#: Rows that the engine scores, as a multiple of the limit.
SCORED = 5
#: Rows that the engine scores at most, if many have the same words.
MAX_SCORED = 1000
#: A word is common if it has this part of the budget in matches. Counting it is slow, so its count is kept for the
#: next search.
COMMON = 1 / 20
#: A kept count is used until the index has grown by this factor.
GROWTH = 1.05
#: Counts that are kept at most.
KEPT = 4096
#: Newest rows that `bm25` scores if all words of a query are common.
NEWEST = 40
#: Windows in which they are looked for first. If they have too few, as many times more are read.
NEWEST_WINDOWS = 8


class Counts(dict[str, tuple[int, int]]):
    """Expression -> how many rows match it, and the newest row at that time. A transaction counts nothing twice."""

    def lasting(self, engine: str) -> Counts:
        """Return the counts to keep for the next search: those of common words, which are slow to count."""
        common = {expression: count for expression, count in self.items() if count[0] >= BUDGET[engine] * COMMON}
        return Counts(common if len(common) <= KEPT else {})


@dataclass(frozen=True, slots=True)
class WordIndex:
    """The index, as one search reads it, within a budget of rows."""

    tx: Tx
    last: int  #: the newest row
    kinds: tuple[str, ...]
    where: Filter
    marks: tuple[tuple[str, ...], ...]
    known: Counts

    @property
    def without(self) -> str:
        return match.IN_GROUP if self.where.is_outside_groups else ""

    @property
    def budget(self) -> int:
        return BUDGET[self.tx.engine]

    def expression(self, wanted: Match) -> str:
        """Return a match in the engine's query language."""
        return match.fts5(wanted) if self.tx.engine == "sqlite" else match.tsquery(wanted, self.last)

    def counts(self, matches: Sequence[Match]) -> list[int]:
        """Return how many rows have each match. Beyond the budget, extrapolate from the rows that were counted."""
        expressions, budget = [self.expression(each) for each in matches], COUNTED[self.tx.engine] * self.budget
        unknown = [each for each in dict.fromkeys(expressions) if not self._is_known(each)]
        if unknown:
            wanted = json.dumps(unknown, ensure_ascii=False)
            rows = self.tx.all("words_counts", matches=wanted, budget=budget, last=self.last)
            for each, row in zip(unknown, rows, strict=True):
                count, at = json.loads(row["count_and_last"])
                self.known[each] = (count if count < budget else budget * self.last // max(1, at), self.last)
        return [self.known[each][0] for each in expressions]

    def _is_known(self, expression: str) -> bool:
        """Whether the count is known. The count of a common word is used until the index has grown."""
        count, last = self.known.get(expression, (0, 0))
        return last == self.last or (count >= self.budget * COMMON and last <= self.last <= last * GROWTH)

    def size(self) -> int:
        """Return how many rows pass the filter."""
        return self.counts([Match((), self.marks)])[0] if self.marks else self.last

    def find(self, wanted: Match, weights: dict[Term, float], limit: int) -> dict[int, float]:
        """Return the rows with the greatest weight of matching terms, and their approximate scores."""
        parts = [wanted] if wanted.is_every else [replace(wanted, terms=(term,)) for term in wanted.terms]
        # If many rows pass the filter, the engine reads them once and not again for each term.
        is_large = bool(self.marks) and len(parts) > 1 and self.size() >= self.budget
        allowed = set(self.rows([replace(wanted, marks=self.marks)])[0]) if is_large else None
        weight_of: dict[int, float] = {}
        wanted = replace(wanted, marks=() if is_large else self.marks)
        rows_of_parts = self.rows([replace(part, marks=wanted.marks, without=self.without) for part in parts])
        for part, numbers in zip(parts, rows_of_parts, strict=True):
            weight = sum(weights[term] for term in part.terms)
            for number in numbers:
                weight_of[number] = weight_of.get(number, 0.0) + weight
        if allowed is not None:
            weight_of = {number: weight for number, weight in weight_of.items() if number in allowed}
        if not weight_of:
            return {}
        terms = [(self.expression(Match((term,))), weights[term]) for term in wanted.terms]
        rows = self.tx.all(
            "words_scored",
            asked=self.expression(wanted),
            terms=json.dumps(terms, ensure_ascii=False),
            numbers=json.dumps(self._heaviest(wanted, weight_of, limit)),
            limit=limit,
        )
        return {row["number"]: -row["score"] for row in rows}

    def _heaviest(self, wanted: Match, weight_of: Mapping[int, float], limit: int) -> list[int]:
        """Return the rows with the greatest weights. If too many are equal, prefer matching titles and newer rows."""
        least = _least(weight_of, SCORED * limit)
        heaviest = [number for number, weight in weight_of.items() if weight >= least]
        most = max(MAX_SCORED, SCORED * limit)
        if len(heaviest) <= most:
            return heaviest
        titles = set(self.rows([replace(wanted, in_title=True)])[0])
        return sorted(heaviest, key=lambda n: (weight_of[n] > least, n in titles, n), reverse=True)[:most]

    def rows(self, matches: Sequence[Match]) -> list[list[int]]:
        """Return the rows of each match within the times of the filter."""
        wanted = json.dumps([self.expression(each) for each in matches], ensure_ascii=False)
        rows = self.tx.all("words_rows", matches=wanted, since=self.where.since, until=self.where.until)
        return [json.loads(row["numbers"]) for row in rows]

    def newest(self, wanted: Match, limit: int = NEWEST) -> list[int]:
        """Return the newest rows of a match. PostgreSQL cannot stop when it has enough, so it looks back in steps."""
        windows, found = NEWEST_WINDOWS, list[int]()
        while True:
            after = max(0, self.last - windows * match.WINDOW) if self.tx.engine == "postgres" else 0
            asked = self.expression(replace(wanted, after=after, without=self.without))
            found = [row["number"] for row in self.tx.all("words_newest", asked=asked, after=after, limit=limit)]
            if len(found) >= limit or not after:
                return found
            windows *= NEWEST_WINDOWS


def read(tx: Tx, kinds: Sequence[str], where: Filter, known: Counts | None) -> WordIndex | None:
    """Return the index for these kinds and a filter; None if it is empty."""
    newest = tx.one("words_last")
    if newest is None or newest["last"] is None:
        return None
    marks = match.marks_for(kinds, where)
    return WordIndex(tx, newest["last"], tuple(kinds), where, marks, Counts() if known is None else known)


def _least(weight_of: Mapping[int, float], number: int) -> float:
    """Return the least weight of the `number` heaviest rows. There are many rows but few different weights."""
    for weight, count in sorted(Counter(weight_of.values()).items(), reverse=True):
        number -= count
        if number <= 0:
            return weight
    return 0.0
