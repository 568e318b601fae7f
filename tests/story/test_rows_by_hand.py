"""Rows that nobody should have written: by hand, by an older import, by a damaged disk. They break nothing else."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from box import Box

from backstory.store import queries

#: No time, no list, no word; a list and an object of something else; times at the ends of the calendar; nothing.
VALUES = [
    "garbage\x1b[31m",
    '[1, null, {"a": [2]}]',
    '{"a": [1]}',
    "0001-01-01T00:00:00.000Z",
    "9999-12-31T23:59:59.999Z",
    "",
]
ROUTES = [
    "/",
    "/api/observations",
    "/api/observations/1",
    "/api/summaries",
    "/api/sessions",
    "/api/sessions/1",
    "/api/sessions/1/turns",
    "/api/sessions/search?words=discount",
    "/api/prompts",
    "/api/projects",
    "/api/stats",
    "/api/timeline?anchor=1",
    "/api/timeline?query=discount",
    "/api/search?query=discount",
    "/api/search?query=discount&kind=all&explain=true",
    "/api/context/inject?project=shop",
    "/api/queue",
    "/api/export",
    "/api/health",
]
TABLES = ["sdk_sessions", "user_prompts", "events", "observations", "session_summaries", "turns", "session_moves"]
#: What a CHECK or a UNIQUE of the schema guards, and what a row is found by.
GUARDED = {"status", "role", "content_session_id", "memory_session_id", "event_id", "tool_use_id", "mark", "agent"}
GUARDED |= {"project", "project_key", "source", "compressed_observation"}


@pytest.fixture
def filled(box: Box, engine: str, request: pytest.FixtureRequest) -> Iterator[Box]:
    """A worker of each engine that remembers a round."""
    if engine == "postgres":
        box.settings["BACKSTORY_DATABASE_URL"] = request.getfixturevalue("database_url")
    worker = box.start()
    box.hook("UserPromptSubmit", {"session_id": "s", "prompt": "Add a discount to the cart"})
    edit = {"file_path": str(box.project / "cart.py"), "old_string": "a", "new_string": "discount"}
    box.hook("PostToolUse", {"session_id": "s", "tool_name": "Edit", "tool_use_id": "t", "tool_input": edit})
    box.hook("Stop", {"session_id": "s", "last_assistant_message": "The discount is in the cart now."})
    box.settle()
    yield box
    box.stop(worker)


def execute(box: Box, sql: str, *values: Any) -> None:
    """Change rows behind the worker's back."""
    if url := box.settings.get("BACKSTORY_DATABASE_URL"):
        with psycopg.connect(url) as connection:
            connection.execute(sql.replace("?", "%s"), values)
        return
    with closing(sqlite3.connect(box.data / "backstory.db", timeout=120, isolation_level=None)) as connection:
        connection.execute(sql, values)


def broken(box: Box) -> list[str]:
    """Routes that fail, and a context that is not given."""
    found = [route for route in ROUTES if box.http("GET", route).status != 200]
    batch = box.http("POST", "/api/observations/batch", {"ids": [1]})
    return found + (["batch"] if batch.status != 200 else [])


def put(box: Box, table: str, values: dict[str, Any], number: int) -> None:
    """Change a row behind the worker's back."""
    sets = ", ".join(f"{name} = ?" for name in values)
    execute(box, f"UPDATE {table} SET {sets} WHERE id = ?", *values.values(), number)  # noqa: S608 - our own names


def columns(table: str) -> list[str]:
    found = queries.owned()[table].columns.values()
    return [c.name for c in found if not c.is_number and c.name not in GUARDED]


def test_no_text_in_any_column_breaks_a_route(filled: Box, engine: str) -> None:
    """Every text column of a table at once, value by value: table by table in SQLite, and in all tables in PostgreSQL,
    where only the queries are others. What is right elsewhere is still shown."""
    failed = {}
    for tables in [[table] for table in TABLES] if engine == "sqlite" else [TABLES]:
        before = {table: filled.rows(f"SELECT * FROM {table} ORDER BY id")[0] for table in tables}  # noqa: S608
        for value in VALUES:
            for table in tables:
                put(filled, table, dict.fromkeys(columns(table), value), before[table]["id"])
            if routes := broken(filled):
                failed[f"{tables} {value!r}"] = routes
        for table, row in before.items():
            put(filled, table, {name: row[name] for name in columns(table)}, row["id"])
    assert failed == {}


@pytest.mark.parametrize("engine", ["sqlite"])
def test_text_that_is_no_utf_8_breaks_no_route(filled: Box, engine: str) -> None:
    """A flipped bit in a text is found by no check of the database. PostgreSQL stores no such text."""
    for table in TABLES:
        sets = ", ".join(f"{name} = CAST(x'61ff62' AS TEXT)" for name in columns(table) if name != "payload")
        execute(filled, f"UPDATE {table} SET {sets}")  # noqa: S608
        assert broken(filled) == [], table
    tell = {"session_id": "other", "tool_name": "Bash", "tool_use_id": "u", "tool_input": {"command": "make"}}
    filled.hook("PostToolUse", tell)
    filled.settle()
    assert filled.rows("SELECT status FROM events WHERE tool_use_id = 'u'") == [{"status": "done"}]


def test_a_bad_row_can_be_shown_edited_pinned_and_forgotten(filled: Box) -> None:
    """So that people can get rid of it; commands print no traceback."""
    names = ("created_at", "facts", "concepts", "files_read", "files_modified", "observed_json", "type")
    sets = ", ".join(f"{name} = ?" for name in names)
    execute(filled, f"UPDATE observations SET {sets}", *['"><script>alert(1)</script>'] * len(names))  # noqa: S608
    execute(filled, "UPDATE sdk_sessions SET last_event_at = 'garbage', created_at = 'garbage'")
    assert "discount" in filled.told() or "cart" in filled.told()
    # On a slow machine a round is observed before it ends, and again then.
    number = str(filled.rows("SELECT MAX(id) AS id FROM observations WHERE superseded_by IS NULL")[0]["id"])
    for words in (["search", "cart"], ["sessions"], ["sessions", "show", "1"], ["context"], ["stats"]):
        filled.cli(*words)
    filled.cli("show", number)
    filled.cli("timeline", number)
    filled.cli("pin", number)
    assert filled.http("PATCH", f"/api/observations/{number}", {"title": "Cart", "facts": ["One"]}).status == 200
    assert json.loads(filled.cli("show", "--json", number).stdout)[0]["facts"] == ["One"]
    filled.cli("forget", number, "--yes")
    assert filled.http("GET", f"/api/observations/{number}").status == 404
    filled.settle()
