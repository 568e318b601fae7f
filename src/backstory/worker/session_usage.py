"""What a session used: tokens by model, and what they cost, as its agent counted it or at list prices."""

from __future__ import annotations

from dataclasses import dataclass

from backstory.observe import prices
from backstory.store import agent_sessions, usage
from backstory.store.db import Tx
from backstory.store.usage import ModelUsage


@dataclass(frozen=True, slots=True)
class UsedModel:
    """What a model used in a session."""

    model: str
    input_tokens: int  #: all that it read
    cached_tokens: int  #: of these, those that it read from a cache
    output_tokens: int
    cost_micros: int | None  #: None if neither the transcript nor the list of prices tells


@dataclass(frozen=True, slots=True)
class SessionUsage:
    """What a session used."""

    models: list[UsedModel]
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_micros: int | None  #: of the models whose price is known; None if there is none
    #: who says so: `agent`, which counts at list prices itself, or `estimate`
    cost_source: str
    models_without_price: list[str]


def of_session(tx: Tx, session_id: int) -> SessionUsage | None:
    """Return what a session used; None if its agent does not tell."""
    counted, totals = usage.counted_cost(tx, session_id), agent_sessions.get(tx, session_id)
    models = [_used(one) for one in usage.of_session(tx, session_id)]
    if totals and totals.cost_micros:
        counted = max(counted or 0, totals.cost_micros)
    if totals and not models and totals.input_tokens + totals.output_tokens:
        models = [UsedModel(totals.model, totals.input_tokens, 0, totals.output_tokens, counted)]
    if not models:
        return None
    known = [one.cost_micros for one in models if one.cost_micros is not None]
    cost, source = (sum(known), "estimate") if known else (None, "")
    without = [one.model for one in models if one.cost_micros is None]
    # The agent also counts what no message tells, such as making a title. What it wrote last may be behind, though.
    if counted is not None and counted >= (cost or 0):
        cost, source, without = counted, "agent", []
    read, cached, written = (
        sum(getattr(one, name) for one in models) for name in ("input_tokens", "cached_tokens", "output_tokens")
    )
    return SessionUsage(models, read, cached, written, cost, source, without)


def _used(one: ModelUsage) -> UsedModel:
    cost = prices.list_price_micros(one) if one.cost_micros is None else one.cost_micros
    return UsedModel(one.model, one.read_tokens, one.cached_tokens, one.output_tokens, cost)
