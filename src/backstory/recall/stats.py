"""How much is remembered: counts, times, and what a told context stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from backstory.recall import context
from backstory.store import ledger
from backstory.store.db import Tx
from backstory.text import tokens

SAMPLE = 200
PROJECTS = 50
DAYS = 14


def counts(tx: Tx, project: str) -> dict[str, Any]:
    """Rows of everything, or of a project by its name or key."""
    sessions = tx.one("stats_sessions", project=project) or {}
    prompts = tx.one("stats_prompts", project=project) or {"count": 0}
    summaries = tx.one("stats_summaries", project=project) or {"count": 0}
    serving = tx.one("embedder_serving")
    vectors = tx.one("vectors_count", embedder_id=serving["id"]) if serving and not project else None
    return {
        "sessions": sessions.get("sessions", 0),
        "prompts": prompts["count"],
        "events": {row["status"]: row["count"] for row in tx.all("stats_events", project=project)},
        "observations": {row["type"]: row["count"] for row in tx.all("stats_observations", project=project)},
        "summaries": summaries["count"],
        "vectors": vectors["count"] if vectors else 0,
        "first_at": sessions.get("first_at"),
        "last_at": sessions.get("last_at"),
    }


def projects(tx: Tx, project: str, budget: int) -> list[dict[str, Any]]:
    """A row a project. Tokens are estimates: of the context by our own count, of the events by that of a sample."""
    share = _tokens_a_character(tx, project)
    found = []
    for row in tx.all("stats_projects", project=project, limit=PROJECTS):
        told = context.for_start(tx, row["name"], row["key"], budget) if row["observations"] else ""
        sizes = {
            "context_tokens_estimate": tokens(told),
            "stands_for_tokens_estimate": round(_behind(tx, told) * share),
            "events_tokens_estimate": round(row.pop("characters") * share),
        }
        found.append(row | sizes)
    return found


def models(tx: Tx, project: str) -> dict[str, Any]:
    """What models took: the latest days, and everything."""
    return {"days": ledger.by_day(tx, project, DAYS), "total": ledger.total(tx, project)}


def _behind(tx: Tx, told: str) -> int:
    """Characters of the events that a context stands for: those that the observations it names came from, no others."""
    sizes: dict[int, int] = {}
    for number in re.findall(r"^#(\d+) ", told, re.MULTILINE):
        sizes |= {row["id"]: row["size"] for row in tx.all("observation_source_sizes", id=int(number))}
    return sum(sizes.values())


def _tokens_a_character(tx: Tx, project: str) -> float:
    """Tokens to a character that is stored: a large payload is packed."""
    found = tx.all("stats_sample", project=project, limit=SAMPLE)
    size = sum(row["stored"] for row in found)
    return sum(tokens(row["payload"]) for row in found) / size if size else 0.0


#: What takes room, by the beginnings of the tables' names; what is none of these is the rest.
_ROOM = {
    "events": ("events",),
    "conversation": ("turns", "user_prompts"),
    "memory": ("observation", "session_summaries", "sdk_sessions", "session_moves"),
    "index": ("words", "word_rows", "chunks", "statements", "rebuilds"),
    "vectors": ("vectors", "embedders"),
}


def room(tables: Mapping[str, int]) -> dict[str, int]:
    """Bytes by what they are for: what agents reported (tools' output most of all), what was said, what is remembered
    of it, and what it is found by."""
    made = dict.fromkeys((*_ROOM, "rest"), 0)
    for table, size in tables.items():
        made[next((name for name, begins in _ROOM.items() if table.startswith(begins)), "rest")] += size
    return made
