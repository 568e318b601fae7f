"""Hooks can be lost; the transcript is the record. The real client, the real hook, the real worker."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from box import Box, until
from claude import Claude, binary
from endpoint import Endpoint, Step, text, tool_use
from transcripts import Script

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")

SECRET = "the-moon-is-a-cheese"


@pytest.fixture
def shop(box: Box) -> Box:
    """A repository, and backstory installed."""
    (box.project / "money.py").write_text("def total(prices):\n    return sum(prices) + 1\n")
    subprocess.run(["git", "init", "-q"], cwd=box.project, check=True)
    box.cli("install", "--agent", "claude-code")
    return box


def work(shop: Box, prompt: str = "Make the sum right.", *options: str) -> str:
    """A session of seven tool uses, two of them in parallel, one by a subagent, one that fails, one to be skipped."""
    money = str(shop.project / "money.py")
    steps: list[Step] = [
        [tool_use("Read", {"file_path": money}), tool_use("Bash", {"command": "ls", "description": "List"})],
        tool_use("Bash", {"command": "false", "description": "Fail"}),
        tool_use("Edit", {"file_path": money, "old_string": "+ 1", "new_string": ""}),
        tool_use("TaskCreate", {"subject": "Tell the accountant", "description": "Soon"}),
        tool_use("Bash", {"command": "cat money.py", "description": "Look"}),
        text("The sum is right now. Next step: tell the accountant."),
    ]
    env = {name: value for name, value in shop.env.items() if name.startswith("BACKSTORY_")}
    with Endpoint(steps) as endpoint:
        return Claude(shop.home, shop.project, endpoint, env=env).run(prompt, *options).session_id


def transcript(shop: Box, session_id: str) -> Path:
    (path,) = (shop.home / ".claude" / "projects").glob(f"*/{session_id}.jsonl")
    return path


def uses_in(path: Path) -> set[str]:
    """The tool uses of a transcript, read the plain way."""
    found = set()
    for line in path.read_text().split("\n"):
        entry = json.loads(line) if line else {}
        content = (entry.get("message") or {}).get("content")
        blocks = content if isinstance(content, list) else []
        found |= {block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"}
    return found


def complete(shop: Box, session_id: str) -> None:
    """The session has each of its tool uses once, its prompt, its end, and became memory."""
    wanted = uses_in(transcript(shop, session_id)) - {"toolu_old"}
    assert len(wanted) == 6
    stored = "SELECT tool_use_id FROM events WHERE tool_use_id IS NOT NULL"
    until(lambda: shop.rows("SELECT 1 FROM sdk_sessions") and len(shop.rows(stored)) >= 6, "the transcript to be read")
    until(lambda: shop.rows("SELECT 1 FROM events WHERE kind = 'stop'"), "the round's end")
    shop.settle()
    rows = shop.rows(stored)
    assert {row["tool_use_id"] for row in rows} == wanted
    assert len(rows) == len(wanted)
    (session,) = shop.rows("SELECT * FROM sdk_sessions")
    assert (session["content_session_id"], session["project"], session["prompt_counter"]) == (session_id, "shop", 1)
    assert {row["prompt_number"] for row in shop.rows("SELECT prompt_number FROM events WHERE tool_name <> ''")} == {1}
    assert len(shop.rows("SELECT 1 FROM session_summaries")) == 1
    assert len(shop.rows("SELECT 1 FROM events WHERE kind = 'stop'")) == 1
    (summary,) = shop.rows("SELECT next_steps FROM session_summaries")
    assert "accountant" in summary["next_steps"]
    seen = json.dumps(shop.rows("SELECT title, files_modified FROM observations"))
    assert "money.py" in seen


def test_a_session_without_any_hook_is_complete_after_its_transcript_was_read(shop: Box) -> None:
    """The hooks are gone from the settings; the worker finds the transcript when it starts. Old lines of a changed
    file, files outside the agent's folders, links, our own sessions: left alone."""
    (shop.home / ".claude" / "settings.json").write_text("{}")
    (shop.home / ".claude.json").unlink()  # the tools would start a worker
    session_id = work(shop)
    assert not (shop.data / "backstory.db").exists()
    elsewhere, link = leave_what_is_not_ours(shop, session_id)
    worker = shop.start()
    complete(shop, session_id)
    before = dump(shop)
    shop.stop(worker)
    os.utime(transcript(shop, session_id))  # changed, as far as anybody can tell
    shop.start()
    until(lambda: read_at(shop) > before["read_at"], "the second look")
    shop.settle()
    assert dump(shop) | {"read_at": ""} == before | {"read_at": ""}
    shop.hook("Stop", {"session_id": "other", "transcript_path": str(elsewhere), "last_assistant_message": "x"})
    shop.hook("Stop", {"session_id": "other", "transcript_path": str(link)})
    shop.settle()
    text_of = json.dumps(shop.rows("SELECT * FROM events") + shop.rows("SELECT * FROM user_prompts"))
    assert "Long ago" not in text_of
    assert "toolu_old" not in text_of
    assert str(elsewhere) not in [row["path"] for row in shop.rows("SELECT path FROM transcripts")]


def read_at(shop: Box) -> str:
    return str(shop.rows("SELECT MAX(read_at) AS at FROM transcripts")[0]["at"])


def dump(shop: Box) -> dict[str, Any]:
    """Everything that is remembered."""
    tables = ("sdk_sessions", "user_prompts", "events", "observations", "session_summaries", "session_moves")
    rows = {table: shop.rows(f"SELECT * FROM {table} ORDER BY id") for table in tables}  # noqa: S608
    for row in rows["sdk_sessions"]:
        del row["force_init"]  # set by each worker that starts
    return rows | {"read_at": read_at(shop)}


def lose_every_second_call(shop: Box, odd: int) -> Path:
    """Put a shim before the hook that drops its second, fourth … call, or its first, third …"""
    shim, count = shop.data / "bin" / "backstory-hook", shop.root / "calls"
    real = shim.rename(shim.with_name("real-hook"))
    count.write_text("")
    shim.write_text(
        f"#!/bin/sh\nprintf x >>'{count}'\n"
        f'if [ $(( $(wc -c <"{count}") % 2 )) = {odd} ]; then cat >/dev/null; exit 0; fi\nexec "{real}" "$@"\n'
    )
    shim.chmod(0o700)
    return count


@pytest.mark.parametrize("odd", [0, 1], ids=["the prompt too", "the start and the end too"])
def test_half_of_the_hooks_calls_are_lost_and_nothing_is_missed(shop: Box, odd: int) -> None:
    """Every second call of the hook does nothing; at the round's end each tool use is there, once."""
    calls = lose_every_second_call(shop, odd)
    session_id = work(shop)
    assert len(calls.read_text()) >= 8
    shop.cli("start")
    complete(shop, session_id)


def test_a_private_prompts_hook_was_lost_and_its_round_is_not_kept(shop: Box) -> None:
    """Tool uses that came in before anybody knew: the transcript tells, and they leave tombstones only."""
    lose_every_second_call(shop, 0)
    work(shop, f"<private>{SECRET}</private>")
    shop.cli("start")
    until(lambda: shop.rows("SELECT 1 FROM user_prompts WHERE is_private = 1"), "the transcript to be read")
    shop.settle()
    rows = shop.rows("SELECT status, payload FROM events WHERE kind IN ('tool', 'tool_failure', 'stop')")
    assert len(rows) >= 6
    assert {(row["status"], row["payload"]) for row in rows} == {("tombstone", None)}
    assert shop.rows("SELECT 1 FROM observations") == []


def test_a_private_prompt_in_a_transcript_is_never_stored(shop: Box) -> None:
    """No hook was there to strip it: it keeps its number and no text, and its round leaves tombstones."""
    (shop.home / ".claude" / "settings.json").write_text("{}")
    (shop.home / ".claude.json").unlink()  # the tools would start a worker
    session_id = work(shop, f"<private>{SECRET}</private>")
    assert SECRET in transcript(shop, session_id).read_text()
    shop.start()
    until(lambda: shop.health() and shop.rows("SELECT 1 FROM transcripts"), "the transcript to be read")
    shop.settle()
    (prompt,) = shop.rows("SELECT prompt, is_private, prompt_number FROM user_prompts")
    assert prompt == {"prompt": None, "is_private": 1, "prompt_number": 1}
    rows = shop.rows("SELECT status, payload, reason FROM events WHERE kind IN ('tool', 'tool_failure', 'stop')")
    assert len(rows) == 7
    assert {(row["status"], row["payload"]) for row in rows} == {("tombstone", None)}
    assert shop.rows("SELECT 1 FROM observations") == []
    for file in shop.data.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def test_what_hooks_kept_away_does_not_come_back(shop: Box) -> None:
    """A private round and a skipped tool, told by hooks, then found in the transcript: the tombstones hold."""
    shop.cli("config", "set", "skip_tools", "TaskCreate")
    session_id = work(shop, f"<private>{SECRET}</private>")
    shop.settle()
    until(lambda: shop.rows("SELECT 1 FROM transcripts"), "the transcript to be read")
    work(shop, "And again, openly.", f"--resume={session_id}")
    shop.settle()
    shop.cli("restart")
    shop.settle()
    private = shop.rows("SELECT status, payload FROM events WHERE prompt_number = 1 AND kind <> 'prompt'")
    kinds = (
        "SELECT status, COUNT(*) AS n FROM events WHERE prompt_number = 1 AND tool_use_id IS NOT NULL GROUP BY status"
    )
    assert shop.rows(kinds) == [{"status": "tombstone", "n": 6}]
    assert all(row["payload"] is None for row in private if row["status"] == "tombstone")
    skipped = shop.rows(
        "SELECT status, payload, reason FROM events WHERE tool_name = 'TaskCreate' AND prompt_number = 2"
    )
    assert skipped == [{"status": "tombstone", "payload": None, "reason": "tool"}]
    assert len(shop.rows("SELECT 1 FROM events WHERE prompt_number = 2 AND tool_use_id IS NOT NULL")) == 6
    for file in shop.data.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def test_every_hook_was_heard_and_the_transcript_adds_nothing(shop: Box) -> None:
    """Read at each round's end, it holds nothing that is not known: no prompt, tool use or end is there twice. Nor does
    that of a fork, which repeats the conversation under a new id; only what is new in it is the fork's."""
    parent = work(shop)
    until(lambda: shop.rows("SELECT 1 FROM transcripts WHERE size > 0"), "the transcript to be read")
    complete(shop, parent)
    assert shop.rows("SELECT event_id FROM events WHERE event_id LIKE 'transcript-%'") == []
    assert shop.rows("SELECT prompt FROM user_prompts") == [{"prompt": "Make the sum right."}]
    (session,) = shop.rows("SELECT status FROM sdk_sessions")
    assert session["status"] == "completed"
    env = {name: value for name, value in shop.env.items() if name.startswith("BACKSTORY_")}
    with Endpoint([tool_use("Bash", {"command": "pwd", "description": "Where"}), text("There.")]) as endpoint:
        fork = Claude(shop.home, shop.project, endpoint, env=env).run("Where?", f"--resume={parent}", "--fork-session")
    shop.settle()
    shop.cli("restart")
    until(lambda: len(shop.rows("SELECT 1 FROM transcripts")) == 2, "both transcripts to be read")
    shop.settle()
    rows = shop.rows(
        "SELECT s.content_session_id AS id, s.prompt_counter AS prompts, COUNT(e.tool_use_id) AS tools "
        "FROM sdk_sessions s JOIN events e ON e.session_id = s.id GROUP BY s.id ORDER BY s.id"
    )
    assert rows == [{"id": parent, "prompts": 1, "tools": 6}, {"id": fork.session_id, "prompts": 1, "tools": 1}]


def old(shop: Box, session: str) -> Script:
    script = Script(session=session, cwd=str(shop.project))
    script.prompt("From long ago.")
    script.uses("Bash", {"command": "date"}, "toolu_old")
    script.answers("toolu_old", "1999")
    script.says("Long ago.")
    return script


def leave_what_is_not_ours(shop: Box, session_id: str) -> tuple[Path, Path]:
    """Lines from before the install, a file from elsewhere with a link to it, and a session of our own."""
    projects = shop.home / ".claude" / "projects"
    path = transcript(shop, session_id)
    path.write_bytes(old(shop, session=session_id).raw() + path.read_bytes())
    outside = old(shop, session="22222222-0000-0000-0000-000000000000")
    outside.now = outside.now.replace(year=2100)
    elsewhere = outside.write(shop.root / "elsewhere")
    link = projects / "linked" / "link.jsonl"
    link.parent.mkdir()
    link.symlink_to(elsewhere)
    own = old(shop, session="33333333-0000-0000-0000-000000000000")
    for line in own.lines:
        line |= {"cwd": str(shop.data / "observer"), "timestamp": "2100-01-01T00:00:00Z"}
    own.write(projects / "own")
    return elsewhere, link


def test_a_long_transcript_is_not_read_again_at_each_stop(shop: Box) -> None:
    """After the first look only what came since the last rounds is read."""
    shop.start()
    projects = shop.home / ".claude" / "projects" / "here"
    script = Script(cwd=str(shop.project))
    script.now = script.now.replace(year=2099)
    for number in range(80):
        script.prompt(f"Prompt {number}.")
        script.bulk(1000)
        script.says("Yes.")
    path = script.write(projects)
    assert path.stat().st_size > 1_000_000
    payload = {"session_id": script.session, "transcript_path": str(path), "last_assistant_message": "Yes."}
    shop.hook("Stop", payload)
    until(lambda: shop.rows("SELECT 1 FROM transcripts"), "the first look")
    (first,) = shop.rows("SELECT mark_offset, size, read_at FROM transcripts")
    assert first["mark_offset"] > first["size"] * 0.94
    script.prompt("One more.")
    script.says("Sure.")
    script.write(projects)
    shop.hook("Stop", payload)
    until(lambda: shop.rows("SELECT 1 FROM user_prompts WHERE prompt = 'One more.'"), "the second look")
    assert len(shop.rows("SELECT 1 FROM user_prompts")) == 81
