"""Backups of SQLite: whole under load, never of a damaged database, and large databases are not read for nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backstory import ids
from backstory.errors import StoreUnavailable
from backstory.model import ContentId, Report
from backstory.paths import Paths
from backstory.project import Project
from backstory.settings import Settings
from backstory.store import backups, check, events, open_store, sessions
from backstory.store.db import Store, Tx
from backstory.worker import process, serve


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
            copy = backups.create(chosen.paths.database, "daily", write)
            assert written > before + 20
            assert backups.problems(copy) == []
            with contextlib.closing(sqlite3.connect(copy)) as db:
                (count,) = db.execute("SELECT COUNT(*) FROM events").fetchone()
            assert before <= count < written
    finally:
        store.close()
    assert len(backups.listed(chosen.paths.backups)) == backups.KEPT


def test_two_backups_of_the_same_moment_do_not_disturb_each_other(
    chosen: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when two processes find an old schema at once: one is made while the other is."""
    monkeypatch.setattr(backups, "PAGES", 5)
    monkeypatch.setattr("backstory.ids.now", lambda: "2026-01-01T00:00:00.000Z")
    made: list[Path] = []

    def make_another() -> bool:
        if not made:
            made.append(Path())  # the other asks, too
            made.append(backups.create(chosen.paths.database, "daily"))
        return False

    copy = backups.create(chosen.paths.database, "daily", make_another)
    assert made[1] == copy and backups.problems(copy) == []
    assert list(chosen.paths.backups.iterdir()) == [copy]


def test_what_a_killed_backup_left_is_removed_after_a_day(chosen: Settings) -> None:
    folder = chosen.paths.backups
    folder.mkdir(parents=True, exist_ok=True)
    name = ".2026-01-01T00-00-00.000Z.daily.db"
    old, new, foreign = (folder / each for each in (f"{name}.01234567", f"{name}.89abcdef", ".nobackup"))
    for file in (old, new, foreign):
        file.touch()
    for file in (old, foreign):
        os.utime(file, (0, 0))
    copy = backups.create(chosen.paths.database, "daily")
    assert sorted(folder.iterdir()) == [new, foreign, copy]


def test_a_damaged_database_makes_no_backup_and_takes_no_good_one_away(chosen: Settings) -> None:
    """Else three days of damage would push the last good copy out."""
    good = backups.create(chosen.paths.database, "daily")
    flip(chosen.paths.database, chosen.paths.database.stat().st_size // 4096 // 2)
    for _ in range(4):
        with pytest.raises(backups.Damaged):
            backups.create(chosen.paths.database, "daily")
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
        assert backups.restore_if_needed(chosen.paths, doubtful=True) is None


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
    monkeypatch.setattr(backups, "CHECKED_BYTES", 4096)
    assert backups.restore_if_needed(chosen.paths, doubtful=False) is None
    monkeypatch.setattr(backups, "CHECKED_IN_DOUBT_BYTES", 4096)
    assert backups.restore_if_needed(chosen.paths, doubtful=True) is None
    chosen.paths.suspect.touch()
    restored = backups.restore_if_needed(chosen.paths, doubtful=False)
    assert restored and restored.backup_at is None
    assert not chosen.paths.suspect.exists()
    assert backups.copies(chosen.paths.database) == [chosen.paths.data / restored.damaged]


def test_one_that_can_not_even_be_opened_is_mended_whatever_its_size(
    chosen: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not read before it was opened, because it is large; then opening it fails."""
    backups.create(chosen.paths.database, "daily")
    flip(chosen.paths.database, 0)
    monkeypatch.setattr(backups, "CHECKED_BYTES", 4096)
    app = serve._build(chosen, suspect=False)
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
    assert not lock.is_after_crash
    lock.release()
    again = process.Lock(paths.lock)
    assert not again.is_after_crash
    again.release()
    paths.lock.write_text("12345")
    left = process.Lock(paths.lock)
    assert left.is_after_crash
    left.release()


def count(database: Path) -> int:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return int(connection.execute("SELECT COUNT(*) FROM events").fetchone()[0])


def killed(chosen: Settings, folder: Path) -> Settings:
    """The files as they lie there now, as if the worker that has them open were killed."""
    shutil.copytree(chosen.data_dir, folder)
    return Settings(data_dir=folder)


def cut(size: int) -> Callable[[Path], None]:
    return lambda database: os.truncate(database, size)


@pytest.mark.parametrize(
    ("harm", "cause"),
    [
        (Path.unlink, "gone"),
        (cut(0), "empty"),
        (lambda database: database.write_bytes(b"\0" * 4096), "damaged"),
        *((cut(size), "empty") for size in (1, 16, 99, 100, 511)),
        *((cut(size), "damaged") for size in (512, 4095, 4096, 5000, 8192, 40960)),
    ],
)
def test_a_database_that_was_deleted_or_cut_is_restored(
    chosen: Settings, harm: Callable[[Path], None], cause: str
) -> None:
    """It never begins empty while there is a good backup, and what was there is kept."""
    backups.create(chosen.paths.database, "daily")
    harm(chosen.paths.database)
    assert check(chosen) != []
    restored = backups.restore_if_needed(chosen.paths, doubtful=False)
    assert restored and restored.cause == cause and restored.backup_at
    assert count(chosen.paths.database) == 300
    assert bool(restored.damaged) == (cause != "gone")
    assert not restored.damaged or (chosen.data_dir / restored.damaged).exists()
    assert check(chosen) == []
    assert backups.restore_if_needed(chosen.paths, doubtful=False) is None  # it is told once


def test_an_emptied_database_is_never_opened_before_its_log_is_kept(chosen: Settings, tmp_path: Path) -> None:
    """SQLite deletes the log of an empty file; it may be all that is left."""
    backups.create(chosen.paths.database, "daily")
    store = open_store(chosen)
    add(store, 301)
    left = killed(chosen, tmp_path / "left")
    store.close()
    os.truncate(left.paths.database, 0)
    assert check(left) != []
    restored = backups.restore_if_needed(left.paths, doubtful=True)
    assert restored and count(left.paths.database) == 300
    assert (left.data_dir / f"{restored.damaged}-wal").stat().st_size > 0


def test_a_first_start_has_lost_nothing(tmp_path: Path) -> None:
    """Nor has one after it on which nothing was stored, with a backup of that."""
    settings = Settings(data_dir=tmp_path)
    assert check(settings) == []
    assert backups.restore_if_needed(settings.paths, doubtful=True) is None
    open_store(settings).close()
    backups.create(settings.paths.database, "daily")
    assert backups.restore_if_needed(settings.paths, doubtful=False) is None
    settings.paths.database.unlink()
    assert backups.restore_if_needed(settings.paths, doubtful=False) is None


def test_without_a_backup_a_lost_database_begins_empty_and_it_is_said(chosen: Settings) -> None:
    """The count of its rows, kept beside it, tells a lost database from a first start."""
    store = open_store(chosen)
    add(store, 301)
    store.checkpoint()
    store.close()
    chosen.paths.database.unlink()
    restored = backups.restore_if_needed(chosen.paths, doubtful=False)
    assert restored and restored.cause == "gone" and restored.backup_at is None and restored.rows_before > 300
    assert "begun empty" in str(restored)
    open_store(chosen).close()
    assert backups.restore_if_needed(chosen.paths, doubtful=False) is None


def test_a_database_that_holds_less_than_it_did_is_named(chosen: Settings, tmp_path: Path) -> None:
    """An older copy in its place is not ours to replace, but it is said."""
    shutil.copy(chosen.paths.database, tmp_path / "older.db")
    store = open_store(chosen)
    add(store, 301)
    store.checkpoint()
    store.close()
    shutil.copy(tmp_path / "older.db", chosen.paths.database)
    restored = backups.restore_if_needed(chosen.paths, doubtful=False)
    assert restored and restored.cause == "shrunk" and restored.rows < restored.rows_before
    assert count(chosen.paths.database) == 300
    assert backups.restore_if_needed(chosen.paths, doubtful=False) is None


def test_the_backup_of_a_larger_memory_is_never_rotated_away(chosen: Settings) -> None:
    """Until there is a backup that holds as much. Of those that hold less, the newest are kept."""
    large = backups.create(chosen.paths.database, "daily")
    chosen.paths.database.unlink()
    store = open_store(chosen)
    for number in range(6):
        add(store, number)
        backups.create(chosen.paths.database, "daily")
    assert large in backups.listed(chosen.paths.backups)
    assert len(backups.listed(chosen.paths.backups)) == backups.KEPT + 1
    for number in range(6, 301):
        add(store, number)
    backups.create(chosen.paths.database, "daily")
    store.close()
    assert large not in backups.listed(chosen.paths.backups)
    assert len(backups.listed(chosen.paths.backups)) == backups.KEPT


REMOVED = ["-wal", "-shm", "", "-wal -shm", " -wal -shm"]


@pytest.mark.parametrize("names", REMOVED)
def test_files_that_are_removed_while_they_are_open_cost_nothing(chosen: Settings, tmp_path: Path, names: str) -> None:
    """What was acknowledged is written out by the next commit. After that nothing is accepted."""
    store = open_store(chosen)
    for number in range(300, 325):
        add(store, number)
    for name in names.split(" "):
        chosen.paths.database.with_name("backstory.db" + name).unlink()
    add(store, 325)
    with pytest.raises(StoreUnavailable):
        add(store, 326)
    left = killed(chosen, tmp_path / "left")
    store.close()
    for settings in (left, chosen):
        restored = backups.restore_if_needed(settings.paths, doubtful=True)
        assert restored and restored.cause == "removed" and "nothing is lost" in str(restored)
        assert not settings.paths.rescued.exists()
        again = open_store(settings)
        assert again.read(lambda tx: tx.one("event_by_tool_use", session_id=1, tool_use_id="use-325"))
        again.close()
        assert count(settings.paths.database) == 326


def test_another_database_in_its_place_is_kept_and_replaced(chosen: Settings, tmp_path: Path) -> None:
    """What hooks were told is stored goes before what somebody put there while it was open."""
    (tmp_path / "other").mkdir()
    open_store(Settings(data_dir=tmp_path / "other")).close()
    store = open_store(chosen)
    add(store, 300)
    (tmp_path / "other" / "backstory.db").replace(chosen.paths.database)
    store.checkpoint()
    store.close()
    restored = backups.restore_if_needed(chosen.paths, doubtful=True)
    assert restored and count(chosen.paths.database) == 301
    assert count(chosen.data_dir / restored.damaged) == 0


def test_files_that_are_put_back_are_used_again(chosen: Settings) -> None:
    """Nothing was accepted meanwhile, so what was written out is of no use any more."""
    database, aside = chosen.paths.database, chosen.data_dir / "aside"
    store = open_store(chosen)
    add(store, 300)
    database.rename(aside)
    store.checkpoint()
    with pytest.raises(StoreUnavailable):
        add(store, 301)
    assert chosen.paths.rescued.exists()
    aside.rename(database)
    add(store, 302)
    store.close()
    assert not chosen.paths.rescued.exists()
    assert count(database) == 302


def test_what_was_committed_a_look_ago_does_not_need_the_log(chosen: Settings, tmp_path: Path) -> None:
    """A worker that was killed, and its log deleted: all but what came after the last look is there."""
    store = open_store(chosen)
    for number in range(300, 325):
        add(store, number)
    store.checkpoint()
    add(store, 325)
    left = killed(chosen, tmp_path / "left")
    store.close()
    for file in backups.companions(left.paths.database):
        file.unlink()
    assert backups.restore_if_needed(left.paths, doubtful=True) is None
    assert count(left.paths.database) == 325


def test_wiping_waits_for_the_checkpoint_of_another_connection(chosen: Settings) -> None:
    """SQLite answers "busy" at once there, which was taken for a reader that stays."""
    store = open_store(chosen)
    add(store, 301)
    # What SQLite itself locks for a checkpoint: a byte of the index of the log, held by another process.
    held = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 1, 121); print(flush=True)"
    words = [sys.executable, "-c", f"{held}; sys.stdin.read()", str(backups.companions(chosen.paths.database)[1])]
    with (
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other,
        ThreadPoolExecutor() as pool,
    ):
        assert other.stdin and other.stdout and other.stdout.readline()
        wiping = pool.submit(store.scrub)
        with pytest.raises(TimeoutError):
            wiping.result(0.5)
        other.stdin.close()
        wiping.result(30)
    store.close()


def test_a_link_to_the_database_is_followed_to_its_log(tmp_path: Path) -> None:
    """SQLite keeps the log beside the file itself."""
    settings = Settings(data_dir=tmp_path / "data")
    (tmp_path / "disk").mkdir()
    settings.paths.prepare()
    settings.paths.database.symlink_to(tmp_path / "disk" / "real.db")
    (tmp_path / "disk" / "real.db").touch()
    store = open_store(settings)
    add(store, 1)
    store.checkpoint()
    (tmp_path / "disk" / "real.db-wal").unlink()
    add(store, 2)
    store.close()
    assert backups.restore_if_needed(settings.paths, doubtful=True)
    assert count(settings.paths.database) == 2
