"""Backups of SQLite: whole under load, never of a damaged database, and large databases are not read for nothing."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from backstory import ids
from backstory.errors import StoreUnavailable
from backstory.model import ContentId, Report
from backstory.paths import Paths
from backstory.project import Project
from backstory.settings import Settings
from backstory.store import backups, events, open_store, sessions
from backstory.store.db import Store, Tx
from backstory.worker import process


def add(store: Store, number: int) -> None:
    """One tool use, committed."""

    def work(tx: Tx) -> None:
        report = Report(
            "claude-code",
            "tool",
            ContentId("s"),
            ids.new_event_id(),
            ids.now(),
            tool_name="Bash",
            tool_use_id=f"use-{number}",
            payload={"tool_input": "x" * 2000},
        )
        events.add(tx, sessions.get_or_create(tx, report, Project("shop", "shop")), report)

    store.write(work)


@pytest.fixture
def chosen(tmp_path: Path) -> Settings:
    """A data directory with a database of some hundred pages."""
    settings = Settings(data_dir=tmp_path)
    store = open_store(settings)
    for number in range(300):
        add(store, number)
    store.close()
    return settings


def flip(file: Path, page: int) -> None:
    with file.open("r+b") as handle:
        handle.seek(page * 4096)
        old = handle.read(4096)
        handle.seek(page * 4096)
        handle.write(bytes(byte ^ 0xFF for byte in old))


def test_a_backup_under_load_is_whole_and_holds_up_nobody(chosen: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a write between any two steps of it: a sound copy of one moment, not begun anew, and every write goes in."""
    monkeypatch.setattr(backups, "PAGES", 5)
    store = open_store(chosen)
    written = 300

    def write() -> bool:
        nonlocal written
        add(store, written)
        written += 1
        return written > 5000  # enough for a hundred copies

    try:
        for _ in range(backups.KEPT + 2):
            before = written
            copy = backups.take(chosen.paths.database, "daily", write)
            assert written > before + 20
            assert backups.problems(copy) == []
            with contextlib.closing(sqlite3.connect(copy)) as db:
                (count,) = db.execute("SELECT COUNT(*) FROM events").fetchone()
            assert before <= count < written
    finally:
        store.close()
    assert len(backups.listed(chosen.paths.backups)) == backups.KEPT


def test_a_damaged_database_makes_no_backup_and_takes_no_good_one_away(chosen: Settings) -> None:
    """Else three days of damage would push the last good copy out."""
    good = backups.take(chosen.paths.database, "daily")
    flip(chosen.paths.database, chosen.paths.database.stat().st_size // 4096 // 2)
    for _ in range(4):
        with pytest.raises(backups.Damaged):
            backups.take(chosen.paths.database, "daily")
    assert list(chosen.paths.backups.iterdir()) == [good]


def test_a_locked_or_missing_file_is_not_a_damaged_one(chosen: Settings, tmp_path: Path) -> None:
    """What stands in the way goes away by itself; nothing is set aside for it."""
    assert backups.problems(tmp_path / "none.db") == []
    folder = tmp_path / "folder.db"
    folder.mkdir()
    with pytest.raises(StoreUnavailable):
        backups.problems(folder)
    with contextlib.closing(sqlite3.connect(chosen.paths.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert backups.problems(chosen.paths.database) == []
        assert backups.mend(chosen.paths, doubtful=True) is None


def test_each_page_that_is_flipped_alone_is_noticed(chosen: Settings) -> None:
    """Every page of the database: tables, indexes, words, overflow."""
    database = chosen.paths.database
    pages = database.stat().st_size // 4096
    missed = []
    for page in range(0, pages, max(pages // 60, 1)):
        flip(database, page)
        if not backups.problems(database):
            missed.append(page)
        flip(database, page)
    assert backups.problems(database) == []
    assert missed == []


def test_a_large_database_is_read_only_in_doubt(chosen: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the ordinary size only after a worker that did not end well; past the large one only if suspected."""
    flip(chosen.paths.database, chosen.paths.database.stat().st_size // 4096 // 2)
    monkeypatch.setattr(backups, "ORDINARY", 4096)
    assert backups.mend(chosen.paths, doubtful=False) is None
    monkeypatch.setattr(backups, "LARGE", 4096)
    assert backups.mend(chosen.paths, doubtful=True) is None
    chosen.paths.suspect.touch()
    restored = backups.mend(chosen.paths, doubtful=False)
    assert restored and restored.backup_at is None
    assert not chosen.paths.suspect.exists()
    assert backups.copies(chosen.paths.database) == [chosen.paths.data / restored.damaged]


def test_one_that_can_not_even_be_opened_is_mended_whatever_its_size(
    chosen: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not read before it was opened, because it is large; then opening it fails."""
    backups.take(chosen.paths.database, "daily")
    flip(chosen.paths.database, 0)
    monkeypatch.setattr(backups, "ORDINARY", 4096)
    app = process._build(chosen, doubtful=False)
    try:
        assert app.store.read(lambda tx: tx.one("event_by_tool_use", session_id=1, tool_use_id="use-299"))
        assert backups.restored(chosen.paths)
    finally:
        app.store.close()


def test_a_store_that_meets_damage_leaves_word(chosen: Settings) -> None:
    """Reading and writing alike answer that the store is unavailable, and the next look reads it all."""
    store = open_store(chosen)
    size = chosen.paths.database.stat().st_size // 4096
    for page in range(2, size):
        flip(chosen.paths.database, page)
    try:
        with pytest.raises(StoreUnavailable):
            store.read(lambda tx: tx.all("queue_list", status="", after=0, limit=1000))
        assert chosen.paths.suspect.exists()
        chosen.paths.suspect.unlink()
        with pytest.raises(StoreUnavailable):
            add(store, 1000)
        assert chosen.paths.suspect.exists()
    finally:
        store.close()


def test_a_worker_that_was_killed_leaves_its_mark(tmp_path: Path) -> None:
    """The lock still holds its number; one that ended well wiped it."""
    paths = Paths(tmp_path)
    lock = process.Lock(paths.lock)
    assert not lock.was_left
    lock.release()
    again = process.Lock(paths.lock)
    assert not again.was_left
    again.release()
    paths.lock.write_text("12345")
    left = process.Lock(paths.lock)
    assert left.was_left
    left.release()
