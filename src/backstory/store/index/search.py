"""Words in, words out: the text index of all that is remembered.

The engine finds candidates in bounded time, by the rarest words; it scores those that have the most of them, and the
best are weighed by `bm25`, so that both engines give the same answers in the same order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from backstory.store.db import Row, Tx
from backstory.store.index import bm25, match, tokens, vectors
from backstory.store.index.hits import ANYWHERE, KINDS, Filter, Hit, IndexedItem
from backstory.store.index.match import Match
from backstory.store.index.tokens import Term

#: Candidates that `bm25` weighs: as many as are asked for, between these bounds.
WEIGHED_LEAST = 180
WEIGHED_MOST = 300
#: Characters of text that are weighed in one search. It bounds the time of a search over long texts.
WEIGHED_CHARS = 400_000
#: Matches that an engine may look at in one search.
BUDGET = {"sqlite": 6_000, "postgres": 6_000}
#: Matches that are counted, as a multiple of the budget. SQLite extrapolates from the first ones, and the rows of a
#: project are stored together, so it counts more of them.
COUNTED = {"sqlite": 2, "postgres": 1}
#: Rows that the engine scores, as a multiple of what is asked for.
SCORED = 5
#: Rows that the engine scores at most, where many have the same words.
MOST_SCORED = 1000
#: A word is common if it has this part of the budget in matches. Counting it is slow, so its count is kept for the
#: next search.
COMMON = 1 / 20
#: A kept count is used until the index has grown by this factor.
GROWTH = 1.05
#: Counts that are kept at most.
KEPT = 4096
#: Newest rows that are weighed where all words of a query are common.
NEWEST = 40
#: The rough score of those rows. It is above every other, so that they are weighed.
NEWEST_SCORE = 1e9
#: Letters of the shortest word that is also looked for with one letter changed, if nothing contains it as it is.
NEAR_LENGTH = 4
#: The weight of such a word, where one that was written as asked has 1.
NEAR_WEIGHT = 0.5
#: Words of a query that are looked for in this way.
NEAR_TERMS = 3


def put_words(tx: Tx, item: IndexedItem, title: str, body: str) -> None:
    """An item says this from now on, and is found by it."""
    index(tx, item, title, body)
    vectors.mark(tx, item.kind, item.id)


def index(tx: Tx, item: IndexedItem, title: str, body: str) -> None:
    """Index an item's words; one that is indexed already is indexed anew."""
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
    told = match.tsvector(title, body, marks, number) if tx.engine == "postgres" else ""
    tx.run("words_put", number=number, title=title, body=body, marks=" ".join(marks), tokens=told)


def remove_words(tx: Tx, kind: str, item_id: int) -> None:
    if row := tx.one("word_row", kind=kind, item_id=item_id):
        tx.run("words_remove", number=row["words_rowid"])
        tx.run("word_row_remove", kind=kind, item_id=item_id)
    vectors.remove(tx, kind, item_id)


class Counts(dict[str, tuple[int, int]]):
    """How many rows match what was asked for, and how many rows there were then: within a transaction nothing is
    counted twice."""

    def lasting(self, engine: str) -> Counts:
        """The counts of common words, which are slow to count and serve the next search as well."""
        common = {asked: each for asked, each in self.items() if each[0] >= BUDGET[engine] * COMMON}
        return Counts(common if len(common) <= KEPT else {})


@dataclass(frozen=True, slots=True)
class _Index:
    """The index as one search sees it."""

    tx: Tx
    last: int  #: the newest row
    where: Filter
    marks: tuple[tuple[str, ...], ...]
    known: Counts

    @property
    def budget(self) -> int:
        return BUDGET[self.tx.engine]

    def told(self, asked: Match) -> str:
        return match.fts5(asked) if self.tx.engine == "sqlite" else match.tsquery(asked, self.last)

    def counts(self, matches: Sequence[Match]) -> list[int]:
        """How many rows match; beyond the budget, how many it must be if the rest is like the beginning."""
        told, budget = [self.told(each) for each in matches], COUNTED[self.tx.engine] * self.budget
        unknown = [each for each in dict.fromkeys(told) if not self._knows(each)]
        if unknown:
            asked = json.dumps(unknown, ensure_ascii=False)
            rows = self.tx.all("words_counts", matches=asked, budget=budget, last=self.last)
            for each, row in zip(unknown, rows, strict=True):
                count, at = json.loads(row["found"])
                self.known[each] = (count if count < budget else budget * self.last // max(1, at), self.last)
        return [self.known[each][0] for each in told]

    def _knows(self, told: str) -> bool:
        """Whether the count is known. That of a common word holds until the index has grown."""
        count, last = self.known.get(told, (0, 0))
        return last == self.last or (count >= self.budget * COMMON and last <= self.last <= last * GROWTH)

    def room(self) -> int:
        """How many rows have the marks."""
        return self.counts([Match((), self.marks)])[0] if self.marks else self.last

    def find(self, asked: Match, weights: dict[Term, float], limit: int) -> dict[int, float]:
        """Rows and their rough scores: those that have the most of what is asked for, and of these the best."""
        each = [asked] if asked.is_every else [replace(asked, terms=(term,)) for term in asked.terms]
        # A mark that much has is long to go through: not once for each term.
        is_much = bool(self.marks) and len(each) > 1 and self.room() >= self.budget
        among = set(self._rows([replace(asked, marks=self.marks)])[0]) if is_much else None
        worth: dict[int, float] = {}
        found = self._rows([replace(part, marks=() if is_much else self.marks) for part in each])
        for part, numbers in zip(each, found, strict=True):
            more = sum(weights[term] for term in part.terms)
            for number in numbers:
                worth[number] = worth.get(number, 0.0) + more
        if among is not None:
            worth = {number: value for number, value in worth.items() if number in among}
        if not worth:
            return {}
        rows = self.tx.all(
            "words_scored",
            asked=self.told(asked),
            terms=json.dumps([(self.told(Match((term,))), weights[term]) for term in asked.terms], ensure_ascii=False),
            numbers=json.dumps(self._likely(asked, worth, limit)),
            limit=limit,
        )
        return {row["number"]: -row["score"] for row in rows}

    def _likely(self, asked: Match, worth: Mapping[int, float], limit: int) -> list[int]:
        """Those that have the most; of too many that have the same, those with it in their title, and the newest."""
        least = _least(worth, SCORED * limit)
        likely = [number for number, each in worth.items() if each >= least]
        most = max(MOST_SCORED, SCORED * limit)
        if len(likely) <= most:
            return likely
        titles = set(self._rows([replace(asked, in_title=True)])[0])
        return sorted(likely, key=lambda n: (worth[n] > least, n in titles, n), reverse=True)[:most]

    def _rows(self, matches: Sequence[Match]) -> list[list[int]]:
        """The rows of each that are of the time."""
        asked = json.dumps([self.told(each) for each in matches], ensure_ascii=False)
        rows = self.tx.all("words_rows", matches=asked, since=self.where.since, until=self.where.until)
        return [json.loads(row["found"]) for row in rows]

    def newest(self, asked: Match) -> list[int]:
        """The last rows, however many there are before them."""
        after = max(0, self.last - 8 * match.WINDOW)
        rows = self.tx.all("words_newest", asked=self.told(replace(asked, after=after)), after=after, limit=NEWEST)
        return [row["number"] for row in rows]


def _index(tx: Tx, kinds: Sequence[str], where: Filter, known: Counts | None) -> _Index | None:
    newest = tx.one("words_last")
    if newest is None or newest["last"] is None:
        return None
    return _Index(tx, newest["last"], where, match.marks_for(kinds, where), Counts() if known is None else known)


def _least(worth: Mapping[int, float], number: int) -> float:
    """What so many are worth at least; few values are many rows'."""
    for value, count in sorted(Counter(worth.values()).items(), reverse=True):
        number -= count
        if number <= 0:
            return value
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
    """Items with these words, best first. No match is an empty list, whatever is asked."""
    terms = tokens.of_every_word(query) if every else tokens.of_query(query)
    index = _index(tx, kinds, where, known)
    if not terms or index is None:
        return []
    counts = dict(zip(terms, index.counts([Match((term,)) for term in terms]), strict=True))
    if every:
        if not all(counts.values()):
            return []
        weights = {term: bm25.weight(index.last, count) for term, count in counts.items()}
        found = index.find(Match(tuple(terms), is_every=True), weights, max(limit, WEIGHED_LEAST))
    else:
        near = _near(index, [term for term, count in counts.items() if not count])
        counts = {term: count for term, count in (counts | near).items() if count}
        weights = {t: each * (NEAR_WEIGHT if t in near else 1) for t, each in _weights(index, counts).items()}
        found = _candidates(index, counts, weights, limit)
    return _weighed(tx, found, weights, limit)


def _weights(index: _Index, counts: dict[Term, int]) -> dict[Term, float]:
    """How much each says: the rarer in what is searched, the more. (In a project a name may be everywhere that is rare
    elsewhere.) Where that is much, how rare it is at all is close enough."""
    total, inside = index.last, list(counts.values())
    if index.marks and (room := index.room()) < index.budget:
        total, inside = room, index.counts([Match((term,), index.marks) for term in counts])
    return {term: bm25.weight(total, count) for term, count in zip(counts, inside, strict=True)}


def rarity(tx: Tx, words: Sequence[str], where: Filter = ANYWHERE, known: Counts | None = None) -> dict[str, float]:
    """How much each word says: the rarer, the more."""
    counts, total = occurs(tx, words, KINDS, where, known)
    return {word: bm25.weight(total, count) for word, count in counts.items()}


def occurs(
    tx: Tx,
    words: Sequence[str],
    kinds: Sequence[str] = KINDS,
    where: Filter = ANYWHERE,
    known: Counts | None = None,
) -> tuple[dict[str, int], int]:
    """In how many items each word stands, and how many items there are."""
    terms = {word: found[0] for word in dict.fromkeys(words) if (found := tokens.of_query(word))}
    index = _index(tx, kinds, where, known)
    if not terms or index is None:
        return {}, 0
    counts = index.counts([Match((term,), index.marks) for term in terms.values()])
    return dict(zip(terms, counts, strict=True)), index.room()


def _candidates(index: _Index, counts: dict[Term, int], weights: dict[Term, float], limit: int) -> dict[int, float]:
    """The rarest words first, for as long as the budget lasts; commoner ones only where those find too little."""
    room, cost = index.room(), 0
    rare: list[Term] = []
    for term in sorted(counts, key=lambda term: counts[term]):
        cost += min(counts[term], room)
        if cost > index.budget:
            break
        rare.append(term)
    most = max(limit, WEIGHED_LEAST)
    found = index.find(Match(tuple(rare)), weights, most) if rare else {}
    common = sorted((term for term in counts if term not in rare), key=lambda term: counts[term])
    return _among_common(index, common, found, weights, limit) if common and len(found) < limit else found


def _among_common(
    index: _Index, common: list[Term], found: dict[int, float], weights: dict[Term, float], limit: int
) -> dict[int, float]:
    """Words that are everywhere do not choose by themselves: what has them all, what has the rarer ones in its title,
    and what is newest."""
    most = max(limit, WEIGHED_LEAST)
    every = Match(tuple(common), index.marks, is_every=True)
    if len(common) > 1 and 0 < index.counts([every])[0] < index.budget:
        found = index.find(every, weights, most) | found
        if len(found) >= limit:
            return found
    found = index.find(Match(tuple(common[:2]), in_title=True), weights, most) | found
    if index.where.since or index.where.until:
        return index.find(Match(tuple(common)), weights, most) | found
    return dict.fromkeys(index.newest(Match(tuple(common), index.marks)), NEWEST_SCORE) | found


def _near(index: _Index, unknown: Sequence[Term]) -> dict[Term, int]:
    """Words that differ by a letter from words that nobody wrote."""
    found: dict[Term, int] = {}
    for term in unknown[:NEAR_TERMS]:
        word = term.tokens[0]
        if len(term.tokens) == 1 and NEAR_LENGTH <= len(word) <= 24 and word.isascii() and word.isalpha():
            others = [Match((Term((other,)),)) for other in tokens.neighbours(word)]
            for other, count in zip(others, index.counts(others), strict=True):
                if count:
                    found[other.terms[0]] = count
    return found


def _weighed(tx: Tx, found: dict[int, float], weights: dict[Term, float], limit: int) -> list[Hit]:
    """The best candidates by their whole text, the others behind them in the order that they came in."""
    order = sorted(found, key=lambda number: (-found[number], -number))
    head = order[: min(max(limit, WEIGHED_LEAST), WEIGHED_MOST)]
    score, left = bm25.scorer(weights), WEIGHED_CHARS
    rows = {row["number"]: row for row in tx.all("words_texts", numbers=json.dumps(head))}
    best: dict[int, float] = {}
    for number in head:
        if left > 0 and (row := rows.get(number)):
            left -= len(row["body"])
            best[number] = score(row["title"], row["body"])
    least = min(best.values(), default=0.0)
    scores = {number: best.get(number, min(found[number], least)) for number in order}
    order.sort(key=lambda number: (-scores[number], number not in best, -number))
    if more := [number for number in order[:limit] if number not in rows]:
        rows |= {row["number"]: row for row in tx.all("word_rows_of", numbers=json.dumps(more))}
    return [
        Hit(row["kind"], row["item_id"], row["session_id"], round(scores[number], 6), row["at"])
        for number in order[:limit]
        if (row := rows.get(number))
    ]


def find(
    tx: Tx, query: str, project: str = "", kind: str = "", limit: int = 20, skip: int = 0, every: bool = False
) -> list[Row]:
    """Rows with these words, best first."""
    kinds = (kind,) if kind else ("observation", "summary", "prompt")
    return rows_of(tx, by_words(tx, query, kinds, Filter(project=project), limit + skip, every)[skip:])


#: What is shown of each kind, and the query that has it.
SHOWN = {
    "observation": "shown_observations",
    "summary": "shown_summaries",
    "prompt": "shown_prompts",
    "turn": "shown_turns",
}


def rows_of(tx: Tx, hits: Sequence[Hit]) -> list[Row]:
    """What was found, as it is shown."""
    found: dict[tuple[str, int], Row] = {}
    for kind, query in SHOWN.items():
        if wanted := [hit.item_id for hit in hits if hit.kind == kind]:
            for row in tx.all(query, ids=json.dumps(wanted)):
                found[kind, row["id"]] = row
    return [
        {"kind": hit.kind, "score": hit.score} | found[hit.kind, hit.item_id]
        for hit in hits
        if (hit.kind, hit.item_id) in found
    ]
