"""One caller at a time drives a session, and one that is killed leaves it to the next."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import aclosing

import pytest
from box import Box, until
from claude import Claude, binary
from desk import Desk, Finished, at, finish
from endpoint import Held, Request, Step, hang, tool_use

from backstory.errors import SessionBusy
from backstory.sessions import execute

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")

#: A caller that prints a line for each message.
CALLER = """
import asyncio, sys
from backstory.sessions import Options, execute, history

async def main(prompt, session_id=None):
    said = history(session_id) if session_id else None
    run = execute(Options(prompt=prompt, session_id=session_id, conversation_history=said, allowed_tools=["Bash"]))
    async for message in run:
        print(type(message).__name__, run.session_id, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def desk(box: Box, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    box.start()
    machine = at(box, monkeypatch)
    yield machine
    machine.until_no_agent_runs()


def test_the_second_of_two_callers_is_refused(desk: Desk) -> None:
    """It gets a clear error, and the transcript does not fork."""
    let_go = threading.Event()

    async def both(session_id: str) -> Finished:
        async with aclosing(execute(desk.options("Take your time.", session_id))) as first:
            messages = [await anext(first)]
            with pytest.raises(SessionBusy, match="in use"):
                await finish(execute(desk.options("Me too.", session_id)))
            let_go.set()
            messages += [message async for message in first]
            return Finished(messages, first)

    with desk.model(["One.", Held(let_go, "Two."), "Three."]):
        session_id = desk.run("Begin.").id
        done = asyncio.run(both(session_id))
        assert done.result.subtype == "success"
        assert desk.run("Now me.", session_id).id == session_id
    assert desk.texts(session_id) == ["Begin.", "One.", "Take your time.", "Two.", "Now me.", "Three."]
    assert desk.leaves(session_id) == 1


def test_what_was_said_in_claude_itself_is_taken_over(desk: Desk) -> None:
    """So that it is not lost with the transcript."""
    with desk.model(["Hello Ada.", "Noted.", "Ada, and it is 12.", "Still 12."]) as endpoint:
        session_id = desk.run("I am Ada.").id
        client = Claude(desk.box.home, desk.box.project, endpoint)
        client.run("The price is 12.", f"--resume={session_id}")
        done = desk.run("What do you know?", session_id)
        assert done.id == session_id
        assert not done.notices
        said = ["I am Ada.", "Hello Ada.", "The price is 12.", "Noted.", "What do you know?", "Ada, and it is 12."]
        assert desk.texts(session_id) == said
        desk.transcript(session_id).unlink()
        desk.run("And now?", session_id)
        assert "The price is 12." in endpoint.of()[-1].texts("user")[-1]


def test_another_process_is_refused_too(desk: Desk) -> None:
    with desk.model(["One.", hang()]) as endpoint:
        session_id = desk.run("Begin.").id
        caller = desk.start(CALLER, "Take your time.", session_id)
        try:
            assert caller.stdout is not None
            assert caller.stdout.readline().split() == ["SystemMessage", session_id]
            with pytest.raises(SessionBusy):
                desk.run("Me too.", session_id)
            assert len(endpoint.of()) <= 2
        finally:
            caller.kill()
            caller.communicate()


@pytest.mark.parametrize("prompt", ["Think.", "Use it."])
def test_the_next_caller_takes_the_session_of_one_that_was_killed(desk: Desk, prompt: str) -> None:
    """The agent dies with its caller, in the middle of an answer or of a tool, and the transcript does not fork."""
    started = desk.box.project / "started"

    def script(request: Request) -> Step:
        if "Go on." in request.texts("user")[-1]:
            return "Done."
        slow = {"command": f"touch {started}; sleep 300", "description": "Wait"}
        return tool_use("Bash", slow) if prompt == "Use it." else hang()

    with desk.model(script):
        caller = desk.start(CALLER, prompt)
        assert caller.stdout is not None
        session_id = caller.stdout.readline().split()[1]
        until(lambda: prompt in desk.transcripts(session_id), "the prompt in the transcript")
        if prompt == "Use it.":
            until(started.exists, "the tool to run")
        assert desk.agents()
        caller.send_signal(signal.SIGKILL)
        caller.communicate()
        assert desk.run("Go on.", session_id).id == session_id
    assert desk.texts(session_id)[-1] == "Done."
    assert desk.leaves(session_id) == 1
    assert desk.about(session_id).status == "completed"
    desk.until_no_agent_runs()
    assert not list((desk.box.data / "agent-runs").glob("line-*"))
