"""The daily budget. Each call is reserved before it is made, so that parallel calls together stay within it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from backstory import ids
from backstory.errors import BackstoryError
from backstory.model import ModelCall
from backstory.observe import prices
from backstory.settings import Settings
from backstory.store import ledger
from backstory.store.db import Store

#: The tokens that are reserved for an answer.
ANSWER_TOKENS = 1500


class OverBudget(BackstoryError):
    """Today's budget is spent."""


class Budget:
    """The tokens and the money that today's calls took or have reserved."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._day = ""
        self._tokens, self._micros = 0, 0
        self._loading = asyncio.Lock()

    async def refusal(self, settings: Settings, model: str) -> str:
        """Why the model must not be asked now, as people read it. Empty if it may be."""
        await self._load_today()
        if settings.daily_tokens and self._tokens >= settings.daily_tokens:
            return f"Today's budget of {settings.daily_tokens:,} tokens is spent; the rules observe until tomorrow."
        if not settings.daily_money:
            return ""
        if prices.price(model) is None:
            return (
                f"The price of `{model[:80]}` is not known, so it is not asked: `daily_money` could not be kept. "
                "Use `daily_tokens` instead."
            )
        if self._micros >= settings.daily_money * 1_000_000:
            return f"Today's budget of ${settings.daily_money:,.2f} is spent; the rules observe until tomorrow."
        return ""

    @asynccontextmanager
    async def reserve(
        self, settings: Settings, model: str, input_tokens: int, calls: list[ModelCall]
    ) -> AsyncIterator[None]:
        """Reserve the estimated cost of a call. Afterwards the calls that were added to `calls` are counted."""
        if refusal := await self.refusal(settings, model):
            raise OverBudget(refusal)
        estimate = ModelCall(settings.provider, model, input_tokens, ANSWER_TOKENS)
        before = len(calls)
        self._count(estimate, 1)
        try:
            yield
        finally:
            self._count(estimate, -1)
            for call in calls[before:]:
                self._count(call, 1)

    def _count(self, call: ModelCall, times: int) -> None:
        cost = call.cost_micros if call.cost_micros is not None else prices.cost_micros(call) or 0
        self._tokens += times * (call.input_tokens + call.output_tokens)
        self._micros += times * cost

    async def _load_today(self) -> None:
        """Start a new day with what the ledger has of it: an earlier worker may have spent something today."""
        async with self._loading:
            if self._day == (today := ids.today()):
                return
            self._tokens, self._micros = await asyncio.to_thread(self._store.read, lambda tx: ledger.spent(tx, today))
            self._day = today
