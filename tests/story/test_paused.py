"""A paused session stays paused when the worker is started again and reads what it had not read."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from box import Box, until
from transcripts import Script

from backstory.capture.reconcile import QUIET_S
from backstory.store.idle_sessions import WORK_MS

#: Seconds since something happened in the session: so long that it no longer counts as work.
LONG_S = 2 * WORK_MS // 1000


def make_older(path: Path, seconds: float) -> None:
    at = time.time() - seconds
    os.utime(path, (at, at))


def statuses(box: Box) -> list[str]:
    return [row["to_status"] for row in box.rows("SELECT to_status FROM session_moves ORDER BY id")]


def test_a_paused_session_stays_paused_over_restarts(box: Box) -> None:
    """Its agent was killed in the middle of a round. The transcript does not change any more, so the next start reads
    the round as ended, and later ones find what its subagent did: all of it happened before the pause."""
    box.cli("install", "--agent", "claude-code")
    for record in (box.data / "installs").iterdir():
        make_older(record, 10 * LONG_S)
    began = datetime.now(UTC) - timedelta(seconds=LONG_S)
    script = Script(cwd=str(box.project), now=began)
    script.prompt("Make the sum right.")
    script.uses("Bash", {"command": "pytest"}, "toolu_1")
    script.answers("toolu_1", "1 failed")
    path = script.write(box.home / ".claude" / "projects" / "-shop")

    box.settings["BACKSTORY_SWEEP_MINUTES"] = "0.01"
    worker = box.start()
    until(lambda: statuses(box) == ["created", "active", "paused"], "the session to pause")
    box.stop(worker)

    box.settings["BACKSTORY_SWEEP_MINUTES"] = "0"
    make_older(path, 2 * QUIET_S)
    worker = box.start()
    until(lambda: box.rows("SELECT 1 FROM events WHERE kind = 'stop'"), "the end of the round to be read")
    box.settle()
    assert statuses(box) == ["created", "active", "paused"]
    box.stop(worker)

    aside = Script(script.session, str(box.project), began)
    aside.prompt("Look around.", isSidechain=True)
    aside.uses("Bash", {"command": "ls"}, "toolu_2", isSidechain=True, agentId="a1")
    aside.answers("toolu_2", "a.py", isSidechain=True, agentId="a1")
    aside.write(path.with_suffix("") / "subagents", "agent-a1.jsonl")
    box.start()
    until(lambda: box.rows("SELECT 1 FROM events WHERE tool_use_id = 'toolu_2'"), "its tool use to be read")
    box.settle()
    assert statuses(box) == ["created", "active", "paused"]
    assert box.rows("SELECT status FROM sdk_sessions") == [{"status": "paused"}]

    report = {"session_id": script.session, "transcript_path": str(path)}
    box.hook("UserPromptSubmit", report | {"prompt": "Go on.", "prompt_id": "later"})
    until(lambda: statuses(box)[-1] == "active", "the prompt to resume the session")
