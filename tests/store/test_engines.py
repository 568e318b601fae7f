"""The two engines beside each other, and what only PostgreSQL can get wrong."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from box import rows_of, until
from engines import BROKEN_RULE
from postgres import Server

from backstory.errors import BadInput, BadSetting, StoreUnavailable
from backstory.settings import Settings, without_password
from backstory.store import events, open_store, queries
from backstory.store.migrate import migrate
from backstory.store.postgres import PostgresStore, as_psycopg
from backstory.store.sqlite import SqliteStore


def test_whoever_uses_sqlite_does_not_pay_for_the_other() -> None:
    """The worker's parts and an SQLite store, without psycopg."""
    code = "import sys, backstory.worker.app, backstory.store.sqlite; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_both_engines_know_the_same_queries_and_migrations() -> None:
    """A name is a promise: whoever calls it may run on either. Only the nearest vectors are found by one in memory, and
    by the other itself; SQLite compresses texts, and PostgreSQL does that by itself."""
    own = {"vectors_page", "vectors_some", "vector_items", "vectors_near", "vectors_sessions"}
    own |= {"word_text", "word_text_pack", "word_text_put", "word_text_remove", "word_texts_without_marks"}
    own |= {"events_unpacked", "read_limits"}
    assert set(queries.load("sqlite")) - own == set(queries.load("postgres")) - own
    names = [[step[:2] for step in queries.migrations(engine)] for engine in ("sqlite", "postgres")]
    assert names[0] == names[1]


def test_both_engines_have_the_same_tables_and_columns(tmp_path: Path, database_url: str) -> None:
    """By name and order, with what may be NULL; words and vectors are each engine's own."""
    small, large = SqliteStore(tmp_path / "backstory.db"), PostgresStore(database_url, tmp_path)
    for store in (small, large):
        migrate(store)
        store.close()
    theirs: dict[str, list[str]] = {}
    for row in rows_of(
        database_url,
        "SELECT table_name AS name, column_name AS column, is_nullable = 'YES' AS nullable, data_type AS type "
        "FROM information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, ordinal_position",
    ):
        kind = {"bigint": "INTEGER", "text": "TEXT"}.get(row["type"], row["type"])
        theirs.setdefault(row["name"], []).append(f"{row['column']} {kind} {row['nullable']}")
    assert [column.split()[0] for column in theirs["words"]] == ["rowid", "title", "body", "tokens"]
    ours: dict[str, list[str]] = {}
    with sqlite3.connect(tmp_path / "backstory.db") as direct:
        tables = direct.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        for (table,) in tables.fetchall():
            columns = direct.execute(f"PRAGMA table_xinfo({table})").fetchall()
            ours[table] = [f"{name} {kind} {not (needed or key)}" for _, name, kind, needed, _, key, _ in columns]
    direct.close()
    same = {name for name in ours if not name.startswith("words") and name not in ("vectors", "word_texts")}
    theirs = {name: columns for name, columns in theirs.items() if name not in ("words", "vectors")}
    # The JSON of an observation is a column that SQLite does not store, and such a column can be NULL.
    json = "compressed_observation TEXT"
    for columns in (ours["observations"], theirs["observations"]):
        columns.sort()
        columns[:] = [
            column.removesuffix(" True").removesuffix(" False") if json in column else column for column in columns
        ]
    assert {name: ours[name] for name in same} == theirs


def test_a_file_that_is_no_database_is_closed_again(tmp_path: Path) -> None:
    """Python 3.13 warns of a connection that nobody closes."""
    path = tmp_path / "backstory.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreUnavailable) as refusal:
        SqliteStore(path)
    opened = [entry.readlink() for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    assert refusal.traceback and path not in opened


def test_every_query_runs_on_postgresql(database_url: str, tmp_path: Path) -> None:
    """Each one, with something for each parameter; only a rule of the tables may refuse."""
    store = PostgresStore(database_url, tmp_path)
    migrate(store)
    store.close()
    special = {"terms": '[["a", 1]]', "matches": '["a"]', "ids": "[1]", "numbers": "[1]", "kinds": "[]"}
    special |= {"vector": "[1]", "query": "[1]"}

    class Values(dict[str, str]):
        def __missing__(self, name: str) -> str:
            return special.get(name, "1")  # untyped: the server takes it for what the place wants

    with psycopg.connect(database_url) as connection:
        for name, sql in queries.load("postgres").items():
            try:
                connection.execute(as_psycopg(sql), Values())
            except (*BROKEN_RULE, psycopg.errors.ObjectNotInPrerequisiteState):
                pass  # also: no row was inserted yet, whose number could be told
            except psycopg.Error as error:
                pytest.fail(f"{name}: {error}")
            connection.rollback()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("a = :name", "a = %(name)s"),
        ("a::text = :a", "a::text = %(a)s"),
        ("x LIKE :p ESCAPE '\\' AND y = :y", "x LIKE %(p)s ESCAPE '\\' AND y = %(y)s"),
        ("x LIKE '50%' OR y = ':no' OR z % 2 = 0", "x LIKE '50%%' OR y = ':no' OR z %% 2 = 0"),
        ("-- it's :not one, 5 %\nSELECT :one", "-- it's :not one, 5 %%\nSELECT %(one)s"),
        ("'it''s :x' || :x", "'it''s :x' || %(x)s"),
    ],
)
def test_a_named_query_is_given_to_psycopg_as_it_was_meant(given: str, meant: str) -> None:
    """Only a parameter becomes one."""
    assert as_psycopg(given) == meant


def test_a_server_that_goes_and_comes_back(postgres: Server, database_url: str, tmp_path: Path) -> None:
    """While it is away writing and reading say so; when it is back they go on by themselves."""
    store = PostgresStore(database_url, tmp_path)
    migrate(store)
    rows_of(database_url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'backstory'")
    assert store.read(events.counts)["queued"] == 0  # its connections were cut: nobody notices
    postgres.stop()
    try:
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                store.write(events.recover)
            with pytest.raises(StoreUnavailable):
                store.read(events.counts)
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            PostgresStore(database_url, tmp_path)
    finally:
        postgres.start()

    def is_back() -> bool:
        try:
            store.write(events.recover)
        except StoreUnavailable:
            return False
        return True

    until(is_back, "the store to go on", 5)
    assert store.read(events.counts)["queued"] == 0
    store.close()


def test_what_the_database_does_not_take_is_the_senders_fault(database_url: str, tmp_path: Path) -> None:
    """A value that no column holds is refused once and for all, not sent again and again; it is not quoted."""
    store = PostgresStore(database_url, tmp_path)
    migrate(store)
    with pytest.raises(BadInput) as refused:
        store.write(lambda tx: tx.run("migration_add", version=2, name="canary\x00", at=""))
    assert "canary" not in str(refused.value)
    store.close()


def test_a_backup_is_a_dump_that_can_be_restored(
    postgres: Server,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """For its owner only. Without pg_dump the log says that there is none."""
    store = PostgresStore(database_url, tmp_path)
    migrate(store)
    monkeypatch.setenv("PATH", str(postgres.programs))
    store.backup("before-0002")
    dump = tmp_path / "backstory.before-0002.dump"
    assert dump.stat().st_mode & 0o777 == 0o600
    target = postgres.make()
    subprocess.run([postgres.programs / "pg_restore", "--no-owner", f"--dbname={target}", dump], check=True)
    assert rows_of(target, "SELECT version FROM schema_versions")[0] == {"version": 1}
    postgres.drop(target)
    monkeypatch.setenv("PATH", str(tmp_path))
    with caplog.at_level(logging.WARNING):
        store.backup("before-0003")
    assert "no pg_dump" in caplog.text
    assert not (tmp_path / "backstory.before-0003.dump").exists()
    store.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("", ""),
        ("postgresql://ann:hush@db.example:5432/team", "postgresql://ann:***@db.example:5432/team"),
        ("postgresql://ann@db.example/team", "postgresql://ann@db.example/team"),
        ("postgresql:///team?host=/tmp&password=hush", "postgresql:///team?host=/tmp&password=***"),
        ("postgresql://ann:hu@sh@db/team", "***"),
        ("postgresql://ann:hu/sh?x#y@db/team?sslmode=require", "postgresql://ann:***@db/team?sslmode=require"),
        ("host=db password=hush", "***"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    """Masked however it is written."""
    assert without_password(url) == shown
    assert "hush" not in without_password(url)


@pytest.mark.parametrize(
    "url", ["mysql://ann:hush@db/team", "/tmp/hush.db", "postgresql://ann:hush@[db/team", "postgresql://db?hush=1"]
)
def test_an_address_that_is_none_is_refused_in_one_sentence(url: str, tmp_path: Path) -> None:
    """And not repeated whole."""
    with pytest.raises(BadSetting) as refused:
        open_store(Settings(data_dir=tmp_path, database_url=url))
    assert "database_url" in str(refused.value)
    assert "ann:hush" not in str(refused.value)
