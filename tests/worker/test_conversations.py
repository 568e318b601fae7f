"""The routes of conversations: rounds with their tool uses, a tool use in full, and the export of a session."""

from __future__ import annotations

from typing import Any

import pytest
import shared_box
from box import Box

from backstory.errors import BackstoryError

shared = shared_box.shared


def converse(box: Box, session: str) -> dict[str, Any]:
    """Two rounds: one with a tool use that works and one that fails, and a private one. Return the session."""
    about = {"session_id": session, "prompt_id": "p1", "cwd": str(box.project)}

    def report(event: str, payload: dict[str, Any]) -> None:
        box.client.post(f"/hooks/claude-code/{event}", about | payload)

    report("UserPromptSubmit", {"prompt": "Why is the cart total wrong?"})
    read = {"tool_name": "Read", "tool_use_id": "t1", "tool_input": {"file_path": f"{box.project}/shop/cart.py"}}
    report("PostToolUse", read | {"tool_response": "total = 1\n" * 4000})
    test = {"tool_name": "Bash", "tool_use_id": "t2", "tool_input": {"command": "pytest -q"}}
    report("PostToolUseFailure", test | {"error": "Exit code 1\n2 failed"})
    report("Stop", {"last_assistant_message": "The discount was applied twice."})
    report("UserPromptSubmit", {"prompt_id": "p2", "prompt": "<private>key</private>"})
    box.settle()
    found: dict[str, Any] = box.client.get(f"/api/sessions/{session}")
    return found


def test_a_conversation_has_rounds_with_tool_uses(shared: Box) -> None:
    session = converse(shared, "conversation-1")
    first, second = shared.client.get(f"/api/sessions/{session['id']}/rounds")["items"]
    told = [(step["kind"], step.get("text") or step.get("used_for")) for step in first["steps"]]
    assert told == [
        ("turn", "Why is the cart total wrong?"),
        ("tool", "shop/cart.py"),
        ("tool", "pytest -q"),
        ("turn", "The discount was applied twice."),
    ]
    assert [step["error"] for step in first["steps"] if step["kind"] == "tool"] == [None, "Exit code 1 2 failed"]
    assert (second["number"], [step["text"] for step in second["steps"]]) == (2, [None])
    page = shared.client.get(f"/api/sessions/{session['id']}/rounds", limit=1)
    assert page == {"items": [], "next": "0"}  # nothing was said before the first prompt
    page = shared.client.get(f"/api/sessions/{session['id']}/rounds", limit=1, cursor=page["next"])
    assert ([each["number"] for each in page["items"]], page["next"]) == ([1], "1")
    assert session["usage"] is None
    assert (session["counts"]["tools"], session["counts"]["turns"]) == (2, 3)

    use = shared.client.get(f"/api/events/{first['steps'][1]['id']}")
    assert (use["tool_name"], use["prompt_number"]) == ("Read", 1)
    assert "cart.py" in use["tool_input"]
    assert use["tool_response"].endswith("…")
    assert len(use["tool_response"]) <= 20_000
    with pytest.raises(BackstoryError, match="There is no tool use 999999"):
        shared.client.get("/api/events/999999")


def test_a_session_is_exported_as_the_command_does_it(shared: Box) -> None:
    session = converse(shared, "conversation-2")
    for chosen in ("markdown", "json"):
        answer = shared.http("GET", f"/api/sessions/{session['id']}/export?format={chosen}")
        assert answer.status == 200
        assert b"The discount was applied twice." in answer.body
        command = shared.cli("sessions", "export", str(session["id"]), "--format", chosen).stdout
        assert answer.body.decode() == command
        if chosen == "json":
            assert answer.json["turns"][0]["text"] == "Why is the cart total wrong?"
    assert shared.http("GET", "/api/sessions/nobody/export").status == 404


def test_sessions_are_listed_by_branch_and_time(shared: Box) -> None:
    converse(shared, "conversation-3")
    listed = shared.client.get("/api/sessions", since="1h")["items"]
    assert "conversation-3" in [row["content_session_id"] for row in listed]
    assert shared.client.get("/api/sessions", until="2020-01-01")["items"] == []
    assert shared.client.get("/api/sessions", branch="no-such-branch")["items"] == []
