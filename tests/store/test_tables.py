"""The exported tables: read from the migrations, the same for both engines."""

from __future__ import annotations

import re
from pathlib import Path

from box import rows_of

from backstory.store import queries
from backstory.store.migrate import migrate
from backstory.store.postgres import PostgresStore
from backstory.store.tables import NATURAL, Column, read

_LATER = """
CREATE TABLE notes (id INTEGER PRIMARY KEY, turn_id INTEGER NOT NULL REFERENCES turns (id), text TEXT DEFAULT 'it''s');
ALTER TABLE notes ADD COLUMN tone TEXT NOT NULL DEFAULT 'calm' CHECK (tone IN ('calm', 'loud'));
CREATE TABLE sessions_new (group_folder TEXT PRIMARY KEY, session_id TEXT NOT NULL);
DROP TABLE sessions;
ALTER TABLE sessions_new RENAME TO sessions;
ALTER TABLE session_history RENAME COLUMN name TO label;
DROP TABLE model_calls;
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''failed'')', '''failed'', ''lost'')') WHERE name = 'sdk_sessions';
PRAGMA writable_schema = RESET;
"""


def test_new_changed_rebuilt_and_removed_tables_are_read() -> None:
    """However a migration writes it."""
    before = queries.owned()
    after = read([*(sql for _, _, sql in queries.migrations("sqlite")), _LATER])
    assert set(after) == set(before) - {"model_calls"} | {"notes"}
    assert after["notes"].key == ("id",)
    assert list(after["notes"].columns.values()) == [
        Column("id", True, None, None),
        Column("turn_id", True, None, "turns", True),
        Column("text", False, "it's", None),
        Column("tone", False, "calm", None, True, ("calm", "loud")),
    ]
    assert list(after["sessions"].columns) == ["group_folder", "session_id"]
    assert "label" in after["session_history"].columns
    states = before["sdk_sessions"].columns["status"].choices
    assert after["sdk_sessions"].columns["status"].choices == (*states, "lost")
    assert "claude_session_id" not in after["sdk_sessions"].columns  # it is generated


def test_keys_parents_choices_and_defaults_are_those_of_postgresql(tmp_path: Path, database_url: str) -> None:
    """An import checks rows by what SQLite's migrations say, whatever the engine."""
    store = PostgresStore(database_url, tmp_path)
    migrate(store)
    store.close()
    rules = rows_of(
        database_url, "SELECT conrelid::regclass::text AS name, pg_get_constraintdef(oid) AS rule FROM pg_constraint"
    )
    defaults = rows_of(
        database_url,
        "SELECT table_name AS name, column_name AS column, column_default AS value FROM information_schema.columns "
        "WHERE table_schema = 'public' AND is_generated = 'NEVER' AND column_default IS NOT NULL",
    )
    for table in queries.owned().values():
        text = "\n".join(rule["rule"] for rule in rules if rule["name"] == table.name)
        columns = table.columns.values()
        assert f"PRIMARY KEY ({', '.join(table.key)})" in text
        parents = dict(re.findall(r"FOREIGN KEY \((\w+)\) REFERENCES (\w+)", text))
        assert parents == {column.name: column.parent for column in columns if column.parent}
        listed = re.findall(r"CHECK \(\((\w+) = ANY \(ARRAY\[(.*)\]", text)
        choices = {name: tuple(re.findall(r"'([^']*)'", values)) for name, values in listed}
        assert choices == {column.name: column.choices for column in columns if column.choices}
        given = {row["column"]: row["value"].removesuffix("::text") for row in defaults if row["name"] == table.name}
        assert given == {column.name: repr(column.default) for column in columns if column.default is not None}


def test_no_migration_drops_a_table_that_others_refer_to() -> None:
    """SQLite would delete the rows that refer to it. A CHECK is changed as in `_LATER`, without a new table."""
    parents = {column.parent for table in queries.owned().values() for column in table.columns.values()}
    for _, name, sql in queries.migrations("sqlite"):
        dropped = set(re.findall(r"(?i)DROP TABLE (?:IF EXISTS )?(\w+)", sql))
        assert not dropped & parents, name


def test_a_row_can_be_known_again_in_another_store() -> None:
    """Every table has columns that say which row it is, none of them an id of ours alone."""
    for table in queries.owned().values():
        assert table.name in NATURAL or "id" not in table.key, f"{table.name}: name its natural key"
        assert set(table.natural) <= set(table.columns)


def test_parents_come_before_their_children() -> None:
    """A row's parents are in the store before it comes."""
    seen: set[str] = set()
    for table in queries.owned().values():
        assert {c.parent for c in table.columns.values() if c.parent} <= seen | {table.name}
        seen.add(table.name)
