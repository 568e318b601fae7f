"""What a query says beside its words: a date in it, and where its author works, which is a branch and changed files."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from backstory import times
from backstory.recall import fuse
from backstory.recall.fuse import Candidate, QueryStyle
from backstory.store import sessions as stored
from backstory.store.db import Tx
from backstory.store.index import search
from backstory.store.index.hits import Filter
from backstory.store.sessions import SessionPlace

#: What a session of the same branch gains, as a share of the best score, if no other session is of this branch.
BRANCH = 0.5
#: What a session gains that was at work on the date in the query.
DATED = 0.5
#: What a session gains that read or changed a file with uncommitted changes, if the query says nothing else.
SAME_FILE = 0.3
#: Hours before and after a date in which a session gains half of that: work is committed later, and in another zone.
AROUND_H = 12
#: Sessions of a branch, a day or a project that are read, at most.
MAX_SESSIONS = 100
#: Changed files that are looked up, and observations of each, at most.
MAX_FILES = 8
MAX_OF_FILE = 10
#: Rarity from which on a branch tells something. The main branch does not: half of all sessions are of it.
MIN_RARITY = 0.5


@dataclass(frozen=True, slots=True)
class WorkPlace:
    """Where the author of a query works."""

    branch: str = ""
    files: Collection[str] = ()  #: files with uncommitted changes


NOWHERE = WorkPlace()


def on_branch(tx: Tx, where: Filter, branch: str) -> tuple[list[SessionPlace], float]:
    """Return the latest sessions of a branch, and how much the branch tells: 1 if one is of it, 0 if many are."""
    own, total = stored.places(tx, where, MAX_SESSIONS, branch=branch), len(stored.places(tx, where, MAX_SESSIONS))
    rarity = math.log(total / max(1, len(own))) / math.log(total) if total > 1 else 0.0
    return own, rarity if rarity >= MIN_RARITY else 0.0


def branch_words(tx: Tx, where: Filter, branch: str) -> str:
    """Return the words of the name of a branch; "" if many sessions are of it."""
    return branch.replace("/", " ") if on_branch(tx, where, branch)[1] else ""


def add_to_sessions(
    tx: Tx, text: str, where: Filter, place: WorkPlace, style: QueryStyle, sessions: dict[int, Candidate]
) -> None:
    """Raise sessions that a query means by a date or by where its author works, and newer ones. If it has no words of
    its own, other sessions of that place and the newest ones are candidates, too."""
    top = max((each.score for each in sessions.values()), default=0.0) or 1.0
    is_open = not (where.type or where.concept or where.file or where.session_id or where.since or where.until)

    def candidate(row: SessionPlace) -> Candidate | None:
        if is_open:
            return sessions.setdefault(row.id, Candidate("session", row.id, row.id, row.last_event_at))
        return sessions.get(row.id)

    for row, share in _at_work(tx, text, where):
        if found := candidate(row):
            found.parts["date"] = DATED * top * share
    if place.branch:
        own, share = on_branch(tx, where, place.branch)
        for row in own if share else ():
            if found := candidate(row):
                found.parts["branch"] = BRANCH * top * share
    if style.is_bare:
        for row in stored.places(tx, where, MAX_SESSIONS):
            candidate(row)
        for number in _of_files(tx, where, place.files) & sessions.keys():
            sessions[number].parts["file"] = SAME_FILE * top
    if not has_date(text):  # a date says when
        fuse.add_recency(sessions.values(), (fuse.RECENT_BARE if style.is_bare else style.recency) * top)


def add_to_items(
    tx: Tx, text: str, where: Filter, place: WorkPlace, style: QueryStyle, items: Iterable[Candidate]
) -> None:
    """Raise items of a date in the query or of the branch, and newer ones."""
    found = list(items)
    top = max((item.score for item in found), default=0.0)
    if moments := _moments(text):
        for item in found:
            if share := _share(item.at, item.at, *moments):
                item.parts["date"] = DATED * top * share
    if place.branch:
        own, share = on_branch(tx, where, place.branch)
        numbers = {row.id for row in own}
        for item in found:
            if item.session_id in numbers:
                item.parts["branch"] = BRANCH * top * share
    if not has_date(text):
        fuse.add_recency(found, style.recency * top)


def has_date(text: str) -> bool:
    """Whether a query mentions a date."""
    return _moments(text) is not None


def _moments(text: str) -> tuple[str, str] | None:
    return times.mentioned(text) if len(text) <= fuse.LONG else None


def _at_work(tx: Tx, text: str, where: Filter) -> Iterable[tuple[SessionPlace, float]]:
    """Yield sessions that were at work on the date in a query or about that time, and how much this counts."""
    if not (moments := _moments(text)):
        return
    near = _around(*moments)
    for row in stored.places(tx, where, MAX_SESSIONS, since=near[0], until=near[1]):
        if share := _share(row.created_at, row.last_event_at, *moments):
            yield row, share


def _share(start: str, end: str, since: str, until: str) -> float:
    """Return 1 for what happened at a date, 0.5 for what happened shortly before or after, else 0."""
    early, late = _around(since, until)
    return 1.0 if start <= until and end >= since else 0.5 if start <= late and end >= early else 0.0


def _around(since: str, until: str) -> tuple[str, str]:
    hours = timedelta(hours=AROUND_H)
    early, late = (datetime.fromisoformat(moment) for moment in (since, until))
    return times.stored(early - hours), times.stored(late + hours)


def _of_files(tx: Tx, where: Filter, files: Collection[str]) -> set[int]:
    """Return the sessions that read or changed one of these files last."""
    kinds = ("observation",)
    hits = (search.newest(tx, kinds, replace(where, file=file), MAX_OF_FILE) for file in sorted(files)[:MAX_FILES])
    return {hit.session_id for each in hits for hit in each}
