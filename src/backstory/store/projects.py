"""Projects, as the sessions that were in them name them."""

from __future__ import annotations

from backstory.project import Project
from backstory.store.db import Row, Tx


def find(tx: Tx, name: str) -> Project | None:
    """The project that was last worked in under this name or key."""
    row = tx.one("project_key_of", project=name)
    return Project(row["project"], row["project_key"]) if row else None


def listed(tx: Tx, limit: int) -> list[Row]:
    """Projects as the API shows them, the one last worked in first."""
    return tx.all("projects_list", limit=limit)
