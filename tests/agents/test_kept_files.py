"""Claude Code's files as they are kept and written back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from transcripts import Script

from backstory.agents.claude_code import kept_files
from backstory.agents.claude_code.transcript_files import MAX_LINE_BYTES
from backstory.transcript_gate import PRIVATE

NONE = frozenset[str]()


def cleaned(script: Script, private_ids: frozenset[str] = NONE) -> list[dict[str, Any]]:
    is_private, made = False, []
    for line in script.lines:
        entry, is_private = kept_files.clean(line, is_private, private_ids)
        made.append(entry)
    return made


def test_the_lines_of_a_file_and_where_they_end(tmp_path: Path) -> None:
    """Damaged lines are told as such. A line that is still being written is not read."""
    path = tmp_path / "a.jsonl"
    parts = [
        b'{"type":"user"}\n',
        b"not json\n",
        b"\n",
        b"[1]\n",
        b"x" * (MAX_LINE_BYTES + 1) + b"\n",
        b'{"type":"mode"}\n',
    ]
    path.write_bytes(b"".join(parts) + b'{"type":"us')
    ends = [sum(map(len, parts[: number + 1])) for number in range(len(parts))]
    read = [(line.end, line.entry) for line in kept_files.complete_lines(path, 0)]
    assert read == [
        (ends[0], {"type": "user"}),
        (ends[1], None),
        (ends[3], None),
        (ends[4], None),
        (ends[5], {"type": "mode"}),
    ]
    assert [line.end for line in kept_files.complete_lines(path, ends[4])] == ends[5:]


def test_a_private_round_is_private_to_its_end(tmp_path: Path) -> None:
    script = Script()
    script.prompt("First.")
    script.says("One.")
    script.prompt("<private>the moon</private>")
    script.uses("Bash", {"command": "moon"}, "t1")
    script.answers("t1", "moon")
    script.lines.append({"type": "custom-title", "customTitle": "About the moon", "sessionId": script.session})
    script.says("moon")
    script.prompt("Next.")
    script.says("Two.")
    made = cleaned(script)
    assert "moon" not in json.dumps(made)
    assert [entry.get("uuid") for entry in made] == [line.get("uuid") for line in script.lines]
    said = [entry["message"]["content"] for entry in made if "message" in entry]
    assert said[0] == "First."
    assert said[2] == PRIVATE
    assert said[-1] == [{"type": "text", "text": "Two."}]


def test_a_subagent_of_a_private_round_is_private(tmp_path: Path) -> None:
    """Its file has the id of the prompt, and not the prompt."""
    child = Script(prompt_id="p1")
    child.user("look for the moon", isSidechain=True)
    child.says("moon", isSidechain=True)
    assert "moon" not in json.dumps(cleaned(child, frozenset({"p1"})))
    assert cleaned(child, frozenset({"p2"})) == child.lines


def test_the_folder_of_a_directory_is_known_by_its_name(tmp_path: Path) -> None:
    """A long name ends in a hash, which differs between the client and its SDK."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    folder = "".join(char if char.isalnum() else "-" for char in str((tmp_path / "real").resolve()))
    assert kept_files.is_folder_of(folder, str(tmp_path / "link"))
    assert kept_files.is_folder_of("-w-a--b-c-d", "/w/añ b.c_d")
    assert kept_files.is_folder_of(f"-w-{'x' * 197}-k3j4h5", "/w/" + "x" * 300)
    assert not kept_files.is_folder_of("-w", "/v")


def test_where_the_transcript_of_a_subagent_is(tmp_path: Path) -> None:
    part = kept_files.part(tmp_path / "s.jsonl", "subagents/workflows/w1/agent-a")
    assert part == tmp_path / "s" / "subagents" / "workflows" / "w1" / "agent-a.jsonl"


@pytest.mark.parametrize(
    "name", ["", "../x", "/etc/x", "subagents", "subagents/../../x", "subagents/.x", "subagents/a\n"]
)
def test_no_name_leads_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        kept_files.part(tmp_path / "s.jsonl", name)


def test_a_file_is_written_once_and_for_its_owner(tmp_path: Path) -> None:
    """One that exists is left as it is, unless it is empty. What describes a subagent goes into a file of its own."""
    path = tmp_path / "s" / "subagents" / "agent-a.jsonl"
    about = {"type": "agent_metadata", "agentType": "explore"}
    kept_files.write(path, ['{"type":"user"}', json.dumps(about), '{"type":"mode"}'])
    assert path.read_text() == '{"type":"user"}\n{"type":"mode"}\n'
    assert json.loads(path.with_suffix(".meta.json").read_text()) == {"agentType": "explore"}
    assert kept_files.about(path) == about
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    kept_files.write(path, ['{"type":"other"}'])
    assert path.read_text() == '{"type":"user"}\n{"type":"mode"}\n'
    assert not list(path.parent.glob(".*"))
    os.truncate(path, 0)
    kept_files.write(path, ['{"type":"other"}'])
    assert path.read_text() == '{"type":"other"}\n'
