"""Compaction: the agent is told what it was doing, and reads back every word; through the hook and the real client."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import shared_box
from box import Box, until
from claude import Claude, binary
from endpoint import Endpoint, Fault, Kind, Reply, Request, Step, text, tool_use
from test_claude import fix_it, settings, shop  # noqa: F401 - a fixture
from test_claude_tools import once_offered, results
from test_private import assert_nowhere
from transcripts import Script

from backstory.text import tokens

shared = shared_box.shared

real = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")
CANARY = "quagga7c1d"


def client(box: Box, endpoint: Endpoint) -> Claude:
    return Claude(box.home, box.project, endpoint, env=settings(box))


def compact(box: Box, session: str) -> None:
    with Endpoint([]) as endpoint:
        client(box, endpoint).run("/compact", f"--resume={session}", timeout=120)
    box.settle()


def page(box: Box, session: str, segment: int = 0, number: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = box.client.get(f"/api/sessions/{session}/turns/text", segment=segment, page=number)
    return found


def whole(box: Box, session: str, segment: int = 0) -> str:
    """All pages of a segment."""
    count = page(box, session, segment)["pages"]
    return "\n".join(page(box, session, segment, number + 1)["text"] for number in range(count))


def context_of(request: Request) -> str:
    """The last of our contexts in a request."""
    return [words for words in request.texts() if "<backstory-context>" in words][-1]


@real
def test_two_compactions_give_two_segments_and_no_text_twice(shop: Box) -> None:  # noqa: F811
    """Each word is in its segment, once; and the model reads it back with the tool that its context names."""
    session = fix_it(shop)
    compact(shop, session)
    with Endpoint(["The discount is ten percent, as the shop's owner wants it."]) as endpoint:
        client(shop, endpoint).run("What about discounts?", f"--resume={session}", timeout=120)
        context = context_of(endpoint.of(Kind.MAIN)[0])
    assert "before it was compacted" in context
    assert "Asked: Nothing should cost nothing." in context
    assert "That was answered." in context
    assert "with id 1, segment 1, page -1" in context
    compact(shop, session)
    asked = {"id": 1, "segment": 2, "page": -1}
    script: list[Step] = [tool_use("mcp__backstory__get_turns", asked), "It was ten percent."]
    with Endpoint(once_offered(script)) as endpoint:
        client(shop, endpoint).run("How much was it?", f"--resume={session}", timeout=120)
        first, *_, last = endpoint.of(Kind.MAIN)
    assert "with id 1, segment 2, page -1" in context_of(first)
    assert "Asked last: What about discounts?" in context_of(first)
    answer, failed = results(last)[-1]
    assert not failed and answer.startswith("S1, segment 2 of 3, page 1 of 1\n")
    assert "as the shop's owner wants it" in answer and "Nothing should cost" not in answer
    shop.settle()
    parts = [whole(shop, session, number) for number in (1, 2, 3)]
    expected = (
        ("Nothing should cost nothing.", "I'll look.", "- Edit money.py", "Fixed: `total` added one to every sum."),
        ("What about discounts?", "The discount is ten percent"),
        ("How much was it?", "It was ten percent."),
    )
    for part, sentences in zip(parts, expected, strict=True):
        for sentence in sentences:
            assert part.count(sentence) == 1, sentence
            assert sum(other.count(sentence) for other in parts) == 1, sentence
            assert whole(shop, session).count(sentence) == 1, sentence
    assert "A change was asked for, made and tested" not in "".join(parts), "the client's own summary was not said"
    assert [row["number"] for row in shop.client.get("/api/sessions/1")["segments"]] == [1, 2, 3]
    assert len(shop.rows("SELECT 1 FROM session_summaries WHERE source = 'compact'")) == 2
    (row,) = shop.rows("SELECT status, prompt_counter FROM sdk_sessions")
    assert row == {"status": "completed", "prompt_counter": 3}


class Thinking(Endpoint):
    """A model that takes its time for a summary, as they do."""

    def __init__(self, steps: list[Step], done: Callable[[], Any]) -> None:
        super().__init__(steps)
        self._done = done

    def answer(self, request: Request) -> Reply | Fault:
        if request.kind == Kind.COMPACT:
            until(self._done, "the transcript to be read")
        return super().answer(request)


@real
def test_in_the_middle_of_a_round_the_agent_is_told_what_was_under_way(shop: Box) -> None:  # noqa: F811
    """The client compacts by itself between two tool uses. Its next request has the request, and the last steps."""
    request = "Find out which prices are wrong. Touch nothing in the folder `vendor`."
    listing = tool_use("Bash", {"command": "ls", "description": "List"})
    steps: list[Step] = [
        Reply([text("First I list the files."), listing], input_tokens=199_000),
        Reply([tool_use("Bash", {"command": "cat money.py", "description": "Look"})], input_tokens=199_000),
        "No price is wrong.",
    ]
    with Thinking(steps, lambda: shop.rows("SELECT 1 FROM turns WHERE text LIKE 'First I list%'")) as endpoint:
        session = client(shop, endpoint).run(request, "--autocompact=100k", timeout=120).session_id
        assert [r.kind for r in endpoint.requests if r.kind != Kind.SIDE][-2:] == [Kind.COMPACT, Kind.MAIN]
        context = context_of(endpoint.of(Kind.MAIN)[-1])
    assert f"Asked: {request}" in context
    assert "That was not answered yet. Said last: First I list the files." in context
    assert "Done last: Bash ls" in context
    assert "segment 1, page -1" in context
    shop.settle()
    until(lambda: "No price is wrong." in whole(shop, session), "the last reply")
    assert "First I list the files." in whole(shop, session, 1)
    assert "No price is wrong." not in whole(shop, session, 1)
    assert "No price is wrong." in whole(shop, session, 2)


def told(box: Box, session: str, words: str) -> str:
    """The context after a compaction. A busy machine may need more than the hook's time for the first one."""
    found: str = until(lambda: (context := box.told(session, "compact")) and words in context and context, words)
    return found


def installed_an_hour_ago(box: Box) -> None:
    """So that the lines that a test writes are read."""
    box.cli("install", "--agent", "claude-code")
    for record in (box.data / "installs").glob("*.json"):
        os.utime(record, (time.time() - 3600, time.time() - 3600))


def hook(box: Box, talk: Script, event: str, path: Path | None = None, **payload: Any) -> bytes:
    more = {"transcript_path": str(path)} if path else {}
    answer = box.hook(event, {"session_id": talk.session} | more | payload)
    assert (answer.returncode, answer.stderr) == (0, b"")
    return answer.stdout


def test_what_no_hook_told_is_in_the_context_all_the_same(running: Box) -> None:
    """PreCompact has the transcript read up to this point."""
    installed_an_hour_ago(running)
    talk = Script(cwd=str(running.project), now=datetime.now(UTC) - timedelta(seconds=20))
    talk.prompt("Why is the till slow? Measure before you change anything.")
    talk.says("I measure the query first.", stop="tool_use")
    talk.uses("Bash", {"command": "explain.sh orders"}, "t1")
    talk.answers("t1", "Exit code 1\nno such table: orders", failed=True)
    talk.says("The table has another name; I look for it.", stop="tool_use")
    path = talk.write(running.home / ".claude" / "projects" / "shop")
    assert hook(running, talk, "PreCompact", path, trigger="auto") == b""
    context = told(running, talk.session, "Done last")
    assert "Asked: Why is the till slow? Measure before you change anything." in context
    assert "not answered yet." in context and "The table has another name; I look for it." in context
    assert "Done last: Bash explain.sh orders (failed: Exit code 1 no such table: orders)" in context
    assert "`get_turns` with id 1, segment 1, page -1" in context
    talk.now = datetime.now(UTC)
    talk.compacts("It was about the till.")
    talk.says("It is called `sale`.")
    path = talk.write(path.parent)
    hook(running, talk, "Stop", path)
    until(lambda: "It is called" in whole(running, talk.session), "the transcript")
    assert whole(running, talk.session).count("I measure the query first.") == 1
    (begun,) = running.rows("SELECT occurred_at FROM events WHERE kind = 'pre_compact'")
    segments = running.client.get("/api/sessions/1")["segments"]
    assert [segment["since"] for segment in segments] == ["", begun["occurred_at"]]
    assert "It is called `sale`." in whole(running, talk.session, 2)
    assert told(running, talk.session, "That was answered.")


def test_a_short_request_is_told_with_the_reply_before_it(shared: Box) -> None:
    """`yes, do that` says nothing by itself."""
    running = shared
    for prompt, reply in (("How can the till be faster?", "With an index on `sale.day`. Shall I add it?"), ("yes", "")):
        running.hook("UserPromptSubmit", {"session_id": "s", "prompt": prompt})
        if reply:
            running.hook("Stop", {"session_id": "s", "last_assistant_message": reply})
    running.hook("PreCompact", {"session_id": "s", "trigger": "auto"})
    context = told(running, "s", "Asked last")
    assert "Asked: How can the till be faster?\nLast reply: With an index on `sale.day`. Shall I add it?\n" in context
    assert "Asked last: yes\nThat was not answered yet.\n" in context


def test_what_is_private_is_told_by_nobody(shared: Box) -> None:
    """The last request is private: this is said, and no earlier request passes for it."""
    running, private = shared, {"session_id": "private"}
    running.hook("UserPromptSubmit", private | {"prompt": "Count the shelves in the store room."})
    running.hook("Stop", private | {"last_assistant_message": "There are nine."})
    running.hook("UserPromptSubmit", private | {"prompt": f"<private>{CANARY}</private>"})
    running.hook("PostToolUse", private | {"tool_name": "Bash", "tool_input": {"command": f"cat {CANARY}"}})
    running.hook("PreCompact", private | {"trigger": "auto"})
    context = told(running, "private", "Asked: Count the shelves")
    assert "What was asked last was not kept: it is private or was forgotten." in context
    assert CANARY not in context + whole(running, "private") and "answered" not in context
    assert "(private or forgotten)" in whole(running, "private", 1)
    assert_nowhere(running, CANARY)


def test_the_context_stays_small_and_on_time(box: Box) -> None:
    """Huge requests, many observations, and an observer that is not done: the hook prints it, so it was in time."""
    box.tuning["settle_seconds"] = 600
    box.start()
    box.cli("install", "--agent", "claude-code")
    for number in range(30):
        box.client.post("/api/memories", {"text": f"Rule {number}: " + "never again " * 30, "cwd": str(box.project)})
    for number in range(3):
        box.hook("UserPromptSubmit", {"session_id": "s", "prompt": f"Task {number}. " + "Do it well. " * 5000 + "END?"})
        box.hook("PostToolUse", {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "make " * 9000}})
    context = told(box, "s", "Asked: Task 0.")
    assert tokens(context) <= 1600 and len(context) < 9500
    assert "END?" in context and "That was not answered yet." in context
    assert "never again" in context, "what the session was told at its start is gone with the rest"
    assert context.endswith("\n</backstory-context>")


def test_with_the_worker_away_the_segments_are_the_same(box: Box) -> None:
    """Every hook is spooled, and the transcript is read after them: each word is in its segment and in its order."""
    installed_an_hour_ago(box)
    start = box.data / "bin" / "backstory-worker"
    program = start.read_bytes()
    start.write_text("#!/bin/sh\nexit 1\n")
    talk = Script(cwd=str(box.project), now=datetime.now(UTC))
    folder = box.home / ".claude" / "projects" / "shop"

    def now(lines: int = 1) -> None:
        talk.now = datetime.now(UTC) - timedelta(seconds=lines)  # each line is a second later than the one before

    for name in ("one", "two"):
        for event, line in (("UserPromptSubmit", talk.prompt), ("Stop", talk.says)):
            now()
            words = f"{event} {name}."
            line(words)
            hook(box, talk, event, talk.write(folder), prompt=words, last_assistant_message=words)
        hook(box, talk, "PreCompact", talk.write(folder), trigger="manual")
        now(2)
        talk.compacts("So far.")
        hook(box, talk, "SessionStart", talk.write(folder), source="compact")
    start.write_bytes(program)
    box.cli("start")
    box.settle()
    until(lambda: len(box.rows("SELECT 1 FROM turns WHERE mark IS NOT NULL")) >= 2, "the transcript")
    for number, name in ((1, "one"), (2, "two")):
        said = whole(box, talk.session, number)
        assert [said.count(f"{event} {name}.") for event in ("UserPromptSubmit", "Stop")] == [1, 1]
        assert said.index("UserPromptSubmit") < said.index("Stop")
        assert len(said.split("[")) == 3
    assert page(box, talk.session, 3)["text"] == "(Nothing was said.)"
    box.cli("stop")


def test_pages_of_a_long_conversation_are_read_one_by_one(running: Box) -> None:
    """Through the tool: each says where it is and what comes next, and wrong numbers are refused in a sentence."""
    for number in range(12):
        about = {"session_id": "s", "cwd": str(running.project)}
        asked, said = f"Question {number}: " + "why? " * 400, f"Answer {number}. " + "so. " * 400
        running.client.post("/hooks/claude-code/UserPromptSubmit", about | {"prompt": asked})
        running.client.post("/hooks/claude-code/Stop", about | {"last_assistant_message": said})

    def call(**arguments: Any) -> tuple[str, bool]:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        body |= {"params": {"name": "get_turns", "arguments": {"id": "s"} | arguments}}
        head = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        result = running.http("POST", "/mcp", body, head).json["result"]
        return result["content"][0]["text"], result["isError"]

    first, failed = call()
    assert not failed
    count = int(first.partition(" of ")[2].partition("\n")[0])
    assert count > 3 and first.startswith(f"S1, page 1 of {count}\n\n[0] user, ") and first.endswith("(page 2 goes on)")
    pages = [call(page=number + 1)[0] for number in range(count)]
    assert pages[0] == first and call(page=-1)[0] == pages[-1] and call(page=-count)[0] == first
    for number in range(12):
        assert sum(page.count(f"Question {number}:") for page in pages) == 1
        assert sum(page.count(f"Answer {number}.") for page in pages) == 1
    assert call(page=count + 1) == (f"There is no page {count + 1}: this session has {count} pages.", True)
    assert call(segment=2) == ("There is no segment 2: this session has 1 segment.", True)
    assert call(segment=1, page=-99) == (f"There is no page -99: segment 1 has {count} pages.", True)
    assert call(page=0) == (f"There is no page 0: this session has {count} pages.", True)
    assert call(id="nobody") == ("There is no session nobody.", True)
