"""A damaged database: noticed, set aside, restored from the last good backup, and work goes on."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest
from box import Box, until

from backstory.settings import load
from backstory.store.sqlite import SqliteStore
from backstory.worker.jobs.maintenance import Maintenance

OFTEN = "0.0002"  # hours: a backup at every look


def tell(box: Box, session: str, count: int = 1) -> None:
    """A session with a prompt and some tool uses."""
    assert box.hook("UserPromptSubmit", {"session_id": session, "prompt": f"Do {session}."}).returncode == 0
    for number in range(count):
        use = {"session_id": session, "tool_name": "Bash", "tool_use_id": f"{session}-{number}"}
        box.hook("PostToolUse", use | {"tool_input": {"command": "make " + "x" * 3000}, "tool_response": "ok"})


@pytest.fixture(scope="module")
def damaged_later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a machine with a session in its database and in a backup, and one more in the database alone."""
    box = Box(tmp_path_factory.mktemp("backed-up"))
    box.home.mkdir()
    box.project.mkdir()
    try:
        back_up(box)
    finally:
        box.clean_up()
    return box.data


@pytest.fixture
def backed_up(box: Box, damaged_later: Path) -> Path:
    """A machine with these data; nothing runs. Its last backup."""
    box.shim  # noqa: B018 - the data directory, and hooks
    for file in damaged_later.glob("backstory.db*"):
        shutil.copy2(file, box.data)
    shutil.copytree(damaged_later / "backups", box.data / "backups")
    return backups(box)[-1]


def back_up(box: Box) -> None:
    box.settings["BACKSTORY_BACKUP_HOURS"] = OFTEN
    worker = box.start()
    tell(box, "before", 20)
    box.settle()
    have = set(backups(box))
    until(lambda: set(backups(box)) - have, "a backup")
    have = set(backups(box))
    until(lambda: set(backups(box)) - have, "one that began after the last event")
    box.stop(worker)
    del box.settings["BACKSTORY_BACKUP_HOURS"]
    worker = box.start()
    tell(box, "after", 3)
    box.settle()
    box.stop(worker)


def backups(box: Box) -> list[Path]:
    return sorted((box.data / "backups").glob("[!.]*.db"))


def flip(file: Path, page: int) -> None:
    """Every bit of a page is another."""
    with file.open("r+b") as handle:
        handle.seek(page * 4096)
        old = handle.read(4096)
        handle.seek(page * 4096)
        handle.write(bytes(byte ^ 0xFF for byte in old))


def prompts(box: Box) -> list[str]:
    return [row["prompt"] for row in box.rows("SELECT prompt FROM user_prompts ORDER BY id")]


@pytest.mark.parametrize("place", ["header", "middle"])
def test_a_flipped_page_is_noticed_at_the_start_and_the_last_good_backup_takes_over(
    box: Box, backed_up: Path, place: str
) -> None:
    """Nothing that the backup has is lost, what comes is stored, the damaged file is kept, and it is said."""
    database = box.data / "backstory.db"
    flip(database, 0 if place == "header" else database.stat().st_size // 4096 // 2)
    broken = database.read_bytes()
    worker = box.start()
    health = box.health()
    assert health and "database-restored" in health["problems"]
    taken_at = backed_up.name.split(".daily")[0]
    assert "restored from a backup of" in health["notice"] and taken_at[:10] in health["notice"]
    assert prompts(box) == ["Do before."]
    assert len(box.rows("SELECT 1 FROM events WHERE kind = 'tool'")) == 20
    (kept,) = box.data.glob("backstory.db.damaged-*")
    assert kept.read_bytes() == broken
    assert stat.S_IMODE(kept.stat().st_mode) & 0o077 == 0
    tell(box, "later")
    assert prompts(box) == ["Do before.", "Do later."]
    box.settle()
    if place == "header":  # what follows is the same for both
        return
    assert "restored from a backup" in box.cli("status").stdout
    assert "database-restored" in box.cli("doctor", check=False).stdout
    assert str(kept) in box.cli("repair", check=False).stdout
    assert "database-" not in box.cli("doctor", check=False).stdout
    assert "damaged" in (box.data / "worker.log").read_text()
    box.stop(worker)
    box.start()
    assert prompts(box) == ["Do before.", "Do later."]
    assert (box.health() or {})["notice"] == ""


def test_what_waits_in_the_spool_is_taken_in_after_the_restore(box: Box, backed_up: Path) -> None:
    """Hooks go on while nothing runs; the worker that comes mends first and loses none of it. A backup that is damaged,
    too, is passed over: the newest one that is sound is taken."""
    flip(backed_up, backed_up.stat().st_size // 4096 // 2)
    tell_away = box.data / "bin" / "backstory-worker"
    program = tell_away.read_bytes()
    tell_away.write_text("#!/bin/sh\nexit 1\n")
    tell(box, "away", 2)
    tell_away.write_bytes(program)
    flip(box.data / "backstory.db", 0)
    box.start()
    box.settle()
    assert prompts(box) == ["Do before.", "Do away."]


def test_without_a_backup_it_begins_empty_and_says_so(box: Box) -> None:
    """It never refuses to work."""
    worker = box.start()
    tell(box, "before")
    box.settle()
    box.stop(worker)
    for backup in backups(box):
        backup.unlink()
    flip(box.data / "backstory.db", 0)
    box.start()
    assert "begun empty" in (box.health() or {})["notice"]
    assert prompts(box) == []
    tell(box, "later")
    assert prompts(box) == ["Do later."]


def test_damage_while_the_worker_runs_is_mended_by_the_same_process(box: Box, backed_up: Path) -> None:
    """The daily look finds it; hooks fail nobody meanwhile, and what they bring is kept."""
    box.settings["BACKSTORY_BACKUP_HOURS"] = OFTEN
    worker = box.start()
    tell(box, "more")
    box.settle()
    have = backups(box)
    until(lambda: backups(box) != have, "a backup")
    database = box.data / "backstory.db"
    for page in range(2, database.stat().st_size // 4096):
        flip(database, page)
    until((box.data / "restored.json").exists, "the damage to be seen")
    tell(box, "during")
    until(lambda: (box.health() or {}).get("notice"), "the worker to be back")
    box.settle()
    assert worker.poll() is None
    assert "Do during." in prompts(box)
    assert "Do before." in prompts(box)


def test_damage_that_stops_a_chore_is_found(box: Box, backed_up: Path) -> None:
    """A chore that meets a damaged page fails each time. It must not keep the check for damage from running."""
    settings = load({"BACKSTORY_DATA_DIR": str(box.data), "BACKSTORY_OUTPUT_DAYS": "1"})
    store = SqliteStore(settings.paths.database)
    maintenance = Maintenance(settings, store)
    for page in range(2, settings.paths.database.stat().st_size // 4096):
        flip(settings.paths.database, page)
    maintenance._check()
    store.close()
    assert maintenance.damaged


def test_an_emptied_database_is_restored_and_it_is_said(box: Box, backed_up: Path) -> None:
    """It does not begin empty while there are backups, and status and doctor tell what happened."""
    (box.data / "backstory.db").write_bytes(b"")
    assert "database-damaged" in box.cli("doctor", check=False).stdout
    box.start()
    assert prompts(box) == ["Do before."]
    assert "was empty" in box.cli("status").stdout
    assert "was empty" in box.cli("doctor", check=False).stdout


def test_what_was_acknowledged_survives_a_deleted_log(box: Box) -> None:
    """While the worker runs, by the next event. Hooks fail nobody; then it is killed, and nothing is missing."""
    worker = box.start()
    tell(box, "before", 8)
    (box.data / "backstory.db-wal").unlink()
    tell(box, "after", 5)
    until(lambda: (box.health() or {}).get("notice"), "the worker to be back")
    assert "nothing is lost" in box.cli("status").stdout
    box.settle()
    box.kill(worker)
    box.start()
    box.settle()
    assert prompts(box) == ["Do before.", "Do after."]
    assert len(box.rows("SELECT 1 FROM events WHERE kind = 'tool'")) == 13


def test_a_database_deleted_while_the_worker_is_idle_comes_back(box: Box) -> None:
    """By the same process, without a hook that would have to be first."""
    worker = box.start()
    tell(box, "before", 3)
    box.settle()
    for file in box.data.glob("backstory.db*"):
        file.unlink()
    until((box.data / "backstory.db").exists, "the database to be back")
    until(lambda: (box.health() or {}).get("notice"), "the worker to be back")
    assert worker.poll() is None
    assert prompts(box) == ["Do before."]


def test_backups_are_few_private_and_daily(box: Box) -> None:
    """Three are kept; with an ordinary setting a second start on the same day makes none."""
    box.settings["BACKSTORY_BACKUP_HOURS"] = OFTEN
    worker = box.start()
    tell(box, "one")
    seen: set[Path] = set()

    def five() -> bool:
        seen.update(backups(box))
        return len(seen) >= 5

    until(five, "five backups")
    box.stop(worker)
    left = backups(box)
    assert len(left) <= 3
    for path in (box.data / "backups", *(box.data / "backups").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert not list((box.data / "backups").glob(".*"))
    del box.settings["BACKSTORY_BACKUP_HOURS"]
    worker = box.start()
    tell(box, "two")
    box.settle()
    box.stop(worker)
    assert backups(box) == left
