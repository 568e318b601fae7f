"""The only room that knows SQL."""

from __future__ import annotations

from backstory.errors import BadSetting
from backstory.settings import Settings, without_password
from backstory.store import backups
from backstory.store.db import Store
from backstory.store.migrate import migrate


def open_store(settings: Settings) -> Store:
    """The store that the settings name, at this version's schema."""
    store = _postgres(settings) if settings.database_url else _sqlite(settings)
    try:
        migrate(store)
    except BaseException:
        store.close()
        raise
    return store


def _sqlite(settings: Settings) -> Store:
    from backstory.store.sqlite import SqliteStore

    path = settings.paths.database
    store = SqliteStore(path)
    path.chmod(0o600)
    return store


def _postgres(settings: Settings) -> Store:
    if not settings.database_url.startswith(("postgresql://", "postgres://")):
        raise BadSetting(
            f"`database_url` is not an address of PostgreSQL: {without_password(settings.database_url)}.",
            "It looks like postgresql://user:password@host:5432/database; without it SQLite is used.",
        )
    try:
        from backstory.store.postgres import PostgresStore
    except ImportError:
        raise BadSetting(
            "`database_url` names PostgreSQL, and the package `psycopg` for it is not installed.",
            "Install it with `pip install 'backstory[postgres]'`.",
        ) from None
    return PostgresStore(settings.database_url, settings.paths.data)


def check(settings: Settings) -> list[str]:
    """What is wrong with the database, if anything; reads all of it."""
    if settings.database_url:
        _postgres(settings).close()  # a server looks after its own; whether it answers is for us to know
        return []
    if cause := backups.lost(settings.paths):
        return [f"The file is {cause}, and a backup or an earlier look knows of more."]
    return backups.problems(settings.paths.database)
