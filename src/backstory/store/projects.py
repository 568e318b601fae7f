"""Projects, read from the sessions in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from backstory.store.db import Row, Tx

#: Projects that may have the same name.
MAX_KEYS = 50


@dataclass(frozen=True, slots=True)
class KnownProject:
    """Name and key of a project."""

    name: str
    key: str


def find(tx: Tx, name: str) -> KnownProject | None:
    """Return the project with this name or key that has the latest event."""
    row = tx.one("project_key_of", project=name)
    return KnownProject(row["project"], row["project_key"]) if row else None


def keys(tx: Tx, name: str) -> list[str]:
    """Return the keys of the projects with this name, or this key."""
    return [row["project_key"] for row in tx.all("project_keys", project=name, limit=MAX_KEYS)]


def listed(tx: Tx, limit: int) -> list[Row]:
    """Return projects as the API shows them, the one with the latest event first."""
    return tx.all("projects_list", limit=limit)


def of_directories(tx: Tx, places: Iterable[str]) -> KnownProject | None:
    """Return the project of the first of these directories in which a session of a repository was."""
    for place in places:
        if row := tx.one("project_of_directory", cwd=place):
            return KnownProject(row["project"], row["project_key"])
    return None
