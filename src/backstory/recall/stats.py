"""How much is remembered: counts, times, and what a told context stands for."""

from __future__ import annotations

from typing import Any

from backstory.recall import context
from backstory.store.db import Tx
from backstory.text import tokens

SAMPLE = 200
PROJECTS = 50


def counts(tx: Tx, project: str) -> dict[str, Any]:
    """Rows of everything, or of a project by its name or key."""
    sessions = tx.one("stats_sessions", project=project) or {}
    prompts = tx.one("stats_prompts", project=project) or {"count": 0}
    summaries = tx.one("stats_summaries", project=project) or {"count": 0}
    return {
        "sessions": sessions.get("sessions", 0),
        "prompts": prompts["count"],
        "events": {row["status"]: row["count"] for row in tx.all("stats_events", project=project)},
        "observations": {row["type"]: row["count"] for row in tx.all("stats_observations", project=project)},
        "summaries": summaries["count"],
        "first_at": sessions.get("first_at"),
        "last_at": sessions.get("last_at"),
    }


def projects(tx: Tx, project: str, budget: int) -> list[dict[str, Any]]:
    """A row a project. Tokens are estimates: of the context by our own count, of the events by that of a sample."""
    share = _tokens_a_character(tx, project)
    found = []
    for row in tx.all("stats_projects", project=project, limit=PROJECTS):
        told = tokens(context.for_start(tx, row["name"], row["key"], budget)) if row["observations"] else 0
        raw = round(row.pop("characters") * share)
        found.append(row | {"context_tokens_estimate": told, "events_tokens_estimate": raw})
    return found


def _tokens_a_character(tx: Tx, project: str) -> float:
    texts = [row["payload"] for row in tx.all("stats_sample", project=project, limit=SAMPLE)]
    size = sum(len(text) for text in texts)
    return sum(tokens(text) for text in texts) / size if size else 0.0
