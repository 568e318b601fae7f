"""Search by words and by vectors together. Results are items, turns or sessions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from backstory.recall import fuse, newest, reasons, signals
from backstory.recall.fuse import Candidate, Key, QueryStyle, Span, TurnPlace
from backstory.recall.signals import NOWHERE, WorkPlace
from backstory.recall.vectors import Vectors
from backstory.store.db import Row, Store, Tx
from backstory.store.index import search as words
from backstory.store.index import search_rows
from backstory.store.index.hits import ANYWHERE, Filter, Hit
from backstory.store.index.word_index import Counts
from backstory.text import cut, one_line

MEMORY = ("observation", "summary", "prompt")
#: Kind of a query -> the groups of item kinds that are searched for it. Each group is ranked by itself.
FAMILIES: dict[str, tuple[tuple[str, ...], ...]] = {
    "observation": (("observation",),),
    "summary": (("summary",),),
    "prompt": (("prompt",),),
    "memory": (MEMORY,),
    "all": ((*MEMORY, "turn"),),
    "turn": (("turn",), ("chunk",)),
    "session": (("turn",), ("chunk",), MEMORY),
}
#: Hits of each group that are read for a query for items.
ITEMS = 100
#: Hits of each group that are read for a query for sessions or turns. Several hits count for one session or turn.
DEPTH = 200
#: Similarity from which on a vector matches, from 0 to 1. Any two texts are a little similar.
MIN_SIMILARITY = 0.15
#: The same if no item contains a word of the query.
MIN_SIMILARITY_ALONE = 0.3
#: Relevance that a search must reach, else nothing was found: the largest share of the words of the query that an item
#: has, each by its rarity, plus the largest similarity. 3 of 4 short queries about something else stay below.
MIN_RELEVANCE = 0.55
#: The same for a query with more than `SHORT` words. A long question has words that no answer repeats.
MIN_RELEVANCE_LONG = 0.35
SHORT = 4
#: A similarity that is enough, whatever the words.
ENOUGH_SIMILARITY = 0.36
#: A share of the words that is enough, whatever the similarity.
MIN_COVERAGE = 0.5
#: The same for a long query, if there are no vectors.
MIN_COVERAGE_ALONE = 0.25
#: Relevance that an item must have, if items are searched: its own share of the words plus its own similarity. A
#: session has many items, and the weak ones count too.
MIN_RELEVANCE_OF_ITEM = 0.2
#: Type -> factor for the score of an observation.
TYPES = {"decision": 1.1, "bugfix": 1.05, "feature": 1.05}
#: Factor for the score of a pinned observation.
PINNED = 1.2
#: Factor for the score of a superseded observation.
REPLACED = 0.6
#: Characters of a title.
TITLE = 160
#: Characters of a snippet.
SNIPPET = 300
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Query:
    """A search query."""

    query: str
    kind: str = "memory"  #: one of FAMILIES
    where: Filter = ANYWHERE
    limit: int = 20
    explain: bool = False
    place: WorkPlace = NOWHERE  #: where its author works


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The merged hits of each group of kinds."""

    style: QueryStyle
    families: Sequence[dict[Key, Candidate]]
    known: Counts  #: of the words of the query


class MemorySearch:
    """Searches a store and its vectors. Safe to use from several threads. Must not be called in a transaction."""

    def __init__(self, store: Store, vectors: Vectors | None = None) -> None:
        self._store, self._vectors = store, vectors
        self._known = Counts()

    def find(self, query: Query) -> list[Row]:
        """Return results as the API shows them, best first; none if nothing is about the query. Accepts any text.
        Without a query, return the newest items or sessions that pass the filter."""
        if not query.query.strip():
            return self._store.read(lambda tx: _newest(tx, query))
        style = fuse.query_style(query.query)
        # Without words of its own, a query is answered by the place and the time of its author, or by a date in it.
        has_other = query.kind == "session" and (style.is_bare or signals.has_date(query.query))
        if query.kind == "session" and style.is_bare and query.place.branch:
            # The words of the query say nothing, but those of the branch do.
            name = self._store.read(lambda tx: signals.branch_words(tx, query.where, query.place.branch))
            query = replace(query, query=f"{query.query} {name}")
        results = self._search(query, style, has_floor=not has_other)
        return self._store.read(lambda tx: _ranked(tx, query, results)) if has_other or any(results.families) else []

    def sessions(self, remembered: str, where: Filter, limit: int, further: float, deep: int) -> list[Candidate]:
        """Return the sessions that match what somebody remembers, best first. `deep` items of each count, each of them
        `further` times as much as the one before."""
        style = fuse.remembered_style(remembered)
        results = self._search(Query(remembered, "session", where, limit), style, has_floor=False)

        def rank(tx: Tx) -> list[Candidate]:
            turns = _turn_places(tx, results.families[0], 0)
            return fuse.ordered(fuse.by_session(results.families, turns, further, deep).values())[:limit]

        return self._store.read(rank) if any(results.families) else []

    def _search(self, query: Query, style: QueryStyle | None = None, has_floor: bool = True) -> SearchResults:
        style, families = style or fuse.query_style(query.query), FAMILIES[query.kind]
        depth = max(DEPTH if query.kind in ("session", "turn") else ITEMS, query.limit)

        known = Counts(self._known)

        def by_words(tx: Tx) -> tuple[list[list[Hit]], dict[str, float], frozenset[Key]]:
            hits = [words.by_words(tx, query.query, kinds, query.where, depth, known=known) for kinds in families]
            query_words = _WORD.findall(query.query[:4000].lower())
            weights = words.rarity(tx, query_words, query.where, known) if self._vectors else {}
            self._known = known.lasting(tx.engine)
            return hits, weights, _left_out(tx, query.where)

        hits, weights, left_out = self._store.read(by_words)
        hits = _without(hits, left_out)
        near: list[list[Hit]] = [[] for _ in families]
        if self._vectors:
            least = MIN_SIMILARITY if any(hits) else 1.0 if style.is_code else MIN_SIMILARITY_ALONE
            near = self._vectors.find_each(query.query, families, query.where, depth, weights)
            near = _without([[hit for hit in each if hit.score >= least] for each in near], left_out)
        if style.is_exact:
            keys = [{(hit.kind, hit.item_id) for hit in each} for each in hits]
            near = [[h for h in each if (h.kind, h.item_id) in own] for each, own in zip(near, keys, strict=True)]
        if has_floor:
            hits, near = _relevant(query, hits, near)
        return SearchResults(style, [fuse.merge(*both, style) for both in zip(hits, near, strict=True)], known)


def _relevant(query: Query, hits: list[list[Hit]], near: list[list[Hit]]) -> tuple[list[list[Hit]], list[list[Hit]]]:
    """Return the hits that are about the query; none if nothing is."""
    relevance: dict[Key, float] = {(hit.kind, hit.item_id): hit.coverage for each in hits for hit in each}
    coverage = max(relevance.values(), default=0.0)
    similarity = max((hit.score for each in near for hit in each), default=0.0)
    for hit in (hit for each in near for hit in each):
        relevance[hit.kind, hit.item_id] = relevance.get((hit.kind, hit.item_id), 0.0) + hit.score
    is_short = len(query.query.split()) <= SHORT
    least = MIN_RELEVANCE if is_short else MIN_RELEVANCE_LONG
    enough = MIN_COVERAGE if is_short or any(near) else MIN_COVERAGE_ALONE
    if coverage < enough and similarity < ENOUGH_SIMILARITY and coverage + similarity < least:
        return [[] for _ in hits], [[] for _ in near]
    if query.kind in ("session", "turn"):
        return hits, near

    def kept(lists: list[list[Hit]]) -> list[list[Hit]]:
        return [[hit for hit in each if relevance[hit.kind, hit.item_id] >= MIN_RELEVANCE_OF_ITEM] for each in lists]

    return kept(hits), kept(near)


def _left_out(tx: Tx, where: Filter) -> frozenset[Key]:
    """Return what a filter leaves out that is not in the index, because it changes with time."""
    return search_rows.open_rounds(tx) if where.is_ended else frozenset()


def _without(hits: Sequence[Sequence[Hit]], left_out: frozenset[Key]) -> list[list[Hit]]:
    return [[hit for hit in each if (hit.kind, hit.item_id) not in left_out] for each in hits]


def _newest(tx: Tx, query: Query) -> list[Row]:
    kinds = FAMILIES[query.kind][-1]
    depth = DEPTH if query.kind == "session" else 0
    hits = words.newest(tx, kinds, query.where, max(depth, 2 * query.limit)) if kinds[0] != "chunk" else []
    (hits,) = _without([hits], _left_out(tx, query.where))
    found = [Candidate(hit.kind, hit.item_id, hit.session_id, hit.at) for hit in hits]
    if query.kind == "session":
        found = _sessions_of(tx, found, query.where.file)
    return _shown(tx, found, query, fuse.query_style(""))


def _sessions_of(tx: Tx, items: list[Candidate], file: str) -> list[Candidate]:
    """Return the sessions of items, in their order. Those that changed a file come before those that are about it."""
    rows = words.rows_by_key(tx, [(item.kind, item.id) for item in items]) if file else {}
    items = sorted(items, key=lambda item: not reasons.is_changed(rows.get((item.kind, item.id), {}), file))
    sessions: dict[int, Candidate] = {}
    for item in items:
        found = Candidate("session", item.session_id, item.session_id, item.at, best=(item.kind, item.id))
        sessions.setdefault(item.session_id, found)
    return list(sessions.values())


def _ranked(tx: Tx, query: Query, results: SearchResults) -> list[Row]:
    rank = {"session": _sessions, "turn": _turns}.get(query.kind, _items)
    best = rank(tx, query, results)
    if newest.asks_for_state(query.query) and not results.style.is_former:
        best = _newest_first(tx, query, results.known, best)
    return _shown(tx, best, query, results.style)


def _newest_first(tx: Tx, query: Query, known: Counts, best: list[Candidate]) -> list[Candidate]:
    """Of results that say the same about the query, put the newer one first."""
    if len(best) < 2:
        return best
    keys = {item.best or (item.kind, item.id) for item in best[: newest.TOP]}
    weights = words.token_weights(tx, query.query, FAMILIES[query.kind][0], query.where, known)
    return newest.newest_first(best, search_rows.item_tokens(tx, keys), weights)


def _sessions(tx: Tx, query: Query, results: SearchResults) -> list[Candidate]:
    sessions = fuse.by_session(results.families, _turn_places(tx, results.families[0], 0))
    signals.add_to_sessions(tx, query.query, query.where, query.place, results.style, sessions)
    return fuse.ordered(sessions.values())


def _turns(tx: Tx, query: Query, results: SearchResults) -> list[Candidate]:
    turn_hits, chunk_hits = results.families
    turns = _turn_places(tx, turn_hits, 1)
    spans = {
        row["id"]: Span(row["session_id"], row["first_turn"], row["last_turn"])
        for row in search_rows.chunk_spans(tx, (number for _, number in chunk_hits))
    }
    sessions = fuse.by_session(results.families, turns)
    signals.add_to_sessions(tx, query.query, query.where, query.place, results.style, sessions)
    scored = fuse.by_turn(turn_hits, chunk_hits, sessions, list(turns.values()), spans, results.style)
    return fuse.ordered(scored.values())


def _turn_places(tx: Tx, turn_hits: Mapping[Key, Candidate], around: int) -> dict[int, TurnPlace]:
    return {
        row["id"]: TurnPlace(
            row["id"], row["session_id"], row["number"], row["role"], row["speaker"] or "", row["length"], row["at"]
        )
        for row in search_rows.turns_around(tx, (number for _, number in turn_hits), around)
    }


def _items(tx: Tx, query: Query, results: SearchResults) -> list[Candidate]:
    """Rank items. The type of an observation counts, and whether it is pinned or superseded."""
    (items,) = results.families
    ids = (number for kind, number in items if kind == "observation")
    statuses = search_rows.observation_statuses(tx, ids)
    for item in items.values():
        row = statuses.get(item.id) if item.kind == "observation" else None
        if row:
            item.times["importance"] = TYPES.get(row["type"], 1.0) * (PINNED if row["pinned_at"] else 1.0)
            if row["superseded_by"]:
                item.times["replaced"] = REPLACED
    signals.add_to_items(tx, query.query, query.where, query.place, results.style, items.values())
    return fuse.ordered(items.values())


def _shown(tx: Tx, best: Sequence[Candidate], query: Query, style: QueryStyle) -> list[Row]:
    """Return the first rows. Prompt, summary and turns of a round are one row: that of the best of them."""
    shown: list[Row] = []
    rounds: set[tuple[int, int]] = set()
    for start in range(0, len(best), query.limit):
        if len(shown) >= query.limit:
            break
        page = best[start : start + query.limit]
        rows = words.rows_by_key(tx, [(item.kind, item.id) for item in page])
        sources = words.rows_by_key(tx, {item.best for item in page if item.best})
        for item in page:
            row = rows.get((item.kind, item.id))
            if row is None or (query.kind in ("memory", "all") and _is_told(row, rounds)):
                continue
            shown.append(_result(item, row, sources.get(item.best or ("", 0), row), query, style))
    return shown[: query.limit]


def _is_told(row: Row, rounds: set[tuple[int, int]]) -> bool:
    """Whether a row before this one tells of its round. Each observation is a row of its own."""
    if row["kind"] == "observation" or not row.get("prompt_number"):
        return False
    place = (row["session_id"], row["prompt_number"])
    is_told = place in rounds
    rounds.add(place)
    return is_told


def _result(item: Candidate, row: Row, source: Row, query: Query, style: QueryStyle) -> Row:
    """Return a row as the API shows it. `source` is the row whose text was found."""
    text = one_line(f"{source['title'] or ''} {source['subtitle'] or ''}")
    result = {name: value for name, value in row.items() if name != "files_modified"} | {
        "score": round(item.score, 6),
        "title": cut(one_line(row["title"] or ""), TITLE),
        "snippet": snippet(text, style.words),
        "session": row["content_session_id"],
        "at": row["created_at"],
    }
    if query.explain:
        result["why"] = item.why | {"look": {"meaning": style.meaning, "is_talk": style.is_talk}}
        result["terms"] = reasons.terms(query.query, f"{result['title']} {result['snippet']}")
        result["reasons"] = list(reasons.of_result(row, source, item.parts, query.query, query.where, result["terms"]))
    return result


def snippet(text: str, query_words: frozenset[str]) -> str:
    """Return a part of a text that begins a little before the first long word of the query."""
    places = (m.start() for m in _WORD.finditer(text) if len(m[0]) > 3 and m[0].lower() in query_words)
    at = next(places, 0)
    if len(text) <= SNIPPET or at < SNIPPET // 2:
        return cut(text, SNIPPET)
    start = text.rfind(" ", 0, at - SNIPPET // 3) + 1
    return "…" + cut(text[start:], SNIPPET - 1)
