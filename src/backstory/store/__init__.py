"""The only room that knows SQL."""

from __future__ import annotations

from backstory.settings import Settings
from backstory.store import backups
from backstory.store.db import Store
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore


def open_store(settings: Settings) -> Store:
    """The store that the settings name, at this version's schema."""
    path = settings.paths.database
    store = SqliteStore(path)
    path.chmod(0o600)
    try:
        migrate(store)
    except BaseException:
        store.close()
        raise
    return store


def check(settings: Settings) -> list[str]:
    """What is wrong with the database, if anything; reads all of it."""
    return backups.problems(settings.paths.database)
