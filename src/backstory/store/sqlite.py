"""The SQLite engine: one writer thread that groups many writes into a commit, and a reader for each thread."""

from __future__ import annotations

import contextlib
import logging
import queue
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from backstory.errors import StoreUnavailable
from backstory.paths import Paths
from backstory.store import backups, queries
from backstory.store.db import Row, Tx
from backstory.store.packing import pack, unpack

log = logging.getLogger(__name__)
T = TypeVar("T")
#: Writes that share one commit, at most.
MAX_BATCH = 256
#: Seconds that `scrub` waits for readers before the log can be emptied.
CHECKPOINT_S = 10.0
#: Instructions of SQLite between two looks at the clock, for a read with a limit. They take about 0.1 ms.
STEPS = 2000
#: Seconds between two attempts to write out a database whose files were removed.
RESCUE_AGAIN_S = 10.0
_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "busy_timeout=10000", "secure_delete=ON")
#: A query that only reads. It may begin with comments.
_READS = re.compile(r"(?:\s*--[^\n]*\n)*\s*(?:SELECT|WITH)\b")


class SqliteTransaction:
    """A transaction on one connection."""

    engine = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._queries = queries.load("sqlite")

    def run(self, name: str, /, **values: Any) -> int:
        return self._execute(name, values).rowcount

    def one(self, name: str, /, **values: Any) -> Row | None:
        # All rows are read, because an unfinished statement would keep the savepoint open.
        rows = self.all(name, **values)
        return rows[0] if rows else None

    def all(self, name: str, /, **values: Any) -> list[Row]:
        cursor = self._execute(name, values)
        try:
            rows = cursor.fetchall()
        except sqlite3.OperationalError as error:
            if "decode to UTF-8" not in str(error):
                raise
            # A damaged row must not hide the others. From now on this connection decodes text leniently, but slower.
            self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            if not _READS.match(self._queries[name]):
                raise
            cursor = self._execute(name, values)
            rows = cursor.fetchall()
        if not rows:
            return []
        names = [column[0] for column in cursor.description]
        # Faster than a row factory, which would be called for each row.
        records = [dict(zip(names, row, strict=True)) for row in rows]
        if "payload" in names:
            for record in records:
                if isinstance(record["payload"], bytes):
                    record["payload"] = unpack(record["payload"])
        return records

    def _execute(self, name: str, values: dict[str, Any]) -> sqlite3.Cursor:
        if isinstance(text := values.get("payload"), str):
            values["payload"] = pack(text)
        return self._connection.execute(self._queries[name], values)

    def script(self, sql: str) -> None:
        statement = ""  # one by one, because `executescript` would commit
        for line in sql.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                self._connection.execute(statement)
                statement = ""


class SqliteStore:
    """A SQLite database. `write` runs on the writer thread, `read` on a connection of the calling thread."""

    engine = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._jobs: queue.SimpleQueue[tuple[Callable[[Tx], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._readers = threading.local()
        self._open_readers: list[sqlite3.Connection] = []
        self._readers_lock = threading.Lock()
        self._watched = (path, *backups.companions(path))
        self._folder = _identity(path.parent)
        self._files: list[tuple[int, int] | None] = []  # device and inode of the open files
        self._logged = (0, 0)  # size and time of the log at the last checkpoint
        self._removed = False
        self._rescue_at = 0.0
        self._written_at = time.monotonic()
        self._connection = self._connect()  # fails at once if the database cannot be opened
        self._thread = threading.Thread(target=self._write_all, name="backstory-writer", daemon=True)
        self._thread.start()

    def _connect(self) -> sqlite3.Connection:
        connection = None
        try:
            connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
            connection.create_function("unpacked", 1, unpack, deterministic=True)
            connection.create_function("unpacked_body", 1, _unpack_body, deterministic=True)
            connection.create_function("folded", 1, _lower, deterministic=True)
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error as error:
            if connection:
                connection.close()
            self._mark_suspect(error)
            raise StoreUnavailable(f"The database {self.path.name} could not be opened: {error}.") from None
        return connection

    def submit(self, work: Callable[[Tx], T]) -> Future[T]:
        future: Future[T] = Future()
        self._written_at = time.monotonic()
        self._jobs.put((work, future))
        return future

    def write(self, work: Callable[[Tx], T]) -> T:
        return self.submit(work).result()

    def idle_s(self) -> float:
        return time.monotonic() - self._written_at

    def read(self, work: Callable[[Tx], T], within: float = 0) -> T:
        connection: sqlite3.Connection | None = getattr(self._readers, "connection", None)
        if connection is None:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            self._readers.connection = connection
            with self._readers_lock:
                self._open_readers.append(connection)
        connection.execute("BEGIN")
        try:
            if within:
                limit = time.monotonic() + within
                connection.set_progress_handler(lambda: time.monotonic() > limit, STEPS)
            return work(SqliteTransaction(connection))
        except sqlite3.DatabaseError as error:
            if not isinstance(error, sqlite3.OperationalError) and not self._mark_suspect(error):
                raise
            raise StoreUnavailable(f"The database could not be read: {error}.") from None
        finally:
            if within:
                connection.set_progress_handler(None, 0)
            if connection.in_transaction:  # damage ends a transaction
                connection.execute("ROLLBACK")

    def backup(self, label: str) -> None:
        backups.create(self.path, label)

    def checkpoint(self) -> None:
        if not self._files:
            return
        if self._removed or self._identities() != self._files:
            self.write(lambda tx: None)  # the writer handles it
            return
        known = self._watched[1].stat()
        if self._logged == (logged := (known.st_size, known.st_mtime_ns)):
            return
        try:
            # On its own connection, so that writers do not wait for the disk.
            with contextlib.closing(self._connect()) as connection:
                backups.keep_extent(Paths(self.path.parent), backups.extent(connection))
                busy, pages, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            self._mark_suspect(error)
            raise StoreUnavailable(f"The database could not be written: {error}.") from None
        if not busy and pages == moved:
            self._logged = logged

    def scrub(self) -> None:
        """Rewrite the database without its free pages, empty the write-ahead log, and replace the backups. Writers wait
        for it. Hooks that cannot wait leave their events in the spool."""
        self.write(lambda tx: tx.run("words_optimize"))
        self.vacuum()
        with backups.LOCK:
            copies = backups.copies(self.path)
            for file in copies:
                file.unlink(missing_ok=True)
            if copies:
                self.backup("after-forgetting")

    def vacuum(self) -> None:
        """Rewrite the database without its free pages, and empty the write-ahead log."""
        try:
            with contextlib.closing(self._connect()) as connection:
                connection.execute("VACUUM")
                busy = not _is_log_emptied(connection)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"The database could not be rewritten yet: {error}.") from None
        if busy:
            raise StoreUnavailable("The database is still being read, such as by an export.")

    def size(self) -> int:
        names = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in names if file.exists())

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()
        with self._readers_lock:
            for connection in self._open_readers:
                connection.close()
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def _write_all(self) -> None:
        while (job := self._jobs.get()) is not None:
            batch = [job]
            last = False
            while len(batch) < MAX_BATCH and not self._jobs.empty():
                if (job := self._jobs.get()) is None:
                    last = True
                    break
                batch.append(job)
            self._commit(batch)
            if last:
                return

    def _commit(self, batch: list[tuple[Callable[[Tx], Any], Future[Any]]]) -> None:
        """Run all jobs in one transaction, each in a savepoint, so that one that fails does not affect the others."""
        if self._removed and not self._is_back():
            return self._refuse(batch)
        done: list[tuple[Future[Any], Any]] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            tx = SqliteTransaction(self._connection)
            for work, future in batch:
                if not future.set_running_or_notify_cancel():
                    continue
                self._connection.execute("SAVEPOINT job")
                try:
                    result = work(tx)
                except sqlite3.IntegrityError as error:
                    self._undo(future, error)
                except sqlite3.Error:
                    raise
                except Exception as error:
                    self._undo(future, error)
                else:
                    self._connection.execute("RELEASE job")
                    done.append((future, result))
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            # The disk is full, or the database is gone or damaged. Nothing of this batch was stored.
            self._mark_suspect(error)
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            for _, future in batch:
                if not future.done():
                    future.set_exception(StoreUnavailable(f"The database could not be written: {error}."))
            return
        self._answer(done)

    def _refuse(self, batch: list[tuple[Callable[[Tx], Any], Future[Any]]]) -> None:
        for _, future in batch:
            if future.set_running_or_notify_cancel():
                future.set_exception(_removed())

    def _answer(self, done: list[tuple[Future[Any], Any]]) -> None:
        removed = self._is_removed()
        for future, result in done:
            if removed:
                future.set_exception(_removed())
            else:
                future.set_result(result)

    def _is_removed(self) -> bool:
        """Whether the files were removed or replaced, so that the last commit would be lost. The whole database is then
        written to another file through the open connection, which the next start uses. Until then no more writes are
        accepted, and hooks keep their events in the spool."""
        if not self._files:
            self._files = self._identities()
        if self._identities() == self._files:
            return False
        if _identity(self.path.parent) != self._folder:
            return True  # the whole directory was replaced, and belongs to another worker now
        if time.monotonic() < self._rescue_at:
            return True
        self._rescue_at = time.monotonic() + RESCUE_AGAIN_S
        try:
            backups.write_out(self._connection, Paths(self.path.parent).rescued)
        except (sqlite3.Error, OSError) as error:
            log.error("files of the database were removed, and it could not be written out: %s", error)
            return True
        log.error("files of the database were removed: it was written out again")
        self._removed = True
        return False

    def _is_back(self) -> bool:
        """Whether the files were put back. Nothing was written meanwhile, so they are complete."""
        if back := self._identities() == self._files:
            Paths(self.path.parent).rescued.unlink(missing_ok=True)
            self._removed = False
        return back

    def _identities(self) -> list[tuple[int, int] | None]:
        return [_identity(file) for file in self._watched]

    def _mark_suspect(self, error: sqlite3.Error) -> bool:
        """Return whether an error means damage. If so, leave a file that has the database checked and restored."""
        if damaged := backups.is_damage(error):
            with contextlib.suppress(OSError):
                self.path.with_name("suspect").touch(mode=0o600)
        return damaged

    def _undo(self, future: Future[Any], error: Exception) -> None:
        self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")
        future.set_exception(error)


def _is_log_emptied(connection: sqlite3.Connection) -> bool:
    """Empty the write-ahead log. Return False if readers of older snapshots need it for too long."""
    limit = time.monotonic() + CHECKPOINT_S
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


def _unpack_body(stored: Any) -> str:
    """Return the body of an indexed text, without its marks."""
    return str(unpack(stored)).partition("\n")[0]


def _lower(text: Any) -> Any:
    """Lower-case any text. SQLite's own `lower` knows ASCII only."""
    return text.lower() if isinstance(text, str) else text


def _removed() -> StoreUnavailable:
    return StoreUnavailable("Files of the database were removed. The worker restores them.")


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        known = file.stat()
    except FileNotFoundError:
        return None
    return known.st_dev, known.st_ino
