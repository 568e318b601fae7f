"""The reader of Claude Code's transcripts: in order, whole, and whatever the file is like."""

from __future__ import annotations

import gzip
import json
import os
import resource
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcripts import Script

from backstory.agents.claude_code.transcript import Transcript
from backstory.agents.claude_code.transcript_files import MAX_LINE_BYTES, beside
from backstory.agents.transcripts import Mark
from backstory.model import Report


def read(path: Path, whole: bool = True) -> list[Report]:
    return list(Transcript(path, whole=whole))


def told(reports: list[Report]) -> list[tuple[str, str]]:
    """Kind and the words that matter."""
    keys = ("prompt", "last_assistant_message", "compact_summary", "text")
    return [(r.kind, r.tool_use_id or next((str(r.payload[k]) for k in keys if k in r.payload), "")) for r in reports]


def test_a_conversation_in_order(tmp_path: Path) -> None:
    """Prompts, tool uses with their answers, round ends with the last message; the bulk between is passed over."""
    script = Script()
    script.prompt("Fix it.")
    script.bulk()
    script.says("I'll look.", "m1", "tool_use")
    script.uses("Read", {"file_path": "/nowhere/shop/a.py"}, "t1", "m1")
    script.answers("t1", "1\tx = 1", {"type": "text", "file": {"content": "x = 1"}})
    script.uses("Bash", {"command": "false"}, "t2")
    script.answers("t2", "Exit code 1\nno", "Error: Exit code 1\nno", failed=True)
    script.says("Fixed: ", "m2")
    script.says("it was x. <system-reminder>be nice</system-reminder>", "m2")
    script.prompt("Thanks.")
    reports = read(script.write(tmp_path), whole=False)
    assert told(reports) == [
        ("prompt", "Fix it."),
        ("reply", "I'll look."),
        ("tool", "t1"),
        ("tool_failure", "t2"),
        ("reply", "Fixed: \nit was x."),
        ("stop", "Fixed: \nit was x."),
        ("prompt", "Thanks."),
    ]
    tool, failure = reports[2], reports[3]
    assert tool.payload["tool_response"] == {"type": "text", "file": {"content": "x = 1"}}
    assert (tool.tool_name, tool.cwd, tool.git_branch, tool.prompt_id) == ("Read", "/nowhere/shop", "main", "p0")
    assert failure.payload["error"] == "Exit code 1\nno"
    assert reports[0].occurred_at == "2026-01-05T12:00:01.000Z"
    assert {r.content_id for r in reports} == {script.session}
    assert [r.occurred_at for r in reports] == sorted(r.occurred_at for r in reports)
    assert [r.event_id for r in reports] == [r.event_id for r in read(tmp_path / f"{script.session}.jsonl", False)]


def test_only_people_ask(tmp_path: Path) -> None:
    """What the client writes in the user's name is no prompt; a command that it turned into one is."""
    script = Script()
    script.prompt("Caveat: be careful", isMeta=True)
    for noise in (
        "<command-name>/clear</command-name>\n<command-message>clear</command-message>",
        "<local-command-stdout>ok</local-command-stdout>",
        "<local-command-caveat>so</local-command-caveat>",
        "<task-notification>done</task-notification>",
        "<system-reminder>think of me</system-reminder>",
        "<bash-input>ls</bash-input>",
        "[Request interrupted by user for tool use]",
    ):
        script.prompt(noise)
        script.prompt([{"type": "text", "text": noise}])
    script.prompt("The agents are done.", promptSource="system")
    script.prompt("a sub-agent's task", isSidechain=True)
    command = (
        "<command-message>plan</command-message>\n<command-name>/plan</command-name>\n<command-args>it</command-args>"
    )
    script.prompt(command)
    script.prompt(
        [{"type": "text", "text": "<ide_opened_file>a.py</ide_opened_file>"}, {"type": "text", "text": "Now."}]
    )
    script.uses("Bash", {}, "t1")
    script.user([{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}, {"type": "text", "text": "And more."}])
    assert [words for kind, words in told(read(script.write(tmp_path))) if kind == "prompt"] == [
        "/plan it",
        "Now.",
        "And more.",
    ]


def test_parallel_tools_are_told_with_their_own_answers(tmp_path: Path) -> None:
    """Three calls of one message, answered out of order, each with its own input."""
    script = Script()
    script.prompt("All three.")
    for number in "123":
        script.uses("Bash", {"command": f"echo {number}"}, f"t{number}", "m1")
    for number in "312":
        script.answers(f"t{number}", number)
    script.says("Done.")
    tools = [r for r in read(script.write(tmp_path)) if r.kind == "tool"]
    assert [(r.payload["tool_input"]["command"], r.payload["tool_response"]) for r in tools] == [
        ("echo 3", "3"),
        ("echo 1", "1"),
        ("echo 2", "2"),
    ]


def test_a_rejected_tool_did_not_happen(tmp_path: Path) -> None:
    """Hooks do not tell of it either."""
    script = Script()
    script.prompt("Go.")
    script.uses("Bash", {"command": "rm -rf /"}, "t1")
    script.answers("t1", "The user doesn't want to proceed with this tool use.", "User rejected tool use", failed=True)
    script.says("Then not.")
    assert told(read(script.write(tmp_path))) == [("prompt", "Go."), ("reply", "Then not."), ("stop", "Then not.")]


NO = "The user doesn't want to proceed with this tool use. The tool use was rejected."
INTERRUPTED = [{"type": "text", "text": "[Request interrupted by user for tool use]"}]


@pytest.mark.parametrize("more", [{"userFeedback": "Keep it."}, {}], ids=["as a field", "in the text"])
def test_the_reason_of_a_rejection_is_told(tmp_path: Path, more: dict[str, str]) -> None:
    """The round goes on with it."""
    script = Script()
    script.prompt("Go.")
    script.uses("Bash", {"command": "rm -rf build"}, "t1")
    said = f"{NO} To tell you how to proceed, the user said:\nKeep it."
    script.answers("t1", said, f"Error: {said}", failed=True, **more)
    script.says("It stays.")
    _, rejected, _, end = read(script.write(tmp_path))
    assert (rejected.kind, rejected.tool_name, rejected.tool_use_id) == ("tool_failure", "Bash", "t1")
    error = "The user rejected this: Keep it."
    assert rejected.payload == {"tool_input": {"command": "rm -rf build"}, "error": error, "rejected": "Keep it."}
    assert end.payload == {"last_assistant_message": "It stays."}


def test_an_interruption_ends_a_round(tmp_path: Path) -> None:
    """The client writes the same for a tool use that was not permitted, but names no message then."""
    ends = []
    for more in ({"interruptedMessageId": "m1"}, {}):
        script = Script()
        script.prompt("Go.")
        script.says("I'll run it.", message="m1", stop="tool_use")
        script.uses("Bash", {"command": "make soak"}, "t1", message="m1")
        script.answers("t1", f"{NO} STOP what you are doing.", "User rejected tool use", failed=True)
        script.user(INTERRUPTED, **more)
        reading = Transcript(script.write(tmp_path))
        reports = list(reading)
        assert reading.ended
        ends.append([(r.kind, r.payload) for r in reports if r.kind not in ("prompt", "reply")])
    under_way = [{"tool_name": "Bash", "tool_input": {"command": "make soak"}}]
    unfinished = {"is_interrupted": True, "is_unfinished": True}
    rejected = {"tool_input": {"command": "make soak"}, "error": "The user rejected this.", "rejected": ""}
    assert ends == [
        [("stop", {**unfinished, "under_way": under_way})],
        [("tool_failure", rejected), ("stop", unfinished)],
    ]


@pytest.mark.parametrize(
    ("more", "error"), [({}, "API Error: 529 Overloaded"), ({"error": "overloaded"}, "overloaded")], ids=["old", "new"]
)
def test_an_error_of_the_api_is_not_a_reply(tmp_path: Path, more: dict[str, str], error: str) -> None:
    """It is named as the hook names it, where the client writes that."""
    script = Script()
    script.prompt("Go.")
    script.says("Let me see.", stop="tool_use")
    script.says("API Error: 529 Overloaded", stop="stop_sequence", isApiErrorMessage=True, **more)
    *before, end = read(script.write(tmp_path))
    assert told(before) == [("prompt", "Go."), ("reply", "Let me see.")]
    assert end.payload == {"error": error, "is_unfinished": True}


def test_compaction_and_rewind_lose_nothing(tmp_path: Path) -> None:
    """The summary is told, what came before stays, and a branch that was left did happen."""
    script = Script()
    script.prompt("First.")
    fork = script.says("One.")
    script.compacts("It was about one.")
    script.prompt("Second.")
    script.uses("Bash", {"command": "a"}, "t1")
    script.answers("t1", "a")
    script.leaf = fork
    script.prompt("Second, differently.")
    script.says("Two.")
    reports = read(script.write(tmp_path))
    assert told(reports) == [
        ("prompt", "First."),
        ("reply", "One."),
        ("post_compact", "It was about one."),
        ("stop", "One."),
        ("prompt", "Second."),
        ("tool", "t1"),
        ("stop", ""),
        ("prompt", "Second, differently."),
        ("reply", "Two."),
        ("stop", "Two."),
    ]
    assert next(r for r in reports if r.kind == "post_compact").payload["trigger"] == "auto"


def test_subagents_work_belongs_to_the_session(tmp_path: Path) -> None:
    """Its tool uses under the parent's id and prompt, with the agent's; its task is no prompt, its end no stop."""
    parent = Script()
    parent.prompt("Look around.")
    path = parent.write(tmp_path)
    child = Script(prompt_id=parent.prompt_id)
    aside: dict[str, Any] = {"isSidechain": True, "agentId": "a39a"}
    child.user("look", **aside)
    child.uses("Bash", {"command": "ls"}, "t9", **aside)
    child.answers("t9", "a.txt", **aside)
    child.says("Seen.", **aside)
    child.write(tmp_path / parent.session / "subagents" / "workflows" / "w1", "agent-a39a.jsonl")
    (file,) = beside(path)
    (report,) = read(file)
    assert (report.kind, report.content_id, report.prompt_id) == ("tool", parent.session, parent.prompt_id)
    assert report.payload["agent_id"] == "a39a"


def test_a_forks_copies_are_not_told_again(tmp_path: Path) -> None:
    """A file that says when it was begun holds older lines only as copies of another conversation."""
    script = Script()
    script.prompt("Old.")
    script.says("Old answer.")
    begun = script.now.isoformat(timespec="milliseconds").replace("+00:00", "Z").replace(":03", ":04")
    script.lines.insert(0, {"type": "queue-operation", "timestamp": begun.replace("12:00:02", "12:00:03")})
    script.now = script.now.replace(minute=1)
    script.prompt("New.")
    script.says("New answer.")
    assert told(read(script.write(tmp_path))) == [
        ("prompt", "New."),
        ("reply", "New answer."),
        ("stop", "New answer."),
    ]


def test_reading_on_from_a_mark_is_the_same_as_reading_it_all(tmp_path: Path) -> None:
    """At every line at which a pass may end, what the passes tell together is what one pass tells."""
    script = Script()
    for number in range(4):
        script.prompt(f"Prompt {number}.")
        script.uses("Bash", {"command": "x"}, f"t{number}")
        script.answers(f"t{number}", "x")
        if number == 2:
            script.compacts("So far.")
        script.says(f"Answer {number}.")
    path, raw = script.write(tmp_path), script.raw()
    whole = {r.event_id: r for r in read(path, whole=False)}
    for cut in range(0, len(raw), 97):
        path.write_bytes(raw[:cut])
        first = Transcript(path)
        seen = {r.event_id: r for r in first}
        path.write_bytes(raw)
        second = Transcript(path, first.mark)
        seen |= {r.event_id: r for r in second}
        assert seen == whole, cut
    assert second.mark.offset > len(raw) // 2
    assert second.ended


def test_a_round_under_way_has_not_ended(tmp_path: Path) -> None:
    """No round end is told while the model works, unless nothing more is coming."""
    script = Script()
    script.prompt("Go.")
    script.says("Let me see.", stop="tool_use")
    script.uses("Bash", {"command": "sleep 9"}, "t1")
    path = script.write(tmp_path)
    reading = Transcript(path)
    assert told(list(reading)) == [("prompt", "Go."), ("reply", "Let me see.")]
    assert not reading.ended
    *before, end = read(path)
    assert told(before) == [("prompt", "Go."), ("reply", "Let me see.")]
    under_way = [{"tool_name": "Bash", "tool_input": {"command": "sleep 9"}}]
    assert (end.kind, end.payload) == ("stop", {"is_unfinished": True, "under_way": under_way})


def test_gzip_and_a_cut_one(tmp_path: Path) -> None:
    """Compressed it reads the same; cut off it gives what came before the cut."""
    script = Script()
    for number in range(200):
        script.prompt(f"Prompt {number} {os.urandom(50).hex()}")
        script.says("Yes.")
    plain = read(script.write(tmp_path))
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(script.raw()))
    assert read(packed) == plain
    packed.write_bytes(gzip.compress(script.raw())[:8000])
    some = read(packed)
    assert 10 < len(some) < len(plain)
    assert some[:-1] == plain[: len(some) - 1]


def test_anything_may_stand_in_the_file(tmp_path: Path) -> None:
    """Bad lines, a cut last line, unknown kinds, wrong types, depth: what is well is told, and nothing is raised."""
    script = Script()
    script.prompt("Before.")
    good = script.raw()
    odd = [
        b"not json",
        b'{"type":"user"',
        b"[" * 100_000,
        b'{"type":"user","message":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
        b"\xff\xfe\x00",
        b"null",
        b'"type":"user"',
        *(
            json.dumps(script.lines[0] | change).encode()
            for change in (
                {"message": None},
                {"message": "text"},
                {"message": {"content": 7}},
                {"message": {"content": [None, 3, {"type": "tool_result"}, {"type": "text", "text": 9}]}},
                {"type": "brand-new"},
                {"sessionId": "../../etc", "uuid": "x"},
                {"sessionId": None},
                {"uuid": 5},
                {"type": "assistant", "message": {"content": [{"type": "tool_use"}, {"type": "tool_use", "id": 3}]}},
            )
        ),
    ]
    later = Script(session=script.session)
    later.lines.append({})
    later.prompt("After.", timestamp="not a time", gitBranch=3, cwd=["x"], promptId=7)
    path = tmp_path / "odd.jsonl"
    path.write_bytes(good + b"\n".join(odd) + b"\n" + later.raw() + b'{"type":"user","message":{"con')
    assert told(read(path)) == [("prompt", "Before."), ("prompt", "After.")]


ANY = st.recursive(st.none() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))


@given(values=st.lists(ANY))
def test_no_value_anywhere_breaks_it(values: list[object], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any JSON in place of content, result, input or time."""
    script = Script()
    for value in values:
        script.prompt(value, timestamp=value, promptId=value)
        script.uses("Bash", value, "t1", requestId=value)
        script.answers("t1", value, value, agentId=value)
        script.chain("system", {"subtype": "compact_boundary", "compactMetadata": value})
        script.user(value, isCompactSummary=True)
    path = script.write(tmp_path_factory.mktemp("any"))
    for report in read(path):
        assert isinstance(report.event_id, str)
        assert report.occurred_at.endswith("Z")


def test_memory_stays_flat(tmp_path: Path) -> None:
    """A file of 100 MB, a line longer than any allowed in it, costs no more than its longest lines."""
    script = Script()
    script.prompt("Begin.")
    script.uses("Read", {"file_path": "/a"}, "t1")
    script.answers("t1", "x" * 1_000_000)
    piece = script.raw()
    path = tmp_path / "large.jsonl"
    with path.open("wb") as out:
        for _ in range(60):
            out.write(piece)
        out.write(b'{"type":"user","message":"' + b"y" * (MAX_LINE_BYTES + 10) + b'"}\n')
        out.write(piece)
    tracemalloc.start()
    count = sum(1 for _ in Transcript(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 61 * 2 + 60
    assert peak < MAX_LINE_BYTES * 2.5, resource.getrusage(resource.RUSAGE_SELF)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe under a transcript's name is refused at once."""
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(OSError, match="not a regular file"):
        read(tmp_path / "a.jsonl")
    assert Mark() == Mark(0, "")
