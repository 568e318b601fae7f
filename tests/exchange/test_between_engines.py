"""From one engine to the other and back: the same lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box
from test_exchange import body, export, fill, load


@pytest.fixture
def team(tmp_path: Path, database_url: str) -> Iterator[Box]:
    """A machine whose memory is in PostgreSQL."""
    machine = Box(tmp_path / "team", {"BACKSTORY_DATABASE_URL": database_url})
    machine.home.mkdir(parents=True)
    machine.project.mkdir()
    machine.start()
    yield machine
    machine.clean_up()


@pytest.fixture
def third(tmp_path: Path) -> Iterator[Box]:
    """An empty machine with SQLite."""
    machine = Box(tmp_path / "third")
    machine.home.mkdir(parents=True)
    machine.project.mkdir()
    machine.start()
    yield machine
    machine.clean_up()


def test_an_export_goes_through_the_other_engine_unchanged(running: Box, team: Box, third: Box) -> None:
    """SQLite to PostgreSQL to SQLite, every table, byte for byte; and both go on from there."""
    fill(running)
    first = export(running)
    load(team, first)
    there = export(team)
    assert body(there) == body(first)
    load(team, first)
    assert body(export(team)) == body(first)
    load(third, there)
    assert body(export(third)) == body(first)
    found = [
        {(i["kind"], i["id"]) for i in box.client.get("/api/search", query="discount")["items"]}
        for box in (running, team, third)
    ]
    assert found[0] == found[1] == found[2] != set()
    for box in (team, third):
        answer = box.client.post("/api/sessions/init", {"sessionId": "new", "project": "p", "userPrompt": "after it"})
        assert answer["sessionDbId"] > max(row["id"] for row in running.rows("SELECT id FROM sdk_sessions"))


def test_i16_forgetting_holds_on_postgresql(team: Box) -> None:
    """Rows, payloads and words are gone, and a replay brings nothing back."""
    use: dict[str, Any] = {"session_id": "x", "tool_name": "Bash", "tool_use_id": "t1"}
    use |= {"tool_input": {"command": "pytest heliotrope"}, "tool_response": "FAILED heliotrope::test_x\n1 failed"}
    team.hook("UserPromptSubmit", {"session_id": "x", "prompt": "look at heliotrope"})
    team.hook("PostToolUse", use)
    team.hook("Stop", {"session_id": "x", "last_assistant_message": "heliotrope fails."})
    team.settle()
    assert team.client.get("/api/search", query="heliotrope")["items"]
    team.cli("forget", "--session", "x", "--yes")
    team.hook("PostToolUse", use)
    team.settle()
    assert team.client.get("/api/search", query="heliotrope")["items"] == []
    for table in ("events", "user_prompts", "observations", "session_summaries", "words", "sdk_sessions"):
        assert "heliotrope" not in str(team.rows(f"SELECT * FROM {table}"))  # noqa: S608
