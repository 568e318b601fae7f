"""The day's budget: a call is reserved before it is made, so that several at once stay within it together."""

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

#: What an answer is thought to take until it is there.
ANSWER_TOKENS = 1500


class OverBudget(BackstoryError):
    """Today's budget is spent."""


class Budget:
    """What was spent today, and what is being spent."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._day = ""
        self._tokens, self._micros = 0, 0
        self._looking = asyncio.Lock()

    async def trouble(self, settings: Settings, model: str) -> str:
        """Why nothing may be spent now, for people; nothing if it may."""
        await self._look()
        if settings.daily_tokens and self._tokens >= settings.daily_tokens:
            return f"Today's budget of {settings.daily_tokens:,} tokens is spent; the rules observe until tomorrow."
        if not settings.daily_money:
            return ""
        if prices.price(model) is None:
            return (
                f"No price of `{model[:80]}` is known, so `daily_money` can not be kept and it is not asked; "
                "`daily_tokens` can be."
            )
        if self._micros >= settings.daily_money * 1_000_000:
            return f"Today's budget of ${settings.daily_money:,.2f} is spent; the rules observe until tomorrow."
        return ""

    @asynccontextmanager
    async def hold(
        self, settings: Settings, model: str, input_tokens: int, calls: list[ModelCall]
    ) -> AsyncIterator[None]:
        """Reserve what a call will take; afterwards the calls that were added to the list are what it took."""
        if trouble := await self.trouble(settings, model):
            raise OverBudget(trouble)
        guess = ModelCall(settings.provider, model, input_tokens, ANSWER_TOKENS)
        before = len(calls)
        self._count(guess, 1)
        try:
            yield
        finally:
            self._count(guess, -1)
            for call in calls[before:]:
                self._count(call, 1)

    def _count(self, call: ModelCall, times: int) -> None:
        cost = call.cost_micros if call.cost_micros is not None else prices.cost_micros(call) or 0
        self._tokens += times * (call.input_tokens + call.output_tokens)
        self._micros += times * cost

    async def _look(self) -> None:
        """A new day begins with what the ledger has of it: a worker may have been here before."""
        async with self._looking:
            if self._day == (today := ids.today()):
                return
            self._tokens, self._micros = await asyncio.to_thread(self._store.read, lambda tx: ledger.spent(tx, today))
            self._day = today
