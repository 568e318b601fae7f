"""A hook and a worker of different versions understand each other, and nothing piles up between them."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from box import Box, until

from backstory import __version__

SOURCE = Path(__file__).parent.parent.parent / "src" / "backstory"


def send(box: Box, route: str, payload: dict[str, Any], headers: str = "") -> tuple[int, bytes]:
    """What a hook of another version writes to the socket, byte for byte."""
    body = json.dumps({"cwd": str(box.project)} | payload).encode()
    head = (
        f"POST {route} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(120)
        connection.connect(str(box.data / "worker.sock"))
        connection.sendall(head.encode() + body)
        answer = b""
        while chunk := connection.recv(1 << 16):
            answer += chunk
    head_, _, rest = answer.partition(b"\r\n\r\n")
    return int(head_[9:12]), rest


def left(box: Box) -> list[str]:
    """What a hook left on disk because the worker would not have it."""
    return [str(file) for file in (box.data / "spool").rglob("*.json")]


def test_i18_a_hook_of_an_older_or_a_newer_version(running: Box) -> None:
    """No id of its own, no content type: it is taken in all the same. Headers, query, fields and a form of id that we
    do not know are tolerated; the id still makes it one event. Another route is a 404, which a hook keeps aside."""
    assert send(running, "/hooks/claude-code/UserPromptSubmit", {"session_id": "s", "prompt": "Go."})[0] == 200
    assert running.rows("SELECT prompt FROM user_prompts") == [{"prompt": "Go."}]
    headers = "X-Backstory-Event: v7:0199-abc\r\nX-Backstory-Protocol: 9\r\nX-Backstory-Via: plugin\r\n"
    use = {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "ls"}, "hologram": {"deep": [1, 2]}}
    for _ in range(2):
        status, reply = send(running, "/hooks/claude-code/PostToolUse?v=9", use, headers)
        assert (status, json.loads(reply)) == (200, {"continue": True, "suppressOutput": True})
    (row,) = running.rows("SELECT event_id, payload FROM events WHERE kind = 'tool'")
    assert row["event_id"] == "v7:0199-abc"
    assert "hologram" not in row["payload"]
    assert send(running, "/hooks/holo-coder/Stop", {})[0] == 404
    assert send(running, "/v9/hooks/claude-code/Stop", {})[0] == 404


def test_i18_an_event_that_this_worker_does_not_know_leaves_no_trace(running: Box) -> None:
    """200 and not a byte, since what its output would do is not known; nothing is stored, spooled or rejected."""
    for event in ("Dreamed", "PreToolUse", "Setup", "MessageDisplay"):
        answer = running.hook(event, {"session_id": "s", "prompt_id": "p"})
        assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"", b""), event
        assert running.rows("SELECT 1 FROM events") == running.rows("SELECT 1 FROM sdk_sessions") == [], event
        assert left(running) == [], event


def test_an_unknown_event_that_was_spooled_is_cleared_away(box: Box) -> None:
    """A newer hook spooled it while no worker ran; an older worker must not choke on it."""
    start = box.shim.with_name("backstory-worker")
    start.write_text("#!/bin/sh\nexit 1\n")
    box.hook("Dreamed", {"session_id": "s"})
    box.hook("UserPromptSubmit", {"session_id": "s", "prompt": "Go."})
    assert len(left(box)) == 2
    box.start()
    box.settle()
    assert left(box) == []
    assert box.rows("SELECT prompt FROM user_prompts") == [{"prompt": "Go."}]


def test_an_agent_that_only_a_newer_worker_knows_is_kept_aside_and_comes_back(running: Box) -> None:
    """The older worker has no such route: the event is kept, the hook is quiet, the number of files is bounded, and
    repair hands it to the worker again, which by then may know it."""
    package = running.root / "newer" / "backstory"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "agents" / "holo_coder").mkdir()
    (package / "agents" / "holo_coder" / "__init__.py").touch()
    shim = running.shim
    shim.write_text(shim.read_text().replace(str(SOURCE), str(package)))
    answer = running.hook("SessionStart", {"session_id": "s"}, agent="holo-coder")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"", b"")
    (file,) = (running.data / "spool" / "rejected").iterdir()
    for number in range(1005):
        (file.parent / f"{number:013x}-{0:016x}.holo-coder.Stop.json").write_text("{}")
    until(lambda: len(list(file.parent.iterdir())) == 1000, "the oldest to go")
    assert file.exists(), "the newest stay"
    assert "spool-rejected" in running.cli("doctor", check=False).stdout
    for other in file.parent.glob("*.Stop.json"):
        other.unlink()
    # The next version calls it by a name that it knows.
    file.rename(file.with_name(file.name.replace("holo-coder", "claude-code")))
    assert "the worker read" in running.cli("repair", check=False).stdout
    assert running.rows("SELECT content_session_id FROM sdk_sessions") == [{"content_session_id": "s"}]


@pytest.mark.parametrize("newer", ["worker", "hook"])
def test_a_worker_and_a_hook_a_version_apart(box: Box, newer: str) -> None:
    """Half of a later release beside half of this one: a whole round is remembered, and the next session is told."""
    package = box.root / "newer" / "backstory"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    init = package / "__init__.py"
    init.write_text(init.read_text().replace(__version__, "9.9.9"))
    if newer == "worker":
        command = [sys.executable, "-P", "-m", "backstory", "worker"]
        env = box.env | {"PYTHONPATH": str(package.parent)}
        box.processes.append(subprocess.Popen(command, env=env, cwd=box.home, stderr=subprocess.PIPE))
        assert until(box.health)["version"] == "9.9.9"
    else:
        shim = box.shim
        shim.write_text(shim.read_text().replace(str(SOURCE), str(package)))
        hook = package / "hook.py"
        # What a later hook may bring: one more header, and a later agent's event.
        hook.write_text(hook.read_text().replace("X-Backstory-Event:", "X-Backstory-New: 1\\r\\nX-Backstory-Event:"))
        box.start()
        assert subprocess.run([shim, "--version"], capture_output=True, check=True).stdout == b"9.9.9\n"
    box.hook("SessionStart", {"session_id": "s", "source": "startup"})
    box.hook("UserPromptSubmit", {"session_id": "s", "prompt": "Mend the cart.", "prompt_id": "p"})
    use = {"session_id": "s", "tool_name": "Bash", "tool_use_id": "u", "prompt_id": "p"}
    box.hook("PostToolUse", use | {"tool_input": {"command": "pytest"}, "tool_response": {"stdout": "3 passed in 1s"}})
    box.hook("Stop", {"session_id": "s", "prompt_id": "p", "last_assistant_message": "Mended."})
    box.settle()
    assert "Mend the cart." in box.told()
    assert left(box) == []
    assert [row["kind"] for row in box.rows("SELECT kind FROM events WHERE session_id = 1 ORDER BY id")] == [
        "session_start",
        "prompt",
        "tool",
        "stop",
    ]
