"""The PostgreSQL engine: a small pool of connections, parallel writers, and readers on a snapshot."""

from __future__ import annotations

import contextlib
import logging
import random
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo, errors
from psycopg.adapt import Buffer, Loader
from psycopg.rows import dict_row

from backstory.errors import BadInput, BadSetting, StoreUnavailable
from backstory.settings import environment, without_password
from backstory.store import queries
from backstory.store.db import Row, Tx

log = logging.getLogger(__name__)
T = TypeVar("T")
Connection = psycopg.Connection[Row]
#: Connections of one worker, at most. A server usually allows a hundred, and a team has many workers.
CONNECTIONS = 8
#: Threads that write. They leave connections for readers.
WRITERS = 4
#: Seconds after which an unused connection is closed.
IDLE_S = 60.0
#: Seconds that connecting may take.
CONNECT_S = 5
#: Seconds after a failed connection during which no other is tried.
AWAY_S = 0.5
#: Attempts of a transaction.
TRIES = 8
#: Errors after which the same transaction succeeds if it is repeated.
RETRIED = (errors.SerializationFailure, errors.DeadlockDetected, errors.FeatureNotSupported)
#: Errors of the values, not of the database.
REFUSED = (errors.DataError, errors.ProgramLimitExceeded)
#: Timeouts, so that a worker that vanishes in a transaction does not block others.
_OPTIONS = "-c client_min_messages=warning -c lock_timeout=30s -c idle_in_transaction_session_timeout=60s"
_PARAMETER = re.compile(r"('(?:[^']|'')*'|--[^\n]*|::)|(?<!\w):([a-z_]\w*)|%")
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"


class _Number(Loader):
    """Loads a `numeric` without fraction as an integer. PostgreSQL returns sums of integers as `numeric`."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


def as_psycopg(sql: str) -> str:
    """Write `:name` as `%(name)s` and escape percent signs. Strings, comments and `::casts` stay."""
    return _PARAMETER.sub(lambda match: f"%({match[2]})s" if match[2] else match[0].replace("%", "%%"), sql)


@cache
def _queries() -> dict[str, bytes]:
    return {name: as_psycopg(sql).encode() for name, sql in queries.load("postgres").items()}


class PostgresTransaction:
    """A transaction on one connection."""

    engine = "postgres"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queries = _queries()

    def run(self, name: str, /, **values: Any) -> int:
        return self._connection.execute(self._queries[name], values).rowcount

    def one(self, name: str, /, **values: Any) -> Row | None:
        return self._connection.execute(self._queries[name], values).fetchone()

    def all(self, name: str, /, **values: Any) -> list[Row]:
        return self._connection.execute(self._queries[name], values).fetchall()

    def script(self, sql: str) -> None:
        self._connection.execute(sql.encode())


class _LimitedTransaction(PostgresTransaction):
    """A transaction that starts no query after a moment."""

    def __init__(self, tx: Tx, limit: float) -> None:
        assert isinstance(tx, PostgresTransaction)  # noqa: S101 - for the type checker
        super().__init__(tx._connection)
        self._limit = limit

    def one(self, name: str, /, **values: Any) -> Row | None:
        self._check()
        return super().one(name, **values)

    def all(self, name: str, /, **values: Any) -> list[Row]:
        self._check()
        return super().all(name, **values)

    def _check(self) -> None:
        if time.monotonic() > self._limit:
            raise StoreUnavailable("The database took too long.")


class PostgresStore:
    """A PostgreSQL database. Each transaction borrows a connection."""

    engine = "postgres"

    def __init__(self, url: str, backups: Path) -> None:
        self._url, self._backups = _checked(url), backups
        self._places = threading.BoundedSemaphore(CONNECTIONS)
        self._idle: list[tuple[Connection, float]] = []
        self._lock = threading.Lock()
        self._away_until = 0.0
        self._writers = ThreadPoolExecutor(WRITERS, "backstory-writer")
        with self._lend():  # fails at once if the server cannot be reached
            pass

    def submit(self, work: Callable[[Tx], T]) -> Future[T]:
        return self._writers.submit(self._retry, work, _WRITE)

    def write(self, work: Callable[[Tx], T]) -> T:
        return self.submit(work).result()

    def read(self, work: Callable[[Tx], T], within: float = 0) -> T:
        if not within:
            return self._retry(work, _READ)
        limit = time.monotonic() + within

        def limited(tx: Tx) -> T:
            tx.one("read_limits", milliseconds=str(max(1, int(within * 1000))))
            return work(_LimitedTransaction(tx, limit))

        return self._retry(limited, _READ)

    def _retry(self, work: Callable[[Tx], T], begin: str) -> T:
        """Run work in a transaction. Repeat it after a conflict, and once after the connection was lost."""
        lost = False
        for tries in range(TRIES):
            try:
                return self._once(work, begin)
            except RETRIED as error:
                if tries == TRIES - 1:
                    raise _unavailable(error) from None
                # A random pause, so that the same transactions do not conflict again.
                time.sleep(random.uniform(0, 0.01 * 2**tries))  # noqa: S311 - a pause, not a secret
            except _Lost as error:
                # The server was probably restarted, so all connections are lost.
                self._close_idle()
                if lost:
                    raise _unavailable(error.cause) from None
                lost = True
            except REFUSED as error:
                raise BadInput(f"The database does not accept this value ({type(error).__name__}).") from None
            except psycopg.IntegrityError:
                raise
            except psycopg.Error as error:
                raise _unavailable(error) from None
        raise AssertionError

    def _once(self, work: Callable[[Tx], T], begin: str) -> T:
        with self._lend() as connection:
            try:
                connection.execute(begin.encode())
                result = work(PostgresTransaction(connection))
            except psycopg.OperationalError as error:
                if connection.broken:
                    raise _Lost(error) from None
                raise
            # If the connection is lost here, it is unknown whether the commit succeeded. The sender repeats it.
            connection.execute("COMMIT")
            return result

    @contextlib.contextmanager
    def _lend(self) -> Iterator[Connection]:
        if not self._places.acquire(timeout=30):
            raise StoreUnavailable("All connections to the database are in use.")
        try:
            connection = self._take()
            try:
                yield connection
            except psycopg.Error as error:
                if not isinstance(error, psycopg.IntegrityError):
                    connection.close()
                raise
            finally:
                if not connection.closed:
                    self._give_back(connection)
        finally:
            self._places.release()

    def _take(self) -> Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()[0]
            if time.monotonic() < self._away_until:
                raise StoreUnavailable("The database cannot be reached.")
        try:
            connection = Connection.connect(
                self._url,
                autocommit=True,
                row_factory=dict_row,
                connect_timeout=CONNECT_S,
                tcp_user_timeout=20_000,
                application_name="backstory",
                options=f"{_OPTIONS} {conninfo.conninfo_to_dict(self._url).get('options', '')}",
            )
        except psycopg.Error as error:
            self._away_until = time.monotonic() + AWAY_S
            raise StoreUnavailable(
                f"The database cannot be reached: {_reason(error, self._url)}.",
                "Check that the server runs and that `database_url` is right. Events are kept until it is back.",
            ) from None
        connection.adapters.register_loader("numeric", _Number)
        return connection

    def _give_back(self, connection: Connection) -> None:
        """Roll back an open transaction and keep the connection. Close those that were unused for long."""
        now = time.monotonic()
        try:
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()
            return
        with self._lock:
            expired = [idle for idle, since in self._idle if now - since > IDLE_S]
            self._idle = [(idle, since) for idle, since in self._idle if now - since <= IDLE_S]
            self._idle.append((connection, now))
        for idle in expired:
            idle.close()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def backup(self, label: str) -> None:
        """Dump the database with `pg_dump` into the data directory. A failure is only logged: each migration is one
        transaction, so it is safe without a dump."""
        target = self._backups / f"backstory.{label}.dump"
        target.touch(mode=0o600)
        address = conninfo.conninfo_to_dict(self._url)
        secret = {"PGPASSWORD": str(address.pop("password"))} if address.get("password") else {}
        program = shutil.which("pg_dump", path=environment().get("PATH"))
        if program is None:
            log.warning("no pg_dump on PATH: no backup %s of the database was made", label)
        elif subprocess.run(
            [program, "--format=custom", "--no-password", f"--file={target}", conninfo.make_conninfo("", **address)],
            env={**environment(), **secret},
            capture_output=True,
        ).returncode:
            log.warning("pg_dump failed: no backup %s of the database was made", label)
        else:
            return
        target.unlink(missing_ok=True)  # another worker may have removed it

    def checkpoint(self) -> None:
        """Nothing to do: the server writes checkpoints itself."""

    def vacuum(self) -> None:
        """Nothing to do: the server reuses free space by itself."""

    def idle_s(self) -> float:
        return 0.0  # the server may serve others

    def scrub(self) -> None:
        """Let the server reuse the space of deleted rows, and remove our dumps."""
        for file in self._backups.glob("backstory.*.dump"):
            file.unlink(missing_ok=True)
        try:
            with self._lend() as connection:
                connection.execute("VACUUM")
        except psycopg.Error as error:
            raise _unavailable(error) from None

    def size(self) -> int:
        try:
            with self._lend() as connection:
                row = connection.execute("SELECT pg_database_size(current_database()) AS bytes").fetchone()
        except psycopg.Error as error:
            raise _unavailable(error) from None
        return int(row["bytes"]) if row else 0

    def close(self) -> None:
        self._writers.shutdown()
        self._close_idle()


class _Lost(Exception):
    """The connection was lost before the commit."""

    def __init__(self, cause: psycopg.Error) -> None:
        self.cause = cause


def _unavailable(error: psycopg.Error) -> StoreUnavailable:
    # Only the type of the error, because its text may quote values.
    return StoreUnavailable(f"The database reported an error ({type(error).__name__}).")


def _reason(error: psycopg.Error, url: str) -> str:
    """Return the first line of an error, without the password."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    secret = conninfo.conninfo_to_dict(url).get("password")
    return (line.replace(str(secret), "***") if secret else line).rstrip(".:")


def _checked(url: str) -> str:
    try:
        conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise BadSetting(
            f"`database_url` is not an address of PostgreSQL: {without_password(url)}.",
            "Use the form postgresql://user:password@host:5432/database.",
        ) from None
    return url
