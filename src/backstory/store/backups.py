"""Copies of the SQLite database, whether it is sound, and the way back to the last good copy."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable
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
SMALLEST_PAGE = 512  #: bytes; a shorter file holds no database
BEGINNING = "1970-01-01T00:00:00.000Z"
#: Tables whose ids are never used twice, so that the highest ones tell how much was ever stored.
COUNTED = ("sdk_sessions", "user_prompts", "events", "observations", "turns")
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
#: Held by whoever takes the daily backup, or takes all of them anew: else there would be one more than is needed.
TURN = threading.Lock()


class Damaged(StoreUnavailable):
    """The database is damaged."""

    hint = "`backstory repair` goes back to the last good backup and keeps the damaged file."


#: Why a database had to be replaced.
_CAUSES = {
    "damaged": "the database was damaged",
    "gone": "the database file was gone",
    "empty": "the database was empty although it had held something",
    "removed": "files of the database were removed or replaced while the worker ran",
}


@dataclass(frozen=True, slots=True)
class Restored:
    """What was done about a damaged or lost database; kept as a file until somebody has read it."""

    at: str
    backup_at: str | None  #: None: there was no good backup, so it began empty
    damaged: str  #: the name under which the file that was there is kept; empty if there was none
    cause: str = "damaged"  #: one of `_CAUSES`, or "shrunk"
    rows: int = 0  #: how many rows it has now
    rows_before: int = 0  #: how many it had when a worker last looked

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


def there(database: Path) -> bool:
    """Whether there is a database. A link to one that is away must not begin an empty one in its place."""
    if database.is_symlink() and not database.exists():
        raise StoreUnavailable(f"The database {database.name} is a link to {database.readlink()}, which is not there.")
    return database.exists()


def is_free(database: Path) -> bool:
    """Whether a database may be put there. A folder, or a link to what is away, is somebody else's doing."""
    return database.is_file() or not os.path.lexists(database)


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
    _rotate(folder)
    return target


def _rotate(folder: Path) -> None:
    """Keep the newest backups, and the largest if none of them holds as much: they may be of a lost memory's heir."""
    found = listed(folder)
    old = found[KEPT:]
    if old and extent_of(largest := max(old, key=extent_of)) > max(map(extent_of, found[:KEPT])):
        old.remove(largest)
    for backup in old:
        backup.unlink(missing_ok=True)


def write_out(connection: sqlite3.Connection, target: Path) -> None:
    """Copy an open database into a file: whole, on the disk, and for its owner only."""
    partial = target.with_name(f"{target.name}-partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    try:
        with contextlib.closing(sqlite3.connect(partial)) as copy:
            connection.backup(copy)
        _sync(partial)
        partial.replace(target)
        _sync(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def companions(database: Path) -> tuple[Path, Path]:
    """The write-ahead log and its index. SQLite keeps them beside the file itself, not beside a link to it."""
    real = os.path.realpath(database)
    return Path(f"{real}-wal"), Path(f"{real}-shm")


def extent(connection: sqlite3.Connection) -> int:
    """How many rows were ever stored. Forgetting does not lower it: what is forgotten leaves a tombstone."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'").fetchone():
        return 0
    rows = connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    return sum(int(seq) for name, seq in rows if name in COUNTED)


def extent_of(backup: Path) -> int:
    """The same of a backup, which nobody writes to; 0 if it can't be read."""
    try:
        with contextlib.closing(sqlite3.connect(f"{backup.as_uri()}?immutable=1", uri=True)) as connection:
            return extent(connection)
    except sqlite3.Error:
        return 0


def known_extent(paths: Paths) -> int:
    """How many rows the database had when a worker last looked; 0 if none ever did."""
    try:
        return int(json.loads(paths.extent.read_bytes())["rows"])
    except (OSError, ValueError, TypeError, KeyError):
        return 0


def keep_extent(paths: Paths, rows: int) -> None:
    if rows != known_extent(paths):
        write_private(paths.extent, json.dumps({"rows": rows}).encode())


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


def lost(paths: Paths) -> str:
    """Say "gone" or "empty" if the database is, although it or a backup of it had held something."""
    database = paths.database
    if not there(database):
        cause = "gone"
    elif not database.is_file():
        return ""
    # SQLite would delete the log of a file that is shorter than any page, so such a file is not opened.
    elif database.stat().st_size < SMALLEST_PAGE or _extent_now(database) == 0:
        cause = "empty"
    else:
        return ""
    return cause if known_extent(paths) or any(map(extent_of, listed(paths.backups))) else ""


def _extent_now(database: Path) -> int | None:
    """None if it can't be read, which is for others to say."""
    if not os.access(database, os.R_OK | os.W_OK):
        return None  # SQLite would leave a log of the same mode behind
    try:
        with contextlib.closing(sqlite3.connect(database, timeout=10, isolation_level=None)) as connection:
            return extent(connection)
    except sqlite3.Error:
        return None


def mend(paths: Paths, doubtful: bool) -> Restored | None:
    """Before a database is opened: notice that it is damaged or lost, and go back to the last good backup."""
    if paths.rescued.exists() and is_free(paths.database):
        return _said(_replace(paths, "removed", paths.rescued))
    suspect, database = paths.suspect.exists(), paths.database
    if cause := lost(paths):
        return _said(_restore(paths, cause))
    if not there(database):
        return None
    if suspect or database.stat().st_size <= (LARGE if doubtful else ORDINARY):
        if found := problems(database):
            log.error("the database is damaged: %s", found[0])
            return _said(_restore(paths, "damaged"))
        paths.suspect.unlink(missing_ok=True)
    return _compare(paths)


def _said(restored: Restored) -> Restored:
    log.error("%s", restored)
    return restored


def _compare(paths: Paths) -> Restored | None:
    """Say so if the database holds less than it did, such as after its log was deleted. Transcripts fill it in."""
    rows, before = _extent_now(paths.database), known_extent(paths)
    if rows is None or rows >= before:
        return None
    shrunk = Restored(ids.now(), None, "", "shrunk", rows, before)
    write_private(paths.restored, json.dumps(asdict(shrunk)).encode())
    keep_extent(paths, rows)
    return _said(shrunk)


def _restore(paths: Paths, cause: str) -> Restored:
    """The newest sound backup that holds something takes the database's place, or an empty file."""
    fresh = paths.database.with_name(f".{paths.database.name}.restored")
    good = _newest_good(listed(paths.backups))
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    if good:
        shutil.copyfile(good, fresh)
        _sync(fresh)
    return _replace(paths, cause, fresh, taken_at(good) if good else None)


def _newest_good(found: Iterable[Path]) -> Path | None:
    sound = (backup for backup in found if not _unsound(backup))
    first = next(sound, None)
    return first if first is None or extent_of(first) else next((b for b in sound if extent_of(b)), first)


def _replace(paths: Paths, cause: str, fresh: Path, backup_at: str | None = None) -> Restored:
    """Put a file in the database's place, and keep what was there."""
    database, at = paths.database, ids.now()
    aside = database.with_name(f"{database.name}.damaged-{at.replace(':', '-')}")
    kept = aside.name if there(database) else ""
    rows, before = extent_of(fresh), known_extent(paths)
    restored = Restored(at, backup_at, kept, cause, rows, before)
    # The note first: what happens twice is told twice, what is not told is lost. At no moment is there no database.
    # What came after the backup is read again: it knows how far each transcript had been read when it was taken.
    write_private(paths.restored, json.dumps(asdict(restored)).encode())
    for file in companions(database):
        with contextlib.suppress(FileNotFoundError):
            file.replace(aside.with_name(aside.name + file.name[-4:]))
    if kept:
        os.link(database, aside)
    fresh.replace(database)
    paths.suspect.unlink(missing_ok=True)
    keep_extent(paths, rows)
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
