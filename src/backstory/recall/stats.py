"""Statistics: counts per project, estimated tokens, costs of models, and bytes on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from backstory.recall import context
from backstory.store import counts, ledger
from backstory.store.db import Tx
from backstory.text import tokens

#: Payloads that are read to estimate tokens per character.
SAMPLE = 200
#: Projects that are listed, at most.
PROJECTS = 20
#: Days of model costs that are listed.
DAYS = 14


def projects(tx: Tx, project: str, budget: int) -> list[dict[str, Any]]:
    """Return the statistics of each project. Tokens are estimated from a sample of events."""
    share = _tokens_per_character(tx)
    estimates = []
    for one in counts.projects(tx, project, PROJECTS):
        rendered = context.for_start(tx, one.name, one.key, budget) if one.observations else context.SessionContext()
        values = asdict(one)
        characters = values.pop("characters")
        values["context_tokens_estimate"] = tokens(str(rendered))
        values["stands_for_tokens_estimate"] = round(_source_characters(tx, rendered.observation_ids) * share)
        values["events_tokens_estimate"] = round(characters * share)
        estimates.append(values)
    return estimates


def models(tx: Tx, project: str) -> dict[str, Any]:
    """Return the costs of models: of the latest days, and in total."""
    return {"days": ledger.by_day(tx, project, DAYS), "total": ledger.total(tx, project)}


def _source_characters(tx: Tx, observation_ids: Iterable[int]) -> int:
    """Return the characters of the events that some observations came from."""
    sizes: dict[int, int] = {}
    for number in observation_ids:
        sizes |= counts.source_sizes(tx, number)
    return sum(sizes.values())


def _tokens_per_character(tx: Tx) -> float:
    """Return the tokens per stored character. Large payloads are stored compressed."""
    payloads = counts.latest_payloads(tx, SAMPLE)
    size = sum(stored for _, stored in payloads)
    return sum(tokens(payload) for payload, _ in payloads) / size if size else 0.0


#: Purpose -> how the names of its tables begin. Other tables are the rest.
_TABLES = {
    "events": ("events",),
    "conversation": ("turns", "user_prompts"),
    "memory": ("observation", "session_summaries", "sdk_sessions", "session_moves"),
    "index": ("words", "word_rows", "word_texts", "chunks", "statements", "rebuilds"),
    "vectors": ("vectors", "embedders"),
    "transcripts": ("kept_transcripts", "transcript_entries"),
}


def bytes_by_purpose(tables: Mapping[str, int]) -> dict[str, int]:
    """Sum the bytes of tables by their purpose."""
    sums = dict.fromkeys((*_TABLES, "rest"), 0)
    for table, size in tables.items():
        sums[next((name for name, prefixes in _TABLES.items() if table.startswith(prefixes)), "rest")] += size
    return sums
