"""Reads prompts, observations and summaries of a project by their time."""

from __future__ import annotations

from dataclasses import dataclass

from backstory.store.db import Row, Tx

_BY_ID = {"observation": "observation_by_id", "summary": "summary_at", "prompt": "prompt_at_id"}
#: The queries of each kind of items: up to a moment, the latest first, and after it, the earliest first.
BEFORE = ("timeline_prompts_before", "timeline_observations_before", "timeline_summaries_before")
AFTER = ("timeline_prompts_after", "timeline_observations_after", "timeline_summaries_after")


@dataclass(frozen=True, slots=True)
class TimelineAnchor:
    """The item in the middle of a timeline."""

    kind: str
    id: int
    session_id: int
    project: str
    project_key: str
    created_at: str


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """An item of a timeline."""

    kind: str
    id: int
    session_id: int
    prompt_number: int
    created_at: str
    type: str | None  #: of an observation
    text: str  #: not cut
    mark: str = ""  #: of the title of an observation


def find_anchor(tx: Tx, kind: str, number: int) -> TimelineAnchor | None:
    row = tx.one(_BY_ID[kind], id=number)
    if row is None:
        return None
    return TimelineAnchor(kind, row["id"], row["session_id"], row["project"], row["project_key"], row["created_at"])


def rows(tx: Tx, queries: tuple[str, str, str], project_key: str, at: str, limit: int) -> list[TimelineRow]:
    """Return up to `limit` items of each kind, by the queries `BEFORE` or `AFTER` a moment."""
    names = ("id", "session_id", "prompt_number", "created_at")
    return [
        TimelineRow(
            **{name: row[name] for name in names},
            kind=kind,
            type=row.get("type"),
            text=_text(kind, row),
            mark=row.get("mark", ""),
        )
        for kind, query in zip(("prompt", "observation", "summary"), queries, strict=True)
        for row in tx.all(query, project_key=project_key, at=at, limit=limit)
    ]


def _text(kind: str, row: Row) -> str:
    if kind == "prompt":
        return "(private)" if row["is_private"] else row["prompt"] or "(forgotten)"
    if kind == "summary":
        outcome = row["completed"] or row["learned"]
        return f"{row['request']} → {outcome}" if outcome else str(row["request"])
    return str(row["title"])
