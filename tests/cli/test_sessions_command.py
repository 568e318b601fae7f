"""`backstory sessions`, as people see it: list, show, search, rename, tag, export, delete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from box import Box
from terminal import in_terminal
from transcripts import Script

CART = "11111111-2222-3333-4444-555555555555"
PRICES = "66666666-7777-8888-9999-000000000000"


def talk(box: Box, session: str, prompt: str, reply: str, minutes: int = 0) -> Path:
    """A conversation of two messages in the place where the client keeps it."""
    said = Script(session, str(box.project))
    said.now = said.now.replace(minute=minutes)
    said.prompt(prompt)
    said.says(reply)
    return said.write(box.home / ".claude" / "projects" / "-shop")


@pytest.fixture
def talked(running: Box) -> Box:
    """Two conversations that were imported. The one about the cart is the later one."""
    talk(running, CART, "Can you find out why the cart total is wrong?", "A code that is typed twice counts twice.", 30)
    talk(running, PRICES, "Show prices in yen without decimals", "`Money.format` asks a table for the decimals.")
    running.cli("import", "claude-code", str(running.home / ".claude" / "projects"))
    running.settle()
    return running


def number(box: Box, session: str) -> str:
    return str(json.loads(box.cli("sessions", "show", session, "--json").stdout)["id"])


def test_the_list_has_titles_and_begins_with_the_last_used(talked: Box) -> None:
    """Each is one line, on a terminal of 80 columns, too."""
    first, second = talked.cli("sessions").stdout.splitlines()
    assert first.endswith("shop: Find out why the cart total is wrong")
    assert second.endswith("shop: Show prices in yen without decimals")
    assert talked.cli("sessions", "list", "--agent", "claude-code", "--since", "2020").stdout.splitlines() == [
        first,
        second,
    ]
    for none in (("--branch", "nowhere"), ("--agent", "codex"), ("--status", "failed"), ("--until", "2020")):
        assert talked.cli("sessions", *none).stdout == "There are no such sessions.\n"
    talked.cli("sessions", "rename", CART, "The total of the cart " * 8)
    for words in (("sessions",), ("sessions", "search", "cart"), ("sessions", "show", CART), ("resume", "cart")):
        shown = in_terminal(talked, *words)
        assert "cart" in shown
        # Commands and paths are printed whole, because people copy them.
        lines = [line for line in shown.replace("\r", "").split("\n") if str(talked.root) not in line]
        assert all(len(line) <= 80 for line in lines), shown


def test_a_session_is_found_by_what_is_remembered(talked: Box) -> None:
    """By words, by words of its title, by a tag; and nothing is found for nonsense."""
    search = ("sessions", "search", "--json")
    talked.cli("sessions", "rename", PRICES, "Monday", "outage")
    talked.cli("sessions", "tag", PRICES, "incident")
    for words in (("yen",), ("the outage",), ("outage", "on", "monday"), ("incident",), (PRICES,), (PRICES[:8],)):
        first, *_ = json.loads(talked.cli(*search, *words).stdout)["items"]
        assert first["content_session_id"] == PRICES, words
    assert first["asked"] == ["Show prices in yen without decimals"]
    assert "table for the decimals" in json.dumps(first["ended"])
    assert json.loads(talked.cli(*search, "--tag", "incident", "cart").stdout)["items"] == []
    assert json.loads(talked.cli(*search, "--until", "2025", "monday", "outage").stdout)["items"][0]["exact"]
    assert talked.cli("sessions", "search", "zzzunknownzzz").stdout.startswith("No session was found. ")
    assert "code that is typed twice" in talked.cli("sessions", "search", "typed twice").stdout


def test_a_session_is_named_and_tagged(talked: Box) -> None:
    """The name stays until it is taken away; the automatic one is back then."""
    assert "shop: Yen (again)" in talked.cli("sessions", "rename", PRICES[:8], "Yen (again)").stdout
    assert "Yen (again) [a, b c]" in talked.cli("sessions", "tag", PRICES, "b c", "a").stdout
    talked.cli("import", "claude-code", str(talked.home / ".claude" / "projects"))
    assert "Yen (again) [a, b c]" in talked.cli("sessions").stdout
    assert "Tags: a, b c" in talked.cli("sessions", "show", PRICES).stdout
    assert len(talked.cli("sessions", "--tag", "a").stdout.splitlines()) == 1
    assert talked.cli("sessions", "--tag", "z").stdout == "There are no such sessions.\n"
    assert "Yen (again) [b c]" in talked.cli("sessions", "tag", "--off", PRICES, "a").stdout
    assert "Show prices in yen without decimals [b c]" in talked.cli("sessions", "rename", PRICES, "--off").stdout


def test_the_agents_title_is_used(talked: Box) -> None:
    """It comes with the transcript, at any time."""
    path = talk(talked, PRICES, "Show prices in yen without decimals", "`Money.format` asks a table for the decimals.")
    with path.open("a") as out:
        out.write(json.dumps({"type": "ai-title", "aiTitle": "Currency formats", "sessionId": PRICES}) + "\n")
    talked.cli("import", "claude-code", str(path))
    assert "shop: Currency formats" in talked.cli("sessions").stdout
    assert len(talked.rows("SELECT id FROM sdk_sessions")) == 2
    assert {row["status"] for row in talked.rows("SELECT status FROM sdk_sessions")} == {"completed"}


def test_a_session_is_exported(talked: Box, tmp_path: Path) -> None:
    """As Markdown or JSON, to standard output or into a file that only its owner can read."""
    text = talked.cli("sessions", "export", CART).stdout
    assert text.startswith("# Find out why the cart total is wrong\n\nSession ")
    assert "**User** (2026-01-05 12:30):\n\nCan you find out why the cart total is wrong?\n" in text
    assert "**Claude Code** (2026-01-05 12:30):\n\nA code that is typed twice counts twice.\n" in text
    target = tmp_path / "cart.json"
    talked.cli("sessions", "export", CART, "--format", "json", "--output", str(target))
    again = talked.cli("sessions", "export", CART, "--json", "--yes", "--output", str(target)).stdout
    assert json.loads(again)["file"] == str(target)
    written = json.loads(target.read_text())
    assert [turn["role"] for turn in written["turns"]] == ["user", "assistant"]
    assert written["content_session_id"] == CART
    assert target.stat().st_mode & 0o777 == 0o600
    odd = "tag \x7f\x9f \u200b\U000e0041 end"
    talked.hook("UserPromptSubmit", {"session_id": "odd", "prompt": odd})
    written = json.loads(talked.cli("sessions", "export", "odd", "--format", "json").stdout)
    assert written["turns"][0]["text"] == odd
    failed = talked.cli("sessions", "export", CART, "--output", "/proc/nowhere/x", check=False)
    assert failed.returncode == 1
    assert "could not be written" in failed.stderr


def test_a_session_is_deleted(talked: Box) -> None:
    """Only with --yes. The agent's own transcript stays, and is named, and does not bring it back."""
    talked.cli("sessions", "tag", CART, "release")
    assert "Would be forgotten: 1 session" in talked.cli("sessions", "delete", CART).stdout
    assert len(talked.cli("sessions").stdout.splitlines()) == 2
    shown = talked.cli("sessions", "delete", CART, "--yes").stdout
    assert "Forgotten: 1 session" in shown
    assert f"{CART}.jsonl" in shown
    talked.cli("import", "claude-code", str(talked.home / ".claude" / "projects"))
    assert "cart" not in talked.cli("sessions").stdout
    assert talked.cli("sessions", "search", "cart").stdout.startswith("No session was found. ")
    assert talked.rows("SELECT * FROM session_tags") == []
    failed = talked.cli("sessions", "rename", CART, "Back again", check=False)
    assert failed.returncode == 1
    assert "was deleted" in failed.stderr


def test_a_mistake_gets_one_clear_sentence(talked: Box) -> None:
    """And an exit code."""
    for words, said in (
        (("rename", "1"), "Give either a title or --off"),
        (("rename", "1", "x", "--off"), "Give either a title or --off"),
        (("rename", "nope", "x"), "no session nope"),
        (("tag", "", "x"), "id is empty"),
        (("export", "nope"), "no session nope"),
        (("delete", "nope", "--yes"), "no session nope"),
        (("search", "x", "--limit", "0"), "1 to 50"),
        (("search", "x", "--since", "someday"), "not a time"),
    ):
        failed = talked.cli("sessions", *words, check=False)
        assert failed.returncode == 1, words
        assert said in failed.stderr, words
        assert "Traceback" not in failed.stderr, words
