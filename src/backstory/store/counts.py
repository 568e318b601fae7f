"""How much is stored: rows, characters and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backstory.store.db import Tx
from backstory.store.index import vectors


@dataclass(frozen=True, slots=True)
class ProjectCounts:
    """How much is stored of a project."""

    name: str
    key: str
    sessions: int
    first_at: str
    last_at: str
    observations: int
    characters: int  #: of its events, as they are stored


def rows(tx: Tx, project: str) -> dict[str, Any]:
    """Rows of everything, or of a project by its name or key."""
    sessions = tx.one("stats_sessions", project=project) or {}
    prompts = tx.one("stats_prompts", project=project) or {"count": 0}
    summaries = tx.one("stats_summaries", project=project) or {"count": 0}
    serving = None if project else vectors.serving(tx)
    return {
        "sessions": sessions.get("sessions", 0),
        "prompts": prompts["count"],
        "events": {row["status"]: row["count"] for row in tx.all("stats_events", project=project)},
        "observations": {row["type"]: row["count"] for row in tx.all("stats_observations", project=project)},
        "summaries": summaries["count"],
        "vectors": vectors.count(tx, serving.id) if serving else 0,
        "first_at": sessions.get("first_at"),
        "last_at": sessions.get("last_at"),
    }


def projects(tx: Tx, project: str, limit: int) -> list[ProjectCounts]:
    """Every project, or one by its name or key; the one last worked in first."""
    return [ProjectCounts(**row) for row in tx.all("stats_projects", project=project, limit=limit)]


def source_sizes(tx: Tx, observation_id: int) -> dict[int, int]:
    """Characters of each event that an observation came from, by the event's id."""
    return {row["id"]: row["size"] for row in tx.all("observation_source_sizes", id=observation_id)}


def latest_payloads(tx: Tx, project: str, limit: int) -> list[tuple[str, int]]:
    """The latest payloads, each with the characters that it takes as it is stored."""
    return [(row["payload"], row["stored"]) for row in tx.all("stats_sample", project=project, limit=limit)]


def table_sizes(tx: Tx) -> dict[str, int]:
    """Bytes on disk by table. Not every engine can tell."""
    return {row["name"]: row["bytes"] for row in tx.all("table_sizes")}
