"""Named queries from the .sql files. `{x}` in a query is replaced by the text under `-- part: x`."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from backstory.store import tables

_HEADING = re.compile(r"^-- (name|part): (\w+)\n", re.MULTILINE)
_PART = re.compile(r"\{([a-z_]+)\}")


def parse(*texts: str) -> dict[str, str]:
    """Return the queries of some files by name. A later file overrides an earlier one."""
    named: dict[str, dict[str, str]] = {"name": {}, "part": {}}
    for text in texts:
        pieces = _HEADING.split(text)
        for kind, name, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            named[kind][name] = body.strip()
    return {name: _PART.sub(lambda match: named["part"][match[1]], body) for name, body in named["name"].items()}


@cache
def load(engine: str) -> dict[str, str]:
    """Return all queries of an engine: the shared ones, its own, and those that are generated for each table."""
    return written(engine) | tables.queries(owned())


def written(engine: str) -> dict[str, str]:
    """Return the queries from the files."""
    folder = files("backstory.store") / "sql"
    return parse(*((folder / f"{name}.sql").read_text("utf-8") for name in ("shared", engine)))


@cache
def owned() -> dict[str, tables.Table]:
    """Return the tables that are exported."""
    return tables.read(sql for _, _, sql in migrations("sqlite"))


@cache
def migrations(engine: str) -> tuple[tuple[int, str, str], ...]:
    """Return the migrations in order: (version, name, SQL)."""
    steps = []
    for file in (files("backstory.store") / "sql" / engine).iterdir():
        if match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name):
            steps.append((int(match[1]), match[2], file.read_text("utf-8")))
    return tuple(sorted(steps))
