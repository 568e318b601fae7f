"""Reads the database of claude-mem, row by row. Older versions have fewer tables and columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from backstory.errors import BackstoryError
from backstory.paths import expanded
from backstory.store.db import Row


class NotClaudeMem(BackstoryError):
    """The file is not a database of claude-mem."""

    hint = "It is usually ~/.claude-mem/claude-mem.db."


class ClaudeMem:
    """An open database of claude-mem."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"sdk_sessions", "observations"} <= self._tables:
            raise NotClaudeMem

    def rows(self, table: str) -> Iterator[Row]:
        """Yield every row of a table by id; none if this version has no such table."""
        if table in self._tables:
            query = f"SELECT * FROM {table} ORDER BY id"  # noqa: S608 - the name of a table that exists
            yield from map(dict, self._connection.execute(query))


@contextmanager
def opened(path: Path) -> Iterator[ClaudeMem]:
    """Open a database for reading only."""
    try:
        file = expanded(path).resolve(strict=True)
        connection = sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)
    except (OSError, sqlite3.Error):
        raise NotClaudeMem(f"{path} could not be opened.") from None
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        yield ClaudeMem(connection)
    except sqlite3.DatabaseError:
        raise NotClaudeMem from None
    finally:
        connection.close()
