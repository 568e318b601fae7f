"""Other files that hold what a SQLite database holds or held: whoever forgets something must think of them."""

from __future__ import annotations

from pathlib import Path


def copies(database: Path) -> list[Path]:
    """Backups, what a migration left beside the database, and what was set aside as damaged; with their logs."""
    found = (*database.parent.glob(f"{database.name}.*"), *(database.parent / "backups").glob("*"))
    return sorted(file for file in found if file.is_file())


def remove(database: Path) -> bool:
    """Take every copy away; whether there were any."""
    found = copies(database)
    for file in found:
        file.unlink(missing_ok=True)
    return bool(found)
