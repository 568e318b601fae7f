"""One bad row stops nobody: the real worker over rows that were edited by hand, or damaged."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import Any

import psycopg
import pytest
from box import Box, until


@pytest.fixture(params=["sqlite", "postgres"])
def box(box: Box, request: pytest.FixtureRequest) -> Box:
    """A machine on each engine."""
    if request.param == "postgres":
        box.settings["BACKSTORY_DATABASE_URL"] = request.getfixturevalue("database_url")
    return box


def edit(box: Box, sql: str, *values: Any) -> None:
    """Change rows behind the worker's back."""
    if url := box.settings.get("BACKSTORY_DATABASE_URL"):
        with psycopg.connect(url) as server:
            server.execute(sql.replace("?", "%s"), values)
        return
    with contextlib.closing(sqlite3.connect(box.data / "backstory.db", timeout=30)) as file:
        file.execute(sql, values)
        file.commit()


def tool(box: Box, session: str, text: str) -> None:
    body = {"claudeSessionId": session, "project": "shop", "tool_name": "Bash"}
    used = {"tool_input": {"command": f"make {text}"}, "tool_response": f"FAILED {text}"}
    assert box.http("POST", "/api/sessions/observations", body | used).status == 202


def end(box: Box, session: str) -> int:
    body = {"claudeSessionId": session, "project": "shop", "last_assistant_message": "Done."}
    return box.http("POST", "/api/sessions/summarize", body).status


def test_an_event_that_is_no_json_is_set_aside(box: Box) -> None:
    """Its session goes on, others are observed, health stays ok, and the queue's commands work on it."""
    box.settings["BACKSTORY_SETTLE_SECONDS"] = "600"
    box.start()
    tool(box, "a", "zebra")
    edit(box, "UPDATE events SET payload = ?", '{"tool_input": {"command": "canary')
    tool(box, "a", "gnu")
    assert end(box, "a") == 202
    tool(box, "b", "emu")
    assert end(box, "b") == 202
    until(lambda: len(box.rows("SELECT 1 FROM session_summaries")) == 2, "both rounds")
    box.settle()
    health = box.health() or {}
    assert (health["status"], health["failing"], health["queue"]["dead"]) == ("ok", [], 1)
    told = box.cli("queue", "list", "--dead").stdout
    assert "Damaged" in told
    number = box.rows("SELECT id FROM events WHERE status = 'dead'")[0]["id"]
    box.cli("queue", "retry", str(number))
    until(lambda: (box.health() or {})["queue"]["dead"] == 1, "it to be set aside again")
    assert "events-set-aside" in box.cli("doctor", check=False).stdout
    box.cli("queue", "drop", str(number))
    assert (box.health() or {})["queue"] == {"queued": 0, "leased": 0, "dead": 0}
    assert "canary" not in (box.data / "worker.log").read_text()
    assert len(json.loads(box.cli("search", "emu", "--json").stdout)["items"]) >= 1
