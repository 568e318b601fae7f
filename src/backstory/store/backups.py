"""Copies of a SQLite database: taken whole, and taken anew when something was forgotten."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

#: Where copies lie beside those that a migration leaves next to the database.
FOLDER = "backups"


def take(database: Path, target: Path) -> None:
    """A copy through SQLite, so that it is whole whatever is going on."""
    target.unlink(missing_ok=True)
    target.touch(mode=0o600)
    with (
        contextlib.closing(sqlite3.connect(database)) as source,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)


def every(database: Path) -> list[Path]:
    """Every copy that is kept, the newest last."""
    beside = database.parent.glob(f"{database.name}.*")
    found = [file for file in (*beside, *(database.parent / FOLDER).glob("*")) if file.is_file()]
    return sorted(found, key=lambda file: (file.stat().st_mtime_ns, file.name))


def renew(database: Path) -> None:
    """One fresh copy in place of all that there are: none may hold what the database no longer has."""
    found = every(database)
    for file in found:
        file.unlink(missing_ok=True)
    if found:
        # One that a migration left is named for a schema that this no longer is.
        kept = found[-1] if found[-1].parent.name == FOLDER else database.with_name(f"{database.name}.after-forgetting")
        take(database, kept)
