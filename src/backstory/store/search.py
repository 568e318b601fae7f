"""Words in, words out: the text index of all that is remembered.

The engine finds candidates in bounded time, by the rarest words; the best of them are weighed by `bm25`, so that both
engines give the same answers in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from backstory.store import bm25, match, tokens, vectors
from backstory.store.db import Row, Tx
from backstory.store.hits import ANYWHERE, KINDS, Hit, Item, Where
from backstory.store.match import Match
from backstory.store.tokens import Term

#: So many of the best candidates are weighed, as many as are asked for in between, and so much of their text.
WEIGHED, WEIGHED_CHARS = (180, 300), 400_000
#: So many matches an engine is let look at.
BUDGET = {"sqlite": 6_000, "postgres": 3_000}
#: So many of the newest are weighed where words choose too little, whatever an engine thinks of them.
NEWEST, FIRST = 40, 1e9
#: Words that nobody wrote are looked for with one letter changed, from this length on.
NEAR_LENGTH, NEAR_WEIGHT, NEAR_TERMS = 4, 0.5, 3


def put_words(tx: Tx, item: Item, title: str, body: str) -> None:
    """An item says this from now on, and is found by it."""
    index(tx, item, title, body)
    vectors.mark(tx, item.kind, item.id)


def index(tx: Tx, item: Item, title: str, body: str) -> None:
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


@dataclass(frozen=True, slots=True)
class _Index:
    """The index as one search sees it."""

    tx: Tx
    last: int  #: the newest row
    where: Where
    marks: tuple[tuple[str, ...], ...]

    def told(self, asked: Match) -> str:
        return match.fts5(asked) if self.tx.engine == "sqlite" else match.tsquery(asked, self.last)

    def counts(self, matches: Sequence[Match]) -> list[int]:
        """How many rows match; beyond the budget, how many it must be if the rest is like the beginning."""
        budget = BUDGET[self.tx.engine]
        asked = json.dumps([self.told(each) for each in matches], ensure_ascii=False)
        rows = self.tx.all("words_counts", matches=asked, budget=budget, last=self.last)
        found = [json.loads(row["found"]) for row in rows]
        return [count if count < budget else budget * self.last // max(1, at) for count, at in found]

    def find(self, asked: Match, weights: dict[Term, float], limit: int) -> dict[int, float]:
        """Rows and their rough scores."""
        asked = replace(asked, marks=self.marks)
        terms = [(self.told(Match((term,))), weights[term]) for term in asked.terms]
        rows = self.tx.all(
            "words_find",
            asked=self.told(asked),
            terms=json.dumps(terms, ensure_ascii=False),
            after=asked.after,
            since=self.where.since,
            until=self.where.until,
            limit=limit,
        )
        return {row["number"]: -row["score"] for row in rows}

    def newest(self, asked: Match) -> list[int]:
        """The last rows, however many there are before them."""
        after = max(0, self.last - 8 * match.WINDOW)
        rows = self.tx.all("words_newest", asked=self.told(replace(asked, after=after)), after=after, limit=NEWEST)
        return [row["number"] for row in rows]


def by_words(
    tx: Tx, query: str, kinds: Sequence[str] = KINDS, where: Where = ANYWHERE, limit: int = 20, every: bool = False
) -> list[Hit]:
    """Items with these words, best first. No match is an empty list, whatever is asked."""
    terms = tokens.of_every_word(query) if every else tokens.of_query(query)
    newest = tx.one("words_last")
    if not terms or newest is None or newest["last"] is None:
        return []
    index = _Index(tx, newest["last"], where, match.marks_for(kinds, where))
    counts = dict(zip(terms, index.counts([Match((term,)) for term in terms]), strict=True))
    if every:
        if not all(counts.values()):
            return []
        weights = {term: bm25.weight(index.last, count) for term, count in counts.items()}
        found = index.find(Match(tuple(terms), is_every=True), weights, max(limit, WEIGHED[0]))
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
    if index.marks and (room := index.counts([Match((), index.marks)])[0]) < BUDGET[index.tx.engine]:
        total, inside = room, index.counts([Match((term,), index.marks) for term in counts])
    return {term: bm25.weight(total, count) for term, count in zip(counts, inside, strict=True)}


def rarity(tx: Tx, words: Sequence[str], where: Where = ANYWHERE) -> dict[str, float]:
    """How much each word says: the rarer, the more."""
    counts, total = occurs(tx, words, KINDS, where)
    return {word: bm25.weight(total, count) for word, count in counts.items()}


def occurs(
    tx: Tx, words: Sequence[str], kinds: Sequence[str] = KINDS, where: Where = ANYWHERE
) -> tuple[dict[str, int], int]:
    """In how many items each word stands, and how many items there are."""
    terms = {word: found[0] for word in dict.fromkeys(words) if (found := tokens.of_query(word))}
    newest = tx.one("words_last")
    if not terms or newest is None or newest["last"] is None:
        return {}, 0
    marks = match.marks_for(kinds, where)
    index = _Index(tx, newest["last"], where, marks)
    counts = index.counts([Match((term,), marks) for term in terms.values()])
    total = index.counts([Match((), marks)])[0] if marks else index.last
    return dict(zip(terms, counts, strict=True)), total


def _candidates(index: _Index, counts: dict[Term, int], weights: dict[Term, float], limit: int) -> dict[int, float]:
    """The rarest words first, for as long as the budget lasts; commoner ones only where those find too little."""
    room = min(index.counts([Match((), index.marks)])) if index.marks else index.last
    rare: list[Term] = []
    cost = 0
    for term in sorted(counts, key=lambda term: counts[term]):
        cost += min(counts[term], room)
        if cost > BUDGET[index.tx.engine]:
            break
        rare.append(term)
    most = max(limit, WEIGHED[0])
    found = index.find(Match(tuple(rare)), weights, most) if rare else {}
    common = sorted((term for term in counts if term not in rare), key=lambda term: counts[term])
    return _among_common(index, common, found, weights, limit) if common and len(found) < limit else found


def _among_common(
    index: _Index, common: list[Term], found: dict[int, float], weights: dict[Term, float], limit: int
) -> dict[int, float]:
    """Words that are everywhere do not choose by themselves: what has them all, what has the rarer ones in its title,
    and what is newest."""
    budget, most = BUDGET[index.tx.engine], max(limit, WEIGHED[0])
    every = Match(tuple(common), index.marks, is_every=True)
    if len(common) > 1 and 0 < index.counts([every])[0] < budget:
        found = index.find(every, weights, most) | found
        if len(found) >= limit:
            return found
    found = index.find(Match(tuple(common[:2]), in_title=True), weights, most) | found
    if index.where.since or index.where.until:
        return index.find(Match(tuple(common)), weights, most) | found
    return dict.fromkeys(index.newest(Match(tuple(common), index.marks)), FIRST) | found


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
    head = order[: min(max(limit, WEIGHED[0]), WEIGHED[1])]
    score, left = bm25.scorer(weights), WEIGHED_CHARS
    texts = {row["number"]: row for row in tx.all("words_texts", numbers=json.dumps(head))}
    best: dict[int, float] = {}
    for number in head:
        if number in texts and left > 0:
            title, body = texts[number]["title"], texts[number]["body"]
            left -= len(body)
            best[number] = score(title, body)
    least = min(best.values(), default=0.0)
    scores = {number: best.get(number, min(found[number], least)) for number in order}
    order.sort(key=lambda number: (-scores[number], number not in best, -number))
    rows = {row["number"]: row for row in tx.all("words_found", numbers=json.dumps(order[:limit]))}
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
    return rows_of(tx, by_words(tx, query, kinds, Where(project=project), limit + skip, every)[skip:])


#: What is shown of each kind, and the query that has it.
SHOWN = {
    "observation": "found_observations",
    "summary": "found_summaries",
    "prompt": "found_prompts",
    "turn": "found_turns",
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
