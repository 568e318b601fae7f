"""What the agent of a group may know: the context of its next session, and the sessions of its own group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from backstory.groups import names
from backstory.groups.pointers import Pointers
from backstory.recall import context, find_sessions
from backstory.recall.search import MemorySearch
from backstory.settings import Settings
from backstory.store import groups
from backstory.store.db import Store
from backstory.store.index.hits import Filter

#: Sessions that a search returns, at most.
FOUND = 8


class GroupMemory:
    """The memory of groups, each for itself."""

    def __init__(self, settings: Settings, store: Store, search: MemorySearch, pointers: Pointers) -> None:
        self._settings, self._store, self._search, self._pointers = settings, store, search, pointers

    async def names(self) -> list[str]:
        """Return the names of all groups."""
        rows = await asyncio.to_thread(self._store.read, groups.listed)
        return [str(row["name"]) for row in rows]

    async def context(self, group: str) -> str:
        """Render what a new session of a group is told."""
        key, budget = names.project_key(group), self._settings.context_tokens
        rendered = await asyncio.to_thread(self._store.read, lambda tx: context.for_start(tx, group, key, budget, ""))
        return str(rendered) if len(rendered.lines) > 1 else ""  # one line says that there is nothing yet

    async def search(self, group: str, query: str) -> Sequence[dict[str, Any]]:
        """Return the sessions of a group in which something was said, the best match first.

        `id` is the number by which a session can be resumed; the active session has none.
        """
        key = names.project_key(group)
        rows = await asyncio.to_thread(find_sessions.find, self._store, self._search, query, Filter(project=key), FOUND)
        known = {entry.session_id: entry for entry in await self._pointers.history(group)}
        # A query can name any session by its number.
        own = [row for row in rows if row["project_key"] == key]
        return [_shown(row, known.get(row["content_session_id"])) for row in own]


def _shown(row: dict[str, Any], entry: Any) -> dict[str, Any]:
    about = {"id": entry.id, "name": entry.name, "archived_at": entry.archived_at} if entry else {"id": None}
    return {**about, "title": row.get("title") or "", "last_used": row["last_event_at"], "excerpt": row["snippet"]}
