"""A session is remembered in the same way however its events arrive: one by one, or all at once from the spool."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from box import Box
from transcripts import Script

from backstory import ids

DEMO = Path(__file__).parent.parent.parent / "demo" / "session.jsonl"
#: What the agent said before it was done, by round. Hooks do not report it.
SAID = (
    "The cause is that `Cart.total` rounds each line before it adds them, so a cart with two discounts loses a cent.",
    "We decided to keep the number of decimals in `Currency`, because JPY has none and the formats of others differ.",
)


def calls(box: Box) -> list[tuple[str, dict[str, Any]]]:
    """The recorded session of two rounds."""
    read = [json.loads(line) for line in DEMO.read_text().splitlines()]
    path = str(transcript(box))
    return [(one["event"], one["payload"] | {"cwd": str(box.project), "transcript_path": path}) for one in read]


def transcript(box: Box) -> Path:
    return box.home / ".claude" / "projects" / "shop" / "a893b196-943f-452a-a355-e442b9578ef4.jsonl"


def one_by_one(box: Box, written: Callable[[int], None]) -> None:
    box.start()
    rounds = 0
    for event, payload in calls(box):
        if event == "Stop":
            rounds += 1
            written(rounds)
        box.hook(event, payload)
        if event == "SessionEnd":
            box.settle()


def all_at_once(box: Box, written: Callable[[int], None]) -> None:
    folder = box.data / "spool"
    folder.mkdir(mode=0o700, exist_ok=True)
    written(2)
    at = ids.now_ms()
    for number, (event, payload) in enumerate(calls(box)):
        (folder / f"{at + number:013x}-0123456789abcdef.claude-code.{event}.json").write_text(json.dumps(payload))
    box.start()
    box.settle()


def remembered(box: Box) -> dict[str, Any]:
    """All that is remembered of the session, without times and random ids."""
    seen = (
        "id, prompt_number, type, title, subtitle, narrative, facts, concepts, files_read, files_modified, importance"
    )
    told = "prompt_number, request, investigated, learned, completed, next_steps, notes"
    return {
        "observations": box.rows(f"SELECT {seen}, superseded_by FROM observations ORDER BY id"),  # noqa: S608 - our own
        "summaries": box.rows(f"SELECT {told} FROM session_summaries ORDER BY prompt_number"),  # noqa: S608 - our own
        "said": box.rows("SELECT prompt_number, role, text FROM turns ORDER BY prompt_number, at, number"),
        "context": re.sub(r"\d+:\d+|just now|\d+ (?:min|s)\b", "", box.told()).replace(str(box.root), ""),
    }


@pytest.mark.parametrize("has_transcript", [False, True])
def test_spooled_events_are_remembered_as_those_that_come_one_by_one(tmp_path: Path, has_transcript: bool) -> None:
    found = []
    for arrive in (one_by_one, all_at_once):
        box = Box(tmp_path / arrive.__name__)
        box.home.mkdir(parents=True)
        box.project.mkdir()

        assert box.shim.exists()
        started = datetime.now(UTC)

        def write(rounds: int, box: Box = box, started: datetime = started) -> None:
            script = Script(transcript(box).stem, str(box.project), started)
            ends = [payload for event, payload in calls(box) if event == "Stop"]
            prompts = [payload for event, payload in calls(box) if event == "UserPromptSubmit"]
            for said, prompt, stop in zip(SAID[:rounds], prompts, ends, strict=False):
                script.prompt_id = prompt["prompt_id"]
                script.user(prompt["prompt"])
                script.says(said)
                script.says(stop["last_assistant_message"])
            if has_transcript:
                script.write(transcript(box).parent, transcript(box).name)

        try:
            arrive(box, write)
            found.append(remembered(box))
        finally:
            box.clean_up()
    assert [row["next_steps"] for row in found[0]["summaries"]][-1]
    assert found[0] == found[1]
