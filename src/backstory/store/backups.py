"""Copies of the SQLite database, whether it is sound, and the way back to the last good copy."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from backstory import ids
from backstory.errors import StoreUnavailable
from backstory.paths import Paths, write_private

log = logging.getLogger(__name__)

KEPT = 3
#: Read through at every start: a millisecond for each MB. A larger one only if its worker did not end well, or daily.
ORDINARY = 128 << 20
LARGE = 2 << 30
PAGES = 1000
BEGINNING = "1970-01-01T00:00:00.000Z"
#: What SQLite says when something stands in its way; anything else that it says while reading means damage.
_IN_THE_WAY = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
    }
)
_NAME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d)-(\d\d)-(\d\d\.\d{3}Z)\.([\w-]+)\.db")
Stopping = Callable[[], bool]


class Damaged(StoreUnavailable):
    """The database is damaged."""

    hint = "`backstory repair` goes back to the last good backup and keeps the damaged file."


@dataclass(frozen=True, slots=True)
class Restored:
    """What was done about a damaged database; kept as a file until somebody has read it."""

    at: str
    backup_at: str | None  #: None: there was no good backup, so it began empty
    damaged: str  #: the name under which the damaged file is kept

    def __str__(self) -> str:
        source = f"restored from a backup of {self.backup_at}" if self.backup_at else "begun empty: there was no backup"
        return f"the database was damaged and {source}; the damaged file is kept as {self.damaged}"


def is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def there(database: Path) -> bool:
    """Whether there is a database. A link to one that is away must not begin an empty one in its place."""
    if database.is_symlink() and not database.exists():
        raise StoreUnavailable(f"The database {database.name} is a link to {database.readlink()}, which is not there.")
    return database.exists()


def problems(database: Path, stopping: Stopping = lambda: False) -> list[str]:
    """What is wrong with a database file; nothing if it is sound, or not there."""
    if not there(database):
        return []
    if not os.access(database, os.R_OK | os.W_OK):
        raise StoreUnavailable(f"The database {database.name} may not be read and written by this user.")
    try:
        with contextlib.closing(sqlite3.connect(database, timeout=10, isolation_level=None)) as connection:
            return _problems(connection, stopping)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _IN_THE_WAY:
            raise StoreUnavailable(f"The database could not be read: {error}.") from None
        return [str(error)]


def _problems(connection: sqlite3.Connection, stopping: Stopping) -> list[str]:
    connection.set_progress_handler(stopping, 100_000)
    found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(5)")]
    return [] if found == ["ok"] else found


def take(database: Path, label: str, stopping: Stopping = lambda: False) -> Path:
    """Copy the database, checked, into backups/; the oldest go. Writers are not held up: it is a reader's snapshot."""
    folder = database.with_name("backups")
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"{ids.now().replace(':', '-')}.{label}.db"
    temporary = folder / f".{target.name}"
    temporary.touch(mode=0o600)

    def step(status: int, remaining: int, total: int) -> None:
        if stopping():
            raise InterruptedError

    try:
        with (
            contextlib.closing(sqlite3.connect(database, timeout=10, isolation_level=None)) as source,
            contextlib.closing(sqlite3.connect(temporary)) as copy,
        ):
            # One snapshot for check and copy; without it each write of others would start the copy again.
            source.execute("BEGIN")
            if found := _problems(source, stopping):
                raise Damaged(f"The database is damaged: {found[0]}.")
            source.backup(copy, pages=PAGES, progress=step)
        temporary.replace(target)
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise Damaged(f"The database is damaged: {error}.") from None
        raise StoreUnavailable(f"The database could not be copied: {error}.") from None
    finally:
        for rest in folder.glob(f"{temporary.name}*"):
            rest.unlink(missing_ok=True)
    for old in listed(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return target


def listed(folder: Path) -> list[Path]:
    """The backups that there are, newest first."""
    return sorted((file for file in folder.glob("*.db") if _NAME.fullmatch(file.name)), reverse=True)


def taken_at(backup: Path) -> str:
    """When a backup was made."""
    match = _NAME.fullmatch(backup.name)
    return f"{match[1]}:{match[2]}:{match[3]}" if match else BEGINNING


def is_due(folder: Path, hours: float) -> bool:
    """Whether the newest backup is too old; 0 hours for none."""
    newest = next(iter(listed(folder)), None)
    return hours > 0 and (newest is None or ids.now_ms() - ids.at_ms(taken_at(newest)) > hours * 3_600_000)


def copies(database: Path) -> list[Path]:
    """Every other file that holds what the database holds or held: whoever forgets something must think of them."""
    found = (*database.with_name("backups").glob("*"), *database.parent.glob(f"{database.name}.*"))
    return sorted(file for file in found if file.is_file())


def mend(paths: Paths, doubtful: bool) -> Restored | None:
    """Before a database is opened: notice that it is damaged, and go back to the last good backup."""
    suspect, database = paths.suspect.exists(), paths.database
    if not there(database) or (not suspect and database.stat().st_size > (LARGE if doubtful else ORDINARY)):
        return None
    found = problems(database)
    if not found:
        paths.suspect.unlink(missing_ok=True)
        return None
    log.error("the database is damaged: %s", found[0])
    restored = _restore(paths)
    log.error("%s", restored)
    return restored


def _restore(paths: Paths) -> Restored:
    database, at = paths.database, ids.now()
    aside = database.with_name(f"{database.name}.damaged-{at.replace(':', '-')}")
    fresh = database.with_name(f".{database.name}.restored")
    good = next((backup for backup in listed(paths.backups) if not _unsound(backup)), None)
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    if good:
        shutil.copyfile(good, fresh)
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
    restored = Restored(at, taken_at(good) if good else None, aside.name)
    # The note first: what happens twice is told twice, what is not told is lost. At no moment is there no database.
    # What came after the backup is read again: it knows how far each transcript had been read when it was taken.
    write_private(paths.restored, json.dumps(asdict(restored)).encode())
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            database.with_name(database.name + suffix).replace(aside.with_name(aside.name + suffix))
    os.link(database, aside)
    fresh.replace(database)
    paths.suspect.unlink(missing_ok=True)
    return restored


def _unsound(backup: Path) -> bool:
    try:
        return bool(problems(backup))
    except StoreUnavailable:
        return True


def restored(paths: Paths) -> Restored | None:
    """What was done about a damaged database, if nobody has acknowledged it yet."""
    try:
        return Restored(**json.loads(paths.restored.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
