"""What a prompt brings along: little, only what clearly concerns it, and once."""

from __future__ import annotations

import json
from typing import Any

from box import Box

CONTINUE = {"continue": True, "suppressOutput": True}


def remember(box: Box) -> int:
    for text in (
        "The viewer keeps its colours in theme.css",
        "Releases are cut on Tuesdays",
        "Parser errors name a line",
    ):
        box.cli("remember", text)
    text = "Discount rounding in cart.apply_discount must stay half-even, or invoices differ by a cent"
    return int(json.loads(box.cli("remember", text, "--json").stdout)["id"])


def prompted(box: Box, text: str, session: str = "one") -> dict[str, Any]:
    answer = box.hook("UserPromptSubmit", {"session_id": session, "prompt": text})
    assert (answer.returncode, answer.stderr) == (0, b"")
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def test_a_prompt_brings_along_what_clearly_concerns_it_and_only_once(running: Box) -> None:
    """Marked as notes, with its id; a session is not told twice."""
    number = remember(running)
    ask = "Why do invoices differ after I changed the rounding in cart.apply_discount?"
    # On a busy machine a search may take longer than an agent is kept waiting: then it is told nothing.
    answer = next(a for n in range(20) if "hookSpecificOutput" in (a := prompted(running, ask, f"try{n}")))
    told = answer["hookSpecificOutput"]
    assert told["hookEventName"] == "UserPromptSubmit"
    text = told["additionalContext"]
    assert text.startswith("<backstory-context>") and text.endswith("</backstory-context>")
    assert f"#{number} " in text and "theme.css" not in text
    assert {name: answer[name] for name in CONTINUE} == CONTINUE
    told_in = [n for n in range(5) if "hookSpecificOutput" in prompted(running, f"{ask} Again: {n}", "same")]
    assert len(told_in) == 1
    # What was told at the start is not told again, either.
    assert f"#{number} " in running.told("third")
    assert prompted(running, ask, "third") == CONTINUE


def test_what_is_only_a_little_alike_is_not_told(running: Box) -> None:
    """A word in common is no reason, nor is a prompt that is private or says nothing."""
    remember(running)
    for text in (
        "Add a discount page to the viewer",
        "thanks",
        "go on",
        "<private>invoices differ by the rounding in cart.apply_discount</private>",
        "",
        '"* OR NEAR(',
    ):
        assert prompted(running, text) == CONTINUE, text


def test_one_setting_turns_it_off(box: Box) -> None:
    """`prompt_tokens` 0: prompts are only taken."""
    box.settings["BACKSTORY_PROMPT_TOKENS"] = "0"
    box.start()
    remember(box)
    assert prompted(box, "Why do invoices differ after the rounding in cart.apply_discount changed?") == CONTINUE
