"""What the agent of a group may know: the context of its next session, and the sessions of its own group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from backstory.groups import names
from backstory.groups.pointers import Pointers
from backstory.recall import context, find_sessions
from backstory.recall.search import MemorySearch
from backstory.recall.vectors import Vectors
from backstory.settings import Settings
from backstory.store import groups
from backstory.store.confined import ConfinedStore, confined_to
from backstory.store.db import Store
from backstory.store.index.hits import Filter

#: Sessions that a search returns, at most.
FOUND = 8


class GroupMemory:
    """The memory of groups, each for itself."""

    def __init__(self, settings: Settings, store: Store, vectors: Vectors, pointers: Pointers) -> None:
        self._settings, self._store, self._pointers = settings, store, pointers
        self._confined = ConfinedStore(store)
        self._search = MemorySearch(self._confined, vectors)

    async def names(self) -> list[str]:
        """Return the names of all groups."""
        rows = await asyncio.to_thread(self._store.read, groups.listed)
        return [str(row["name"]) for row in rows]

    async def context(self, group: str) -> str:
        """Render what a new session of a group is told."""
        key, budget = names.project_key(group), self._settings.context_tokens
        with _confined(group):
            render = partial(context.for_start, project=group, project_key=key, budget=budget, command="")
            rendered = await asyncio.to_thread(self._confined.read, render)
        return str(rendered) if len(rendered.lines) > 1 else ""  # one line says that there is nothing yet

    async def search(self, group: str, query: str) -> Sequence[dict[str, Any]]:
        """Return the sessions of a group in which something was said, the best match first.

        `id` is the number by which a session can be resumed; the active session has none.
        """
        key = names.project_key(group)
        about = (self._confined, self._search, query, Filter(project=key), FOUND)
        with _confined(group):
            rows = await asyncio.to_thread(find_sessions.find, *about)
        known = {entry.session_id: entry for entry in await self._pointers.history(group)}
        return [_shown(row, known.get(row["content_session_id"])) for row in rows]


def _confined(group: str) -> AbstractContextManager[None]:
    """Confine what is read to a group, whatever a query names. The main group sees all."""
    return confined_to(None if names.is_main(group) else group)


def _shown(row: dict[str, Any], entry: Any) -> dict[str, Any]:
    about = {"id": entry.id, "name": entry.name, "archived_at": entry.archived_at} if entry else {"id": None}
    return {**about, "title": row.get("title") or "", "last_used": row["last_event_at"], "excerpt": row["snippet"]}
