"""The gate: by whatever way a text comes in, private parts and keys of it are nowhere afterwards."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from box import Box, until
from endpoint import Endpoint, Request, answer
from test_private import every_file
from transcripts import Script

from backstory import gate
from backstory.exchange.turn_lines import Said
from backstory.model import ContentId, Observation, Report, Summary
from backstory.project import Project

CANARY = "canary7f3a"
KEY = "ghp_" + "Zk3vQ9mX7bT1nR5wL8yC2dF6gH4jP0sAeUiO"
BAD = f"so <private>{CANARY}</private> {KEY} it is"
EVENTS = ["SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop", "StopFailure"]
EVENTS += ["SubagentStop", "PreCompact", "PostCompact", "SessionEnd"]
HEAD = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
#: Columns that hold one of a few words, a time, or an id of ours.
FIXED = re.compile(r"status|kind|source|role|type|cause|.*_at|at|.*_source|provider|instead_of|pinned|lease_.*")


def clean(text: object) -> bool:
    told = str(text).lower()
    return CANARY not in told and KEY.lower() not in told


def test_what_carries_text_is_clean_when_it_is_made() -> None:
    """Each field of each type, also where it is made of another; a second time changes nothing."""
    report = Report(BAD, "tool", ContentId(f"a {BAD}"), BAD, "2026-01-05T12:00:00.000Z", BAD, BAD, BAD, BAD, BAD, BAD)
    report = replace(report, payload={BAD: [BAD, {BAD: BAD}], "token": KEY})
    for one in (
        report,
        replace(report, prompt_id=f"b {BAD}"),
        Project(BAD, BAD, BAD),
        Observation(BAD, BAD, BAD, BAD, (BAD,), (BAD,), (BAD,), (BAD,)),
        Summary(BAD, BAD, BAD, BAD, BAD, BAD),
        Said(BAD, BAD, 1, "user", BAD, "2026-01-05T12:00:00.000Z", BAD),
    ):
        assert clean(one)
        assert replace(one) == one


def test_ids_stay_apart_and_the_same() -> None:
    """Two ids that differ only in what is taken out are still two, and each is always the same one."""
    one, two = (gate.identifier(f"x<private>{word}</private>") for word in ("one", "two"))
    assert one != two
    assert gate.identifier(one) == one
    assert gate.identifier("plain-id") == "plain-id"


def test_a_payload_that_no_table_takes_is_made_to_fit() -> None:
    """Too deep, too large, with null characters and halves of pairs: kept as far as can be, and clean."""
    deep: Any = BAD
    for _ in range(80):
        deep = [deep]
    payload = {"deep": deep, "large": f"{KEY} word " * 100_000 + BAD, "odd": f"\0 \ud83d {BAD}", "plain": "stays"}
    told = gate.payload(payload)
    assert clean(told)
    assert told["plain"] == "stays"
    assert len(json.dumps(told).encode()) < 1 << 20
    assert "\0" not in told["odd"]


@pytest.fixture
def box(box: Box) -> Box:
    """A project whose branch and remote hold what nobody should see."""
    dot = box.project / ".git"
    dot.mkdir()
    (dot / "HEAD").write_text(f"ref: refs/heads/{BAD}\n")
    (dot / "config").write_text(f'[remote "origin"]\n\turl = file:{KEY}/<private>{CANARY}</private>\n')
    return box


@contextmanager
def heard(box: Box) -> Iterator[list[bytes]]:
    """What the live stream tells meanwhile."""
    connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=120)
    connection.request("GET", "/stream", headers={"Authorization": f"Bearer {box.token}"})
    stream, told = connection.getresponse(), list[bytes]()

    def listen() -> None:
        try:
            while line := stream.readline():
                told.append(line)
        except (OSError, ValueError):
            return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        if connection.sock:
            connection.sock.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        stream.close()
        connection.close()


def transcript(box: Box) -> Path:
    """A conversation of which hooks told only the beginning and the end."""
    script = Script(session=KEY, cwd=str(box.project), now=datetime.now(UTC))
    script.prompt(f"transcript {BAD}")
    script.uses(f"Bash {BAD}", {BAD: BAD}, f"use {BAD}", gitBranch=BAD)
    script.answers(f"use {BAD}", BAD)
    script.says(f"the last words {BAD}")
    return script.write(box.home / ".claude" / "projects" / "shop", "t.jsonl")


def by_hooks(box: Box) -> None:
    """The route, by itself: the hook would have stripped it."""
    path = str(transcript(box))
    fields = ["prompt", "source", "reason", "error", "tool_name", "tool_use_id", "agent_type", "trigger"]
    fields += ["compact_summary", "last_user_message", "model", "session_title", "custom_instructions"]
    for event in EVENTS:
        payload: dict[str, Any] = {"session_id": f"h {BAD}", "cwd": f"{box.project}", "transcript_path": path}
        payload |= {name: f"{event} {BAD}" for name in fields} | {"prompt_id": f"p {BAD}"}
        payload |= {"tool_input": {BAD: [BAD, {"k": BAD}]}, "tool_response": BAD}
        head = {"X-Backstory-Event": f"{event} {BAD}"}
        assert box.http("POST", f"/hooks/claude-code/{event}", payload, head).status == 200
    ended = {"session_id": KEY, "cwd": BAD, "transcript_path": path}
    asked = ended | {"prompt": f"transcript {BAD}", "prompt_id": "p0"}
    assert box.http("POST", "/hooks/claude-code/UserPromptSubmit", asked).status == 200
    assert box.http("POST", "/hooks/claude-code/Stop", ended | {"prompt_id": "p0"}).status == 200
    for code in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"):
        told = json.dumps(payload).encode(code)
        assert box.http("POST", "/hooks/claude-code/PostToolUse", told).status == 400
        assert box.http("POST", "/api/memories", json.dumps({"text": BAD, "project": "p"}).encode(code)).status == 400
        assert box.hook("PostToolUse", told).returncode == 0


def by_the_seeds_routes(box: Box) -> None:
    who = {"claudeSessionId": f"s {BAD}", "project": f"p {BAD}", "cwd": "", "event_id": BAD}
    made = box.client.post("/api/sessions/init", who | {"userPrompt": BAD})
    box.client.post(f"/api/sessions/{made['sessionDbId']}/init", {"userPrompt": f"again {BAD}", "project": BAD})
    used = {"tool_name": BAD, "tool_input": {BAD: BAD}, "tool_response": [BAD], "tool_use_id": BAD}
    box.client.post("/api/sessions/observations", who | used | {"event_id": f"2 {BAD}"})
    said = {"last_assistant_message": BAD, "last_user_message": BAD}
    box.client.post("/api/sessions/summarize", who | said | {"event_id": f"3 {BAD}"})
    box.client.post("/api/sessions/complete", who | {"reason": BAD, "event_id": f"4 {BAD}"})


def by_imports(box: Box) -> None:
    at = "2026-01-05T12:00:00.000Z"
    report: dict[str, Any] = {"kind": "tool", "session_id": f"i {BAD}", "event_id": BAD, "occurred_at": at, "cwd": BAD}
    report |= {name: BAD for name in ("git_branch", "tool_name", "tool_use_id", "prompt_id")}
    report["payload"] = {BAD: BAD}
    reply: dict[str, Any] = {"kind": "reply", "session_id": f"i {BAD}", "event_id": f"r {BAD}", "occurred_at": at}
    reply["payload"] = {"text": BAD}
    file = {"path": BAD, "inode": 1, "size": 1, "changed_ns": 1}
    box.client.post("/api/import/reports", {"reports": [report, reply], "project": BAD, "done": file})
    assert box.client.get("/api/import/reports", path=BAD)["file"]["size"] == 1
    turn = {"session": f"c {BAD}", "number": 0, "role": "user", "text": BAD, "at": at, "project": BAD, "speaker": BAD}
    box.client.post("/api/import/turns", {"turns": [turn, turn | {"number": 1, "role": "assistant"}]})


def by_transcripts(box: Box) -> None:
    """Entries of a kept transcript, by a program and from the file."""
    names = {"project_key": f"k {BAD}", "session_id": f"k {BAD}", "subpath": f"subagents/{BAD}", "cwd": BAD}
    message = {"role": "user", "content": [{"type": "text", "text": BAD}, {"type": "tool_use", "input": {BAD: BAD}}]}
    entry = {"type": BAD, "uuid": f"u {BAD}", "message": message, "toolUseResult": {BAD: [BAD]}, BAD: BAD, "cwd": BAD}
    box.client.post("/api/transcripts/entries", names | {"entries": [entry, {"type": "title", "title": BAD}]})
    box.client.post("/api/transcripts", {"path": str(transcript(box))})


def by_rows(box: Box) -> None:
    """An export of what is here, with every free text of it spoiled."""
    rows = []
    for line in box.http("GET", "/api/export").body.splitlines()[1:-1]:
        told = json.loads(line)
        table, row = told["table"], told["row"]
        for name, value in row.items():
            if isinstance(value, str) and not FIXED.fullmatch(name):
                row[name] = {"[": json.dumps([BAD]), "{": json.dumps({"x": BAD})}.get(value[:1], BAD)
        rows.append({"table": table, "row": row})
    assert len({row["table"] for row in rows}) > 6
    taken = box.client.post("/api/import/rows", {"import_id": BAD, "rows": rows, "done": True})
    assert taken["added"] > 10


def by_hand(box: Box) -> None:
    memory = {"text": f"kept {BAD}", "title": BAD, "type": "decision", "concepts": [BAD], "project": f"m {BAD}"}
    row = box.client.post("/api/memories", memory | {"event_id": BAD})
    edit = {"title": f"new {BAD}", "subtitle": BAD, "narrative": BAD, "facts": [BAD], "concepts": [BAD]}
    box.client.patch(f"/api/observations/{row['id']}", edit)
    call = {"name": "remember", "arguments": {"text": f"by a tool {BAD}", "project": BAD}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    told = box.http("POST", "/mcp", asked, HEAD | {"X-Backstory-Cwd": BAD})
    assert "Remembered" in told.body.decode()


def by_the_spool(box: Box) -> None:
    """Files that our hook did not write."""
    payload = {"session_id": f"f {BAD}", "tool_name": BAD, "tool_input": {BAD: BAD}, "cwd": BAD}
    folder = box.data / "spool"
    folder.mkdir(exist_ok=True)
    for number, raw in enumerate((json.dumps(payload).encode(), json.dumps(payload).encode("utf-16"), BAD.encode())):
        (folder / f"{number:013x}-0000000000000000.claude-code.PostToolUse.json").write_bytes(raw)
    until(lambda: not box.spooled(), "the spool to be empty")


def spoiled(request: Request) -> str:
    """A model that repeats a key wherever it can."""
    return answer(request).replace("A fact of", f"A fact of {KEY}").replace("All done", f"All done {KEY}")


def test_no_way_in_leaves_anything(box: Box) -> None:
    """Every path, with a private text and a key in every string: in no file, no export, no stream, no request."""
    with Endpoint(spoiled) as endpoint:
        box.settings |= {"BACKSTORY_PROVIDER": "openai", "BACKSTORY_MODEL": "scripted", "BACKSTORY_API_KEY": "sk-test"}
        box.settings |= {"BACKSTORY_BASE_URL": f"{endpoint.url}/v1"}
        box.tuning["settle_seconds"] = 0.2  # many rounds have no end, and how often each is observed does not matter
        box.shim  # noqa: B018 - transcripts are read from the install on
        box.start()
        with heard(box) as told:
            for way in (by_hooks, by_the_seeds_routes, by_imports, by_transcripts, by_hand, by_the_spool):
                way(box)
            box.settle()
            by_rows(box)
            box.settle()
            words = "SELECT 1 FROM turns WHERE text LIKE 'the last words%'"
            until(lambda: box.rows(words), "the last message of the transcript")
            used = "SELECT 1 FROM events WHERE tool_use_id LIKE 'use so%'"
            until(lambda: box.rows(used), "the rest of the transcript")
            box.settle()
            assert not box.rows("SELECT 1 FROM events WHERE reason = 'untold'")
            assert len(box.rows("SELECT DISTINCT content_session_id FROM sdk_sessions")) >= 6
            export = box.http("GET", "/api/export").body
            assert endpoint.requests
            assert all(clean(json.dumps(request.body)) for request in endpoint.requests)
        assert told
        assert clean(b"".join(told).decode())
        assert clean(export.decode())
    needles = [text.lower().encode(code) for text in (CANARY, KEY) for code in ("utf-8", "utf-16-le", "utf-32-le")]
    for file in every_file(box.data):
        raw = file.read_bytes().lower()
        assert not [needle for needle in needles if needle in raw], file.name
    for table in ("events", "transcript_entries"):
        for row in box.rows(f"SELECT payload FROM {table} WHERE typeof(payload) = 'blob'"):  # noqa: S608
            assert clean(row["payload"])
