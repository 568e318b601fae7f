"""Lines of a transcript that cannot be read: what follows one belongs to no prompt that was read before it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transcripts import Script

from backstory.agents.claude_code.transcript import Transcript
from backstory.agents.transcripts import Mark
from backstory.model import Report


def conversation(prompt_ids: bool = False) -> list[bytes]:
    """The lines of three rounds: a prompt, a tool use, its answer and a reply each."""
    script = Script(prompt_ids=prompt_ids)
    for number in range(3):
        script.prompt(f"Prompt {number}.")
        script.uses("Bash", {"command": "x"}, f"t{number}")
        script.answers(f"t{number}", "x")
        script.says(f"Answer {number}.")
    return script.raw().splitlines(keepends=True)


def read(path: Path, lines: list[bytes], mark: Mark | None = None) -> dict[str, Report]:
    """What is reported, by kind and number of the round."""
    path.write_bytes(b"".join(lines))
    return by_name(list(Transcript(path, mark, whole=True)))


def by_name(reports: list[Report]) -> dict[str, Report]:
    texts = [
        str(r.payload.get("prompt") or r.payload.get("text") or r.payload.get("last_assistant_message"))
        for r in reports
    ]
    return {f"{r.kind} {(r.tool_use_id or text.rstrip('.'))[-1]}": r for r, text in zip(reports, texts, strict=True)}


DAMAGED: dict[str, Any] = {
    "cut": lambda line: line[:40] + b"\n",
    "zeros": lambda line: b"\0" * len(line) + b"\n",
    "too long": lambda line: b'{"a":"' + b"x" * (33 << 20) + b'"}\n',
    "swallowed": lambda line: b'{"type":"file-history-snapshot","files":{"' + line[:-20] + b"}\n",
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_what_follows_an_unreadable_prompt_has_no_prompt(tmp_path: Path, kind: str) -> None:
    """Until the next prompt. What was before keeps its own."""
    lines = conversation()
    whole = read(tmp_path / "a.jsonl", lines)
    lines[4] = DAMAGED[kind](lines[4])
    found = read(tmp_path / "b.jsonl", lines)
    assert found.keys() == whole.keys() - {"prompt 1"}
    for name, report in found.items():
        if name.endswith("1"):
            assert (report.prompt_id, report.gap_since) == (None, whole["reply 0"].occurred_at), name
        else:
            assert report == whole[name]


@pytest.mark.parametrize("begin", [1, 30, 47, 200, -4, -2])
def test_an_entry_that_was_appended_to_a_part_of_another_is_read(tmp_path: Path, begin: int) -> None:
    """The client was killed while it wrote, and the next one asks: the prompt is read, and its round is known."""
    lines = conversation()
    whole = read(tmp_path / "a.jsonl", lines)
    found = read(tmp_path / "b.jsonl", [*lines[:6], lines[6][:begin], *lines[8:]])
    assert {name: report for name, report in found.items() if name.endswith("2")} == {
        name: report for name, report in whole.items() if name.endswith("2")
    }


@pytest.mark.parametrize("part", [b'{"a"', b'{"a":[{"b":1}', b'{"a":"{', b'{"a":"\\', b'{"a":1', b"\0\0", b'{"a":"{"'])
def test_whatever_the_part_ends_with(tmp_path: Path, part: bytes) -> None:
    lines = conversation()
    found = read(tmp_path / "a.jsonl", [*lines[:4], part, *lines[4:]])
    assert found == read(tmp_path / "b.jsonl", lines)


@pytest.mark.parametrize("part", [b'{"a":', b'{"a": ', b'{"a":[', b'{"a":[{"b":1},'])
def test_a_value_in_a_damaged_line_is_no_entry(tmp_path: Path, part: bytes) -> None:
    """A tool may have answered it: nobody else speaks as the user."""
    lines = conversation()
    found = read(tmp_path / "a.jsonl", [*lines[:4], part, *lines[4:]])
    assert "prompt 1" not in found
    assert found["tool 1"].prompt_id is None


def test_an_answer_to_a_tool_use_of_the_round_before_goes_on_with_it(tmp_path: Path) -> None:
    lines = conversation()
    whole = read(tmp_path / "a.jsonl", lines)
    found = read(tmp_path / "b.jsonl", [*lines[:2], b"{\n", *lines[2:]])
    assert found == whole


def test_the_ids_of_prompts_are_enough(tmp_path: Path) -> None:
    """With them a reply and the end of the round are attributed, too."""
    lines = conversation(prompt_ids=True)
    whole = read(tmp_path / "a.jsonl", lines)
    found = read(tmp_path / "b.jsonl", [*lines[:4], lines[4][:50] + b"\n", *lines[5:]])
    assert found.keys() == whole.keys() - {"prompt 1"}
    assert {name: (r.prompt_id, r.gap_since) for name, r in found.items()} == {
        name: (r.prompt_id, None) for name, r in whole.items() if name != "prompt 1"
    }


def test_a_mark_does_not_hold_in_a_file_that_was_cut_and_has_grown(tmp_path: Path) -> None:
    """It is as long as before, but other entries stand there: all are read."""
    path, lines = tmp_path / "a.jsonl", conversation()
    path.write_bytes(b"".join(lines))
    first = Transcript(path)
    list(first)
    assert first.mark.offset > 0
    other = Script(session=json.loads(lines[0])["sessionId"], prompt_ids=False)
    other.prompt("Prompt 7.")
    other.lines[0]["uuid"] = "other"
    new = [lines[0], *other.raw().splitlines(keepends=True), *lines[1:]]
    found = read(path, new, first.mark)
    assert {"prompt 0", "prompt 7", "tool 0"} <= found.keys()


def test_a_mark_at_a_compaction_holds(tmp_path: Path) -> None:
    script = Script(prompt_ids=False)
    script.prompt("Prompt 0.")
    for number in range(2):
        script.uses("Bash", {"command": "x"}, f"t{number}")
        script.answers(f"t{number}", "x")
        script.compacts("So far.")
    path = script.write(tmp_path)
    first = Transcript(path)
    (prompt, *_) = list(first)
    assert first.mark.offset > 0
    found = by_name(list(Transcript(path, first.mark)))
    assert found["tool 1"].prompt_id == prompt.prompt_id
    assert "prompt 0" not in found
