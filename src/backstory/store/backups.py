"""Backs up the SQLite database, checks it for damage, and restores the last good backup."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import secrets
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from backstory import ids
from backstory.errors import StoreUnavailable
from backstory.paths import Paths, read_object, sync, write_private

log = logging.getLogger(__name__)

#: Backups that are kept.
KEPT = 3
#: Bytes of a database that is checked at every start, at most. A check takes a millisecond for each MB.
CHECKED_BYTES = 128 << 20
#: The same if the last worker did not end normally.
CHECKED_IN_DOUBT_BYTES = 2 << 30
#: Pages that are copied at once.
PAGES = 256
#: Pauses of a backup that nobody waits for, as a multiple of the time that copying takes.
REST = 4.0
#: Seconds of such a pause, at least and at most.
MIN_REST_S = 0.002
MAX_REST_S = 0.5
#: Seconds. A temporary file that was not written for so long is of a backup that was killed.
ABANDONED_S = 86_400
#: Bytes of the smallest page. A shorter file is no database.
MIN_PAGE_BYTES = 512
BEGINNING = "1970-01-01T00:00:00.000Z"
#: Tables whose ids are never reused. Their highest ids tell how many rows were ever stored.
COUNTED = ("sdk_sessions", "user_prompts", "events", "observations", "turns")
#: Errors of SQLite that do not mean damage.
_NOT_DAMAGE = frozenset(
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
#: Held during the daily backup, and while all backups are replaced.
LOCK = threading.Lock()


class Damaged(StoreUnavailable):
    """The database is damaged."""

    hint = "`backstory repair` restores the last good backup and keeps the damaged file."


#: Why a database was replaced.
_CAUSES = {
    "damaged": "the database was damaged",
    "gone": "the database file was gone",
    "empty": "the database was empty although it had held something",
    "removed": "files of the database were removed or replaced while the worker ran",
}


@dataclass(frozen=True, slots=True)
class Restored:
    """A record of a database that was replaced or has shrunk. It is kept in a file until the user acknowledges it."""

    at: str
    backup_at: str | None  #: time of the backup; None if there was no good one and the database is empty
    damaged: str  #: the name under which the old file is kept; empty if there was none
    cause: str = "damaged"  #: one of `_CAUSES`, or "shrunk"
    rows: int = 0  #: the number of rows now
    rows_before: int = 0  #: the number of rows when a worker last counted them

    def __str__(self) -> str:
        if self.cause == "shrunk":
            return f"the database holds less than it did: {self.rows} rows of {self.rows_before}"
        if self.cause == "removed":
            source = "written out again by the worker, which had it open: nothing is lost"
        elif self.backup_at:
            source = f"restored from a backup of {self.backup_at}"
        else:
            source = "begun empty: there was no backup"
        kept = f"; the file that was there is kept as {self.damaged}" if self.damaged else ""
        return f"{_CAUSES.get(self.cause, _CAUSES['damaged'])} and {source}{kept}"


def is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def exists(database: Path) -> bool:
    """Whether there is a database. Raises for a broken link, so that no empty database replaces its target."""
    if database.is_symlink() and not database.exists():
        raise StoreUnavailable(f"The database {database.name} is a link to {database.readlink()}, which is not there.")
    return database.exists()


def is_free(database: Path) -> bool:
    """Whether a database may be put there, because the path is a file or unused."""
    return database.is_file() or not os.path.lexists(database)


def problems(database: Path, stopping: Stopping = lambda: False) -> list[str]:
    """Return what is wrong with a database file; nothing if it is sound or does not exist."""
    if not exists(database):
        return []
    if not os.access(database, os.R_OK | os.W_OK):
        raise StoreUnavailable(f"The database {database.name} may not be read and written by this user.")
    try:
        with contextlib.closing(sqlite3.connect(database, timeout=10, isolation_level=None)) as connection:
            return _problems(connection, stopping)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NOT_DAMAGE:
            raise StoreUnavailable(f"The database could not be read: {error}.") from None
        return [str(error)]


def _problems(connection: sqlite3.Connection, stopping: Stopping) -> list[str]:
    connection.set_progress_handler(stopping, 100_000)
    messages = [str(row[0]) for row in connection.execute("PRAGMA quick_check(5)")]
    return [] if messages == ["ok"] else messages


def create(database: Path, label: str, stopping: Stopping = lambda: False, is_gentle: bool = False) -> Path:
    """Check the database, copy it into backups/, and remove old backups. Writers do not wait for it. A gentle backup
    leaves most of the disk and of a processor to others. Raises `InterruptedError` when `stopping`."""
    folder = database.with_name("backups")
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"{ids.now().replace(':', '-')}.{label}.db"
    temporary = folder / f".{target.name}.{secrets.token_hex(4)}"  # another process may begin in the same millisecond
    temporary.touch(mode=0o600)

    began = time.monotonic()

    def step(status: int, remaining: int, total: int) -> None:
        nonlocal began
        if stopping():
            raise InterruptedError
        if is_gentle:
            time.sleep(min(max(REST * (time.monotonic() - began), MIN_REST_S), MAX_REST_S))
        began = time.monotonic()

    try:
        with (
            contextlib.closing(sqlite3.connect(database, timeout=10, isolation_level=None)) as source,
            contextlib.closing(sqlite3.connect(temporary)) as copy,
        ):
            # One snapshot for check and copy. Without it, each write of others would restart the copy.
            source.execute("BEGIN")
            if messages := _problems(source, stopping):
                raise Damaged(f"The database is damaged: {messages[0]}.")
            source.backup(copy, pages=PAGES, progress=step)
        temporary.replace(target)
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise Damaged(f"The database is damaged: {error}.") from None
        raise StoreUnavailable(f"The database could not be copied: {error}.") from None
    finally:
        for file in folder.glob(f"{temporary.name}*"):
            file.unlink(missing_ok=True)
    _rotate(folder)
    return target


def _rotate(folder: Path) -> None:
    """Keep the newest backups. Also keep the one with the most rows, because the newer ones may follow a loss."""
    backups = listed(folder)
    old = backups[KEPT:]
    if old and extent_of(largest := max(old, key=extent_of)) > max(map(extent_of, backups[:KEPT])):
        old.remove(largest)
    for file in (*old, *_abandoned(folder)):
        file.unlink(missing_ok=True)


def _abandoned(folder: Path) -> Iterator[Path]:
    """Yield the temporary files of backups that were killed."""
    for file in folder.glob(".*"):
        with contextlib.suppress(OSError):
            if _NAME.match(file.name[1:]) and file.stat().st_mtime < time.time() - ABANDONED_S:
                yield file


def write_out(connection: sqlite3.Connection, target: Path) -> None:
    """Copy an open database into a file that only its owner can read. The file is complete and on disk, or absent."""
    partial = target.with_name(f"{target.name}-partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    try:
        with contextlib.closing(sqlite3.connect(partial)) as copy:
            connection.backup(copy)
        sync(partial)
        partial.replace(target)
        sync(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def companions(database: Path) -> tuple[Path, Path]:
    """Return the paths of the write-ahead log and its index. They are beside the file itself, not beside a link."""
    real = os.path.realpath(database)
    return Path(f"{real}-wal"), Path(f"{real}-shm")


def extent(connection: sqlite3.Connection) -> int:
    """Return how many rows were ever stored. Forgetting does not lower the number."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'").fetchone():
        return 0
    rows = connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    return sum(int(seq) for name, seq in rows if name in COUNTED)


def extent_of(backup: Path) -> int:
    """Return the extent of a backup; 0 if it cannot be read."""
    try:
        with contextlib.closing(sqlite3.connect(f"{backup.as_uri()}?immutable=1", uri=True)) as connection:
            return extent(connection)
    except sqlite3.Error:
        return 0


def known_extent(paths: Paths) -> int:
    """Return the extent that a worker last recorded; 0 if none did."""
    rows = read_object(paths.extent).get("rows")
    return rows if isinstance(rows, int) else 0


def keep_extent(paths: Paths, rows: int) -> None:
    if rows != known_extent(paths):
        write_private(paths.extent, json.dumps({"rows": rows}).encode())


def listed(folder: Path) -> list[Path]:
    """Return the backups, newest first."""
    return sorted((file for file in folder.glob("*.db") if _NAME.fullmatch(file.name)), reverse=True)


def taken_at(backup: Path) -> str:
    """Return the time of a backup, from its name."""
    match = _NAME.fullmatch(backup.name)
    return f"{match[1]}:{match[2]}:{match[3]}" if match else BEGINNING


def is_due(folder: Path, hours: float) -> bool:
    """Whether the newest backup is older than some hours. 0 hours turns backups off."""
    newest = next(iter(listed(folder)), None)
    return hours > 0 and (newest is None or ids.now_ms() - ids.at_ms(taken_at(newest)) > hours * 3_600_000)


def copies(database: Path) -> list[Path]:
    """Return every other file with content of the database: backups, and damaged files that are kept."""
    files = (*database.with_name("backups").glob("*"), *database.parent.glob(f"{database.name}.*"))
    return sorted(file for file in files if file.is_file())


def lost(paths: Paths) -> str:
    """Return "gone" or "empty" if the database is, although it or a backup had rows; else an empty string."""
    database = paths.database
    if not exists(database):
        cause = "gone"
    elif not database.is_file():
        return ""
    # A file that is shorter than a page is not opened, because SQLite would delete its log.
    elif database.stat().st_size < MIN_PAGE_BYTES or _extent_now(database) == 0:
        cause = "empty"
    else:
        return ""
    return cause if known_extent(paths) or any(map(extent_of, listed(paths.backups))) else ""


def _extent_now(database: Path) -> int | None:
    """Return the extent of the database; None if it cannot be read."""
    if not os.access(database, os.R_OK | os.W_OK):
        return None  # opening it would leave a log of the same mode behind
    try:
        with contextlib.closing(sqlite3.connect(database, timeout=10, isolation_level=None)) as connection:
            return extent(connection)
    except sqlite3.Error:
        return None


def restore_if_needed(paths: Paths, doubtful: bool) -> Restored | None:
    """Restore the last good backup if the database is damaged or lost. Call this before the database is opened."""
    if paths.rescued.exists() and is_free(paths.database):
        return _replace(paths, "removed", paths.rescued)
    suspect, database = paths.suspect.exists(), paths.database
    if cause := lost(paths):
        return _restore(paths, cause)
    if not exists(database):
        return None
    if suspect or database.stat().st_size <= (CHECKED_IN_DOUBT_BYTES if doubtful else CHECKED_BYTES):
        if messages := problems(database):
            log.error("the database is damaged: %s", messages[0])
            return _restore(paths, "damaged")
        paths.suspect.unlink(missing_ok=True)
    return _check_extent(paths)


def _check_extent(paths: Paths) -> Restored | None:
    """Record if the database has fewer rows than before, such as after its log was deleted."""
    rows, before = _extent_now(paths.database), known_extent(paths)
    if rows is None or rows >= before:
        return None
    shrunk = Restored(ids.now(), None, "", "shrunk", rows, before)
    write_private(paths.restored, json.dumps(asdict(shrunk)).encode())
    keep_extent(paths, rows)
    log.error("%s", shrunk)
    return shrunk


def _restore(paths: Paths, cause: str) -> Restored:
    """Replace the database by the newest sound backup that has rows, or by an empty file."""
    replacement = paths.database.with_name(f".{paths.database.name}.restored")
    good = _newest_good(listed(paths.backups))
    replacement.unlink(missing_ok=True)
    replacement.touch(mode=0o600)
    if good:
        shutil.copyfile(good, replacement)
        sync(replacement)
    return _replace(paths, cause, replacement, taken_at(good) if good else None)


def _newest_good(backups: Iterable[Path]) -> Path | None:
    sound = (backup for backup in backups if _is_sound(backup))
    first = next(sound, None)
    return first if first is None or extent_of(first) else next((b for b in sound if extent_of(b)), first)


def _replace(paths: Paths, cause: str, replacement: Path, backup_at: str | None = None) -> Restored:
    """Replace the database by a file. Keep the old file under another name."""
    database, at = paths.database, ids.now()
    aside = database.with_name(f"{database.name}.damaged-{at.replace(':', '-')}")
    kept = aside.name if exists(database) else ""
    rows, before = extent_of(replacement), known_extent(paths)
    restored = Restored(at, backup_at, kept, cause, rows, before)
    # The record comes first, so that it is not lost if this process is killed. A database exists at every moment.
    # Events since the backup are read from transcripts again: the backup knows how far each had been read.
    write_private(paths.restored, json.dumps(asdict(restored)).encode())
    for file in companions(database):
        with contextlib.suppress(FileNotFoundError):
            file.replace(aside.with_name(aside.name + file.name[-4:]))
    if kept:
        os.link(database, aside)
    replacement.replace(database)
    paths.suspect.unlink(missing_ok=True)
    keep_extent(paths, rows)
    log.error("%s", restored)
    return restored


def _is_sound(backup: Path) -> bool:
    try:
        return not problems(backup)
    except StoreUnavailable:
        return False


def restored(paths: Paths) -> Restored | None:
    """Return the record of a replaced database, if the user has not acknowledged it yet."""
    try:
        return Restored(**read_object(paths.restored))
    except TypeError:
        return None
