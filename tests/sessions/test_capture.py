"""What a run reports, and that a flood of reports starts few programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from backstory.paths import Paths
from backstory.sessions import capture
from backstory.sessions.capture import Worker

#: In the place of the hook: it notes when it starts and when it ends.
HOOK = """
import os, sys, time
def note(word):
    with open(sys.argv[1] + "/notes", "a") as file:
        file.write(word)
sys.stdin.read()
note("+")
time.sleep(0.05)
note("-")
"""


def test_a_flood_of_reports_starts_few_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in a sandbox can write to the agent's output, in its name. It cannot fill the machine with hooks."""
    hook = tmp_path / "hook.py"
    hook.write_text(HOOK)
    monkeypatch.setattr(capture, "HOOK", hook)
    monkeypatch.setattr(capture, "MAX_REPORTS", 2)
    monkeypatch.setattr(capture, "MAX_WAITING", 6)
    payload = cast(Any, {"session_id": "x", "hook_event_name": "Stop"})

    async def flood() -> None:
        worker = Worker(Paths(tmp_path), tmp_path, tmp_path)
        report: Any = worker.hooks()["Stop"][0].hooks[0]
        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(report, payload, None, cast(Any, {}))
        await report(payload, None, cast(Any, {}))

    anyio.run(flood)
    notes = (tmp_path / "notes").read_text()
    assert notes.count("+") == 7
    running = [notes[:at].count("+") - notes[:at].count("-") for at in range(len(notes) + 1)]
    assert max(running) <= 2
