"""The tables that are exported, parsed from the migrations, so that no new table is left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

#: Tables that are not exported, because they can be rebuilt or matter only to the running worker.
DERIVED = frozenset(
    {"words", "word_rows", "rebuilds", "statements", "schema_versions", "erasures", "import_keys", "transcripts"}
) | {"chunks", "embedders", "vectors", "vectors_due", "vectors_gone"}
#: Table -> columns that identify a row in another store, where ids differ.
NATURAL = {
    "sdk_sessions": ("agent", "content_session_id"),
    "session_moves": ("session_id", "at", "to_status", "cause"),
    "user_prompts": ("session_id", "prompt_number"),
    "events": ("session_id", "event_id"),
    "observations": ("session_id", "prompt_number", "created_at", "type", "title", "compressed_observation"),
    "observation_events": ("observation_id", "event_id"),
    "observation_files": ("observation_id", "path"),
    "session_summaries": ("session_id", "prompt_number", "source"),
    "sessions": ("group_folder",),
    "session_history": ("group_folder", "session_id", "archived_at"),
    "forgotten": ("session_id", "kind", "mark"),
    "turns": ("session_id", "number"),
}
_CREATE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+) \((.*?)\n\)", re.DOTALL)
_ADD = re.compile(r"ALTER TABLE (\w+) ADD COLUMN ([^;]+);")
_NOT_A_COLUMN = ("UNIQUE", "PRIMARY", "CHECK", "FOREIGN", "CONSTRAINT", "EXCLUDE")
_GENERATED = re.compile(r"GENERATED ALWAYS AS \(")
_CHOICES = re.compile(r"CHECK \(\w+ IN \([^)]*\)\)")
_DEFAULT = re.compile(r"DEFAULT (?:'((?:[^']|'')*)'|(-?\d+))")


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


def parse(steps: Iterable[str]) -> dict[str, Table]:
    """Return the exported tables of some migrations, parents before children."""
    parsed: dict[str, tuple[dict[str, Column], tuple[str, ...]]] = {}
    for text in steps:
        sql = re.sub(r"--[^\n]*", "", text)
        for name, body in _CREATE.findall(sql):
            parsed[name] = _columns(_parts(body))
        for name, definition in _ADD.findall(sql):
            columns, key = parsed[name]
            parsed[name] = (columns | _columns([definition])[0], key)
    tables = {name: Table(name, *parts) for name, parts in parsed.items() if name not in DERIVED}
    return {name: tables[name] for name in sorted(tables, key=lambda n: (_depth(tables, n), n))}


def _depth(tables: Mapping[str, Table], name: str) -> int:
    parents = {c.parent for c in tables[name].columns.values() if c.parent and c.parent != name}
    return max((_depth(tables, parent) + 1 for parent in parents), default=0)


def _parts(body: str) -> list[str]:
    """Split at commas that are not in brackets."""
    parts, depth = [""], 0
    for char in body:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [" ".join(part.split()) for part in parts]


def _columns(parts: Iterable[str]) -> tuple[dict[str, Column], tuple[str, ...]]:
    columns: dict[str, Column] = {}
    key: tuple[str, ...] = ()
    for part in parts:
        word, _, rest = part.partition(" ")
        if word == "PRIMARY":
            key = tuple(name.strip() for name in part[part.index("(") + 1 : part.rindex(")")].split(","))
        if word in _NOT_A_COLUMN or _GENERATED.search(part):
            continue
        if "PRIMARY KEY" in part:
            key = (word,)
        default, parent = _DEFAULT.search(rest), re.search(r"REFERENCES (\w+)", rest)
        value = None if default is None else default[1].replace("''", "'") if default[2] is None else int(default[2])
        is_number = re.match(r"(?:BIG|SMALL)?INT|(?:BIG)?SERIAL", rest) is not None
        choices = tuple(re.findall(r"'([^']*)'", (_CHOICES.search(rest) or [""])[0]))
        columns[word] = Column(word, is_number, value, parent and parent[1], "NOT NULL" in rest, choices)
    return columns, key


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
        made[f"insert_{table.name}"] = f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({_values(columns)})"  # noqa: S608
        for name in table.own_parents:
            made[f"link_{table.name}_{name}"] = f"UPDATE {table.name} SET {name} = :parent WHERE id = :id"  # noqa: S608
    return made


def _values(names: Iterable[str]) -> str:
    return ", ".join(f":{name}" for name in names)
