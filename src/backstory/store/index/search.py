"""Full-text search, and the index behind it.

The engine finds candidates by the rarest words of a query, within a budget of rows, and scores them approximately.
`bm25` scores the best of them by their whole text, so that both engines give the same results in the same order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from backstory.store.db import Row, Tx
from backstory.store.index import bm25, match, tokens, vectors
from backstory.store.index.hits import ANYWHERE, KINDS, Filter, Hit, IndexedItem
from backstory.store.index.match import Match
from backstory.store.index.tokens import Term

#: Candidates that `bm25` scores: as many as the limit of the search, but at least this many.
MIN_RESCORED = 180
#: The same, at most.
MAX_RESCORED = 300
#: Characters of text that `bm25` scores in one search. It bounds the time of a search over long texts.
MAX_RESCORED_CHARS = 400_000
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
#: The approximate score of those rows. It is higher than any other, so that `bm25` scores them.
NEWEST_SCORE = 1e9
#: Letters of the shortest word that is searched with one letter changed, if no item contains it as it is.
TYPO_LENGTH = 4
#: The weight of a word with a letter changed, relative to the word itself.
TYPO_WEIGHT = 0.5
#: Words of a query that are searched with a letter changed, at most.
TYPO_TERMS = 3
#: Rows that are assumed at least, when the share of a word in a query is computed.
MIN_TOTAL = 1000


def put_words(tx: Tx, item: IndexedItem, title: str, body: str) -> None:
    """Index the new text of an item, and mark it as due for a vector. A hidden item gets none."""
    index(tx, item, title, body)
    vectors.mark(tx, item.kind, item.id)


def index(tx: Tx, item: IndexedItem, title: str, body: str) -> None:
    """Index the words of an item, in place of earlier ones. A hidden item has neither words nor a vector."""
    if item.is_hidden:
        remove_words(tx, item.kind, item.id)
        return
    title, body = tokens.of_text(title), tokens.of_text(body)
    row = tx.one(
        "word_row_put",
        kind=item.kind,
        item_id=item.id,
        session_id=item.session_id,
        at=item.at,
        project=item.project,
        project_key=item.project_key,
    )
    assert row is not None  # noqa: S101 - an upsert always answers
    number, marks = row["words_rowid"], match.marks_of(item)
    vector = match.tsvector(title, body, marks, number) if tx.engine == "postgres" else ""
    tx.run("words_put", number=number, title=title, body=body, marks=" ".join(marks), tokens=vector)


def remove_words(tx: Tx, kind: str, item_id: int) -> None:
    if row := tx.one("word_row", kind=kind, item_id=item_id):
        tx.run("words_remove", number=row["words_rowid"])
        tx.run("word_row_remove", kind=kind, item_id=item_id)
    vectors.remove(tx, kind, item_id)


class Counts(dict[str, tuple[int, int]]):
    """Expression -> how many rows match it, and the newest row at that time. A transaction counts nothing twice."""

    def lasting(self, engine: str) -> Counts:
        """Return the counts to keep for the next search: those of common words, which are slow to count."""
        common = {expression: count for expression, count in self.items() if count[0] >= BUDGET[engine] * COMMON}
        return Counts(common if len(common) <= KEPT else {})


@dataclass(frozen=True, slots=True)
class _Index:
    """The index, as one search reads it."""

    tx: Tx
    last: int  #: the newest row
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
        marks = () if is_large else self.marks
        rows_of_parts = self.rows([replace(part, marks=marks, without=self.without) for part in parts])
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
        """Return the newest rows of a match."""
        after = max(0, self.last - 8 * match.WINDOW)
        asked = self.expression(replace(wanted, after=after, without=self.without))
        return [row["number"] for row in self.tx.all("words_newest", asked=asked, after=after, limit=limit)]


def _index(tx: Tx, kinds: Sequence[str], where: Filter, known: Counts | None) -> _Index | None:
    newest = tx.one("words_last")
    if newest is None or newest["last"] is None:
        return None
    return _Index(tx, newest["last"], where, match.marks_for(kinds, where), Counts() if known is None else known)


def _least(weight_of: Mapping[int, float], number: int) -> float:
    """Return the least weight of the `number` heaviest rows. There are many rows but few different weights."""
    for weight, count in sorted(Counter(weight_of.values()).items(), reverse=True):
        number -= count
        if number <= 0:
            return weight
    return 0.0


def by_words(
    tx: Tx,
    query: str,
    kinds: Sequence[str] = KINDS,
    where: Filter = ANYWHERE,
    limit: int = 20,
    every: bool = False,
    known: Counts | None = None,
) -> list[Hit]:
    """Return items with these words, best first: with any of them, or with every one. Accepts any text."""
    terms = tokens.of_every_word(query) if every else tokens.of_query(query)
    index = _index(tx, kinds, where, known)
    if not terms or index is None:
        return []
    counts = dict(zip(terms, index.counts([Match((term,)) for term in terms]), strict=True))
    if every:
        if not all(counts.values()):
            return []
        weights = {term: bm25.weight(index.last, count) for term, count in counts.items()}
        candidates = index.find(Match(tuple(terms), is_every=True), weights, max(limit, MIN_RESCORED))
        return _rescored(tx, candidates, weights, limit, {})
    typos = _typos(index, [term for term, count in counts.items() if not count])
    for each in typos.values():
        counts |= each
    weights = {t: each * _typo_weight(t, typos) for t, each in _weights(index, counts).items() if counts[t]}
    candidates = _candidates(index, {term: counts[term] for term in weights}, weights, limit)
    return _rescored(tx, candidates, weights, limit, _shares(index, terms, counts, typos))


def newest(tx: Tx, kinds: Sequence[str], where: Filter, limit: int) -> list[Hit]:
    """Return the items that pass a filter, newest first."""
    index = _index(tx, kinds, where, None)
    if index is None:
        return []
    wanted = Match((), index.marks, without=index.without)
    if index.size() < index.budget or where.since or where.until:
        numbers = sorted(index.rows([wanted])[0], reverse=True)[: 2 * limit]
    else:
        numbers = index.newest(wanted, limit)
    rows = tx.all("word_rows_of", numbers=json.dumps(numbers)) if numbers else []
    rows.sort(key=lambda row: (row["at"], row["number"]), reverse=True)
    return [Hit(row["kind"], row["item_id"], row["session_id"], 0.0, row["at"]) for row in rows[:limit]]


def _weights(index: _Index, counts: dict[Term, int], min_total: int = 0) -> dict[Term, float]:
    """Return the weight of each term: the rarer, the greater. If few rows pass the filter, only those are counted,
    because a name may be common in a project and rare elsewhere. A word that nothing contains weighs most."""
    total, filtered = index.last, list(counts.values())
    if index.marks and (size := index.size()) < index.budget:
        total, filtered = size, index.counts([Match((term,), index.marks) for term in counts])
    total = max(total, min_total)
    return {term: bm25.weight(total, count) for term, count in zip(counts, filtered, strict=True)}


def scorer(tx: Tx, query: str, kinds: Sequence[str] = KINDS, where: Filter = ANYWHERE) -> Callable[[str], float]:
    """Return a function that scores any text by the words of a query. Words that are rare in these kinds count more."""
    terms, index = tokens.of_query(query), _index(tx, kinds, where, None)
    if not terms or index is None:
        return lambda text: 0.0
    counts = dict(zip(terms, index.counts([Match((term,)) for term in terms]), strict=True))
    score = bm25.scorer(_weights(index, {term: count for term, count in counts.items() if count}))
    return lambda text: score("", tokens.of_text(text))[0]


def rarity(tx: Tx, words: Sequence[str], where: Filter = ANYWHERE, known: Counts | None = None) -> dict[str, float]:
    """Return the weight of each word: the rarer, the greater."""
    counts, total = count_words(tx, words, KINDS, where, known)
    return {word: bm25.weight(total, count) for word, count in counts.items()}


def count_words(
    tx: Tx, words: Sequence[str], kinds: Sequence[str] = KINDS, where: Filter = ANYWHERE, known: Counts | None = None
) -> tuple[dict[str, int], int]:
    """Return how many items contain each word, and how many items there are."""
    terms = {word: parts[0] for word in dict.fromkeys(words) if (parts := tokens.of_query(word))}
    index = _index(tx, kinds, where, known)
    if not terms or index is None:
        return {}, 0
    counts = index.counts([Match((term,), index.marks) for term in terms.values()])
    return dict(zip(terms, counts, strict=True)), index.size()


def _candidates(index: _Index, counts: dict[Term, int], weights: dict[Term, float], limit: int) -> dict[int, float]:
    """Search the rarest words first, within the budget. Search common words only if those match too few rows."""
    size, cost = index.size(), 0
    by_count = sorted(counts, key=lambda term: counts[term])
    rare: list[Term] = []
    for term in by_count:
        cost += min(counts[term], size)
        if cost > index.budget:
            break
        rare.append(term)
    candidates = index.find(Match(tuple(rare)), weights, max(limit, MIN_RESCORED)) if rare else {}
    common = by_count[len(rare) :]
    return _with_common(index, common, candidates, weights, limit) if common and len(candidates) < limit else candidates


def _with_common(
    index: _Index, common: list[Term], candidates: dict[int, float], weights: dict[Term, float], limit: int
) -> dict[int, float]:
    """Add rows that have all common words, rows with the rarer ones in their title, and the newest rows."""
    most = max(limit, MIN_RESCORED)
    every = Match(tuple(common), index.marks, is_every=True)
    if len(common) > 1 and 0 < index.counts([every])[0] < index.budget:
        candidates = index.find(every, weights, most) | candidates
        if len(candidates) >= limit:
            return candidates
    candidates = index.find(Match(tuple(common[:2]), in_title=True), weights, most) | candidates
    if index.where.since or index.where.until:
        return index.find(Match(tuple(common)), weights, most) | candidates
    return dict.fromkeys(index.newest(Match(tuple(common), index.marks)), NEWEST_SCORE) | candidates


def _typos(index: _Index, unknown: Sequence[Term]) -> dict[Term, dict[Term, int]]:
    """Return, for words that no item contains, those that differ by one letter and how many rows have them."""
    typos: dict[Term, dict[Term, int]] = {}
    for term in unknown[:TYPO_TERMS]:
        word = term.tokens[0]
        if len(term.tokens) == 1 and TYPO_LENGTH <= len(word) <= 24 and word.isascii() and word.isalpha():
            others = [Match((Term((other,)),)) for other in tokens.neighbours(word)]
            counts = zip(others, index.counts(others), strict=True)
            typos[term] = {other.terms[0]: count for other, count in counts if count}
    return typos


def _typo_weight(term: Term, typos: Mapping[Term, Mapping[Term, int]]) -> float:
    return TYPO_WEIGHT if any(term in each for each in typos.values()) else 1.0


def _shares(
    index: _Index, terms: Sequence[Term], counts: dict[Term, int], typos: Mapping[Term, Mapping[Term, int]]
) -> dict[Term, float]:
    """Return which share of the query each term is: the rarer, the more. A word with a typo counts as the word that was
    meant. In a small memory no word is common, so at least `MIN_TOTAL` rows are assumed."""
    full = _weights(index, counts, MIN_TOTAL)
    whole = sum(max((full[other] for other in typos.get(term, ())), default=full[term]) for term in terms) or 1.0
    return {term: each * _typo_weight(term, typos) / whole for term, each in full.items()}


def _rescored(
    tx: Tx, candidates: dict[int, float], weights: dict[Term, float], limit: int, shares: dict[Term, float]
) -> list[Hit]:
    """Score the best candidates by their whole text. The others follow in their order. `shares` says which share of the
    query each term is; without it, every hit has all of it."""
    order = sorted(candidates, key=lambda number: (-candidates[number], -number))
    head = order[: min(max(limit, MIN_RESCORED), MAX_RESCORED)]
    score, characters = bm25.scorer(weights, shares), MAX_RESCORED_CHARS
    rows = {row["number"]: row for row in tx.all("words_texts", numbers=json.dumps(head))}
    best: dict[int, float] = {}
    coverage: dict[int, float] = {}
    for number in head:
        if characters > 0 and (row := rows.get(number)):
            characters -= len(row["body"])
            best[number], had = score(row["title"], row["body"])
            coverage[number] = round(had, 4) if shares else 1.0
    least = min(best.values(), default=0.0)
    scores = {number: best.get(number, min(candidates[number], least)) for number in order}
    order.sort(key=lambda number: (-scores[number], number not in best, -number))
    if more := [number for number in order[:limit] if number not in rows]:
        rows |= {row["number"]: row for row in tx.all("word_rows_of", numbers=json.dumps(more))}
    return [
        Hit(row["kind"], row["item_id"], row["session_id"], round(scores[n], 6), row["at"], coverage.get(n, 1.0))
        for n in order[:limit]
        if (row := rows.get(n))
    ]


def find(tx: Tx, query: str, project: str = "", kind: str = "", limit: int = 20, every: bool = False) -> list[Row]:
    """Return rows with these words as the API shows them, best first."""
    kinds = (kind,) if kind else ("observation", "summary", "prompt")
    hits = by_words(tx, query, kinds, Filter(project=project), limit, every)
    rows = rows_by_key(tx, [(hit.kind, hit.item_id) for hit in hits])
    return [{"score": hit.score} | rows[key] for hit in hits if (key := (hit.kind, hit.item_id)) in rows]


#: Kind -> query of the rows that the API shows.
SHOWN = {
    "observation": "shown_observations",
    "summary": "shown_summaries",
    "prompt": "shown_prompts",
    "turn": "shown_turns",
    "session": "shown_sessions",
    "chunk": "shown_chunks",
}


def rows_by_key(tx: Tx, keys: Collection[tuple[str, int]]) -> dict[tuple[str, int], Row]:
    """Return (kind, id) -> row as the API shows it. Items that were deleted are left out."""
    rows: dict[tuple[str, int], Row] = {}
    for kind, query in SHOWN.items():
        if wanted := [number for each, number in keys if each == kind]:
            rows |= {(kind, row["id"]): {"kind": kind} | row for row in tx.all(query, ids=json.dumps(wanted))}
    return rows
