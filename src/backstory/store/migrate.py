"""Brings a database to this version's schema: numbered steps, each once, each whole, after a backup."""

from __future__ import annotations

import logging

from backstory import ids
from backstory.errors import StoreUnavailable
from backstory.store import queries
from backstory.store.db import Store, Tx

log = logging.getLogger(__name__)


def migrate(store: Store) -> list[int]:
    """Apply what is missing; the versions that were."""
    store.write(_prepare)
    done = {row["version"] for row in store.read(lambda tx: tx.all("migrations_done"))}
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
            if version in {row["version"] for row in tx.all("migrations_done")}:
                return  # another worker, started at the same time, was quicker
            tx.script(sql)
            tx.run("migration_done", version=version, name=name, at=ids.now())

        store.write(apply)
        log.info("schema %04d %s applied", version, name)
    return [version for version, _, _ in missing]


def _prepare(tx: Tx) -> None:
    tx.one("schema_lock")
    tx.run("schema_versions_exist")
