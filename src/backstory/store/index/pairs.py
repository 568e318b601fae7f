"""Candidates of a query with common words: rows that have a rare word, and rows that have two common ones.

All rows with a common word would be too many to read. The best rows have several words of the query, and two common
words together are seldom. How many rows are read does not depend on the size of the memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations

from backstory.store.index import bm25, match
from backstory.store.index.match import Match
from backstory.store.index.tokens import Term
from backstory.store.index.word_index import WordIndex

#: Rows of common words that the engine may compare in one search. It does not return them all.
COMPARED = {"sqlite": 1_000_000, "postgres": 200_000}
#: Rows with two common words that are read in one search.
READ = {"sqlite": 20_000, "postgres": 3_000}
#: Rows whose title and length are read at once, heaviest first.
PAGE = 4000
#: Newest rows with a common word in their title that are candidates.
TITLES = 300


@dataclass(slots=True)
class _Rows:
    """Rows, and which terms each is known to have, as bits."""

    index: WordIndex
    terms: Sequence[Term]
    marks: tuple[tuple[str, ...], ...]
    had: dict[int, int] = field(default_factory=dict)

    def bits(self, terms: Sequence[Term]) -> int:
        return sum(1 << self.terms.index(term) for term in terms)

    def read(self, wanted: Sequence[tuple[Match, Sequence[Term]]]) -> None:
        """Read the rows of some matches. Each row of a match has all of its terms."""
        matches = [replace(each, marks=(*each.marks, *self.marks)) for each, _ in wanted]
        for (_, terms), numbers in zip(wanted, self.index.rows(matches) if matches else (), strict=True):
            bits = self.bits(terms)
            for number in numbers:
                self.had[number] = self.had.get(number, 0) | bits

    def find_rare(self, rare: Sequence[Term], common: Sequence[Term]) -> None:
        """Read all rows with a rare word, and which common words they have."""
        self.read([(Match((term,)), (term,)) for term in rare])
        group = Match(tuple(rare))
        self.read([(replace(group, also=(term,)), (term,)) for term in common if rare])


def find(
    index: WordIndex,
    rare: Sequence[Term],
    common: Sequence[Term],
    counts: Mapping[Term, int],
    weights: Mapping[Term, float],
    limit: int,
) -> dict[int, float]:
    """Return about `limit` rows with the greatest weight of matching terms, and their approximate scores."""
    engine = index.tx.engine
    others = replace(index.where, project="", session_id=0)  # these two are checked row by row
    rows = _Rows(index, (*rare, *common), match.marks_for((), others))
    compared, near = COMPARED[engine], list[Term]()
    for term in common:  # the rarest first
        compared -= counts[term]
        if compared < 0:
            break
        near.append(term)
    rows.find_rare(rare, near)
    read, pairs = READ[engine], list[tuple[Match, Sequence[Term]]]()
    for pair in sorted(combinations(near, 2), key=lambda pair: counts[pair[0]] * counts[pair[1]]):
        compared -= counts[pair[0]] + counts[pair[1]]
        if compared < -COMPARED[engine]:
            break
        read -= counts[pair[0]] * counts[pair[1]] // max(1, index.last)
        # If too many rows have both words, those that have both in their title are the best of them.
        pairs.append((Match(pair, is_every=True, in_title=read < 0), pair))
    rows.read(pairs)
    found = _scored(rows, weights, limit)
    if len(found) >= limit:
        return found
    titles = replace(rows, had={})
    for term in common[:2]:
        for number in index.newest(Match((term,), index.marks, in_title=True), TITLES):
            titles.had[number] = titles.had.get(number, 0) | rows.bits((term,))
    return _scored(titles, weights, limit) | found


def _scored(rows: _Rows, weights: Mapping[Term, float], limit: int) -> dict[int, float]:
    """Score the heaviest rows that pass the filter, as if each word stood once in the text, and by their titles."""
    index, where = rows.index, rows.index.where
    words = [(term.tokens[0], weights[term]) for term in rows.terms]

    @cache  # there are many rows but few different sets of terms
    def of(had: int) -> tuple[float, list[tuple[str, float]]]:
        mine = [each for at, each in enumerate(words) if had >> at & 1]
        return sum(weight for _, weight in mine), mine

    order = sorted(rows.had, key=lambda number: (of(rows.had[number])[0], number), reverse=True)
    scores: dict[int, float] = {}
    for start in range(0, len(order), PAGE):
        page = index.tx.all(
            "words_heads",
            numbers=json.dumps(order[start : start + PAGE]),
            kinds=" ".join(index.kinds),
            project=where.project,
            session_id=where.session_id,
            outside=int(where.is_outside_groups),
            since=where.since,
            until=where.until,
        )
        for row in page:
            title = frozenset(row["title"].split())
            scores[row["number"]] = bm25.estimate(of(rows.had[row["number"]])[1], title, row["length"])
        if len(scores) >= 2 * limit:
            break
    best = sorted(scores, key=lambda number: (scores[number], number), reverse=True)[:limit]
    return {number: scores[number] for number in best}
