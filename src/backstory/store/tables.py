"""The tables that are exported. SQLite itself describes them, so that no new table or column is left out."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

#: Tables that are not exported, because they can be rebuilt or matter only to the running worker.
DERIVED = frozenset(
    {"words", "word_rows", "rebuilds", "statements", "schema_versions", "erasures", "import_keys", "transcripts"}
) | {"chunks", "embedders", "vectors", "vectors_due", "vectors_gone", "word_texts"}
#: Table -> columns that identify a row in another store, where ids differ.
NATURAL = {
    "sdk_sessions": ("agent", "content_session_id"),
    "session_moves": ("session_id", "at", "to_status", "cause"),
    "session_titles": ("session_id", "source"),
    "session_tags": ("session_id", "tag"),
    "user_prompts": ("session_id", "prompt_number"),
    "events": ("session_id", "event_id"),
    "observations": ("session_id", "prompt_number", "created_at", "type", "title", "compressed_observation"),
    "observation_events": ("observation_id", "event_id"),
    "observation_files": ("observation_id", "path"),
    "session_summaries": ("session_id", "prompt_number", "source"),
    "sessions": ("group_folder",),
    "session_history": ("group_folder", "session_id"),
    "archives": ("group_folder", "session_id", "last_mark"),
    "forgotten": ("session_id", "kind", "mark"),
    "contexts": ("session_id", "at", "cause"),
    "turns": ("session_id", "number"),
    "kept_transcripts": ("session_id", "project_key", "subpath"),
    "transcript_entries": ("transcript_id", "mark"),
}
#: A column that is made from others -> the column that stores its value if that differs.
STORED_IN = {"compressed_observation": "observed_json"}
#: Tables that SQLite makes for itself or for the full-text index `words`.
_INTERNAL = ("sqlite_", "words_")
_CHOICES = re.compile(r"CHECK \((\w+) IN \(([^)]*)\)\)")


@dataclass(frozen=True, slots=True)
class Column:
    """A column that can be written."""

    name: str
    is_number: bool
    default: str | int | None
    parent: str | None  #: the table that it refers to by id
    is_required: bool = False
    choices: tuple[str, ...] = ()  #: the allowed values, if the schema lists them


@dataclass(frozen=True, slots=True)
class Table:
    """An exported table."""

    name: str
    columns: Mapping[str, Column]
    key: tuple[str, ...]

    @property
    def natural(self) -> tuple[str, ...]:
        return NATURAL.get(self.name, self.key)

    @property
    def own_parents(self) -> tuple[str, ...]:
        """The columns that refer to another row of this table."""
        return tuple(column.name for column in self.columns.values() if column.parent == self.name)

    @property
    def first(self) -> dict[str, Any]:
        """A key that is less than that of any row."""
        return {name: -1 if self.columns[name].is_number else "" for name in self.key}


def read(migrations: Iterable[str]) -> dict[str, Table]:
    """Return the exported tables after SQLite's migrations, parents before children. PostgreSQL has the same."""
    with closing(sqlite3.connect(":memory:")) as database:
        for name in ("unpacked", "unpacked_body"):  # a migration may name them, and there are no rows
            database.create_function(name, 1, lambda stored: stored)
        for sql in migrations:
            database.executescript(sql)
        created = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        exported = ((n, sql) for n, sql in created if n not in DERIVED and not n.startswith(_INTERNAL))
        tables = {name: _table(database, name, sql) for name, sql in exported}
    return {name: tables[name] for name in sorted(tables, key=lambda n: (_depth(tables, n), n))}


def _depth(tables: Mapping[str, Table], name: str) -> int:
    parents = {c.parent for c in tables[name].columns.values() if c.parent and c.parent != name}
    return max((_depth(tables, parent) + 1 for parent in parents), default=0)


def _table(database: sqlite3.Connection, name: str, sql: str) -> Table:
    parents = {row[3]: row[2] for row in database.execute(f"PRAGMA foreign_key_list({name})")}
    choices = {column: tuple(re.findall(r"'([^']*)'", values)) for column, values in _CHOICES.findall(sql)}
    columns: dict[str, Column] = {}
    key: dict[int, str] = {}
    for _, column, kind, required, default, place, generated in database.execute(f"PRAGMA table_xinfo({name})"):
        if (generated and column not in STORED_IN) or column in STORED_IN.values():
            continue
        value = default and database.execute(f"SELECT {default}").fetchone()[0]
        allowed = choices.get(column, ())
        is_required = bool(required) or column in STORED_IN
        columns[column] = Column(column, kind == "INTEGER", value, parents.get(column), is_required, allowed)
        if place:
            key[place] = column
    return Table(name, columns, tuple(key[place] for place in sorted(key)))


def queries(tables: Mapping[str, Table]) -> dict[str, str]:
    """Return the queries that are generated for each table: to export, recognise, count, add and link its rows."""
    made = {}
    for table in tables.values():
        columns, key, natural = tuple(table.columns), table.key, table.natural
        made[f"export_{table.name}"] = (
            f"SELECT {', '.join(columns)} FROM {table.name} "  # noqa: S608 - names from our own migrations
            f"WHERE ({', '.join(key)}) > ({_values(key)}) ORDER BY {', '.join(key)} LIMIT :limit"
        )
        same = " AND ".join(f"{name} = :{name}" for name in natural)
        made[f"same_{table.name}"] = f"SELECT {', '.join(key)} FROM {table.name} WHERE {same}"  # noqa: S608
        made[f"count_{table.name}"] = f"SELECT COUNT(*) AS count FROM {table.name}"  # noqa: S608
        made[f"last_{table.name}"] = f"SELECT MAX({key[0]}) AS last FROM {table.name}"  # noqa: S608
        stored = ", ".join(STORED_IN.get(name, name) for name in columns)
        made[f"insert_{table.name}"] = f"INSERT INTO {table.name} ({stored}) VALUES ({_values(columns)})"  # noqa: S608
        for name in table.own_parents:
            made[f"link_{table.name}_{name}"] = f"UPDATE {table.name} SET {name} = :parent WHERE id = :id"  # noqa: S608
    return made


def _values(names: Iterable[str]) -> str:
    return ", ".join(f":{name}" for name in names)
