"""Counts of rows, characters and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backstory.store.db import Tx
from backstory.store.index import vectors

#: Latest sessions of a project, and events of them, whose size is measured.
SESSIONS = 20
EVENTS = 200


@dataclass(frozen=True, slots=True)
class ProjectCounts:
    """Counts of a project."""

    name: str
    key: str
    sessions: int
    first_at: str
    last_at: str
    observations: int
    characters: float  #: of its stored events, estimated from the latest


def rows(tx: Tx, project: str) -> dict[str, Any]:
    """Count all rows, or those of a project by its name or key."""
    sessions = tx.one("stats_sessions", project=project) or {}
    prompts = tx.one("stats_prompts", project=project) or {"count": 0}
    summaries = tx.one("stats_summaries", project=project) or {"count": 0}
    serving = None if project else vectors.serving(tx)
    return {
        "sessions": sessions.get("sessions", 0),
        "prompts": prompts["count"],
        "events": _events(tx, project),
        "observations": observation_types(tx, project),
        "summaries": summaries["count"],
        "vectors": vectors.count(tx, serving.id) if serving else 0,
        "first_at": sessions.get("first_at"),
        "last_at": sessions.get("last_at"),
    }


def _events(tx: Tx, project: str) -> dict[str, int]:
    """Return state -> events in it. Those that are in no other state are done."""
    counts = {row["status"]: row["count"] for row in tx.all("stats_events", project=project)}
    counts["done"] = counts.pop("all") - sum(counts.values())
    return {status: count for status, count in sorted(counts.items()) if count}


def observation_types(tx: Tx, project: str) -> dict[str, int]:
    """Return type -> observations of it."""
    return {row["type"]: row["count"] for row in tx.all("stats_observations", project=project)}


def projects(tx: Tx, project: str, limit: int) -> list[ProjectCounts]:
    """Return all projects, or one by its name or key. The one with the latest event comes first."""
    rows = tx.all("stats_projects", project=project, limit=limit)
    return [ProjectCounts(**row, characters=_characters(tx, row["key"])) for row in rows]


def _characters(tx: Tx, project_key: str) -> float:
    row = tx.one("stats_events_of_project", project_key=project_key, sessions=SESSIONS, events=EVENTS)
    return row["count"] * (row["characters"] or 0.0) if row else 0.0


def source_sizes(tx: Tx, observation_id: int) -> dict[int, int]:
    """Return id -> characters of the events that an observation came from."""
    return {row["id"]: row["size"] for row in tx.all("observation_source_sizes", id=observation_id)}


def latest_payloads(tx: Tx, limit: int) -> list[tuple[str, int]]:
    """Return the latest payloads, each with the number of characters that are stored."""
    return [(row["payload"], row["stored"]) for row in tx.all("stats_sample", limit=limit)]


def table_sizes(tx: Tx) -> dict[str, int]:
    """Return table -> bytes on disk."""
    return {row["name"]: row["bytes"] for row in tx.all("table_sizes")}


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """Counts of a session."""

    tools: int
    turns: int
    characters: int  #: of its turns


def session(tx: Tx, session_id: int) -> SessionCounts:
    return SessionCounts(**(tx.one("session_counts", session_id=session_id) or {}))
