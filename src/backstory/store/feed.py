"""The feed: observations, summaries and prompts together, newest first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from backstory import ids
from backstory.errors import BadInput
from backstory.store import observations, projects
from backstory.store.db import LAST, Row, Tx
from backstory.text import cut

#: Kinds of entries. Of those with the same time, an earlier kind in this list comes later in the feed.
KINDS = ("prompt", "observation", "summary")
_QUERIES = {"prompt": "feed_prompts", "observation": "feed_observations", "summary": "feed_summaries"}
_OF_PROJECT = {
    "prompt": "feed_prompts_of_project",
    "observation": "feed_observations_of_project",
    "summary": "feed_summaries_of_project",
}
_OF_SESSIONS = {
    "prompt": "feed_prompts_of_sessions",
    "observation": "feed_observations_of_sessions",
    "summary": "feed_summaries_of_sessions",
}
_SINCE = {
    "observation": "observations_stored_since",
    "summary": "summaries_stored_since",
    "prompt": "prompts_stored_since",
}
#: Sessions of an agent or on a branch, up to which entries are read by session. Those of more are found soon by time.
FEW_SESSIONS = 100
#: Characters of the title and of the text of an entry.
MAX_TITLE = 300
MAX_TEXT = 1200
#: A time after all others.
END = "9999"


@dataclass(frozen=True, slots=True)
class FeedFilter:
    """Restricts the feed. An empty field restricts nothing."""

    project: str = ""  #: name or key. What belongs to a group is found only by its key.
    branch: str = ""
    agent: str = ""
    type: str = ""  #: of an observation; other kinds have none
    kind: str = ""
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """The place of an entry in the feed. Places sort by time."""

    at: str
    kind: str
    id: int

    def __str__(self) -> str:
        return f"{self.at}_{self.kind}_{self.id}"


@dataclass(frozen=True, slots=True)
class Newest:
    """The highest ids of observations, summaries and prompts."""

    observation: int = 0
    summary: int = 0
    prompt: int = 0

    def numbers(self) -> tuple[int, int, int]:
        return self.observation, self.summary, self.prompt

    def with_row(self, kind: str, number: int) -> Newest:
        return replace(self, **{kind: max(number, getattr(self, kind))})

    def has(self, kind: str, number: int) -> bool:
        return bool(number <= getattr(self, kind))

    def or_newer(self, other: Newest) -> Newest:
        return Newest(*map(max, self.numbers(), other.numbers()))


def newest(tx: Tx) -> Newest:
    """Return the highest ids that are stored."""
    row = tx.one("feed_newest") or {}
    return Newest(row.get("observation") or 0, row.get("summary") or 0, row.get("prompt") or 0)


def stored_since(tx: Tx, since: Newest, limit: int) -> list[Row]:
    """Return rows that are newer than some as the stream tells them, and none that is hidden: observations, summaries
    and prompts, each in the order in which they were stored."""
    rows: list[Row] = []
    for kind, query in _SINCE.items():
        found = tx.all(query, after=getattr(since, kind), limit=limit - len(rows))
        rows += [told(kind, row) for row in found]
    return rows


def told(kind: str, row: Row) -> Row:
    """Return a row as the stream tells it: with the fields of an entry, and its own."""
    own = observations.decode(row) if kind == "observation" else row
    return own | entry_of(kind, row) | ({"prompt": None} if row.get("is_private") else {})


def prompt_told(tx: Tx, session_id: int, prompt_number: int) -> Row | None:
    """Return a prompt as the stream tells it."""
    row = tx.one("prompt_told", session_id=session_id, prompt_number=prompt_number)
    return told("prompt", row) if row else None


def parse_place(cursor: str) -> FeedPlace | None:
    """Return the place that a cursor names; None without one."""
    if not cursor:
        return None
    at, _, rest = cursor.partition("_")
    kind, _, number = rest.partition("_")
    if kind not in KINDS or (numeral := ids.number(number)) is None or not at or len(cursor) > 80:
        raise BadInput("The cursor is not valid.", "Send the `next` of the previous page.")
    return FeedPlace(at, kind, numeral)


def listed(tx: Tx, where: FeedFilter, after: FeedPlace | None, limit: int) -> list[Row]:
    """Return entries that come after a place, as the API shows them."""
    kinds = [where.kind] if where.kind else ["observation"] if where.type else list(KINDS)
    few = _few_sessions(tx, where)
    entries = [entry for kind in kinds for entry in _of_kind(tx, kind, where, _span(kind, where, after, limit), few)]
    entries.sort(key=lambda entry: (entry["created_at"], KINDS.index(entry["kind"]), entry["id"]), reverse=True)
    return entries[:limit]


def _few_sessions(tx: Tx, where: FeedFilter) -> list[int] | None:
    """Return the sessions of an agent or on a branch, if they are few; else None."""
    if not where.agent and not where.branch:
        return None
    asked = {"agent": where.agent, "branch": where.branch, "project": where.project}
    rows = tx.all("feed_sessions", **asked, limit=FEW_SESSIONS + 1)
    return [row["id"] for row in rows] if len(rows) <= FEW_SESSIONS else None


def _span(kind: str, where: FeedFilter, after: FeedPlace | None, limit: int) -> Row:
    """Return the values that every query of a kind takes."""
    at, before = (where.until or END), LAST
    if after is not None and after.at <= at:
        order = KINDS.index(kind) - KINDS.index(after.kind)
        at, before = after.at, after.id if order == 0 else LAST if order < 0 else 0
    values: Row = {"at": at, "before": before, "since": where.since, "agent": where.agent, "branch": where.branch}
    return values | {"limit": limit} | ({"type": where.type} if kind == "observation" else {})


def _of_kind(tx: Tx, kind: str, where: FeedFilter, span: Row, few: list[int] | None) -> Iterator[Row]:
    if where.type and kind != "observation":
        return
    if few is not None:
        rows = tx.all(_OF_SESSIONS[kind], ids=json.dumps(few), **span) if few else []
    elif where.project:
        keys = projects.keys(tx, where.project)
        rows = [row for key in keys for row in tx.all(_OF_PROJECT[kind], project_key=key, **span)]
    else:
        rows = tx.all(_QUERIES[kind], **span)
    yield from (entry_of(kind, row) for row in rows)


def branches(tx: Tx, project: str, limit: int) -> list[str]:
    """Return the branches of a project, or of all outside of groups, the last used first."""
    rows = tx.all("branches_of_project", project=project, limit=limit)
    return list(dict.fromkeys(row["git_branch"] for row in rows))


def agents(tx: Tx, project: str) -> list[str]:
    """Return the agents of a project, or of all outside of groups."""
    return list(dict.fromkeys(row["agent"] for row in tx.all("agents_of_project", project=project)))


def entry_of(kind: str, row: Row) -> Row:
    """Return a row of an observation, a summary or a prompt as an entry."""
    names = ("id", "session_id", "project", "project_key", "agent", "prompt_number", "created_at")
    return {"kind": kind, **{name: row[name] for name in names}, "branch": row["git_branch"]} | _ABOUT[kind](row)


def _observation(row: Row) -> Row:
    names = ("type", "mark", "superseded_by", "importance", "times_learned")
    about = {name: row[name] for name in names} | {"pinned": bool(row["pinned_at"]), "is_private": False}
    return about | {"title": cut(row["title"], MAX_TITLE), "text": cut(row["narrative"], MAX_TEXT)}


def _summary(row: Row) -> Row:
    parts = (row[name] for name in ("completed", "learned", "next_steps") if row[name])
    text = "\n\n".join(parts) or row["notes"]
    return _NONE | {"title": cut(row["request"], MAX_TITLE), "text": cut(text, MAX_TEXT), "is_private": False}


def _prompt(row: Row) -> Row:
    text = "" if row["is_private"] else cut(row["prompt"] or "", MAX_TEXT)
    return _NONE | {"title": "", "text": text, "is_private": bool(row["is_private"])}


_NONE: Row = {"type": None, "superseded_by": None, "importance": None, "times_learned": None, "pinned": False}
_ABOUT = {"observation": _observation, "summary": _summary, "prompt": _prompt}
