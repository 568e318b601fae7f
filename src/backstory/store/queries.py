"""Named queries, read from the .sql files once. `{part}` in a query stands for the text under `-- part: part`."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from backstory.store import tables

_HEADING = re.compile(r"^-- (name|part): (\w+)\n", re.MULTILINE)
_PART = re.compile(r"\{([a-z_]+)\}")


def parse(*texts: str) -> dict[str, str]:
    """The queries of some files, by name. A later file replaces what an earlier one says."""
    named: dict[str, dict[str, str]] = {"name": {}, "part": {}}
    for text in texts:
        pieces = _HEADING.split(text)
        for kind, name, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            named[kind][name] = body.strip()
    return {name: _PART.sub(lambda match: named["part"][match[1]], body) for name, body in named["name"].items()}


@cache
def load(engine: str) -> dict[str, str]:
    """All queries of an engine: the shared ones, its own over them, and those that every table has alike."""
    return written(engine) | tables.queries(owned(engine))


def written(engine: str) -> dict[str, str]:
    """Those that stand in a file."""
    room = files("backstory.store") / "sql"
    return parse(*((room / f"{name}.sql").read_text("utf-8") for name in ("shared", engine)))


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
