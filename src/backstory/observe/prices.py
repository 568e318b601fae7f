"""List prices of models in US dollars per million tokens: input, cached input, output."""

from __future__ import annotations

import re

from backstory.model import ModelCall
from backstory.store.usage import ModelUsage

#: As of 2026-11-15. The ledger keeps what earlier calls cost.
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
#: Claude Code's short names for the current models.
PRICES |= {name: PRICES[f"claude-{name}-5-5"] for name in ("haiku", "sonnet", "opus")}
#: What writing to the cache costs, in prices of input: for five minutes, and for an hour.
CACHE_5M = 1.25
CACHE_1H = 2.0
# A vendor before the name, as brokers write it, and a date after it.
_PREFIX_OR_SUFFIX = re.compile(r"^(?:[\w.-]+/)*|(?:-20\d{6}|-20\d\d-\d\d-\d\d|-latest|\[1m\])$")


def price(model: str) -> tuple[float, float, float] | None:
    """The price of a model, or None if it is not known."""
    name = _PREFIX_OR_SUFFIX.sub("", model.lower())
    return PRICES.get(name) or PRICES.get(name.replace(".", "-"))


def cost_micros(call: ModelCall) -> int | None:
    """The cost of a call in millionths of a dollar, or None if the price is not known."""
    model_price = price(call.model)
    if model_price is None:
        return None
    input_price, cached_price, output_price = model_price
    uncached = max(call.input_tokens - call.cached_tokens, 0)
    return round(uncached * input_price + call.cached_tokens * cached_price + call.output_tokens * output_price)


def list_price_micros(used: ModelUsage) -> int | None:
    """What a session's use of a model costs at list prices, in millionths of a dollar; None if they are not known."""
    model_price = price(used.model)
    if model_price is None:
        return None
    input_price, cached_price, output_price = model_price
    written = used.cache_5m_tokens * CACHE_5M + used.cache_1h_tokens * CACHE_1H
    whole = (used.input_tokens + written) * input_price
    return round(whole + used.cached_tokens * cached_price + used.output_tokens * output_price)
