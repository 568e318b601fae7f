"""Forgetting an observation removes what only it says: a sentence goes, the round stays."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from box import Box
from test_forget import vocabulary, work
from test_private import assert_nowhere
from transcripts import Script

pytestmark = pytest.mark.usefixtures("meaning")

NOISE = "heliotrope"
REPLY = (
    "The basket was empty because `Basket.save` never wrote the session back, so every request began anew.\n\n"
    f"- Renamed the {NOISE} helper to `Basket.{NOISE}_total` since the old name was misleading.\n"
    "- Decided to keep prices in cents everywhere, because floats lost a cent in the till.\n\n"
    "Next step: the checkout page still shows the old total until its cache expires."
)


def hooks(session: str, reply: str = REPLY) -> list[tuple[str, dict[str, Any]]]:
    about = {"session_id": session, "prompt_id": f"p-{session}"}
    return [
        ("UserPromptSubmit", about | {"prompt": "The basket is empty after a reload. Find out why and mend it."}),
        (
            "PostToolUse",
            about
            | {
                "tool_name": "Bash",
                "tool_use_id": f"use-{session}",
                "tool_input": {"command": "pytest tests/test_basket.py"},
                "tool_response": {"stdout": "5 passed in 0.1s"},
            },
        ),
        ("Stop", about | {"last_assistant_message": reply}),
    ]


def noise_of(box: Box) -> int:
    (row,) = box.rows("SELECT id FROM observations WHERE title LIKE ?", f"%{NOISE} helper%")
    return int(row["id"])


def test_a_noise_line_goes_alone(running: Box) -> None:
    """Its sentence leaves reply, summary, words, vectors and files. Summary, open end and the other sentences stay."""
    work(running, hooks("s-one"), "s-one")
    number = noise_of(running)
    before = running.rows("SELECT id, title FROM observations WHERE id <> ?", number)
    assert len(before) >= 2
    export = running.root / "before.jsonl"
    running.cli("export", "--output", str(export))
    looked = running.cli("forget", f"#{number}")
    assert f"#{number}" in looked.stdout and f"Renamed the {NOISE}" in looked.stdout and "--yes" in looked.stdout
    assert noise_of(running) == number, "a preview deletes nothing"
    listed = json.loads(running.cli("forget", str(number), "--json").stdout)
    assert [item["kind"] for item in listed["items"]][:2] == ["observation", "reply"]
    assert (listed["turns"], listed["summaries"], listed["events"]) == (0, 0, 0)
    told = running.cli("forget", str(number), "--yes")
    assert "Forgotten: 1 observation" in told.stdout
    assert_stays(running, before)
    # A copy is known by its time, however long a busy machine takes up to here.
    said_at = datetime.fromisoformat(running.rows("SELECT MIN(at) AS at FROM turns")[0]["at"])
    # The same stop again, the transcript of the session and of a copy of it, and the export from before.
    work(running, hooks("s-one"), "s-one")
    for session in ("s-one", "s-copy"):
        script = Script(session, str(running.project), said_at - timedelta(seconds=5), prompt_ids=False)
        script.prompt("The basket is empty after a reload. Find out why and mend it.")
        script.says(REPLY)
        running.cli("import", "claude-code", str(script.write(running.root / "transcripts")))
    running.settle()
    running.cli("import", "backstory", str(export))
    running.settle()
    assert_nowhere(running, NOISE)
    found = running.client.get("/api/search", query="floats lost a cent", kind="turns")["items"]
    assert {item["session"] for item in found} == {"s-one", "s-copy"}, "the rest of the copy came in"


def test_what_a_user_said_goes_from_the_prompt(running: Box) -> None:
    """An observation tells who said it; the prompt does not."""
    rule = f"Never rename the {NOISE} table, because the auditors read it."
    calls = [
        (name, given | ({"prompt": f"Mend the basket. {rule}"} if "prompt" in given else {}))
        for name, given in hooks("s-one", "`Basket.save` writes the session back now.")
    ]
    work(running, calls, "s-one")
    (row,) = running.rows("SELECT id FROM observations WHERE mark = 'user'")
    running.cli("forget", str(row["id"]), "--yes")
    (prompt,) = running.rows("SELECT prompt FROM user_prompts")
    assert prompt["prompt"] == "Mend the basket."


def assert_stays(box: Box, before: list[dict[str, Any]]) -> None:
    assert_nowhere(box, NOISE)
    assert not any(NOISE in word for word in vocabulary(box))
    assert box.rows("SELECT id, title FROM observations") == before
    (turn,) = box.rows("SELECT text FROM turns WHERE role = 'assistant'")
    assert turn["text"].startswith("The basket was empty because") and "keep prices in cents" in turn["text"]
    (summary,) = box.rows("SELECT request, next_steps FROM session_summaries")
    assert "checkout page still shows" in summary["next_steps"] and summary["request"]
    assert [1 for row in box.rows("SELECT payload FROM events WHERE kind = 'tool'") if "test_basket" in row["payload"]]
    assert "checkout page still shows" in box.told("s-two")
    found = box.client.get("/api/search", query="never wrote the session back", kind="turns")["items"]
    assert found and NOISE not in json.dumps(found)
