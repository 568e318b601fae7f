"""Reads what models used from a transcript of Claude Code: the tokens of each message, and what the client adds up.

Each block of a message is a line. It repeats the usage of the message, and the last one has all of the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

#: Messages that the client writes itself, such as errors of the API.
SYNTHETIC = "<synthetic>"
#: Tokens of one message, and characters of the name of a model. More are damage.
MAX_TOKENS = 10**9
MAX_MODEL = 200


@dataclass(frozen=True, slots=True)
class Used:
    """What a model used. The fields are those of the report."""

    model: str
    input_tokens: int = 0  #: without those from the cache and to it
    cached_tokens: int = 0
    cache_5m_tokens: int = 0
    cache_1h_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int | None = 0  #: None if a message does not say what it cost

    def plus(self, other: Used) -> Used:
        cost = None if self.cost_micros is None or other.cost_micros is None else self.cost_micros + other.cost_micros
        tokens = {name: getattr(self, name) + getattr(other, name) for name in _TOKENS}
        return replace(self, **tokens, cost_micros=cost)


_TOKENS = ("input_tokens", "cached_tokens", "cache_5m_tokens", "cache_1h_tokens", "output_tokens")


class Usage:
    """What was used from one prompt or compaction to the next. A pass begins at one of them, so each part is whole."""

    def __init__(self, part: str = "") -> None:
        self.part = part  #: the id of its first entry
        self._messages: dict[str, Used] = {}

    def read(self, entry: Mapping[str, Any]) -> None:
        """Add an entry. Only the last one of a message counts."""
        self.part = self.part or entry["uuid"]
        message = entry.get("message")
        usage = message.get("usage") if isinstance(message, dict) else None
        if entry.get("type") != "assistant" or not isinstance(message, dict) or not isinstance(usage, dict):
            return
        name, model = message.get("id"), message.get("model")
        if isinstance(name, str) and isinstance(model, str) and model != SYNTHETIC:
            self._messages[name] = _used(model[:MAX_MODEL], usage, entry.get("costUSD"))

    def by_model(self) -> list[dict[str, Any]]:
        """Return the sum for each model."""
        sums: dict[str, Used] = {}
        for used in self._messages.values():
            sums[used.model] = sums.get(used.model, Used(used.model)).plus(used)
        return [asdict(used) for used in sums.values()]


def counted_cost(entry: Mapping[str, Any]) -> int | None:
    """Return the millionths of a dollar that the client counted so far, also for what no message tells. None if the
    entry does not say it, or if a model without a known price was used."""
    is_known = entry.get("type") == "cost-state" and not entry.get("hasUnknownModelCost")
    return _micros(entry.get("totalCostUSD")) if is_known else None


def _used(model: str, usage: Mapping[str, Any], cost: Any) -> Used:
    written = _tokens(usage.get("cache_creation_input_tokens"))
    times = usage.get("cache_creation")
    hour = _tokens(times.get("ephemeral_1h_input_tokens")) if isinstance(times, dict) else 0
    return Used(
        model,
        _tokens(usage.get("input_tokens")),
        _tokens(usage.get("cache_read_input_tokens")),
        max(written - hour, 0),
        min(hour, written),
        _tokens(usage.get("output_tokens")),
        _micros(cost),
    )


def _tokens(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS else 0


def _micros(dollars: Any) -> int | None:
    is_number = isinstance(dollars, int | float) and not isinstance(dollars, bool)
    return round(dollars * 1_000_000) if is_number and 0 <= dollars <= MAX_TOKENS else None
