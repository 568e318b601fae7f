"""Full-text search.

The engine finds candidates by the rarest words of a query, within a budget of rows, and scores them approximately.
`bm25` scores the best of them by their whole text, so that both engines give the same results in the same order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

from backstory.store.db import Row, Tx
from backstory.store.index import bm25, pairs, tokens, word_index
from backstory.store.index.hits import ANYWHERE, KINDS, Filter, Hit
from backstory.store.index.match import Match
from backstory.store.index.tokens import Term
from backstory.store.index.word_index import Counts, WordIndex

#: Terms at the beginning of a long query that are searched, however common they are.
FIRST_TERMS = 10
#: Candidates that `bm25` scores: as many as the limit of the search, but at least this many.
MIN_RESCORED = 180
#: The same, at most.
MAX_RESCORED = 300
#: Characters of text that `bm25` scores in one search. It bounds the time of a search over long texts.
MAX_RESCORED_CHARS = 400_000
#: The approximate score of those rows. It is higher than any other, so that `bm25` scores them.
NEWEST_SCORE = 1e9
#: Letters of the shortest word that is searched with one letter changed, if no item contains it as it is.
TYPO_LENGTH = 4
#: The weight of a word with a letter changed, relative to the word itself.
TYPO_WEIGHT = 0.5
#: Words of a query that are searched with a letter changed, at most.
TYPO_TERMS = 3
#: If fewer rows than this pass a filter, the weight of a word is its rarity among them: a name may be common in a small
#: project and rare elsewhere. What is common in a large one is common in the whole memory, too.
FEW = 2000
#: Rows that are assumed at least, when the share of a word in a query is computed.
MIN_TOTAL = 1000


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
    index = word_index.read(tx, kinds, where, known)
    if not terms or index is None:
        return []
    counts = dict(zip(terms, index.counts([Match((term,)) for term in terms]), strict=True))
    if every:
        if not all(counts.values()):
            return []
        weights = {term: bm25.weight(index.last, count) for term, count in counts.items()}
        candidates = index.find(Match(tuple(terms), is_every=True), weights, max(limit, MIN_RESCORED))
        return _rescored(tx, candidates, weights, limit, {})
    terms = _rarest(terms, counts)
    counts = {term: counts[term] for term in terms}
    typos = _typos(index, [term for term, count in counts.items() if not count])
    for each in typos.values():
        counts |= each
    weights = {t: each * _typo_weight(t, typos) for t, each in _weights(index, counts).items() if counts[t]}
    candidates = _candidates(index, {term: counts[term] for term in weights}, weights, limit)
    return _rescored(tx, candidates, weights, limit, _shares(index, terms, counts, typos))


def _rarest(terms: Sequence[Term], counts: Mapping[Term, int]) -> list[Term]:
    """Return the first and the rarest terms of a long query in their order. It begins with what is asked, and goes on
    with what was pasted. A term that nothing has comes last: it finds nothing."""
    known = [term for term in terms if counts[term]]
    order = dict.fromkeys((*known[:FIRST_TERMS], *sorted(known, key=lambda term: counts[term]), *terms))
    chosen = set(list(order)[: tokens.MAX_QUERY_TERMS])
    return [term for term in terms if term in chosen]


def similar_titles(
    tx: Tx, words: Collection[str], share: float, kinds: Sequence[str], where: Filter, limit: int
) -> list[int]:
    """Return the newest items whose titles can have this share of the words.

    A title that lacks at most n of the words has all words of one of n + 1 sets. Such sets are rare, so this reads few
    rows however large the memory is.
    """
    terms = [term for word in sorted(words, key=lambda word: (-len(word), word)) for term in tokens.of_every_word(word)]
    index = word_index.read(tx, kinds, where, None)
    if not terms or index is None:
        return []
    sets = len(terms) - math.ceil(share * len(terms)) + 1
    # The longest words are the rarest: they are in the smallest sets.
    starts = [at * len(terms) // sets for at in range(sets + 1)]
    wanted = Match((), index.marks, in_title=True, sets=tuple(tuple(terms[a:b]) for a, b in pairwise(starts)))
    numbers = index.newest(wanted, limit)
    rows = {row["number"]: row for row in tx.all("word_rows_of", numbers=json.dumps(numbers))} if numbers else {}
    return [rows[number]["item_id"] for number in numbers if number in rows]


def newest(tx: Tx, kinds: Sequence[str], where: Filter, limit: int) -> list[Hit]:
    """Return the items that pass a filter, newest first."""
    index = word_index.read(tx, kinds, where, None)
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


def _weights(index: WordIndex, counts: dict[Term, int], min_total: int = 0) -> dict[Term, float]:
    """Return the weight of each term: the rarer, the greater. If few rows pass the filter, only those are counted. A
    word that nothing contains weighs most."""
    total, filtered = index.last, list(counts.values())
    if index.marks and (size := index.size()) < FEW:
        total, filtered = size, index.counts([Match((term,), index.marks) for term in counts])
    total = max(total, min_total)
    return {term: bm25.weight(total, count) for term, count in zip(counts, filtered, strict=True)}


def scorer(tx: Tx, query: str, kinds: Sequence[str] = KINDS, where: Filter = ANYWHERE) -> Callable[[str], float]:
    """Return a function that scores any text by the words of a query. Words that are rare in these kinds count more."""
    terms, index = tokens.of_query(query), word_index.read(tx, kinds, where, None)
    if not terms or index is None:
        return lambda text: 0.0
    counts = dict(zip(terms, index.counts([Match((term,)) for term in terms]), strict=True))
    score = bm25.scorer(_weights(index, {term: count for term, count in counts.items() if count}))
    return lambda text: score("", tokens.of_text(text))[0]


def rarity(tx: Tx, words: Sequence[str], where: Filter = ANYWHERE, known: Counts | None = None) -> dict[str, float]:
    """Return the weight of each word: the rarer, the greater."""
    counts, total = count_words(tx, words, KINDS, where, known)
    return {word: bm25.weight(total, count) for word, count in counts.items()}


def token_weights(tx: Tx, query: str, kinds: Sequence[str], where: Filter, known: Counts) -> dict[str, float]:
    """Return the tokens of a query, without the commonest, and their weights: the rarer, the greater. Of a long query
    these are the rarest ones."""
    terms, index = tokens.of_query(query), word_index.read(tx, kinds, where, known)
    if not terms or index is None:
        return {}
    counts = dict(zip(terms, index.counts([Match((term,)) for term in terms]), strict=True))
    weights = _weights(index, {term: counts[term] for term in _rarest(terms, counts)}).items()
    return {t: each for term, each in weights for t in term.tokens if t not in tokens.COMMON}


def count_words(
    tx: Tx, words: Sequence[str], kinds: Sequence[str] = KINDS, where: Filter = ANYWHERE, known: Counts | None = None
) -> tuple[dict[str, int], int]:
    """Return how many items contain each word, and how many items there are."""
    terms = {word: parts[0] for word in dict.fromkeys(words) if (parts := tokens.of_query(word))}
    index = word_index.read(tx, kinds, where, known)
    if not terms or index is None:
        return {}, 0
    counts = index.counts([Match((term,), index.marks) for term in terms.values()])
    return dict(zip(terms, counts, strict=True)), index.size()


def _candidates(index: WordIndex, counts: dict[Term, int], weights: dict[Term, float], limit: int) -> dict[int, float]:
    """Search the rarest words first, within the budget. Search common words only if those match too few rows. If few
    rows pass the filter, no word is common among them."""
    most, cost = max(limit, MIN_RESCORED), 0
    by_count = sorted(counts, key=lambda term: counts[term])
    rare: list[Term] = []
    for term in by_count:
        cost += counts[term]
        if cost > index.budget:
            break
        rare.append(term)
    common = by_count[len(rare) :]
    if not common or index.size() < index.budget:
        return index.find(Match(tuple(by_count)), weights, most)
    candidates = pairs.find(index, rare, common, counts, weights, most)
    return _with_common(index, common, candidates, weights, limit) if len(candidates) < limit else candidates


def _with_common(
    index: WordIndex, common: list[Term], candidates: dict[int, float], weights: dict[Term, float], limit: int
) -> dict[int, float]:
    """Add the newest rows with a common word, or all in the times of the filter."""
    if index.where.since or index.where.until:
        return index.find(Match(tuple(common)), weights, max(limit, MIN_RESCORED)) | candidates
    return dict.fromkeys(index.newest(Match(tuple(common), index.marks)), NEWEST_SCORE) | candidates


def _typos(index: WordIndex, unknown: Sequence[Term]) -> dict[Term, dict[Term, int]]:
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
    index: WordIndex, terms: Sequence[Term], counts: dict[Term, int], typos: Mapping[Term, Mapping[Term, int]]
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
