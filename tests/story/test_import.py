"""`backstory import claude-code`: a past from before the install, once, as it happened, whatever breaks off."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from box import COMMAND, Box
from transcripts import Script

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("BACKSTORY_TEST_DATA") or ROOT.parent / "shared" / "data") / "claude-code" / "transcripts"
REAL = sorted(DATA.glob("*.jsonl.gz"))
needs_data = pytest.mark.skipif(not REAL, reason="the recorded transcripts are not beside the repository")


def history(folder: Path, sessions: int = 3) -> None:
    """A `projects` folder: one file gzipped, one with a subagent, one with a private prompt and a skipped tool."""
    for number in range(sessions):
        script = Script(session=f"{number}0000000-0000-0000-0000-000000000000", cwd="/nowhere/shop")
        script.now = script.now.replace(day=5 + number)
        script.prompt("Fix the sum.")
        script.uses(
            "Edit", {"file_path": "/nowhere/shop/money.py", "old_string": "+ 1", "new_string": ""}, f"e{number}"
        )
        script.answers(f"e{number}", "The file was updated.")
        script.uses("TodoWrite", {"todos": []}, f"s{number}")
        script.answers(f"s{number}", "ok")
        script.says("The sum is right. Next step: tell the accountant.")
        script.prompt("<private>between us</private>")
        script.uses("Bash", {"command": "cat diary"}, f"p{number}")
        script.answers(f"p{number}", "dear diary")
        script.says("Between us.")
        path = script.write(folder / "-nowhere-shop")
        child = Script(session=script.session, prompt_id="p0", now=script.now.replace(minute=0, second=3))
        child.uses("Bash", {"command": "ls"}, f"c{number}", isSidechain=True, agentId="a1")
        child.answers(f"c{number}", "money.py", isSidechain=True, agentId="a1")
        child.write(folder / "-nowhere-shop" / script.session / "subagents", "agent-a1.jsonl")
        if number == 0:
            path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()


def everything(box: Box) -> dict[str, Any]:
    """All that is remembered, without what tells when it was stored, or in which order."""
    return {
        "sessions": box.rows("SELECT content_session_id, project, prompt_counter, status FROM sdk_sessions ORDER BY 1"),
        "prompts": box.rows(
            "SELECT s.content_session_id, p.prompt_number, p.prompt, p.is_private, p.created_at "
            "FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id ORDER BY 1, 2"
        ),
        "events": box.rows(
            "SELECT s.content_session_id, e.event_id, e.kind, e.prompt_number, e.payload, e.occurred_at, e.status "
            "FROM events e JOIN sdk_sessions s ON s.id = e.session_id ORDER BY 1, 2"
        ),
        "observations": box.rows(
            "SELECT s.content_session_id, o.prompt_number, o.title, o.created_at "
            "FROM observations o JOIN sdk_sessions s ON s.id = o.session_id ORDER BY 1, 2, 3, 4"
        ),
        "summaries": box.rows(
            "SELECT s.content_session_id, m.prompt_number, m.source, m.request, m.created_at "
            "FROM session_summaries m JOIN sdk_sessions s ON s.id = m.session_id ORDER BY 1, 2, 3"
        ),
    }


def test_a_projects_folder_is_imported_as_it_happened(running: Box) -> None:
    """Sessions, prompts and observations with the times of the transcript; private, skipped: tombstones; ended."""
    history(running.root / "projects")
    told = json.loads(running.cli("import", "claude-code", str(running.root / "projects"), "--json").stdout)
    assert (told["files"], told["unreadable"]) == (6, 0)
    assert (told["added"], told["skipped"]) == (3 * 6, 3 * 3)
    running.settle()
    rows = running.rows("SELECT * FROM sdk_sessions ORDER BY id")
    assert [row["content_session_id"][0] for row in rows] == ["0", "1", "2"]
    assert {(row["project"], row["status"], row["prompt_counter"], row["git_branch"]) for row in rows} == {
        ("shop", "completed", 2, "main")
    }
    assert rows[0]["created_at"] == "2026-01-05T12:00:01.000Z"
    assert rows[0]["last_event_at"] == rows[0]["completed_at"] == "2026-01-05T12:00:10.000Z"
    subagents = running.rows("SELECT prompt_number, status FROM events WHERE tool_use_id LIKE 'c_'")
    assert subagents == [{"prompt_number": 1, "status": "done"}] * 3
    private = running.rows("SELECT status, payload, reason FROM events WHERE tool_use_id LIKE 'p_'")
    assert private == [{"status": "tombstone", "payload": None, "reason": "private"}] * 3
    for table in ("events", "user_prompts", "observations", "session_summaries"):
        text = json.dumps(running.rows(f"SELECT * FROM {table}"))  # noqa: S608
        assert "etween us" not in text
        assert "diary" not in text
    assert {o["created_at"][:10] for o in running.rows("SELECT created_at FROM observations")} == {
        "2026-01-05",
        "2026-01-06",
        "2026-01-07",
    }
    told_next = running.cli("context", "--project", "shop").stdout
    assert "## Last session (2026-01-07 12:00, branch main)" in told_next
    before = everything(running)
    again = json.loads(running.cli("import", "claude-code", str(running.root / "projects"), "--json").stdout)
    assert (again["unchanged"], again["added"]) == (6, 0)
    for file in (running.root / "projects").rglob("*.jsonl*"):
        os.utime(file)
    third = json.loads(running.cli("import", "claude-code", str(running.root / "projects"), "--json").stdout)
    assert (third["unchanged"], third["added"], third["known"]) == (0, 0, 3 * 9)
    running.settle()
    assert everything(running) == before


def test_a_changed_setting_applies_to_an_import_without_a_restart(running: Box) -> None:
    """A tool that is skipped from now on is not stored."""
    history(running.root / "projects", 1)
    assert "applies now" in running.cli("config", "set", "skip_tools", "Edit").stdout
    running.cli("import", "claude-code", str(running.root / "projects"))
    rows = running.rows("SELECT status, payload, reason FROM events WHERE tool_name = 'Edit'")
    assert rows == [{"status": "tombstone", "payload": None, "reason": "tool"}]


def test_old_news_is_not_the_last_hand_off(running: Box) -> None:
    """What is imported after a live session happened before it, and its context says so."""
    running.hook("UserPromptSubmit", {"session_id": "live", "prompt": "The live one.", "cwd": "/nowhere/shop"})
    running.hook(
        "Stop",
        {
            "session_id": "live",
            "cwd": "/nowhere/shop",
            "last_assistant_message": "Live and well done. Next step: look at the invoices.",
        },
    )
    running.settle()
    history(running.root / "projects", 1)
    running.cli("import", "claude-code", str(running.root / "projects"))
    running.settle()
    told = running.cli("context", "--project", "shop").stdout
    assert told.index("The live one.") < told.index("Fix the sum.")


def test_the_same_words_twice_are_two_prompts(running: Box) -> None:
    """Of an older client, whose prompts have no ids: "go on", and a moment later again."""
    script = Script(prompt_ids=False)
    for _ in range(3):
        script.prompt("Go on.")
        script.says("Going.")
    script.write(running.root / "old")
    running.cli("import", "claude-code", str(running.root / "old"))
    assert [row["prompt_number"] for row in running.rows("SELECT prompt_number FROM user_prompts")] == [1, 2, 3]
    assert len(running.rows("SELECT 1 FROM events WHERE kind = 'stop'")) == 3


def test_a_project_can_be_named_and_an_excluded_one_stays_out(running: Box) -> None:
    """`--project` files all under one name; `exclude_projects` holds for the past, too."""
    history(running.root / "projects", 1)
    running.cli("import", "claude-code", str(running.root / "projects"), "--project", "till")
    assert running.rows("SELECT project, project_key FROM sdk_sessions") == [{"project": "till", "project_key": "till"}]
    running.cli("config", "set", "exclude_projects", "shop")
    running.cli("restart")
    history(running.root / "more", 2)
    told = json.loads(running.cli("import", "claude-code", str(running.root / "more"), "--json").stdout)
    assert told["added"] == 0
    assert len(running.rows("SELECT 1 FROM sdk_sessions")) == 1


def test_what_can_not_be_imported_is_said(running: Box) -> None:
    """No such path, no transcripts, not a transcript: a sentence and a code, never a stack trace."""
    (running.root / "empty").mkdir()
    (running.root / "other.jsonl").write_text('{"a": 1}\n{"type":"user","message":{"content":"x"}}\n')
    for path, code in (("nowhere", 1), ("empty", 1), ("other.jsonl", 0)):
        answer = running.cli("import", "claude-code", str(running.root / path), check=False)
        assert answer.returncode == code, path
        assert "Traceback" not in answer.stderr
    assert running.rows("SELECT 1 FROM sdk_sessions") == []


def test_the_route_bounds_what_it_takes(running: Box) -> None:
    """A batch that is too long, a time that is none, a kind that is none: refused, and nothing is half written."""
    report = {"kind": "prompt", "session_id": "s", "event_id": "e", "occurred_at": "2026-01-05T12:00:00Z"}
    payload = {"payload": {"prompt": "<private>x"}}
    for body in (
        {"reports": [report] * 101},
        {"reports": [report, report | {"occurred_at": "soon"}]},
        {"reports": [report | {"kind": "dance"}]},
        {"reports": [report | {"session_id": ""}]},
    ):
        assert running.http("POST", "/api/import/reports", body).status == 400
    assert running.rows("SELECT 1 FROM sdk_sessions") == []
    seen = {"event_id": "f", "prompt_id": "2", "payload": {"prompt": "Seen."}}
    open_tag = [report | payload | {"prompt_id": "1"}, report | seen]
    answer = running.http("POST", "/api/import/reports", {"reports": open_tag})
    assert answer.json == {"added": 2, "known": 0, "skipped": 0, "turns": 0}
    assert [row["prompt"] for row in running.rows("SELECT prompt FROM user_prompts ORDER BY id")] == [None, "Seen."]


def peak_kb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)


def import_with_kills(box: Box, folder: Path, kills: int) -> None:
    """Import, and kill the command and the worker in turn in the middle; then run it to its end."""
    worker = box.start()
    for number in range(kills):
        before = len(box.rows("SELECT 1 FROM events"))
        running = subprocess.Popen(
            [COMMAND, "import", "claude-code", str(folder)],
            env=box.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        enough = before + 20
        while running.poll() is None and len(box.rows("SELECT 1 FROM events")) < enough:
            time.sleep(0.01)
        if number % 2:
            box.kill(worker)
            assert running.wait(120) == 0  # it starts another and goes on
        else:
            running.send_signal(signal.SIGKILL)
            running.wait()
    box.cli("start")


def imported(box: Box, folder: Path, largest_kb: int = 150_000) -> dict[str, Any]:
    """Run it to the end, watching how much memory the two take."""
    box.cli("start")
    worker, started = int((box.data / "worker.lock").read_text()), time.monotonic()
    command = [str(COMMAND), "import", "claude-code", str(folder), "--json"]
    running = subprocess.Popen(command, env=box.env, stdout=subprocess.PIPE, text=True)
    peak = 0
    while running.poll() is None:
        peak = max(peak, peak_kb(running.pid))
        time.sleep(0.01)
    assert running.stdout is not None
    told: dict[str, Any] = json.loads(running.stdout.read())
    running.stdout.close()
    box.settle()
    assert running.returncode == 0
    assert 0 < peak < largest_kb
    assert 0 < peak_kb(worker) < largest_kb
    return told | {"command_kb": peak, "worker_kb": peak_kb(worker), "all_s": time.monotonic() - started}


def uses_of(files: list[Path]) -> set[str]:
    """Every tool use that was answered, by a result or by the user's rejection, counted the plain way. A question that
    the user wants to talk about first did not happen."""
    used, answered = set(), set()
    for file in files:
        for line in gzip.decompress(file.read_bytes()).splitlines():
            content = (json.loads(line).get("message") or {}).get("content")
            for block in content if isinstance(content, list) else []:
                if block["type"] == "tool_use":
                    used.add(block["id"])
                elif block["type"] == "tool_result":
                    said = json.dumps(block.get("content"))
                    did_not_happen = "Permission to" in said or "wants to clarify these questions" in said
                    if not (block.get("is_error") and did_not_happen):
                        answered.add(block["tool_use_id"])
    return used & answered


def real_import(box: Box, tmp_path: Path, files: list[Path], kills: int) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    for file in files:
        (folder / file.name).symlink_to(file)
    told = imported(box, folder)
    assert told["files"] == len(files)
    before = everything(box)
    stored = [row["event_id"].removeprefix("transcript-") for row in before["events"] if "tool" in row["kind"]]
    assert set(stored) == uses_of(files)
    assert len(stored) == len(set(stored))
    assert len(before["observations"]) > len(files)
    assert {row["project"] for row in before["sessions"]} == {"cli"}
    assert {row["status"] for row in before["sessions"]} == {"completed"}
    assert box.cli("context", "--project", "cli").stdout.count("\n") > 10

    for row in box.rows("SELECT path FROM transcripts"):
        assert Path(row["path"]).name.endswith(".jsonl.gz")
    again = imported(box, folder)
    assert (again["unchanged"], again["added"]) == (len(files), 0)
    assert everything(box) == before
    box.cli("stop")

    other = Box(tmp_path / "other")
    other.home.mkdir(parents=True)
    other.project.mkdir()
    try:
        import_with_kills(other, folder, kills)
        imported(other, folder)
        after = everything(other)
        # Which of a round's events were observed together hangs on when it was killed; what is kept does not.
        for name in ("sessions", "prompts", "events"):
            assert after[name] == before[name], name
        assert {row["content_session_id"] for row in after["observations"]} == {
            row["content_session_id"] for row in before["observations"]
        }
    finally:
        other.clean_up()


@needs_data
@pytest.mark.timeout(300)
def test_real_transcripts(box: Box, tmp_path: Path) -> None:
    """Every tenth of the recorded ones: whole, again nothing changes, killed nothing is missing, memory is flat."""
    real_import(box, tmp_path, REAL[::10][:10], kills=2)


@needs_data
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_all_real_transcripts(box: Box, tmp_path: Path) -> None:
    """All of them, with six kills."""
    real_import(box, tmp_path, REAL, kills=6)
