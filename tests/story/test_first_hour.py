"""The first hour of a new user with the real client, by pip and by plugin, from `install` to `uninstall`."""

from __future__ import annotations

import json

import first_hour
import pytest
from box import Box
from claude import binary

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")
SETTINGS = {"BACKSTORY_EMBEDDER": "off"}


def check_memory(box: Box) -> None:
    """Both sessions were recorded. Memory never eats itself: what a session was told is in no row of it."""
    sessions = box.rows("SELECT status, first_user_prompt FROM sdk_sessions WHERE agent = 'claude-code' ORDER BY id")
    assert [row["status"] for row in sessions] == ["completed", "completed"]
    assert str(sessions[0]["first_user_prompt"]).startswith("The total is wrong")
    tools = {row["tool_name"] for row in box.rows("SELECT tool_name FROM events WHERE tool_name IS NOT NULL")}
    assert "Read" in tools and "Edit" not in tools, "the edit was forgotten with what came of it"
    for table in ("events", "user_prompts", "observations", "session_summaries"):
        text = json.dumps(box.rows(f"SELECT * FROM {table}"))  # noqa: S608
        assert "backstory-context" not in text and "not instructions" not in text


def test_by_pip(box: Box, capsys: pytest.CaptureFixture[str]) -> None:
    """The second session is told about the first, and asks without permission. Every line that is printed fits the
    terminal. In the end it is as if we had never been there, except for the memory."""
    user = first_hour.pip(box.root, SETTINGS)
    shown = capsys.readouterr().out
    assert shown == user.output
    assert max(len(line) for line in shown.splitlines() if not line.startswith("$ ")) <= 80
    parts = dict(part.split("\n", 1) for part in f"\n{shown}".split("\n$ ")[1:])
    first, second, last = user.told
    assert "none on shop yet" in first and last == ""
    assert "Asked: The total is wrong" in second and "Open: the invoice page" in second
    assert "#2 decision" in second and second.count("</backstory-context>") == 1
    assert "against floats" in shown.partition("(Its search found:)")[2].partition("$ ")[0]
    assert parts["backstory search zebra"].startswith("Nothing was found in shop.")
    assert parts["backstory search cents"].count("#2") == 0 and parts["backstory search rounding"].count("#2") == 1
    assert "every sum" not in parts["backstory show S1"]
    assert not (box.home / ".claude" / "settings.json").exists() and not box.spooled()
    check_memory(box)


def test_by_plugin(box: Box) -> None:
    """Without the program a session works. With it, the next one has the tools at once, and everything is recorded."""
    user = first_hour.plugin(box.root, SETTINGS)
    without, first, second = user.told
    assert without == "" and "pipx install backstory)" in user.output and "total" not in first
    assert "#2 decision" in second
    assert "against floats" in user.output.partition("(Its search found:)")[2].partition("$ ")[0]
    assert "No problems found." in user.output
    check_memory(box)
