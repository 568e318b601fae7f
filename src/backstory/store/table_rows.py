"""Reads and adds rows of any exported table, and maps the ids of an import to new ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backstory.store.db import Row, Tx
from backstory.store.observations import observed_json
from backstory.store.tables import Table


def page(tx: Tx, table: Table, after: Mapping[str, Any], limit: int) -> list[Row]:
    """Return the rows after a key, in the order of their keys."""
    return tx.all(f"export_{table.name}", **after, limit=limit)


def same(tx: Tx, table: Table, row: Row) -> Row | None:
    """Return the key of the stored row that is the same as this row of another store."""
    return tx.one(f"same_{table.name}", **{name: row[name] for name in table.natural})


def free_id(tx: Tx, table: Table, wanted: int) -> int:
    """Return the wanted id if it is greater than every id of the table, else the next id."""
    last = tx.one(f"last_{table.name}") or {}
    return max(wanted, (last.get("last") or 0) + 1)


def add(tx: Tx, table: Table, row: Row) -> None:
    stored = {"compressed_observation": observed_json(row)} if table.name == "observations" else {}
    tx.run(f"insert_{table.name}", **row | stored)


def link(tx: Tx, table: Table, column: str, child: int, parent: int) -> None:
    """Set a column that refers to another row of the same table."""
    tx.run(f"link_{table.name}_{column}", id=child, parent=parent)


def advance_sequences(tx: Tx) -> None:
    """Let the engine continue after the ids of rows that were added with their own ids."""
    tx.all("sequences_advance")


def put_import_key(tx: Tx, import_id: str, name: str, old_id: int, new_id: int) -> None:
    """Store the new id of a row of an import."""
    tx.run("import_key_put", import_id=import_id, name=name, old_id=old_id, new_id=new_id)


def import_key(tx: Tx, import_id: str, name: str, old_id: int) -> int | None:
    row = tx.one("import_key", import_id=import_id, name=name, old_id=old_id)
    return row["new_id"] if row else None


def import_keys(tx: Tx, import_id: str, name: str) -> list[tuple[int, int]]:
    """Return the old and new ids of an import under a name."""
    return [(row["old_id"], row["new_id"]) for row in tx.all("import_keys_of", import_id=import_id, name=name)]


def clear_import_keys(tx: Tx, import_id: str = "") -> None:
    """Delete the ids of an import, or of all imports."""
    tx.run("import_keys_clear", import_id=import_id)
