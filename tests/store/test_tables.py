"""The tables that a user owns: read off the migrations, and none forgotten."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backstory.store import queries
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore
from backstory.store.tables import DERIVED, NATURAL


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    store = SqliteStore(tmp_path / "backstory.db")
    migrate(store)
    store.close()
    with closing(sqlite3.connect(tmp_path / "backstory.db")) as connection:
        yield connection


def test_every_table_is_exported_or_named_as_derived(database: sqlite3.Connection) -> None:
    """A table that a later migration adds is either carried over or known not to be."""
    names = {row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    shadows = {name for name in names if name.startswith(("words_", "sqlite_"))}
    assert names - shadows - DERIVED == set(queries.owned("sqlite"))


def test_every_column_is_exported_unless_it_is_generated(database: sqlite3.Connection) -> None:
    """The columns and keys read off the migrations are those that the database has."""
    for table in queries.owned("sqlite").values():
        rows = database.execute(f"PRAGMA table_xinfo({table.name})").fetchall()
        assert list(table.columns) == [row[1] for row in rows if row[6] == 0]
        assert list(table.key) == [row[1] for row in sorted(rows, key=lambda r: r[5]) if row[5]]
        parents = {row[3]: row[2] for row in database.execute(f"PRAGMA foreign_key_list({table.name})")}
        assert {c.name: c.parent for c in table.columns.values() if c.parent} == parents
        given = {row[1]: row[4] for row in rows if row[4] is not None and row[6] == 0}
        assert {c.name: repr(c.default) for c in table.columns.values() if c.default is not None} == given


def test_a_row_can_be_known_again_in_another_store() -> None:
    """Every table has columns that say which row it is, none of them an id of ours alone."""
    for table in queries.owned("sqlite").values():
        assert table.name in NATURAL or "id" not in table.key, f"{table.name}: name its natural key"
        assert set(table.natural) <= set(table.columns)


def test_parents_come_before_their_children() -> None:
    """A row's parents are in the store before it comes."""
    seen: set[str] = set()
    for table in queries.owned("sqlite").values():
        assert {c.parent for c in table.columns.values() if c.parent} <= seen | {table.name}
        seen.add(table.name)
