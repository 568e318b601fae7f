"""PostgreSQL as the store: a few connections that are lent out, writers in parallel, readers on a snapshot."""

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
#: After a server could not be reached it is left alone for so long: whoever asks meanwhile is told at once.
AWAY_S = 0.5
TRIES = 8
#: Somebody else was quicker, or changed a table: the same work, done again, succeeds.
AGAIN = (errors.SerializationFailure, errors.DeadlockDetected, errors.FeatureNotSupported)
#: The fault of what was to be stored, not of the database.
REFUSED = (errors.DataError, errors.ProgramLimitExceeded)
#: A worker that vanishes in the middle holds nobody up for long, and nobody holds up a worker.
_OPTIONS = "-c client_min_messages=warning -c lock_timeout=30s -c idle_in_transaction_session_timeout=60s"
_PARAMETER = re.compile(r"('(?:[^']|'')*'|--[^\n]*|::)|(?<!\w):([a-z_]\w*)|%")
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"


class _Number(Loader):
    """A sum of whole numbers is a whole number, as it is elsewhere."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


def as_psycopg(sql: str) -> str:
    """`:name` as `%(name)s`; strings, comments and `::casts` stay, and a percent sign stands for itself."""

    def each(match: re.Match[str]) -> str:
        return f"%({match[2]})s" if match[2] else match[0].replace("%", "%%")

    return _PARAMETER.sub(each, sql)


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
        """Change rows; how many."""
        return self._connection.execute(self._queries[name], values).rowcount

    def one(self, name: str, /, **values: Any) -> Row | None:
        """The first row, if any."""
        return self._connection.execute(self._queries[name], values).fetchone()

    def all(self, name: str, /, **values: Any) -> list[Row]:
        return self._connection.execute(self._queries[name], values).fetchall()

    def script(self, sql: str) -> None:
        """Run a migration's statements, inside this transaction."""
        self._connection.execute(sql.encode())


class PostgresStore:
    """The database: whatever is given runs on a connection that is lent for it."""

    engine = "postgres"

    def __init__(self, url: str, backups: Path) -> None:
        self._url, self._backups = _checked(url), backups
        self._places = threading.BoundedSemaphore(CONNECTIONS)
        self._idle: list[tuple[Connection, float]] = []
        self._lock = threading.Lock()
        self._away_until = 0.0
        self._writers = ThreadPoolExecutor(WRITERS, "backstory-writer")
        # A server that can't be reached is known before anything is accepted.
        with self._lend():
            pass

    def submit(self, work: Callable[[Tx], T]) -> Future[T]:
        """Queue work for a writer; the future is done when the work is committed."""
        return self._writers.submit(self._again, work, _WRITE)

    def write(self, work: Callable[[Tx], T]) -> T:
        return self.submit(work).result()

    def read(self, work: Callable[[Tx], T]) -> T:
        return self._again(work, _READ)

    def _again(self, work: Callable[[Tx], T], begin: str) -> T:
        """Run work in a transaction, and once more where that helps."""
        lost = False
        for tries in range(TRIES):
            try:
                return self._once(work, begin)
            except AGAIN as error:
                if tries == TRIES - 1:
                    raise _unavailable(error) from None
                # Two that met once should not meet again.
                time.sleep(random.uniform(0, 0.01 * 2**tries))  # noqa: S311 - a pause, not a secret
            except _Lost as error:
                # The server was started anew since we last spoke to it: its old connections are all gone.
                self._let_go()
                if lost:
                    raise _unavailable(error.cause) from None
                lost = True
            except REFUSED as error:
                raise BadInput(f"The database does not take this ({type(error).__name__}).") from None
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
            # If the connection is lost here, nobody knows whether it was stored: the sender asks again.
            connection.execute("COMMIT")
            return result

    @contextlib.contextmanager
    def _lend(self) -> Iterator[Connection]:
        if not self._places.acquire(timeout=30):
            raise StoreUnavailable("The database is too busy.")
        try:
            connection = self._take()
            try:
                yield connection
            except psycopg.IntegrityError:
                self._give_back(connection)
                raise
            except psycopg.Error:
                connection.close()
                raise
            except BaseException:
                self._give_back(connection)
                raise
            self._give_back(connection)
        finally:
            self._places.release()

    def _take(self) -> Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()[0]
            if time.monotonic() < self._away_until:
                raise StoreUnavailable("The database can not be reached.")
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
                f"The database can not be reached: {_reason(error, self._url)}.",
                "See that the server runs and that `database_url` is right; what was sent is kept until it is back.",
            ) from None
        connection.adapters.register_loader("numeric", _Number)
        return connection

    def _give_back(self, connection: Connection) -> None:
        """Keep a connection for the next, without what was begun on it; close those that nobody has used for long."""
        now = time.monotonic()
        try:
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()
            return
        with self._lock:
            old = [kept for kept, since in self._idle if now - since > IDLE_S]
            self._idle = [(kept, since) for kept, since in self._idle if now - since <= IDLE_S]
            self._idle.append((connection, now))
        for kept in old:
            kept.close()

    def _let_go(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def backup(self, label: str) -> None:
        """A dump beside our other files. Each migration is one transaction, so that where there is no `pg_dump`, or
        one that is older than the server, it goes on without."""
        target = self._backups / f"backstory.{label}.dump"
        target.touch(mode=0o600)
        given = conninfo.conninfo_to_dict(self._url)
        secret = {"PGPASSWORD": str(given.pop("password"))} if given.get("password") else {}
        program = shutil.which("pg_dump", path=environment().get("PATH"))
        if program is None:
            log.warning("no pg_dump on PATH: no backup %s of the database was made", label)
        elif subprocess.run(
            [program, "--format=custom", "--no-password", f"--file={target}", conninfo.make_conninfo("", **given)],
            env={**environment(), **secret},
            capture_output=True,
        ).returncode:
            log.warning("pg_dump failed: no backup %s of the database was made", label)
        else:
            return
        target.unlink(missing_ok=True)  # another worker that starts now may have done the same

    def checkpoint(self) -> None:
        """A server looks after its own."""

    def scrub(self) -> None:
        """Let the server reuse what forgotten rows took, and take our dumps of it away."""
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
        """Finish what is queued, then let go."""
        self._writers.shutdown()
        self._let_go()


class _Lost(Exception):
    """The connection went before anything was committed."""

    def __init__(self, cause: psycopg.Error) -> None:
        self.cause = cause


def _unavailable(error: psycopg.Error) -> StoreUnavailable:
    # The kind of error and no more: its text may quote what was to be stored.
    return StoreUnavailable(f"The database could not do it ({type(error).__name__}).")


def _reason(error: psycopg.Error, url: str) -> str:
    """The first line of a refusal; a server's words name the user and the database, not the password."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    secret = conninfo.conninfo_to_dict(url).get("password")
    return (said.replace(str(secret), "***") if secret else said).rstrip(".:")


def _checked(url: str) -> str:
    try:
        conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise BadSetting(
            f"`database_url` is not an address of PostgreSQL: {without_password(url)}.",
            "It looks like postgresql://user:password@host:5432/database.",
        ) from None
    return url
