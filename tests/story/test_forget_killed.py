"""I16: a forgetting that is killed on its way continues at the next start, on both engines."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from box import Box, until
from test_forget import CANARY, HOOKS, WHOLE, holding, renamed, work
from test_private import assert_nowhere

from backstory.store import backups

pytestmark = pytest.mark.usefixtures("meaning")
#: Whole sessions have the canary in the prompt, too.
WAYS: dict[str, dict[str, Any]] = {
    "session": {"sessions": [1]},
    "project": {"project": "shop"},
    "words": {"matching": CANARY},
    "observations": {},
}


@pytest.fixture
def box(box: Box, engine: str, request: pytest.FixtureRequest) -> Box:
    """The same machine, on each engine."""
    if engine == "postgres":
        box.settings["BACKSTORY_DATABASE_URL"] = request.getfixturevalue("database_url")
    return box


def orders(box: Box) -> list[Path]:
    return sorted((box.data / "forgetting").glob("*.json"))


def ask(box: Box, body: dict[str, Any]) -> threading.Thread:
    """Ask for a forgetting. The answer does not come, because the worker is killed."""

    def request() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            box.http("POST", "/api/forget", body)

    asked = threading.Thread(target=request)
    asked.start()
    return asked


@contextlib.contextmanager
def writers_wait(box: Box) -> Iterator[None]:
    """Nobody can write, so that what is to be forgotten is asked for, and not deleted."""
    if url := box.settings.get("BACKSTORY_DATABASE_URL"):
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE forgotten, erasures IN EXCLUSIVE MODE")
            yield
            other.rollback()
    else:
        with contextlib.closing(sqlite3.connect(box.data / "backstory.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")


def nothing_is_left(box: Box) -> None:
    assert not holding(box)
    until(lambda: not orders(box), "the end of the forgetting")
    assert_nowhere(box, CANARY)
    for table, column in (("events", "payload"), ("turns", "text"), ("user_prompts", "prompt"), ("chunks", "text")):
        assert CANARY not in str(box.rows(f"SELECT {column} FROM {table}"))  # noqa: S608 - both are named above
    assert box.rows("SELECT 1 FROM erasures") == []


@pytest.mark.parametrize("way", WAYS)
def test_i16_what_was_asked_for_is_forgotten_by_the_next_worker(box: Box, way: str) -> None:
    """Killed before the rows are deleted, once and again. The next worker deletes them before it answers anybody."""
    worker = box.start()
    work(box, HOOKS if way == "observations" else WHOLE)
    body = WAYS[way] or {"ids": holding(box)}
    rejected = box.data / "spool" / "rejected"
    rejected.mkdir(mode=0o700, parents=True, exist_ok=True)
    raw = json.dumps(WHOLE[2][1] | {"session_id": "s-one"})
    (rejected / "0000000000000-0000000000000000.claude-code.PostToolUse.json").write_text(raw)
    with writers_wait(box):
        asked = ask(box, body)
        until(lambda: orders(box), "the order")
        box.kill(worker)
        asked.join(30)
    assert holding(box)
    worker = box.start()
    assert not holding(box), "before anybody is answered"
    box.kill(worker)  # while it wipes the files, or just after
    box.start()
    nothing_is_left(box)
    assert not list(rejected.iterdir())
    work(box, renamed(HOOKS, "later"), "s-later")
    assert holding(box, f"{CANARY}later"), "what is said again is remembered again"


def test_i16_kills_at_any_moment_end_no_forgetting(box: Box) -> None:
    """The worker is killed three times, at other moments each time."""
    chance = random.Random(16)
    worker = box.start()
    work(box, WHOLE)
    for number in range(2):
        work(box, renamed(HOOKS, f"n{number}"), f"s-{number}")
    asked = ask(box, {"matching": CANARY})
    until(lambda: orders(box), "the order")
    for _ in range(3):
        time.sleep(chance.uniform(0, 0.15))  # the moment of the kill
        box.kill(worker)
        worker = box.start()
        assert not holding(box)
    asked.join(30)
    nothing_is_left(box)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_i16_a_backup_from_before_does_not_bring_it_back(box: Box) -> None:
    """The database is damaged while it is being forgotten. The next worker restores the backup, and forgets."""
    worker = box.start()
    work(box, WHOLE)
    backups.create(box.data / "backstory.db", "daily")
    with writers_wait(box):
        asked = ask(box, {"matching": CANARY})
        until(lambda: orders(box), "the order")
        box.kill(worker)
        asked.join(30)
    for name in ("backstory.db", "backstory.db-wal"):
        (box.data / name).write_bytes(b"damaged" * 2000)
    box.start()
    assert (box.data / "restored.json").exists()
    assert box.rows("SELECT COUNT(*) AS n FROM events")[0]["n"] > 0
    nothing_is_left(box)


def test_an_order_deletes_no_row_that_took_an_id_later(box: Box) -> None:
    """A database that was restored from a backup gives ids anew. What else is known of the row has to be the same."""
    worker = box.start()
    work(box, HOOKS)
    (number, *_) = holding(box)
    box.stop(worker)
    order = {"observations": {str(number): "2020-01-01T00:00:00.000Z"}, "sessions": {"1": "s-another"}}
    (box.data / "forgetting").mkdir(mode=0o700, exist_ok=True)
    (box.data / "forgetting" / "0000000000000-0000000000000000.json").write_text(json.dumps(order))
    box.start()
    until(lambda: not orders(box), "the end of the forgetting")
    assert number in holding(box)


def test_what_is_not_there_leaves_no_order(box: Box) -> None:
    """The caller is told, and nothing is tried again."""
    box.start()
    for body in ({"ids": [4711]}, {"sessions": [4711]}, {"project": "nowhere"}):
        assert box.http("POST", "/api/forget", body).status == 404
    assert orders(box) == []
