"""Search: by words and by meaning, fused, as items or as the sessions that they are in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backstory.recall import fuse
from backstory.recall.fuse import Candidate, Key, QueryStyle, Span, TurnPlace
from backstory.recall.vectors import Vectors
from backstory.store.db import Row, Store, Tx
from backstory.store.index import search as words
from backstory.store.index import search_rows
from backstory.store.index.hits import ANYWHERE, Filter, Hit
from backstory.text import cut, one_line

MEMORY = ("observation", "summary", "prompt")
#: What can be asked for, and what is looked at for it. Each list has its own best.
FAMILIES: dict[str, tuple[tuple[str, ...], ...]] = {
    "observation": (("observation",),),
    "summary": (("summary",),),
    "prompt": (("prompt",),),
    "memory": (MEMORY,),
    "all": ((*MEMORY, "turn"),),
    "turn": (("turn",), ("chunk",)),
    "session": (("turn",), ("chunk",), MEMORY),
}
#: Hits of each list that are read, where items are asked for.
ITEMS = 100
#: The same where sessions or turns are asked for: several hits count for one session or turn.
DEPTH = 200
#: The similarity from which a vector matches, from 0 to 1. Any two texts are a little alike.
NEAR = 0.15
#: The same where no item has a word of the query.
ALONE = 0.3
#: Factors for the score of an observation: by its type, if it is pinned, and if it was replaced.
TYPES = {"decision": 1.1, "bugfix": 1.05, "feature": 1.05}
PINNED = 1.2
REPLACED = 0.6
#: Characters of a title and of a snippet, as they are shown.
TITLE = 160
SNIPPET = 300
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for."""

    query: str
    kind: str = "memory"  #: one of FAMILIES
    where: Filter = ANYWHERE
    limit: int = 20
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Lists:
    """What was found, a family after the other."""

    style: QueryStyle
    families: Sequence[dict[Key, Candidate]]


class MemorySearch:
    """Over a store and its vectors. Safe to use from several threads; not within a transaction."""

    def __init__(self, store: Store, vectors: Vectors | None = None) -> None:
        self._store, self._vectors = store, vectors
        self._known = words.Counts()

    def find(self, asked: Query) -> list[Row]:
        """Items, best first. No match is an empty list, whatever is asked."""
        lists = self._lists(asked)
        if not any(lists.families):
            return []
        return self._store.read(lambda tx: _answer(tx, asked, lists))

    def _lists(self, asked: Query) -> Lists:
        style, families = fuse.query_style(asked.query), FAMILIES[asked.kind]
        depth = max(DEPTH if asked.kind in ("session", "turn") else ITEMS, asked.limit)

        def by_words(tx: Tx) -> tuple[list[list[Hit]], dict[str, float]]:
            known = words.Counts(self._known)
            hits = [words.by_words(tx, asked.query, kinds, asked.where, depth, known=known) for kinds in families]
            told = _WORD.findall(asked.query[:4000].lower())
            weights = words.rarity(tx, told, asked.where, known) if self._vectors else {}
            self._known = known.lasting(tx.engine)
            return hits, weights

        hits, weights = self._store.read(by_words)
        near: list[list[Hit]] = [[] for _ in families]
        if self._vectors:
            least = NEAR if any(hits) else 1.0 if style.is_code else ALONE
            near = self._vectors.find_each(asked.query, families, asked.where, depth, weights)
            near = [[hit for hit in each if hit.score >= least] for each in near]
        if style.is_exact:
            had = [{(hit.kind, hit.item_id) for hit in each} for each in hits]
            near = [[h for h in each if (h.kind, h.item_id) in has] for each, has in zip(near, had, strict=True)]
        return Lists(style, [fuse.merge(*both, style) for both in zip(hits, near, strict=True)])


def _answer(tx: Tx, asked: Query, lists: Lists) -> list[Row]:
    if asked.kind == "session":
        best = _sessions(tx, lists)
    elif asked.kind == "turn":
        best = _turns(tx, lists)
    else:
        best = _items(tx, lists)
    return _shown(tx, best[: asked.limit], asked, lists.style)


def _sessions(tx: Tx, lists: Lists) -> list[Candidate]:
    sessions = fuse.by_session(lists.families, _places(tx, lists.families[0], 0), lists.style)
    best = fuse.ordered(sessions.values())
    if not lists.style.is_personal:
        return best
    keys = {item.best: item.id for item in best[: fuse.NEWEST] if item.best}
    return fuse.newest_first(best, {keys[key]: said for key, said in search_rows.words_said(tx, keys).items()})


def _turns(tx: Tx, lists: Lists) -> list[Candidate]:
    said, pieces = lists.families
    turns = _places(tx, said, 1)
    spans = {
        row["id"]: Span(row["session_id"], row["first_turn"], row["last_turn"])
        for row in search_rows.chunk_spans(tx, (number for _, number in pieces))
    }
    sessions = fuse.by_session(lists.families, turns, lists.style)
    return fuse.ordered(fuse.by_turn(said, pieces, sessions, list(turns.values()), spans, lists.style).values())


def _places(tx: Tx, said: Mapping[Key, Candidate], around: int) -> dict[int, TurnPlace]:
    return {
        row["id"]: TurnPlace(
            row["id"], row["session_id"], row["number"], row["role"], row["speaker"] or "", row["length"], row["at"]
        )
        for row in search_rows.turns_around(tx, (number for _, number in said), around)
    }


def _items(tx: Tx, lists: Lists) -> list[Candidate]:
    """Observations by what they are worth, too: what was replaced is history and comes behind."""
    (items,) = lists.families
    standing = search_rows.standing(tx, (number for kind, number in items if kind == "observation"))
    for item in items.values():
        row = standing.get(item.id) if item.kind == "observation" else None
        if row:
            item.times["importance"] = TYPES.get(row["type"], 1.0) * (PINNED if row["pinned_at"] else 1.0)
            if row["superseded_by"]:
                item.times["replaced"] = REPLACED
    fuse.add_recency(items.values(), lists.style)
    return fuse.ordered(items.values())


def _shown(tx: Tx, best: Sequence[Candidate], asked: Query, style: QueryStyle) -> list[Row]:
    rows = search_rows.rows(tx, [(item.kind, item.id) for item in best])
    whole = search_rows.rows(tx, {item.best for item in best if item.best})
    shown = []
    for item in best:
        row = rows.get((item.kind, item.id))
        if row is None:
            continue
        said = whole.get(item.best or ("", 0), row)
        text = one_line(f"{said['title'] or ''} {said['subtitle'] or ''}")
        made = row | {
            "score": round(item.score, 6),
            "title": cut(one_line(row["title"] or ""), TITLE),
            "snippet": snippet(text, style.words),
            "session": row["content_session_id"],
            "at": row["created_at"],
        }
        if asked.explain:
            made["why"] = item.why | {"look": {"meaning": style.meaning, "is_talk": style.is_talk}}
        shown.append(made)
    return shown


def snippet(text: str, looked_for: frozenset[str]) -> str:
    """A text from a little before the first long word that was looked for."""
    places = (m.start() for m in _WORD.finditer(text) if len(m[0]) > 3 and m[0].lower() in looked_for)
    at = next(places, 0)
    if len(text) <= SNIPPET or at < SNIPPET // 2:
        return cut(text, SNIPPET)
    start = text.rfind(" ", 0, at - SNIPPET // 3) + 1
    return "…" + cut(text[start:], SNIPPET - 1)
