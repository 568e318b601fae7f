"""What a database must do for us: run named queries in a transaction. Each engine does it in its own file."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = dict[str, Any]
#: Greater than the id of any row: a list that is read from here on begins with the newest.
LAST = 2**62


class Tx(Protocol):
    """A transaction: three verbs, each on a named query."""

    engine: str  #: whose, where the same thing is said in two ways

    def run(self, name: str, /, **values: Any) -> int:
        """Change rows; how many."""
        ...

    def one(self, name: str, /, **values: Any) -> Row | None:
        """The first row, if any."""
        ...

    def all(self, name: str, /, **values: Any) -> list[Row]:
        """Every row."""
        ...

    def script(self, sql: str, /) -> None:
        """A migration's statements."""


class Store(Protocol):
    """A database. What `write` is given runs in one transaction, what `read` is given on one snapshot."""

    engine: str  #: which .sql files are its own

    def submit(self, work: Callable[[Tx], T], /) -> Future[T]:
        """Queue work; the future is done when the work is committed."""
        ...

    def write(self, work: Callable[[Tx], T], /) -> T:
        """The same, waited for."""
        ...

    def read(self, work: Callable[[Tx], T], /) -> T:
        """Look, and change nothing."""
        ...

    def backup(self, label: str, /) -> None:
        """A whole copy before something is changed that can't be changed back."""

    def checkpoint(self) -> None:
        """Make what is committed independent of the engine's log, and notice files that were removed."""

    def scrub(self) -> None:
        """Leave nothing of what was deleted in any file of the database, its log or its backups."""

    def size(self) -> int:
        """Bytes on disk."""
        ...

    def close(self) -> None:
        """Finish what is queued, then let go."""
