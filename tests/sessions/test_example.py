"""The example agent of docs/sessions.md: killed between any two messages, it goes on when it is started again."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from box import Box
from claude import binary
from desk import Desk, at
from endpoint import Request, Step, tool_use

from backstory.sessions import history

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")

PAGE = Path(__file__).parents[2] / "docs" / "sessions.md"
#: Runs the example, and kills it with -9 when it has printed so many messages.
RUNNER = """
import builtins, os, runpy, signal, sys
left, real = int(sys.argv[1]), print
def counting(*words, **more):
    global left
    real(*words, **more)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
builtins.print = counting
runpy.run_path(sys.argv[2], run_name="__main__")
"""
TASKS = ["Read the note.", "Say it again."]
#: Messages of both tasks: what the agent prints if nobody kills it.
MESSAGES = 8
#: In a tool use, after the answer to it, and in the second task. The soak kills between any two messages.
KILLS = (2, 4, 6)


@dataclass
class Example:
    """The example, in a directory with two tasks."""

    desk: Desk
    agent: Path

    @property
    def session_id(self) -> str:
        return (self.desk.box.project / "session-id").read_text()

    def start(self, kill_after: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", RUNNER, str(kill_after), str(self.agent)]
        return subprocess.run(command, cwd=self.desk.box.project, stdout=subprocess.PIPE, text=True, timeout=120)


@pytest.fixture
def example(box: Box, monkeypatch: pytest.MonkeyPatch) -> Iterator[Example]:
    box.start()
    desk, note = at(box, monkeypatch), box.project / "note.txt"
    note.write_text("The price is 12.")
    (box.project / "tasks.txt").write_text("\n".join(TASKS) + "\n")
    agent = box.root / "agent.py"
    agent.write_text(code())

    def script(request: Request) -> Step:
        """Reads the note, if it has not done so yet. `claude` makes up a result for a use that a kill cut off."""
        contents = [str(message["content"]) for message in request.body["messages"]]
        has_result = any("tool_result" in content and "price" in content for content in contents)
        is_told = any("[used Read" in words for words in request.texts())
        return "The price is 12." if has_result or is_told else tool_use("Read", {"file_path": str(note)})

    with desk.model(script):
        yield Example(desk, agent)
    desk.until_no_agent_runs()


def code() -> str:
    (found,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


def test_the_example_is_short() -> None:
    assert code().count("\n") < 40


def test_the_example_works(example: Example) -> None:
    """Started again, it finds nothing to do."""
    done = example.start()
    assert done.returncode == 0
    assert done.stdout.count("\n") == MESSAGES
    assert example.desk.texts(example.session_id) == [TASKS[0], "The price is 12.", TASKS[1], "The price is 12."]
    assert example.start().stdout == ""


@pytest.mark.parametrize(
    "messages", [n if n in KILLS else pytest.param(n, marks=pytest.mark.soak) for n in range(1, MESSAGES)]
)
def test_the_example_survives_kill_9_between_any_two_messages(example: Example, messages: int) -> None:
    """Every task is asked once, in order, and answered."""
    assert example.start(kill_after=messages).returncode == -signal.SIGKILL
    assert example.start().returncode == 0
    desk, session_id = example.desk, example.session_id
    assert [text for text in desk.texts(session_id) if text in TASKS] == TASKS
    assert desk.texts(session_id)[-1] == "The price is 12."
    assert desk.about(session_id).status == "completed"
    assert any(block["type"] == "tool_result" for message in history(session_id) for block in message.content)
