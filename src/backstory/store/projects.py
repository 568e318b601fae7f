"""Projects, as the sessions that were in them name them."""

from __future__ import annotations

from dataclasses import dataclass

from backstory.store.db import Row, Tx


@dataclass(frozen=True, slots=True)
class KnownProject:
    """A project that a session was in."""

    name: str
    key: str


def find(tx: Tx, name: str) -> KnownProject | None:
    """The project that was last worked in under this name or key."""
    row = tx.one("project_key_of", project=name)
    return KnownProject(row["project"], row["project_key"]) if row else None


def listed(tx: Tx, limit: int) -> list[Row]:
    """Projects as the API shows them, the one last worked in first."""
    return tx.all("projects_list", limit=limit)
