"""I12: a hook never blocks or fails its agent, whatever is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from box import Box, until
from transcripts import Script

from backstory import ids, privacy
from backstory.client import Client

EVENTS = ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "PreCompact", "SessionEnd"]
TOOL: dict[str, Any] = {"session_id": "x", "tool_name": "Read", "tool_use_id": "t1", "tool_input": {}}
TOOL["tool_response"] = "text"
#: Seconds that a busy machine may add to what is promised. A hook that hangs takes longer than that.
SLACK_S = 4.0


def timed(
    box: Box, event: str, payload: dict[str, Any] | bytes = TOOL
) -> tuple[float, subprocess.CompletedProcess[bytes]]:
    box.shim  # noqa: B018 - made before the clock starts
    start = time.monotonic()
    run = box.hook(event, payload)
    return time.monotonic() - start, run


def test_i12_a_worker_that_hangs_costs_less_than_two_seconds(running: Box) -> None:
    """Stopped in its tracks, it gets 400 ms; each event goes to the spool and is taken in when it goes on."""
    for event in EVENTS:
        running.client.post("/api/sessions/init", {"sessionId": event, "userPrompt": "hi"})
    running.shim  # noqa: B018
    pid = running.processes[0].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        for event in EVENTS:
            seconds, run = timed(running, event, TOOL | {"session_id": event, "prompt": "p"})
            assert (run.returncode, run.stderr) == (0, b""), event
            assert seconds < (1.0 if event == "SessionEnd" else 2.0) + SLACK_S, event
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: not running.spooled(), "the spool to be taken in")
    sql = "SELECT COUNT(*) AS n FROM events e JOIN sdk_sessions s ON s.id = e.session_id WHERE content_session_id = ?"
    for event, kind in (("PostToolUse", "tool"), ("Stop", "stop"), ("UserPromptSubmit", "prompt")):
        until(lambda: running.rows(f"{sql} AND kind = ?", event, kind)[0]["n"], event)  # noqa: B023 - asked at once
        taken = running.rows(f"{sql} AND kind = ? AND event_id LIKE '%-%'", event, kind)[0]["n"]
        assert taken <= 2, event
    ended = "SELECT 1 FROM sdk_sessions WHERE content_session_id = 'SessionEnd' AND status = 'completed'"
    until(lambda: running.rows(ended), "the session to end")


def test_a_prompt_does_not_overtake_those_in_the_spool(running: Box) -> None:
    """The hooks of the earlier ones found the worker too slow. The later one waits, or is spooled behind them."""
    folder = running.data / "spool"
    folder.mkdir(mode=0o700, exist_ok=True)
    said = [f"Question {number}" for number in range(20)]
    for number, text in enumerate(said[:-1]):
        payload = {"session_id": "s1", "cwd": str(running.project), "prompt": text}
        event_id = f"{ids.now_ms() - 1000 + number:013x}-0123456789abcdef"
        (folder / f".{number}").write_text(json.dumps(payload))
        (folder / f".{number}").rename(folder / f"{event_id}.claude-code.UserPromptSubmit.json")
    running.hook("UserPromptSubmit", {"session_id": "s1", "prompt": said[-1]})
    running.settle()
    rows = running.rows("SELECT prompt FROM user_prompts ORDER BY prompt_number")
    assert [row["prompt"] for row in rows] == said


def test_i12_a_worker_that_is_away_leaves_the_event_in_the_spool(box: Box) -> None:
    """For its owner only, whole, and taken in at the next start."""
    seconds, run = timed(box, "PostToolUse")
    assert (run.returncode, run.stdout, run.stderr) == (0, b'{"continue":true,"suppressOutput":true}', b"")
    assert seconds < 2 + SLACK_S
    marks = [p for p in Path("/proc").glob("[0-9]*") if _mentions(p / "environ", str(box.home))]
    assert marks == [], "it starts no process of its own"
    (file,) = box.spooled()
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_bytes())["tool_use_id"] == "t1"
    box.start()
    until(lambda: not box.spooled(), "the spool to be taken in")
    assert box.rows("SELECT tool_use_id FROM events") == [{"tool_use_id": "t1"}]


def _mentions(path: Path, text: str) -> bool:
    try:
        return text.encode() in path.read_bytes()
    except OSError:
        return False


def test_i12_a_port_that_another_program_has_is_no_obstacle_and_tells_it_nothing(box: Box) -> None:
    """The worker takes a free port, hooks go by the socket, and the squatter hears not one byte."""
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        box.settings["BACKSTORY_PORT"] = str(squatter.getsockname()[1])
        box.start()
        assert box.port != squatter.getsockname()[1]
        seconds, run = timed(box, "PostToolUse")
        assert run.returncode == 0
        assert seconds < 2 + SLACK_S
        squatter.settimeout(0.2)
        with pytest.raises(TimeoutError):
            squatter.accept()
    assert box.rows("SELECT tool_use_id FROM events") == [{"tool_use_id": "t1"}]


def in_namespace(box: Box, mount: str, event: str = "PostToolUse") -> subprocess.CompletedProcess[bytes]:
    """The hook with the data directory on a small or read-only disk: root ignores modes, so only a mount will do."""
    keep = box.root / "bin"
    shutil.copytree(box.shim.parent, keep, dirs_exist_ok=True)
    script = f"{mount} && exec {keep}/backstory-hook claude-code {event}"
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        input=json.dumps(TOOL | {"tool_response": "y" * 100_000}).encode(),
        env=box.env,
        capture_output=True,
        timeout=120,
    )


def can_mount() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


needs_mount = pytest.mark.skipif(not can_mount(), reason="mount namespaces are not allowed here")


@needs_mount
def test_i12_a_disk_that_is_full_or_read_only(box: Box) -> None:
    """Nothing can be spooled; the agent is answered all the same."""
    box.shim  # noqa: B018 - made before the clock starts
    fill = f"mount -t tmpfs -o size=16k tmpfs {box.data} && (head -c 99999 /dev/zero > {box.data}/full 2>&- || true)"
    for event in ("PostToolUse", "SessionStart", "SessionEnd"):
        for mount in (fill, f"mount -t tmpfs -o ro tmpfs {box.data}"):
            start = time.monotonic()
            run = in_namespace(box, mount, event)
            assert (run.returncode, run.stderr) == (0, b""), (event, mount)
            assert time.monotonic() - start < 2 + SLACK_S, (event, mount)
            assert event != "PostToolUse" or b"continue" in run.stdout, mount


@needs_mount
def test_a_worker_on_a_full_disk_says_503_and_the_hook_keeps_the_event(box: Box) -> None:
    """A 5xx means it could not commit; once there is room again the event is stored."""
    small = box.root / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small], check=True)
    try:
        box.settings["BACKSTORY_DATA_DIR"] = str(small / "data")
        box.cli("install")
        box.cli("start")
        shim = small / "data" / "bin" / "backstory-hook"
        ballast = small / "ballast"
        with ballast.open("wb", buffering=0) as out:  # what a buffer holds could not be written when it is closed
            try:
                while True:
                    out.write(bytes(1 << 16))
            except OSError:
                pass
        raw = json.dumps(TOOL | {"cwd": "/", "tool_response": "z" * 200_000}).encode()
        from backstory.errors import BackstoryError

        client = Client(small / "data" / "worker.sock")
        with pytest.raises(BackstoryError, match="could not be written"):
            for number in range(50):
                client.post(
                    "/api/sessions/observations",
                    {"sessionId": "x", "tool_name": "T", "tool_response": "z" * 200_000, "event_id": str(number)},
                )
        run = subprocess.run(
            [shim, "claude-code", "PostToolUse"], input=raw, env=box.env, capture_output=True, timeout=30
        )
        assert (run.returncode, run.stderr) == (0, b"")
        ballast.unlink()
        again = subprocess.run(
            [shim, "claude-code", "PostToolUse"], input=raw, env=box.env, capture_output=True, timeout=30
        )
        assert again.returncode == 0
        assert client.get("/api/health")["status"] == "ok"
        until(lambda: client.get("/api/sessions")["items"], "the session to be stored")
    finally:
        box.cli("stop", check=False)
        subprocess.run(["umount", "-l", small], check=True)


def lost_tool_use(box: Box, use: str) -> tuple[Script, dict[str, str]]:
    """A transcript that shows a tool use, and what its hook says besides the contents."""
    script = Script(cwd=str(box.project))
    script.now = datetime.now(UTC)
    script.prompt("Look at the log.")
    script.uses("Bash", {"command": "cat log"}, use)
    script.answers(use, "the end of the log", {"stdout": "the end of the log"})
    path = script.write(box.home / ".claude" / "projects" / "shop")
    told = {"session_id": script.session, "cwd": str(box.project), "transcript_path": str(path)}
    return script, told | {"prompt_id": script.prompt_id}


def secrets_of(number: int) -> str:
    """A quarter of a megabyte of assigned secrets, no two alike."""
    return "\n".join(f"client_secret=aB3dE6gH{number:04d}{line:06d}xYz" for line in range(6000))


def spooled_by(box: Box, payload: dict[str, Any]) -> Path:
    """Call the hook until it has spooled. On a busy machine its time may be over before it writes anything."""

    def spooled() -> list[Path]:
        run = box.hook("PostToolUse", payload)
        assert (run.returncode, run.stderr) == (0, b"")
        return box.spooled()

    (file,) = until(spooled, "a hook that has the time to spool")
    return Path(file)


def test_a_large_payload_full_of_secrets_is_kept_while_the_worker_is_away(box: Box) -> None:
    """Two megabytes of them are cut and stripped in time, or only the names are kept. Either way it is memory later."""
    box.cli("install", "--agent", "claude-code")
    _, told = lost_tool_use(box, "toolu_1")
    text = "".join(secrets_of(number) for number in range(10))
    assert len(text) > 2_000_000
    use = {"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": {"command": "cat log"}}
    file = spooled_by(box, told | use | {"tool_response": {"stdout": text}})
    assert b"aB3dE6gH" not in file.read_bytes()
    assert json.loads(file.read_bytes())["tool_use_id"] == "toolu_1"
    box.start()
    until(lambda: box.rows("SELECT 1 FROM events WHERE tool_use_id = 'toolu_1'"), "the tool use to be stored")
    until(lambda: not box.spooled(), "the spool to be empty")
    assert not list((box.data / "spool" / "rejected").glob("*"))


def test_a_payload_that_can_not_be_stripped_in_time_is_taken_from_the_transcript(box: Box) -> None:
    """Thirteen megabytes of secrets in many fields: the spool holds names, the contents come from the transcript."""
    box.cli("install", "--agent", "claude-code")
    _, told = lost_tool_use(box, "toolu_2")
    use = {"tool_name": "Bash", "tool_use_id": "toolu_2"}
    payload = told | use | {f"field{number}": secrets_of(number) for number in range(60)}
    file = spooled_by(box, payload)
    kept = json.loads(file.read_bytes())
    assert kept == told | use | {"contents_dropped": True}
    box.start()
    until(lambda: box.rows("SELECT 1 FROM events WHERE tool_use_id = 'toolu_2'"), "the transcript to be read")
    (row,) = box.rows("SELECT payload FROM events WHERE tool_use_id = 'toolu_2'")
    assert "the end of the log" in row["payload"]
    until(lambda: not box.spooled(), "the spool to be empty")


def test_what_can_not_be_stripped_in_time_leaves_no_private_text() -> None:
    """Tags and secrets in the names are stripped; what is not JSON leaves nothing."""
    raw = {"session_id": "s", "cwd": "/a<private>canary</private>/b", "prompt": "canary", "tool_name": ["canary"]}
    kept = json.loads(privacy.names_only(json.dumps(raw | {"agent_id": "x" * 5000}).encode()))
    assert kept == {"session_id": "s", "cwd": "/a/b", "contents_dropped": True}
    for bad in (b"canary", b"[1]", b'"canary"', b"\xff", b"[" * 100_000):
        assert b"canary" not in privacy.names_only(bad)


@needs_mount
def test_what_a_full_disk_lost_is_taken_from_the_transcript(box: Box) -> None:
    """Nothing can be spooled on a full disk. Once there is room, the end of the round brings what is missing."""
    small = box.root / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small], check=True)
    try:
        box.settings["BACKSTORY_DATA_DIR"] = str(small / "data")
        box.cli("install", "--agent", "claude-code")
        script, told = lost_tool_use(box, "toolu_3")
        shim, ballast = small / "data" / "bin" / "backstory-hook", small / "ballast"
        with ballast.open("wb", buffering=0) as out, contextlib.suppress(OSError):
            while True:
                out.write(bytes(1 << 12))
        use = {"tool_name": "Bash", "tool_use_id": "toolu_3", "tool_response": {"stdout": "z" * 50_000}}
        run = partial(subprocess.run, env=box.env, capture_output=True, timeout=120, text=True)
        lost = run([shim, "claude-code", "PostToolUse"], input=json.dumps(told | use))
        assert (lost.returncode, lost.stderr) == (0, "")
        assert not list((small / "data" / "spool").glob("[!.]*.json"))
        ballast.unlink()
        script.says("That was the end of it.")
        script.write(box.home / ".claude" / "projects" / "shop")
        box.cli("start")
        stop = told | {"last_assistant_message": "That was the end of it."}
        run([shim, "claude-code", "Stop"], input=json.dumps(stop))
        client = Client(small / "data" / "worker.sock", timeout=120)
        database = small / "data" / "backstory.db"
        found = "SELECT 1 FROM events WHERE tool_use_id = 'toolu_3'"
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            until(lambda: connection.execute(found).fetchall(), "the transcript to be read")
        assert client.get("/api/health")["status"] == "ok"
    finally:
        box.cli("stop", check=False)
        subprocess.run(["umount", "-l", small], check=True)


BAD = {
    "empty": b"",
    "text": b"not json",
    "list": b"[]",
    "null": b"null",
    "number": b'{"session_id": 7}',
    "blank": b'{"session_id": ""}',
    "bytes": b"\xff\xfe\x00",
    "braces": b"{" * 5000,
    "deep": b'{"a":' * 300 + b"1" + b"}" * 300,
    "wrong-type": b'{"session_id": "x", "tool_name": ["Read"]}',
    "cut": b'{"session_id": "x"',
}


def test_i18_bad_input_is_ignored_and_loses_no_other_event(running: Box) -> None:
    """It is put where people can see it, and the next event is stored as ever."""
    for count, (name, raw) in enumerate(BAD.items(), 1):
        run = running.hook("PostToolUse", raw)
        assert (run.returncode, run.stderr) == (0, b""), name
        running.hook("PostToolUse", TOOL | {"tool_use_id": name})
        until(lambda: not running.spooled(), "the spool to be read")  # where a hook found the worker too slow
        assert len(running.rows("SELECT 1 FROM events")) == count, name
        assert len(running.rows("SELECT 1 FROM events WHERE tool_use_id = ?", name)) == 1, name


def test_i18_unknown_fields_and_events_are_tolerated(running: Box) -> None:
    """A newer agent says more than we know. JavaScript cuts strings between surrogates: the event is stored with a sign
    in their place. An id with slashes is never part of a path."""
    run = running.hook("PostToolUse", TOOL | {"new_field": {"deep": [1, 2]}, "effort": {"level": "high"}})
    assert run.returncode == 0
    run = running.hook("SomethingNew", {"session_id": "x", "what": "ever"})
    assert (run.returncode, run.stderr) == (0, b"")
    # A hook that found the worker too slow has spooled its event.
    until(lambda: not running.spooled(), "the spool to be read")
    assert len(running.rows("SELECT * FROM events")) == 1
    assert not list((running.data / "spool" / "rejected").glob("*"))
    raw = json.dumps(TOOL | {"tool_use_id": "t2", "tool_response": "cut \ud83d here \x00 end"}).encode()
    assert running.hook("PostToolUse", raw).returncode == 0
    (row,) = running.rows("SELECT payload FROM events WHERE tool_use_id = 't2'")
    assert "cut \ufffd here \ufffd end" in row["payload"]
    running.hook("PostToolUse", TOOL | {"session_id": "../../etc/passwd", "tool_use_id": "a/b"})
    names = [row["c"] for row in running.rows("SELECT content_session_id AS c FROM sdk_sessions ORDER BY id")]
    assert names == ["x", "../../etc/passwd"]
    found = running.http("GET", "/api/sessions/..%2F..%2Fetc%2Fpasswd")
    assert found.status in (200, 404)


def test_stdin_that_never_ends_is_given_up(box: Box) -> None:
    """An agent that forgets to close the pipe does not wait for ever."""
    shim = box.shim
    start = time.monotonic()
    with subprocess.Popen([shim, "claude-code", "PostToolUse"], stdin=subprocess.PIPE, env=box.env) as run:
        assert run.wait(10) == 0
    assert time.monotonic() - start < 2 + SLACK_S


def test_a_huge_payload_is_refused_and_a_large_one_keeps_its_head_and_tail(running: Box) -> None:
    """17 MiB is too much for the worker; the hook leaves a note of it and exits 0. A megabyte is stored as 256 KiB."""
    run = running.hook("PostToolUse", TOOL | {"tool_response": "h" * (17 << 20)})
    assert run.returncode == 0
    (note,) = (running.data / "spool" / "rejected").iterdir()
    assert "16 MiB" in note.read_text()
    assert running.spooled() == []
    running.hook("PostToolUse", TOOL | {"tool_response": {"stdout": "HEAD" + "m" * 1_000_000 + "TAIL"}})
    (row,) = until(lambda: running.rows("SELECT payload FROM events"), "the event, which a busy machine spools first")
    assert len(row["payload"]) < 300_000
    stdout = json.loads(row["payload"])["tool_response"]["stdout"]
    assert stdout.startswith("HEAD")
    assert stdout.endswith("TAIL")


def test_the_spool_has_a_limit(box: Box) -> None:
    """A gibibyte, and then no more: a full disk is worse than a gap that the transcript can fill."""
    box.hook("PostToolUse", TOOL)
    gauge = box.data / "spool" / ".size"
    gauge.write_bytes(bytes(1 << 20))
    assert box.hook("PostToolUse", TOOL | {"tool_use_id": "t2"}).returncode == 0
    assert len(box.spooled()) == 1
    box.start()
    until(lambda: not box.spooled(), "the spool to be taken in")
    until(lambda: gauge.stat().st_size == 0, "the count to start again")


def test_the_command_does_what_the_shim_does(running: Box) -> None:
    """`backstory hook AGENT EVENT` for agents that can't name a path."""
    run = running.cli(
        "hook",
        "claude-code",
        "UserPromptSubmit",
        input=json.dumps({"session_id": "x", "prompt": "by hand", "cwd": "/"}),
    )
    assert run.stdout == '{"continue":true,"suppressOutput":true}'
    assert running.rows("SELECT prompt FROM user_prompts") == [{"prompt": "by hand"}]
    for words in ([], ["claude-code"], ["nobody", "Stop"], ["claude-code", "../x"]):
        assert running.cli("hook", *words, input="{}").returncode == 0


def test_the_worker_that_a_hook_starts_knows_the_users_login_and_nothing_of_the_session(box: Box) -> None:
    """Where Claude Code keeps its files and who pays is passed on; which session it was is not."""
    mine = {"CLAUDE_CONFIG_DIR": str(box.home / "claude"), "CLAUDE_CODE_OAUTH_TOKEN": "made-up"}
    box.shim  # noqa: B018 - made without them
    box.settings |= mine | {"CLAUDE_CODE_SESSION_ID": "x", "CLAUDECODE": "1", "CLAUDE_PROJECT_DIR": "/x"}
    box.hook("SessionStart", {"session_id": "x", "source": "startup"})
    health = until(box.health, "the worker")
    environ = Path(f"/proc/{health['pid']}/environ").read_text().split("\0")
    assert {line for line in environ if line.startswith("CLAUDE")} == {
        f"{name}={value}" for name, value in mine.items()
    }


def test_a_worker_that_does_not_start_is_told_at_the_start_of_a_session(box: Box) -> None:
    """Once, with the command that finds out why; and the event is kept. A worker that another one makes needless ends
    without an error, and is nothing to tell."""
    shim, worker = box.shim, box.data / "bin" / "backstory-worker"
    for code, told in ((1, True), (0, False)):
        worker.write_text(f"#!/bin/sh\nexit {code}\n")
        assert box.shim == shim
        answer = box.hook("SessionStart", {"session_id": "s", "source": "startup"})
        assert (answer.returncode, answer.stderr) == (0, b"")
        assert (b"backstory doctor" in answer.stdout) == told
        assert not answer.stdout or list(json.loads(answer.stdout)) == ["systemMessage"]
    answer = box.hook("UserPromptSubmit", {"session_id": "s", "prompt": "Go on."})
    assert b"systemMessage" not in answer.stdout
    assert len(box.spooled()) == 3
