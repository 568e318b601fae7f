"""The interface of a database engine: it runs named queries in transactions. `sqlite` and `postgres` implement it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = dict[str, Any]
#: Greater than any id, to list rows from the newest on.
LAST = 2**62


class Tx(Protocol):
    """A transaction that runs named queries."""

    engine: str  #: "sqlite" or "postgres"

    def run(self, name: str, /, **values: Any) -> int:
        """Run a query that changes rows. Return how many."""
        ...

    def one(self, name: str, /, **values: Any) -> Row | None:
        """Return the first row of a query, if any."""
        ...

    def all(self, name: str, /, **values: Any) -> list[Row]:
        """Return all rows of a query."""
        ...

    def script(self, sql: str, /) -> None:
        """Run the statements of a migration in this transaction."""


class Store(Protocol):
    """A database. `write` runs a function in one transaction, `read` on one snapshot."""

    engine: str  #: "sqlite" or "postgres"

    def submit(self, work: Callable[[Tx], T], /) -> Future[T]:
        """Queue a write. The future is done when it is committed."""
        ...

    def write(self, work: Callable[[Tx], T], /) -> T:
        """Run a function in a transaction, and wait for the commit."""
        ...

    def read(self, work: Callable[[Tx], T], within: float = 0, /) -> T:
        """Run a function that only reads, on a snapshot. If it takes longer than `within` seconds, interrupt it, and
        raise `StoreUnavailable`. 0 is no limit."""
        ...

    def backup(self, label: str, /) -> None:
        """Copy the whole database before a change that cannot be undone."""

    def checkpoint(self) -> None:
        """Write the log into the database file, and notice files that were removed."""

    def vacuum(self) -> None:
        """Give free space back to the system. Writers wait for it."""

    def idle_s(self) -> float:
        """Return the seconds since the last write."""
        ...

    def scrub(self) -> None:
        """Remove deleted content from all files: database, log and backups."""

    def size(self) -> int:
        """Return the bytes on disk."""
        ...

    def close(self) -> None:
        """Finish queued writes, then close all connections."""
