"""Routes of statistics over time: by day, by file, and of the queue."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec

from backstory.recall import activity
from backstory.store import events
from backstory.store.db import Store, Tx
from backstory.worker.endpoints import Call, Endpoint, needs_read
from backstory.worker.routes.overview import StatsQuery


class DaysQuery(StatsQuery):
    days: Annotated[int, msgspec.Meta(ge=1, le=366)] = 30


class StatDay(msgspec.Struct):
    """What happened on a day. Numbers named estimates are not exact."""

    day: str
    sessions: int
    prompts: int
    observations: int
    summaries: int
    tokens_spent: int
    cost_micros: int
    calls_without_price: int
    contexts: int
    tokens_told_estimate: int


class StatDays(msgspec.Struct):
    """Days in local time, oldest first."""

    items: list[StatDay]


class WhereLearned(msgspec.Struct):
    """The files, projects and types with the most observations."""

    files: list[dict[str, Any]]
    projects: list[dict[str, Any]]
    types: list[dict[str, Any]]


class RoundTime(msgspec.Struct):
    """When a round ended, and the seconds until it was remembered."""

    at: str
    seconds: float


class QueueStats(msgspec.Struct):
    """The queue, and how long the last rounds waited: half of them at most `p50_s`, 95 % at most `p95_s`."""

    queued: int
    leased: int
    dead: int
    p50_s: float | None
    p95_s: float | None
    rounds: list[RoundTime]


class StatRoutes:
    """The routes of statistics over time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def table(self) -> list[Endpoint]:
        return [
            needs_read("GET", "/api/stats/days", self.days, StatDays, query=DaysQuery),
            needs_read("GET", "/api/stats/files", self.files, WhereLearned, query=StatsQuery),
            needs_read("GET", "/api/stats/queue", self.queue, QueueStats),
        ]

    async def days(self, call: Call) -> StatDays:
        """Show what happened on each of the last days, what models cost, and what sessions were told."""
        query: DaysQuery = call.query
        rows = await asyncio.to_thread(self._store.read, lambda tx: activity.days(tx, query.project, query.days))
        return StatDays([StatDay(**row) for row in rows])

    async def files(self, call: Call) -> WhereLearned:
        """Show the files, projects and types with the most observations."""
        project: str = call.query.project
        return WhereLearned(**await asyncio.to_thread(self._store.read, lambda tx: activity.where_learned(tx, project)))

    async def queue(self, call: Call) -> QueueStats:
        """Show the queue, and how long the last rounds waited to be remembered."""

        def work(tx: Tx) -> QueueStats:
            found = activity.waiting(tx)
            rounds = [RoundTime(**each) for each in found.pop("rounds")]
            return QueueStats(**events.counts(tx), **found, rounds=rounds)

        return await asyncio.to_thread(self._store.read, work)
