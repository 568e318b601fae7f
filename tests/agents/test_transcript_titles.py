"""The titles in a transcript: the user's, the client's, and those of other conversations, which are not ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transcripts import Script

from backstory.agents.claude_code.transcript import Transcript
from backstory.agents.transcripts import Mark


def titles(path: Path, start: Mark | None = None) -> tuple[dict[str, str], Mark]:
    """The titles that a pass reports, and where it ended."""
    reading = Transcript(path, start, True)
    found = [report for report in reading if report.kind == "title"]
    return {report.payload["source"]: report.payload["title"] for report in found}, reading.mark


def talk(*entries: dict[str, Any]) -> Script:
    made = Script()
    made.prompt("Add a discount")
    made.says("Done.")
    made.lines += entries
    return made


def test_the_last_title_of_each_kind_is_reported(tmp_path: Path) -> None:
    """The client repeats them. A title that the user gave and one that the client made are kept apart."""
    session = Script().session
    made = talk(
        {"type": "ai-title", "aiTitle": "First guess", "sessionId": session},
        {"type": "custom-title", "customTitle": "Discounts", "sessionId": session},
        {"type": "ai-title", "aiTitle": "Add a discount to the cart", "sessionId": session},
        {"type": "ai-title", "aiTitle": "  ", "sessionId": session},
        {"type": "custom-title", "customTitle": 7, "sessionId": session},
    )
    assert titles(made.write(tmp_path))[0] == {"custom": "Discounts", "agent": "Add a discount to the cart"}


def test_a_title_of_another_conversation_is_not_ours(tmp_path: Path) -> None:
    """Older clients wrote the summary of an earlier conversation into the file of the next one."""
    made = talk({"type": "ai-title", "aiTitle": "Not ours", "sessionId": "another"})
    leaf = made.lines[1]["uuid"]
    made.lines.insert(0, {"type": "summary", "summary": "Earlier work", "leafUuid": "unknown"})
    path = made.write(tmp_path)
    assert titles(path)[0] == {}
    made.lines.append({"type": "summary", "summary": "A discount", "leafUuid": leaf})
    assert titles(made.write(tmp_path))[0] == {"agent": "A discount"}


def test_a_title_that_comes_later_is_read_with_the_next_pass(tmp_path: Path) -> None:
    """The first pass ends before it."""
    made = talk()
    found, mark = titles(made.write(tmp_path))
    assert found == {}
    made.prompt("And now?")
    made.lines.append({"type": "custom-title", "customTitle": "Discounts", "sessionId": made.session})
    assert titles(made.write(tmp_path), mark)[0] == {"custom": "Discounts"}
