"""What the agent of a group may know: the context of its next session, and the sessions of its own group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from backstory.agents import DEFAULT_AGENT
from backstory.groups import names
from backstory.groups.pointers import HistoryEntry, Pointers
from backstory.model import ContentId, Turn
from backstory.project import group_of
from backstory.recall import context, find_sessions
from backstory.recall.search import MemorySearch
from backstory.recall.vectors import Vectors
from backstory.sessions import Message
from backstory.settings import Settings
from backstory.store import groups, sessions, turns
from backstory.store.confined import ConfinedStore, confined_to
from backstory.store.db import Store, Tx
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
        with confined_to(group):
            render = partial(context.for_start, project=group, project_key=key, budget=budget, command="")
            rendered = await asyncio.to_thread(self._confined.read, render)
        return str(rendered) if len(rendered.lines) > 1 else ""  # one line says that there is nothing yet

    async def said(self, group: str, session_id: str) -> tuple[Message, ...]:
        """Return what is stored of the conversation in a session of a group, for an agent that has lost it."""

        def read(tx: Tx) -> list[Turn]:
            session = sessions.by_content_id(tx, DEFAULT_AGENT, ContentId(session_id))
            is_own = session is not None and session.project_key == names.project_key(group)
            return turns.of_session(tx, session.id) if session and is_own else []

        found = await asyncio.to_thread(self._store.read, read)
        return tuple(Message(each.role, ({"type": "text", "text": each.text},), each.at) for each in found if each.text)

    async def search(self, group: str, query: str, is_ended: bool = False) -> Sequence[dict[str, Any]]:
        """Return the sessions of a group in which something was said, the best match first. The main group finds those
        of all groups.

        `id` is the number by which the group can resume a session. Active sessions have none. With `is_ended`, prompts
        that are being answered are left out.
        """
        is_main = names.is_main(group)
        project = "" if is_main else names.project_key(group)
        where = Filter(project, is_in_groups=is_main, is_ended=is_ended)
        with confined_to(None if is_main else group):
            rows = await asyncio.to_thread(find_sessions.find, self._confined, self._search, query, where, FOUND)
        known = {entry.session_id: entry for entry in await self._pointers.resumable(group)}
        active = (await self._pointers.get(group)).session_id
        return [_shown(row, known.get(row["content_session_id"]), active) for row in rows]


def _shown(row: dict[str, Any], entry: HistoryEntry | None, active: str | None) -> dict[str, Any]:
    about = {"id": entry.id, "name": entry.name, "archived_at": entry.archived_at} if entry else {"id": None}
    about |= {"group": group_of(row["project_key"]), "is_active": row["content_session_id"] == active}
    return {**about, "title": row.get("title") or "", "last_used": row["last_event_at"], "excerpt": row["snippet"]}
