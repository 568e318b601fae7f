"""I14: private text is never on disk, in a request, in an answer, or in a log."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import shared_box
from box import Box, until

from backstory.secret_formats import FORMATS
from backstory.secret_kinds import SECRETS

shared = shared_box.shared

CANARY = "canary7f3a"


def tool(**more: Any) -> dict[str, Any]:
    return {"session_id": "x", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": "ok"} | more


#: Where a canary can sit: name, event, payload.
PLACES: list[tuple[str, str, dict[str, Any] | bytes]] = [
    ("prompt", "UserPromptSubmit", {"session_id": "x", "prompt": f"look <private>{CANARY}</private> here"}),
    ("whole prompt", "UserPromptSubmit", {"session_id": "x", "prompt": f"<private>{CANARY}</private>"}),
    ("nested", "PostToolUse", tool(tool_response=f"<private>a <private>b</private> {CANARY}</private> seen")),
    ("unclosed", "PostToolUse", tool(tool_response=f"start <private> {CANARY}", error=CANARY)),
    ("split over fields", "PostToolUse", tool(tool_input={"a": "<private>", "b": CANARY, "c": "</private> c"})),
    (
        "split over depth",
        "PostToolUse",
        tool(tool_input={"a": ["<private>", {"k": CANARY}]}, tool_response=f"{CANARY}</private>"),
    ),
    ("150 tags", "PostToolUse", tool(tool_response="<private>x</private>" * 150 + CANARY)),
    ("tool input", "PostToolUse", tool(tool_input={"command": f"echo <private>{CANARY}</private>"})),
    ("a key", "PostToolUse", tool(tool_input={f"<private>{CANARY}</private>": 1})),
    ("upper case", "PostToolUse", tool(tool_response=f"<PRIVATE>{CANARY}</Private>")),
    ("attributes", "PostToolUse", tool(tool_response=f'<private why="so">{CANARY}</private >')),
    ("failure", "PostToolUseFailure", tool(error=f"Exit code 1\n<private>{CANARY}</private>")),
    ("last message", "Stop", {"session_id": "x", "last_assistant_message": f"Done. <private>{CANARY}</private>"}),
    ("summary", "PostCompact", {"session_id": "x", "compact_summary": f"So: <private>{CANARY}</private>"}),
    ("memory of another", "PostToolUse", tool(tool_response=f"<claude-mem-context>{CANARY}</claude-mem-context>")),
    ("our own memory", "PostToolUse", tool(tool_response=f"<backstory-context>{CANARY}</backstory-context>")),
    (
        "escaped",
        "PostToolUse",
        json.dumps(tool(tool_response=f"<private>{CANARY}</private>"))
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .encode(),
    ),
    (
        "escaped twice",
        "PostToolUse",
        tool(
            tool_response=json.dumps({"a": f"<private>{CANARY}</private>"})
            .replace("<", "\\u003c")
            .replace(">", "\\u003e")
        ),
    ),
    ("json in json", "PostToolUse", tool(tool_response=json.dumps({"a": json.dumps(f"<private>{CANARY}</private>")}))),
    (
        "mistyped",
        "PostToolUse",
        tool(
            tool_response=f"< private>{CANARY}</ private> &lt;private&gt;{CANARY}&lt;/private&gt; "
            f"\uff1cprivate\uff1e{CANARY}\uff1c/private\uff1e <pri\u200bvate>{CANARY}</private>"
        ),
    ),
    ("UTF-16", "PostToolUse", json.dumps(tool(tool_response=f"<private>{CANARY}</private>")).encode("utf-16")),
    ("not json", "PostToolUse", f'{{"session_id": "x", <private>{CANARY}'.encode()),
    ("large", "PostToolUse", tool(tool_response="y " * 300_000 + f"<private>{CANARY}</private>" + " z" * 300_000)),
    ("large, unclosed", "PostToolUse", tool(tool_response="y " * 60_000 + "<private>" + f" {CANARY} " * 100_000)),
]


def every_file(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        yield from (Path(folder) / name for name in names if not Path(folder, name).is_socket())


def assert_nowhere(box: Box, *needles: str) -> None:
    """In no file under the data directory: database, write-ahead log, spool, log."""
    for file in every_file(box.data):
        try:
            raw = file.read_bytes()
        except FileNotFoundError:  # a backup that was just finished
            continue
        for needle in needles:
            for code in ("utf-8", "utf-16-le"):
                assert needle.encode(code) not in raw, f"{needle!r} in {file.relative_to(box.data)}"
    if (box.data / "backstory.db").exists() and box.rows("SELECT 1 FROM sqlite_schema WHERE name = 'events'"):
        for row in box.rows("SELECT payload FROM events WHERE typeof(payload) = 'blob'"):
            assert not any(needle in row["payload"] for needle in needles), "in a packed payload"
        for row in box.rows("SELECT title, body AS payload FROM word_texts"):
            assert not any(needle in row["payload"] for needle in needles), "in an indexed text"


def marked(name: str, payload: dict[str, Any] | bytes) -> tuple[str, dict[str, Any] | bytes]:
    """A canary that names its place, and the payload with it, in a session of its own where it is no bytes."""
    mark = CANARY + re.sub(r"\W", "", name)
    if isinstance(payload, dict):
        return mark, json.loads(json.dumps(payload).replace(CANARY, mark)) | {"session_id": name}
    for code in ("utf-8", "utf-16-le"):
        payload = payload.replace(CANARY.encode(code), mark.encode(code))
    return mark, payload


def test_i14_a_canary_goes_nowhere(box: Box) -> None:
    """From each place, with the worker away (the spool), and with it up: no file and no answer has it."""
    box.shim.with_name("backstory-worker").write_text("#!/bin/sh\nexit 1\n")  # no hook brings it up
    places = [(event, *marked(name, payload)) for name, event, payload in PLACES]
    for event, mark, payload in places:
        away = box.hook(event, payload)
        assert CANARY.encode() not in away.stdout + away.stderr, mark
    assert len(box.spooled()) > len(places) - 4
    marks = [mark for _, mark, _ in places]
    assert_nowhere(box, *marks)
    box.start()
    until(lambda: not box.spooled(), "the spool to be empty")
    for (name, _, _), (event, mark, payload) in zip(PLACES, places, strict=True):
        session = name if isinstance(payload, dict) else "x"
        box.hook("UserPromptSubmit", {"session_id": session, "prompt": "and now"})
        up = box.hook(event, payload)
        box.hook("Stop", {"session_id": session, "last_assistant_message": "Finished."})
        assert CANARY.encode() not in up.stdout + up.stderr, mark
    box.settle()
    assert len(box.rows("SELECT 1 FROM sdk_sessions")) > len(places) - 4
    assert_nowhere(box, *marks)
    assert CANARY not in box.told()
    assert CANARY not in json.dumps(box.client.get("/api/search", query=CANARY))


def test_i14_the_api_strips_too(shared: Box) -> None:
    """Whoever sends without a hook is stripped by the worker before it writes."""
    running, hidden = shared, f"<private>{CANARY}</private>"
    running.client.post("/api/sessions/init", {"sessionId": "x", "userPrompt": f"visible {hidden}", "project": "p"})
    running.client.post(
        "/api/sessions/observations",
        {"claudeSessionId": "x", "tool_name": "T", "tool_input": {"a": hidden}, "tool_response": f"{hidden} seen"},
    )
    running.client.post("/api/sessions/summarize", {"claudeSessionId": "x", "last_assistant_message": f"ok {hidden}"})
    running.settle()
    assert_nowhere(running, CANARY)
    assert running.rows("SELECT prompt FROM user_prompts")[0]["prompt"].strip() == "visible"


def test_i14_a_canary_is_not_in_the_hooks_request(box: Box) -> None:
    """What leaves the hook's process has it no more: a stand-in for the worker writes down every byte."""
    box.shim  # noqa: B018 - the data directory, and the way in
    heard: list[bytes] = []

    def listen(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                data = b""
                while not _whole(data) and (chunk := connection.recv(1 << 20)):
                    data += chunk
                heard.append(data)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    here = Path.cwd()
    os.chdir(box.data)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("worker.sock")
        os.chdir(here)
        server.listen()
        thread = threading.Thread(target=listen, args=(server,), daemon=True)
        thread.start()
        for _, event, payload in PLACES:
            box.hook(event, payload)
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    assert len(heard) == len(PLACES)
    assert not [data for data in heard for code in ("utf-8", "utf-16-le") if CANARY.encode(code) in data]


def _whole(data: bytes) -> bool:
    head, found, body = data.partition(b"\r\n\r\n")
    return bool(found) and len(body) >= int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])


@pytest.mark.usefixtures("meaning")
def test_i14_planted_secrets_are_found_nowhere(box: Box) -> None:
    """Every kind, in input, output, prompt and message; by the hook, by the spool and over HTTP."""
    rows = [*SECRETS[::4], *FORMATS]  # each kind by itself is tried in test_privacy.py
    samples = [sample for _, _, _, samples in rows for sample in samples]
    for sample in samples[::3]:
        box.hook(
            "PostToolUse", tool(tool_input={"command": f"export X={sample}"}, tool_response=f"it is {sample}\nend")
        )
    box.start()
    for sample in samples[1::3]:
        box.hook("PostToolUse", tool(tool_input={"command": f"run {sample}"}, tool_response={"stdout": f"{sample}\n"}))
    for sample in samples:
        box.client.post(
            "/api/sessions/observations", {"claudeSessionId": "y", "tool_name": "T", "tool_response": f"a {sample} b"}
        )
    everything = "\n".join(samples)
    box.hook("UserPromptSubmit", {"session_id": "x", "prompt": f"use these:\n{everything}"})
    box.hook("PostToolUse", tool(tool_response="y " * 200_000 + f"\n{everything}\n"))
    box.hook("Stop", {"session_id": "x", "last_assistant_message": f"I used\n{everything}"})
    box.settle()
    parts = [max(sample.replace("\n", " ").split(), key=len) for sample in samples]
    secret = [part.rpartition("=")[2] if "=" in part[:40] and not part.endswith("=") else part for part in parts]
    assert_nowhere(box, *[s for s in secret if "://" not in s and len(s) > 12])
    assert_nowhere(box, "pa55pa55")
    assert any("[redacted:" in row["payload"] for row in box.rows("SELECT payload FROM events WHERE payload <> ''"))


def test_a_key_at_the_cut_of_a_large_answer_is_not_stored_in_half(shared: Box) -> None:
    """A response that is cut in the middle is cut between words."""
    from backstory.truncate import MAX_FIELD_CHARS

    key = "ghp_" + "a1B2" * 9
    for shift in range(0, 40, 7):
        text = "w" * (MAX_FIELD_CHARS * 2 // 3 - 30 + shift) + " " + key + " " + "v " * MAX_FIELD_CHARS
        body = {"claudeSessionId": "cut", "tool_name": "T", "tool_response": text}
        shared.client.post("/api/sessions/observations", body)
    assert_nowhere(shared, key[:12], key[-12:])


def test_files_and_folders_are_for_their_owner_only(shared: Box) -> None:
    """Directory 0700; socket, database, token, log and spool 0600."""
    running = shared
    running.hook("PostToolUse", tool())
    assert running.data.stat().st_mode & 0o777 == 0o700
    for file in every_file(running.data):
        if file.parent.name != "bin":
            assert file.stat().st_mode & 0o077 == 0, file
    assert (running.data / "worker.sock").stat().st_mode & 0o777 == 0o600
