"""How much is remembered: counts, times, and what a told context stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from backstory.recall import context
from backstory.store import counts, ledger
from backstory.store.db import Tx
from backstory.text import tokens

SAMPLE = 200
PROJECTS = 50
DAYS = 14


def projects(tx: Tx, project: str, budget: int) -> list[dict[str, Any]]:
    """One dictionary for each project. Tokens are estimates: a sample of events tells how many a character has."""
    share = _tokens_a_character(tx, project)
    estimates = []
    for one in counts.projects(tx, project, PROJECTS):
        text = context.for_start(tx, one.name, one.key, budget) if one.observations else ""
        values = asdict(one)
        characters = values.pop("characters")
        values["context_tokens_estimate"] = tokens(text)
        values["stands_for_tokens_estimate"] = round(_behind(tx, text) * share)
        values["events_tokens_estimate"] = round(characters * share)
        estimates.append(values)
    return estimates


def models(tx: Tx, project: str) -> dict[str, Any]:
    """What models took: the latest days, and everything."""
    return {"days": ledger.by_day(tx, project, DAYS), "total": ledger.total(tx, project)}


def _behind(tx: Tx, told: str) -> int:
    """Characters of the events that the observations in a context came from."""
    sizes: dict[int, int] = {}
    for number in re.findall(r"^#(\d+) ", told, re.MULTILINE):
        sizes |= counts.source_sizes(tx, int(number))
    return sum(sizes.values())


def _tokens_a_character(tx: Tx, project: str) -> float:
    """How many tokens a stored character stands for. Large payloads are stored compressed."""
    payloads = counts.latest_payloads(tx, project, SAMPLE)
    size = sum(stored for _, stored in payloads)
    return sum(tokens(payload) for payload, _ in payloads) / size if size else 0.0


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
