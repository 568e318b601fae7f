"""Counts of rows, characters and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backstory.store.db import Tx
from backstory.store.index import vectors


@dataclass(frozen=True, slots=True)
class ProjectCounts:
    """Counts of a project."""

    name: str
    key: str
    sessions: int
    first_at: str
    last_at: str
    observations: int
    characters: int  #: of its stored events


def rows(tx: Tx, project: str) -> dict[str, Any]:
    """Count all rows, or those of a project by its name or key."""
    sessions = tx.one("stats_sessions", project=project) or {}
    prompts = tx.one("stats_prompts", project=project) or {"count": 0}
    summaries = tx.one("stats_summaries", project=project) or {"count": 0}
    serving = None if project else vectors.serving(tx)
    return {
        "sessions": sessions.get("sessions", 0),
        "prompts": prompts["count"],
        "events": {row["status"]: row["count"] for row in tx.all("stats_events", project=project)},
        "observations": observation_types(tx, project),
        "summaries": summaries["count"],
        "vectors": vectors.count(tx, serving.id) if serving else 0,
        "first_at": sessions.get("first_at"),
        "last_at": sessions.get("last_at"),
    }


def observation_types(tx: Tx, project: str) -> dict[str, int]:
    """Return type -> observations of it."""
    return {row["type"]: row["count"] for row in tx.all("stats_observations", project=project)}


def projects(tx: Tx, project: str, limit: int) -> list[ProjectCounts]:
    """Return all projects, or one by its name or key. The one with the latest event comes first."""
    return [ProjectCounts(**row) for row in tx.all("stats_projects", project=project, limit=limit)]


def source_sizes(tx: Tx, observation_id: int) -> dict[int, int]:
    """Return id -> characters of the events that an observation came from."""
    return {row["id"]: row["size"] for row in tx.all("observation_source_sizes", id=observation_id)}


def latest_payloads(tx: Tx, project: str, limit: int) -> list[tuple[str, int]]:
    """Return the latest payloads, each with the number of characters that are stored."""
    return [(row["payload"], row["stored"]) for row in tx.all("stats_sample", project=project, limit=limit)]


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
