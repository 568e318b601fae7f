"""Confines a request to one group: it reads rows of its own sessions only, and changes no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from backstory.errors import Forbidden
from backstory.project import of_group
from backstory.store.db import Row, Store, Tx

T = TypeVar("T")
_GROUP: ContextVar[str | None] = ContextVar("group", default=None)
#: Queries whose rows say nothing about what is stored: numbers of rows, and how many have a word.
_TELL_NOTHING = frozenset({"words_last", "words_counts", "words_rows", "words_scored", "words_newest"})

#: Queries for the rows of something that they call `id`.
_NAMED_BY_ID = {
    "session_moves": "session_id",
    "session_children": "session_id",
    "session_titles": "session_id",
    "observation_event_ids": "observation_id",
    "observation_source_sizes": "observation_id",
}


@contextmanager
def confined_to(group: str | None) -> Iterator[None]:
    """Confine what is read from a `ConfinedStore` in this context, and in threads that are started from it."""
    token = _GROUP.set(group)
    try:
        yield
    finally:
        _GROUP.reset(token)


class ConfinedTx:
    """A transaction that leaves out the rows of others. Rows that do not say whose they are cannot be read."""

    def __init__(self, tx: Tx, group: str) -> None:
        self._tx, self._key = tx, of_group(group).key
        self._session_ids: frozenset[int] | None = None
        self.engine = tx.engine

    def run(self, name: str, /, **values: Any) -> int:
        raise Forbidden(_REFUSED)

    def one(self, name: str, /, **values: Any) -> Row | None:
        rows = self.all(name, **values)
        return rows[0] if rows else None

    def all(self, name: str, /, **values: Any) -> list[Row]:
        rows = self._tx.all(name, **values)
        if name in _TELL_NOTHING:
            return rows
        asked = {_NAMED_BY_ID[name]: values["id"]} if name in _NAMED_BY_ID else values
        return [row for row in rows if self._is_own(row, asked)]

    def script(self, sql: str, /) -> None:
        raise Forbidden(_REFUSED)

    def _is_own(self, row: Row, asked: Row) -> bool:
        """Whether a row is the group's: by its own columns, else by what the query was asked for."""
        for named in (row, asked):
            if "project_key" in named:
                return bool(named["project_key"] == self._key)
            if "session_id" in named:
                return named["session_id"] in self._own_sessions()
            if "observation_id" in named:
                return self.one("observation_by_id", id=named["observation_id"]) is not None
        raise Forbidden(_REFUSED)

    def _own_sessions(self) -> frozenset[int]:
        if self._session_ids is None:
            rows = self._tx.all("sessions_of_project", project=self._key)
            self._session_ids = frozenset(row["id"] for row in rows)
        return self._session_ids


_REFUSED = "A caller that is confined to a group may not use this."


class ConfinedStore:
    """A store for routes that callers of groups may use. Without such a caller it is the store itself."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.engine = store.engine

    def submit(self, work: Callable[[Tx], T], /) -> Future[T]:
        return self._store.submit(_confined(work))

    def write(self, work: Callable[[Tx], T], /) -> T:
        return self._store.write(_confined(work))

    def read(self, work: Callable[[Tx], T], within: float = 0, /) -> T:
        return self._store.read(_confined(work), within)

    def backup(self, label: str, /) -> None:
        self._store.backup(label)

    def checkpoint(self) -> None:
        self._store.checkpoint()

    def vacuum(self) -> None:
        self._store.vacuum()

    def idle_s(self) -> float:
        return self._store.idle_s()

    def scrub(self) -> None:
        self._store.scrub()

    def size(self) -> int:
        return self._store.size()

    def close(self) -> None:
        self._store.close()


def _confined(work: Callable[[Tx], T]) -> Callable[[Tx], T]:
    group = _GROUP.get()
    return work if group is None else lambda tx: work(ConfinedTx(tx, group))
