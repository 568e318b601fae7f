"""Applies the missing numbered migrations, each in a transaction, after a backup."""

from __future__ import annotations

import logging

from backstory import ids
from backstory.errors import StoreUnavailable
from backstory.store import marked, queries
from backstory.store.db import Store, Tx

log = logging.getLogger(__name__)

#: The steps 2 to 14 were never released and are now part of 0001. Databases record them by number and name. Both count,
#: because later migrations use the numbers again.
UNRELEASED_FIRST = (2, "transcripts")
UNRELEASED_LAST = (14, "forgotten_texts")


def migrate(store: Store) -> list[int]:
    """Apply the missing migrations and return their versions."""
    store.write(_prepare)
    done = {row["version"] for row in store.read(lambda tx: tx.all("migrations_list"))}
    steps = queries.migrations(store.engine)
    if newer := done - {version for version, _, _ in steps}:
        raise StoreUnavailable(
            f"The database is of a newer backstory (schema {max(newer)}).",
            "Install that version again, or a newer one.",
        )
    missing = [step for step in steps if step[0] not in done]
    if missing and done:
        store.backup(f"before-{missing[0][0]:04d}")
    for version, name, sql in missing:

        def apply(tx: Tx, version: int = version, name: str = name, sql: str = sql) -> None:
            tx.one("schema_lock")
            if version in {row["version"] for row in tx.all("migrations_list")}:
                return  # another worker has just applied it
            tx.script(sql)
            if version == marked.VERSION:
                marked.convert(tx)
            tx.run("migration_add", version=version, name=name, at=ids.now())

        store.write(apply)
        log.info("schema %04d %s applied", version, name)
    return [version for version, _, _ in missing]


def created_at(tx: Tx) -> str:
    """Return when the database was created."""
    return str(tx.all("migrations_list")[0]["applied_at"])


def _prepare(tx: Tx) -> None:
    tx.one("schema_lock")
    tx.run("schema_versions_create")
    done = {(row["version"], row["name"]) for row in tx.all("migrations_list")}
    if UNRELEASED_LAST in done:
        tx.run("migrations_remove_unreleased", last=UNRELEASED_LAST[0])
    elif UNRELEASED_FIRST in done:
        raise StoreUnavailable(
            "The database was made by an unreleased version of backstory.",
            "Run `backstory export` with that version, and `backstory import backstory` with this one.",
        )
