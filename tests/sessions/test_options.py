"""Options of a run: when it resumes, and what becomes of them in the SDK."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions

from backstory.errors import BadInput
from backstory.sessions import Message, Options, TurnState

SAID = Message("user", ({"type": "text", "text": "Hello"},), "2026-11-16T10:00:00.000Z")


@pytest.mark.parametrize(
    ("session_id", "history", "resumes"),
    [
        (None, None, False),
        (None, [], False),
        (None, [SAID], False),
        ("", [SAID], False),
        ("an-id", None, False),
        ("an-id", [], False),
        ("an-id", [SAID], True),
        ("an-id", [{"role": "user", "content": []}], True),
    ],
)
def test_a_session_is_resumed_only_with_its_id_and_a_history(
    session_id: str | None, history: list[Any] | None, resumes: bool
) -> None:
    options = Options(prompt="Go on", session_id=session_id, conversation_history=history)
    assert options.resumes is resumes


@pytest.mark.parametrize("bad", [{"prompt": " "}, {"max_turns": 0}, {"max_continuations": -1}])
def test_options_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        Options(**{"prompt": "Go on", **bad})


def test_the_defaults(tmp_path: Path) -> None:
    options = Options(prompt="Go on").for_sdk(None, tmp_path, {}, tmp_path / "launch", tmp_path / "pipe")
    assert (options.max_turns, options.permission_mode, options.resume) == (20, "dontAsk", None)
    assert options.system_prompt == {"type": "preset", "preset": "claude_code"}
    assert options.cwd == tmp_path


def test_options_of_the_sdk_are_kept(tmp_path: Path) -> None:
    own = ClaudeAgentOptions(setting_sources=[], allowed_tools=["Read"], env={"A": "1"})
    options = Options(prompt="Go on", sdk=own, allowed_tools=["Bash"], env={"B": "2"}, system_prompt="Be brief.")
    made = options.for_sdk("an-id", tmp_path, {}, tmp_path / "launch", tmp_path / "pipe")
    assert made.setting_sources == []
    assert made.allowed_tools == ["Read", "Bash"]
    assert (made.env["A"], made.env["B"], made.resume) == ("1", "2", "an-id")
    assert made.system_prompt == {"type": "custom", "prompt": "Be brief.", "snapshot": False}


def test_variables_are_inherited_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("DATABASE_PASSWORD", "not yours")
    assert "DATABASE_PASSWORD" not in Options(prompt="Go on").environment()
    assert Options(prompt="Go on").environment()["LANG"] == "C.UTF-8"
    allowed = Options(prompt="Go on", allowed_env=frozenset({"DATABASE_PASSWORD"})).environment()
    assert allowed == {"DATABASE_PASSWORD": "not yours"}


def test_turns_count_up_to_the_limit() -> None:
    turns = TurnState(2)
    assert turns.should_continue
    turns.current_turn = 2
    assert not turns.should_continue
    turns.go_on()
    assert turns.should_continue and turns.continuations == 1
