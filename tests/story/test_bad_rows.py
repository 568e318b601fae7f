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
    with contextlib.closing(sqlite3.connect(box.data / "backstory.db", timeout=120)) as file:
        file.execute(sql, values)
        file.commit()


def tool(box: Box, session: str, text: str) -> None:
    body = {"claudeSessionId": session, "project": "shop", "tool_name": "Edit"}
    edit = {"file_path": f"/shop/{text}.py", "old_string": "a", "new_string": "b"}
    used = {"tool_input": edit, "tool_response": {"filePath": f"/shop/{text}.py"}}
    assert box.http("POST", "/api/sessions/observations", body | used).status == 202


def end(box: Box, session: str) -> int:
    body = {"claudeSessionId": session, "project": "shop", "last_assistant_message": "Done."}
    return box.http("POST", "/api/sessions/summarize", body).status


def test_an_event_that_is_no_json_is_set_aside(box: Box) -> None:
    """Its session goes on, others are observed, health names it, and the queue's commands work on it."""
    box.tuning["settle_seconds"] = 600
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
    assert (health["failing"], health["queue"]["dead"]) == ([], 1)
    assert "events-set-aside" in health["problems"]
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


#: What a hand, or a disk, may leave in a text that is JSON.
NO_LIST = ("{", '{"a": 1}', '[1, null, {"b": 2}, ["c"]]', "[" * 10_000)
#: Each table's texts, without times and without what tells rows apart.
TEXTS = {
    "observations": ("title", "subtitle", "narrative", "facts", "concepts", "files_read", "files_modified", "type"),
    "session_summaries": ("request", "investigated", "learned", "completed", "next_steps", "notes"),
    "turns": ("text", "speaker"),
    "user_prompts": ("prompt",),
    "events": ("payload", "tool_name", "kind"),
    "sdk_sessions": ("cwd", "git_branch"),
}


def works(box: Box) -> None:
    """Every way of reading memory answers, and none with a mistake of ours."""
    routes = [
        "/",
        "/api/observations",
        "/api/summaries",
        "/api/prompts",
        "/api/sessions",
        "/api/sessions/1",
        "/api/stats",
    ]
    routes += ["/api/observations/1", "/api/search?query=zebra", "/api/search?query=zebra&concept=gotcha&file=a.py"]
    routes += ["/api/timeline?anchor=1", "/api/context/inject?project=shop", "/api/queue", "/api/health", "/api/export"]
    routes += ["/api/search?query=zebra&kind=turn", f"/api/context/inject?cwd={box.project}", "/api/sessions/1/turns"]
    routes += ["/api/sessions/search?words=zebra"]
    for route in routes:
        answer = box.http("GET", route)
        assert answer.status in (200, 404), (route, answer.status, answer.body[:300])
        assert answer.status == 200 or route in ("/api/sessions/1/turns",), route
    assert b'"end"' in box.http("GET", "/api/export").body.splitlines()[-1]
    assert box.http("PATCH", "/api/observations/1", {"pinned": True}).status == 200
    assert box.http("POST", "/api/reindex").status == 200
    until(lambda: not box.client.get("/api/reindex")["left"], "the index to be made anew")
    box.told()
    box.hook("UserPromptSubmit", {"session_id": "p", "prompt": "look after the zebra in make zebra once more"})
    assert box.client.get("/api/health")["failing"] == []


def test_rows_that_hold_something_else_break_no_reading(box: Box) -> None:
    """Lists, context, search, stats, the page and the export, on a memory every text of which was changed."""
    box.start()
    for name in ("a", "b"):
        tool(box, name, "zebra")
        end(box, name)
    box.settle()
    works(box)
    for at, value in enumerate(NO_LIST):
        for table, columns in TEXTS.items():
            changed = ", ".join(f"{column} = ?" for column in columns)
            given = [f"{value}{at}" if column == "kind" else value for column in columns]
            edit(box, f"UPDATE {table} SET {changed}", *given)  # noqa: S608 - our own names
        works(box)
    if not box.settings.get("BACKSTORY_DATABASE_URL"):
        edit(box, "UPDATE observations SET title = CAST(x'61ff62' AS TEXT), facts = x'00ff'")
        edit(box, "UPDATE events SET payload = x'789c00'")
        works(box)
    log = (box.data / "worker.log").read_text()
    assert "Traceback" not in log and "Error in" not in log, log
