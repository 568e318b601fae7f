"""The active session of each group, and those that it had: in memory, backed by the store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from backstory.errors import BadInput, NotFound, PointerMoved
from backstory.groups import archive, names
from backstory.groups.archive import Archives
from backstory.groups.names import GroupPaths
from backstory.store import groups
from backstory.store.db import Store, Tx
from backstory.store.groups import HistoryRow, Leaving, Pointer

__all__ = ["HistoryEntry", "Pointer", "Pointers"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A session that a group had."""

    id: int
    session_id: str
    name: str
    created_at: str
    archived_at: str
    transcript_available: bool  #: without it the session starts fresh, with context that is rebuilt
    group: str


class Pointers:
    """The pointers of all groups.

    A clear and a resume start a new generation. Who has seen an earlier one cannot move the pointer any more: so the
    late answer of a query does not bring a cleared session back.
    """

    def __init__(self, store: Store, data: Path, archives: Archives) -> None:
        self._store, self._data, self._archives = store, data, archives
        self._known: dict[str, Pointer] = {}
        self._moves: Counter[str] = Counter()  #: group -> clears and resumes so far

    async def get(self, group: str) -> Pointer:
        """Return the active session of a group and the generation of the pointer."""
        names.check(group)
        return self._known.get(group) or await self._now(group)

    async def set(self, group: str, session_id: str, generation: int) -> bool:
        """Make a session the active one. Return False if the generation has moved on since it was seen.

        A session that is active before goes into the history.
        """
        names.check_session_id(session_id)
        async with self._archives.locks[names.check(group)]:
            now = await self._now(group)
            if now.generation != generation:
                return False
            if now.session_id == session_id:
                return True
            leaving = await self._leaving(group, now, None, "replaced")
            try:
                put = await self._write(lambda tx: groups.set_session(tx, group, session_id, generation, leaving))
            except PointerMoved:
                self._known.pop(group, None)
                return False
            self._keep(group, put)
            await self._archives.write_requested(group)
            return True

    async def clear(self, group: str, name: str | None = None, generation: int | None = None) -> HistoryEntry:
        """Move the active session into the history and archive it. The next message starts a new session.

        Raise PointerMoved if another call has moved the pointer since this one began, or since `generation`.
        """
        begun = self._moves[names.check(group)]
        async with self._archives.locks[group]:
            seen = await self._seen(group, begun, generation)
            leaving = await self._leaving(group, seen, name, "clear")
            if leaving is None:
                raise NotFound(f"The group {group} has no active session.", "The next message starts one.")
            row = await self._move(group, lambda tx: groups.clear(tx, group, seen.generation, leaving))
            await self._archives.write_requested(group)
        return self._entry(group, row)

    async def resume(
        self, group: str, history_id: int, save_current_as: str | None = None, generation: int | None = None
    ) -> Pointer:
        """Make a session of the history the active one again. The one before goes into the history and is archived.

        Raise PointerMoved if another call has moved the pointer since this one began, or since `generation`.
        """
        begun = self._moves[names.check(group)]
        async with self._archives.locks[group]:
            seen = await self._seen(group, begun, generation)
            await self._read(lambda tx: groups.history_entry(tx, group, history_id))
            leaving = await self._leaving(group, seen, save_current_as, "resume")
            pointer = await self._move(group, lambda tx: groups.resume(tx, group, history_id, seen.generation, leaving))
            self._keep(group, pointer)
            await self._archives.write_requested(group)
        return pointer

    async def history(self, group: str) -> list[HistoryEntry]:
        """Return the sessions that a group had, the last one first."""
        names.check(group)
        rows = await self._read(lambda tx: groups.history(tx, group))
        return await asyncio.to_thread(lambda: [self._entry(group, row) for row in rows])

    async def resumable(self, group: str) -> list[HistoryEntry]:
        """Return the sessions that a group may resume, as `resumable` tells."""
        names.check(group)
        rows = await self._read(lambda tx: resumable(tx, group))
        return await asyncio.to_thread(lambda: [*entries_of(self._data, rows)])

    async def owner(self, group: str, history_id: int) -> str:
        """Return the group whose session a group resumes by this number: itself, unless it is the main group."""
        found = await self.resumable(group) if names.is_main(names.check(group)) else []
        return next((entry.group for entry in found if entry.id == history_id), group)

    def forget(self, group: str) -> None:
        """Read the pointer of a group again at the next call, because its rows were changed."""
        self._known.pop(group, None)

    async def _seen(self, group: str, begun: int, generation: int | None) -> Pointer:
        """Return the pointer, unless it has moved since the call began or since the caller saw it."""
        now = await self._now(group)
        if self._moves[group] != begun or generation not in (None, now.generation):
            raise PointerMoved
        return now

    async def _now(self, group: str) -> Pointer:
        """Return the pointer from the store."""
        return self._keep(group, await self._write(lambda tx: _pointer(tx, group)))

    async def _leaving(self, group: str, now: Pointer, name: str | None, cause: str) -> Leaving | None:
        if now.session_id is None:
            return None
        return await asyncio.to_thread(self._archives.describe, group, now.session_id, name, cause)

    async def _move(self, group: str, work: Callable[[Tx], T]) -> T:
        self._known.pop(group, None)
        moved = await self._write(work)
        self._moves[group] += 1
        return moved

    def _keep(self, group: str, pointer: Pointer) -> Pointer:
        self._known[group] = pointer
        return pointer

    def _entry(self, group: str, row: HistoryRow) -> HistoryEntry:
        return entry_of(GroupPaths(self._data, group), row)

    async def _write(self, work: Callable[[Tx], T]) -> T:
        return await asyncio.wrap_future(self._store.submit(work))

    async def _read(self, work: Callable[[Tx], T]) -> T:
        return await asyncio.to_thread(self._store.read, work)


def entry_of(paths: GroupPaths, row: HistoryRow) -> HistoryEntry:
    """Return a row of the history, with whether its transcript is there."""
    is_available = archive.is_available(paths, row.session_id)
    about = (row.id, row.session_id, row.name, row.created_at, row.archived_at)
    return HistoryEntry(*about, is_available, row.group_folder)


def entries_of(data: Path, rows: Iterable[HistoryRow]) -> Iterator[HistoryEntry]:
    """Yield the same for rows of any groups."""
    for row in rows:
        with suppress(BadInput):  # an imported group can have any name
            yield entry_of(GroupPaths(data, row.group_folder), row)


def resumable(tx: Tx, group: str) -> list[HistoryRow]:
    """Return the sessions that a group may resume, the last one first: its own. The main group may resume all."""
    return groups.histories(tx) if names.is_main(group) else groups.history(tx, group)


def _pointer(tx: Tx, group: str) -> Pointer:
    """Return the pointer of a group. The main group exists from the beginning."""
    if names.is_main(group):
        groups.ensure(tx, group, names.fold(group))
    return groups.pointer(tx, group)
