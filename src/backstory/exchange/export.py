"""Exports everything that a user owns: table by table, in the order of the keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from backstory import __version__, ids
from backstory.exchange import lines
from backstory.store import queries, table_rows
from backstory.store.db import Row, Tx

#: Rows per query. Few, because a row may hold a whole file.
PAGE_ROWS = 32


def everything(tx: Tx) -> Iterator[str]:
    """Yield the lines of an export of one snapshot."""
    yield lines.header(__version__, ids.now())
    counts = {}
    for table in queries.owned().values():
        counts[table.name] = 0
        after: dict[str, Any] = table.first
        while rows := table_rows.page(tx, table, after, PAGE_ROWS):
            counts[table.name] += len(rows)
            for row in rows:
                yield lines.line(table.name, _at_rest(table.name, row))
            after = {name: rows[-1][name] for name in table.key}
    yield lines.ending(counts)


def _at_rest(table: str, row: Row) -> Row:
    """A row as it is when no observer works on it. An event that is being observed is queued in the copy."""
    if table == "sdk_sessions":
        return row | {"settles_at": 0, "force_init": 0}
    if table == "events":
        status = "queued" if row["status"] == "leased" else row["status"]
        return row | {"status": status, "lease_until": None, "lease_owner": None}
    return row
