"""Named queries: read from the .sql files once, by name."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from backstory.store import tables

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def parse(text: str) -> dict[str, str]:
    """The queries of one file."""
    parts = _NAME.split(text)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def load(engine: str) -> dict[str, str]:
    """All queries of an engine: the shared ones, its own over them, and those that every table has alike."""
    return written(engine) | tables.queries(owned(engine))


def written(engine: str) -> dict[str, str]:
    """Those that stand in a file."""
    room = files("backstory.store") / "sql"
    return parse((room / "shared.sql").read_text("utf-8")) | parse((room / f"{engine}.sql").read_text("utf-8"))


@cache
def owned(engine: str) -> dict[str, tables.Table]:
    """The tables that hold what is a user's own."""
    return tables.parse(sql for _, _, sql in migrations(engine))


@cache
def migrations(engine: str) -> tuple[tuple[int, str, str], ...]:
    """The numbered steps of the schema: (version, name, SQL), in order."""
    found = []
    for file in (files("backstory.store") / "sql" / engine).iterdir():
        if match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name):
            found.append((int(match[1]), match[2], file.read_text("utf-8")))
    return tuple(sorted(found))
