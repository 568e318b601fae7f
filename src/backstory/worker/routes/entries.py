"""Routes of single entries: a summary, a prompt, and what an observation rests on."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from backstory.errors import NotFound
from backstory.store import feed, memories, prompts, sources
from backstory.store.db import Row, Store
from backstory.worker.endpoints import Call, Endpoint, needs_read


class Sources(msgspec.Struct):
    """What an observation rests on. Long texts are cut in the middle.

    `replaces` are observations that it superseded, `repeats` those of earlier sessions that say the same.
    """

    events: list[dict[str, Any]]
    turns: list[dict[str, Any]]  #: of its round
    prompt: dict[str, Any] | None
    replaces: list[dict[str, Any]]
    replaced_by: dict[str, Any] | None
    repeats: list[dict[str, Any]]


class EntryRoutes:
    """The routes of single entries."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def table(self) -> list[Endpoint]:
        return [
            needs_read("GET", "/api/observations/{id:int}/sources", self.sources, Sources),
            needs_read("GET", "/api/summaries/{id:int}", self.summary),
            needs_read("GET", "/api/prompts/{id:int}", self.prompt),
        ]

    async def sources(self, call: Call) -> Sources:
        """Show the events and the conversation that an observation rests on, and what it replaced."""
        number = call.number("id")
        return Sources(**await asyncio.to_thread(self._store.read, lambda tx: sources.of_observation(tx, number)))

    async def summary(self, call: Call) -> Row:
        """Show one summary in full."""
        number = call.number("id")
        row = await asyncio.to_thread(self._store.read, lambda tx: memories.shown_summary(tx, number))
        if row is None:
            raise NotFound(f"There is no summary {number}.", "Search gives the ids.")
        return feed.entry_of("summary", row) | row

    async def prompt(self, call: Call) -> Row:
        """Show one prompt in full. A private or forgotten prompt has no text."""
        number = call.number("id")
        row = await asyncio.to_thread(self._store.read, lambda tx: prompts.shown(tx, number))
        if row is None:
            raise NotFound(f"There is no prompt {number}.", "Search gives the ids.")
        return feed.entry_of("prompt", row) | row
