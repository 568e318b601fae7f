"""Finds sessions by what a person remembers of them: words, a title, a tag, a number or the agent's id.

Sessions are ranked, not items. A session is remembered by how it began, so what was asked counts by itself. A long
session has an item for almost every query, so it needs more of them. `bench/resume.py` measures the constants.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from backstory import ids
from backstory.model import Session
from backstory.project import group_of
from backstory.recall import session_rows
from backstory.recall.fuse import Candidate
from backstory.recall.hand_off import telling
from backstory.recall.search import MemorySearch, snippet
from backstory.store import sessions, titles
from backstory.store.db import Row, Store, Tx
from backstory.store.index import search as words_index
from backstory.store.index import tokens
from backstory.store.index.hits import ANYWHERE, Filter
from backstory.text import one_line

#: Sessions that are ranked, at most.
DEPTH = 50
#: Number of items of a session that count.
DEEP = 5
#: Factor for each further item of a session after its best one.
FURTHER = 0.5
#: What the best title and first prompt add to a session. The best item of a kind adds 1.
OPENING = 1.0
#: What the best prompts add to a session.
ASKED = 0.5
#: How much the length of a session lowers its score.
LONG = 0.1
#: What a title or tag with every word of the query adds to a session, as a share of the best score.
LABEL = 1.5
#: Share of the words of the query that a title or tag must have to count.
MIN_SHARE = 0.5
#: Prompts of a session that are compared, at most.
PROMPTS = 20


def find(
    store: Store, search: MemorySearch, words: str, where: Filter = ANYWHERE, limit: int = 5, tag: str = ""
) -> list[Row]:
    """Return sessions as the API shows them, the best match first.

    A session that is named by its number, its id or its whole title comes first and is marked as `exact`.
    """
    hits = {hit.id: hit for hit in search.sessions(words, where, DEPTH, FURTHER, DEEP)}
    return store.read(lambda tx: _ranked(tx, words, where, hits, limit, tag))


def _ranked(tx: Tx, words: str, where: Filter, hits: Mapping[int, Candidate], limit: int, tag: str) -> list[Row]:
    exact, labelled = named(tx, words), _labelled(tx, words)
    known = sessions.by_ids(tx, {*hits, *exact, *labelled})
    known = {number: session for number, session in known.items() if _is_visible(session, where)}
    labelled = {number: share for number, share in labelled.items() if number in known and not known[number].hidden_at}
    scores = _scores(tx, words, where, {number: hit for number, hit in hits.items() if number in known})
    top = max(scores.values(), default=1.0)
    for number, share in labelled.items():
        scores[number] = scores.get(number, 0.0) + LABEL * top * share
    wanted = [number for number in scores if number in known and (number in hits or _matches(known[number], where))]
    if tag:
        tags = titles.tags(tx, wanted)
        wanted = [number for number in wanted if tag in tags.get(number, ())]
    wanted.sort(key=lambda number: (scores[number], known[number].last_event_at, number), reverse=True)
    best = [number for number in dict.fromkeys((*exact, *wanted)) if number in known][:limit]
    found = _snippets(tx, words, (hits[number] for number in best if number in hits))
    rows = session_rows.with_titles(tx, [sessions.shown(known[number]) for number in best])
    return [
        row
        | session_rows.described(tx, known[row["id"]])
        | {
            "score": round(scores.get(row["id"], 0.0), 6),
            "snippet": found.get(row["id"], ""),
            "exact": row["id"] in exact,
        }
        for row in rows
    ]


def named(tx: Tx, text: str) -> list[int]:
    """Return the sessions that a text names: by number, by the agent's id or its beginning, or by the whole title."""
    text = text.strip()
    number = ids.number(text) or ids.session_number(text)
    session = sessions.by_id(tx, number) if number is not None else None
    if session is None and any(char.isdigit() for char in text) and " " not in text:
        session = sessions.by_prefix(tx, text)
    return [session.id] if session and not session.forgotten_at else titles.named(tx, text) if text else []


def _scores(tx: Tx, words: str, where: Filter, hits: Mapping[int, Candidate]) -> dict[int, float]:
    """Score sessions by their items, by what was asked in them, and by their length."""
    prompts: dict[int, list[str]] = defaultdict(list)
    for number, prompt in titles.first_prompts(tx, hits, PROMPTS):
        prompts[number].append(prompt)
    score, stored = words_index.scorer(tx, words, ("prompt",), where), sessions.by_ids(tx, hits)
    asked = {number: score("\n".join(prompts[number])) for number in hits}
    opening = {
        number: score("\n".join((stored[number].title or "", *telling(prompts[number])[:1]))) for number in stored
    }
    sizes = sessions.sizes(tx, hits)
    best_asked, best_opening = (max(found.values(), default=0.0) or 1.0 for found in (asked, opening))
    return {
        number: (hit.score + OPENING * opening.get(number, 0.0) / best_opening + ASKED * asked[number] / best_asked)
        / (1 + LONG * math.log1p(sizes.get(number, 0)))
        for number, hit in hits.items()
    }


def _labelled(tx: Tx, words: str) -> dict[int, float]:
    """Return the sessions whose title or tags, as people gave them, have enough words of the query, and their share."""
    wanted = _tokens(words)
    found: dict[int, set[str]] = defaultdict(set)
    for number, label in titles.given(tx) if wanted else ():
        found[number] |= wanted & _tokens(label)
    shares = {number: len(had) / len(wanted) for number, had in found.items()}
    return {number: share for number, share in shares.items() if share >= MIN_SHARE}


def _tokens(text: str) -> frozenset[str]:
    return frozenset(tokens.of_text(text).split()) - tokens.COMMON


def _is_visible(session: Session, where: Filter) -> bool:
    """Whether a session belongs to the group that is named, to any if all are, and else to none."""
    group = group_of(session.project_key)
    return group is not None if where.is_in_groups else group == group_of(where.project)


def _matches(session: Session, where: Filter) -> bool:
    """Whether a session that was found by its title passes the filter."""
    return (
        where.project in ("", session.project, session.project_key)
        and where.agent in ("", session.agent)
        and session.last_event_at >= where.since
        and (not where.until or session.created_at[: len(where.until)] <= where.until)
    )


def _snippets(tx: Tx, words: str, hits: Iterable[Candidate]) -> dict[int, str]:
    """Return session -> the text that was found in it."""
    best = {hit.id: hit.best for hit in hits if hit.best}
    rows = words_index.rows_by_key(tx, set(best.values()))
    query_words = frozenset(word.lower() for word in words.split())
    return {
        number: snippet(one_line(f"{rows[key]['title'] or ''} {rows[key]['subtitle'] or ''}"), query_words)
        for number, key in best.items()
        if key in rows
    }
