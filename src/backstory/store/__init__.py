"""The database. All SQL is in this package."""

from __future__ import annotations

from backstory.errors import BadSetting
from backstory.settings import Settings, without_password
from backstory.store import backups
from backstory.store.db import Store
from backstory.store.migrate import migrate


def open_store(settings: Settings) -> Store:
    """Open the database that the settings name, and migrate it."""
    store: Store
    if settings.database_url:
        store = _postgres(settings)
    else:
        from backstory.store.sqlite import SqliteStore

        store = SqliteStore(settings.paths.database)
        settings.paths.database.chmod(0o600)
    try:
        migrate(store)
    except BaseException:
        store.close()
        raise
    return store


def _postgres(settings: Settings) -> Store:
    if not settings.database_url.startswith(("postgresql://", "postgres://")):
        raise BadSetting(
            f"`database_url` is not an address of PostgreSQL: {without_password(settings.database_url)}.",
            "Use the form postgresql://user:password@host:5432/database, or remove it to use SQLite.",
        )
    try:
        from backstory.store.postgres import PostgresStore
    except ImportError:
        raise BadSetting(
            "`database_url` names a PostgreSQL server, but the package `psycopg` is not installed.",
            "Install it with `pip install 'backstory[postgres]'`.",
        ) from None
    return PostgresStore(settings.database_url, settings.paths.data)


def check(settings: Settings) -> list[str]:
    """Return what is wrong with the database. Reads a whole SQLite database, and only connects to a server."""
    if settings.database_url:
        _postgres(settings).close()
        return []
    if cause := backups.lost(settings.paths):
        return [f"The file is {cause}, but it had rows before."]
    return backups.problems(settings.paths.database)
