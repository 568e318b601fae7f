"""Nothing lost: the worker is killed at random moments while events pour in."""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException

import pytest
from box import Box, until

SESSIONS = 16


def send_all(box: Box, number: int, count: int, kept: list[str], lock: threading.Lock) -> None:
    """One session's events: by the hook and over HTTP by turns. What was acknowledged or spooled is written down."""
    dice = random.Random(number)
    for step in range(count):
        use = f"use-{number}-{step}"
        payload = {
            "session_id": f"session-{number}",
            "cwd": str(box.project),
            "tool_name": "Bash",
            "tool_use_id": use,
            "tool_input": {"command": f"make step-{step}"},
            "tool_response": {"stdout": "x" * dice.randrange(10, 3000), "stderr": ""},
        }
        if step % 2:
            try:
                body = {name: value for name, value in payload.items() if name != "session_id"}
                answer = box.http(
                    "POST", "/api/sessions/observations", body | {"claudeSessionId": payload["session_id"]}
                )
                acknowledged = answer.status == 202
            except (OSError, ValueError, HTTPException):
                acknowledged = False  # nobody was there: this sender has no spool, so it promises nothing
        else:
            run = subprocess.run(
                [box.shim, "claude-code", "PostToolUse"],
                input=json.dumps(payload).encode(),
                env=box.env,
                capture_output=True,
                timeout=120,
            )
            assert (run.returncode, run.stderr) == (0, b"")
            acknowledged = True  # by the worker or by the spool: either way it is kept
        if acknowledged:
            with lock:
                kept.append(use)


def kill_again_and_again(box: Box, times: int, going: threading.Event) -> int:
    dice = random.Random(7)
    worker, kills = box.start(), 0
    while going.is_set() or kills < times:
        time.sleep(dice.uniform(0.05, 0.5))
        box.kill(worker)
        kills += 1
        worker = box.start()
        if kills >= times and not going.is_set():
            break
    return kills


def nothing_is_lost(box: Box, events: int, kills: int) -> None:
    box.cli("install")
    kept: list[str] = []
    lock, going = threading.Lock(), threading.Event()
    going.set()
    with ThreadPoolExecutor(SESSIONS + 1) as pool:
        killing = pool.submit(kill_again_and_again, box, kills, going)
        until(box.health, "the worker")
        sending = [pool.submit(send_all, box, n, events // SESSIONS, kept, lock) for n in range(SESSIONS)]
        try:
            for future in sending:
                future.result()
        finally:
            going.clear()
        assert killing.result() >= kills
    box.settle()
    rows = box.rows(
        "SELECT tool_use_id, MIN(status) AS status, MIN(observed_at) AS observed_at, COUNT(*) AS times "
        "FROM events GROUP BY session_id, tool_use_id"
    )
    stored = {row["tool_use_id"]: row for row in rows}
    assert len(kept) == len(set(kept)) > events // 2
    assert set(kept) <= set(stored)
    assert {row["times"] for row in rows} == {1}
    assert {row["status"] for row in rows} == {"done"}
    assert all(row["observed_at"] for row in rows)
    assert not list((box.data / "spool").glob("rejected/*"))
    doubled = box.rows("SELECT event_id FROM observation_events GROUP BY event_id, observation_id HAVING COUNT(*) > 1")
    assert doubled == []
    if "BACKSTORY_DATABASE_URL" not in box.settings:
        assert box.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}]


@pytest.mark.timeout(240)
def test_i9_kill_9_at_any_point_loses_no_accepted_event(box: Box) -> None:
    """Two hundred events from sixteen sessions, two kills and more: each is stored once and observed once."""
    nothing_is_lost(box, events=208, kills=2)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_i9_at_full_size(box: Box) -> None:
    """Two thousand events, twenty kills."""
    nothing_is_lost(box, events=2000, kills=20)
