"""Named queries: read from the .sql files once, by name."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def parse(text: str) -> dict[str, str]:
    """The queries of one file."""
    parts = _NAME.split(text)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def load(engine: str) -> dict[str, str]:
    """All queries of an engine: the shared ones, and its own over them."""
    room = files("backstory.store") / "sql"
    return parse((room / "shared.sql").read_text("utf-8")) | parse((room / f"{engine}.sql").read_text("utf-8"))


@cache
def migrations(engine: str) -> tuple[tuple[int, str, str], ...]:
    """The numbered steps of the schema: (version, name, SQL), in order."""
    found = []
    for file in (files("backstory.store") / "sql" / engine).iterdir():
        if match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name):
            found.append((int(match[1]), match[2], file.read_text("utf-8")))
    return tuple(sorted(found))
