"""List prices of models, in dollars for a million tokens: read, read from a cache, written. Unknown is unknown."""

from __future__ import annotations

import re

from backstory.model import ModelCall

#: As of 2026-11-15. A price that changes is a line here; what was spent before keeps what it cost then.
PRICES: dict[str, tuple[float, float, float]] = {
    "claude-haiku-5-5": (0.10, 0.01, 0.50),
    "claude-haiku-4-5": (1.00, 0.10, 5.00),
    "claude-sonnet-5-5": (2.00, 0.10, 10.00),
    "claude-sonnet-5": (2.00, 0.20, 10.00),
    "claude-sonnet-4-6": (3.00, 0.30, 15.00),
    "claude-sonnet-4-5": (3.00, 0.30, 15.00),
    "claude-opus-5-5": (4.00, 0.20, 20.00),
    "claude-opus-5": (5.00, 0.50, 25.00),
    "claude-opus-4-8": (5.00, 0.50, 25.00),
    "claude-opus-4-7": (5.00, 0.50, 25.00),
    "claude-opus-4-6": (5.00, 0.50, 25.00),
    "claude-opus-4-5": (5.00, 0.50, 25.00),
    "claude-fable-5-1": (10.00, 0.25, 50.00),
    "claude-fable-5": (10.00, 1.00, 50.00),
    "gpt-5": (1.25, 0.125, 10.00),
    "gpt-5-mini": (0.25, 0.025, 2.00),
    "gpt-5-nano": (0.05, 0.005, 0.40),
}
#: What Claude Code calls its current ones.
PRICES |= {name: PRICES[f"claude-{name}-5-5"] for name in ("haiku", "sonnet", "opus")}
# A maker before the name, as brokers write it; a date after it.
_AROUND = re.compile(r"^(?:[\w.-]+/)*|(?:-20\d{6}|-20\d\d-\d\d-\d\d|-latest|\[1m\])$")


def price(model: str) -> tuple[float, float, float] | None:
    """What a model's tokens cost, by its name however it is written."""
    name = _AROUND.sub("", model.lower())
    return PRICES.get(name) or PRICES.get(name.replace(".", "-"))


def cost_micros(call: ModelCall) -> int | None:
    """What a call cost, in millionths of a dollar."""
    known = price(call.model)
    if known is None:
        return None
    read, cached, written = known
    fresh = max(call.input_tokens - call.cached_tokens, 0)
    return round(fresh * read + call.cached_tokens * cached + call.output_tokens * written)
