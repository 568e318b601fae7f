"""What the models of an agent used in its sessions, as transcripts tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backstory.gate import identifier
from backstory.model import Session
from backstory.store.db import Tx

#: Numbers must be smaller: SQLite adds them up.
LIMIT = 2**50
_TOKENS = ("input_tokens", "cached_tokens", "cache_5m_tokens", "cache_1h_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What a model used in a session."""

    model: str
    input_tokens: int  #: without those that were read from the cache or written to it
    cached_tokens: int
    cache_5m_tokens: int
    cache_1h_tokens: int
    output_tokens: int
    cost_micros: int | None  #: None if the transcript does not tell it for each message

    @property
    def read_tokens(self) -> int:
        return self.input_tokens + self.cached_tokens + self.cache_5m_tokens + self.cache_1h_tokens


def put(tx: Tx, session: Session, payload: Mapping[str, Any]) -> None:
    """Store a part of a session. A part that is read again has grown, and replaces what was stored of it. The copy of a
    part that begins a fork is not counted."""
    part, used = payload.get("part"), payload.get("used")
    if not isinstance(part, str) or not isinstance(used, list):
        return
    part = identifier(part)[:512]
    # What a fork cost includes what its parent cost.
    if session.parent_id if not part else tx.one("usage_elsewhere", part=part, session_id=session.id):
        return
    for one in used:
        if isinstance(one, dict) and isinstance(one.get("model"), str):
            tokens = {name: _number(one.get(name)) or 0 for name in _TOKENS}
            cost = _number(one.get("cost_micros"))
            model = identifier(one["model"])[:200]
            tx.run("usage_put", session_id=session.id, part=part, model=model, cost_micros=cost, **tokens)


def of_session(tx: Tx, session_id: int) -> list[ModelUsage]:
    """Return what each model used, the one that read most first."""
    found = [ModelUsage(**row) for row in tx.all("usage_of_session", session_id=session_id)]
    return sorted(found, key=lambda one: (-one.read_tokens, one.model))


def counted_cost(tx: Tx, session_id: int) -> int | None:
    """Return the millionths of a dollar that the agent counted for a session; None if it did not."""
    row = tx.one("usage_counted", session_id=session_id)
    return row["cost_micros"] if row else None


def forget(tx: Tx, session_id: int) -> None:
    tx.run("usage_forget", session_id=session_id)


def _number(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LIMIT
    return value if is_number else None
