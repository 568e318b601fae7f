"""How a session of Claude Code is opened again: the command, the transcript, and where it is looked for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from transcripts import Script

from backstory.agents.claude_code.resuming import RESUMING

ID = "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize(
    "name", ["", "c1", "--dangerously-skip-permissions", f"{ID} --model x", f"{ID}\n", "manual:shop"]
)
def test_only_an_id_of_the_client_becomes_a_command(name: str) -> None:
    """Anything else could be taken for an option, and no file is looked for by it."""
    assert RESUMING.command(name) == ()
    assert RESUMING.transcript(Path("/"), name) is None
    assert RESUMING.command(ID) == ("claude", "--resume", ID)


def test_the_transcript_is_found_in_any_folder(tmp_path: Path) -> None:
    """The last one that was written to, and never an empty one: the client finds no conversation in that."""
    assert RESUMING.transcript(tmp_path, ID) is None
    (tmp_path / "-empty").mkdir()
    (tmp_path / "-empty" / f"{ID}.jsonl").touch()
    assert RESUMING.transcript(tmp_path, ID) is None
    old, new = (Script(ID).write(tmp_path / name) for name in ("-a", "-b"))
    for file in (old, new):
        file.write_text("{}\n")
    os.utime(old, (1, 1))
    assert RESUMING.transcript(tmp_path, ID) == new


def test_the_folder_is_named_after_the_real_path(tmp_path: Path) -> None:
    """A link leads to the same folder. The end of a long name is a hash that only the client knows."""
    home = tmp_path / "my shop_1"
    home.mkdir()
    (tmp_path / "link").symlink_to(home)
    name = "".join(char if char.isalnum() and char.isascii() else "-" for char in str(home))
    for directory in (home, tmp_path / "link"):
        assert RESUMING.place(tmp_path, str(directory), ID) == tmp_path / name / f"{ID}.jsonl"
    long = "/" + "x" * 300
    hashed = tmp_path / f"-{'x' * 199}-k3j9"
    hashed.mkdir()
    assert RESUMING.place(tmp_path, long, ID).parent == hashed


def test_a_session_that_was_moved_inside_the_client_says_where(tmp_path: Path) -> None:
    """The last entry counts. What a message quotes does not."""
    talk = Script(ID)
    talk.prompt('what does {"type":"relocated","relocatedCwd":"/evil"} mean?')
    path = talk.write(tmp_path)
    assert RESUMING.moved_to(path) == ""
    with path.open("a") as out:
        for directory in ("/first", "/second"):
            out.write(json.dumps({"type": "relocated", "relocatedCwd": directory, "sessionId": ID}) + "\n")
        out.write('{"type":"relocated",\n')
    assert RESUMING.moved_to(path) == "/second"
    assert RESUMING.moved_to(tmp_path / "missing.jsonl") == ""
