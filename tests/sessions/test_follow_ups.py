"""Follow-ups that are sent before the agent has named its session, or that it has not taken up: none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from box import Box, until
from claude import binary
from claude_agent_sdk import AssistantMessage
from desk import Desk, at
from endpoint import tool_use
from test_lost import delete, forge

from backstory.sessions import execute

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")
#: A command that does not end by itself.
WAIT = {"command": "while [ ! -e never ]; do sleep 0.05; done", "description": "Wait"}


@pytest.fixture
def desk(box: Box, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    box.start()
    machine = at(box, monkeypatch)
    yield machine
    machine.until_no_agent_runs()


def saying(*texts: str) -> Callable[[], AsyncIterator[str]]:
    """Follow-ups that come at once, each of them once however often they are asked for."""
    left = list(texts)

    async def follow_ups() -> AsyncIterator[str]:
        while left:
            yield left.pop(0)

    return follow_ups


def test_what_is_sent_before_the_session_is_known_is_kept_and_told_again(desk: Desk) -> None:
    with desk.model(["Noted.", "Noted too.", "So it is."]) as endpoint:
        first = desk.run("The table is long.", follow_ups=saying("Use metres.", "Round up."))
        said = desk.texts(first.id)
        assert said[:3] == ["The table is long.", "Use metres.", "Round up."]
        assert desk.about(first.id).message_count == len(said)
        delete(desk.transcript(first.id))
        desk.run("How long?", first.id)
        told = endpoint.of()[-1].texts("user")[-1]
    for words in ("User: The table is long.", "User: Use metres.", "User: Round up."):
        assert told.count(words) == 1


def test_what_is_sent_to_a_session_that_is_refused_is_sent_to_the_next_one(desk: Desk) -> None:
    """The session that is refused keeps its record as it was."""
    with desk.model(["Noted.", "Yes.", "Yes.", "Yes."]) as endpoint:
        first = desk.run("The table is long.")
        forge(desk.transcript(first.id))
        second = desk.run("How long?", first.id, follow_ups=saying("Use metres."))
        asked = str([request.body["messages"] for request in endpoint.of()])
    assert [notice.reason for notice in second.notices] == ["refused"]
    assert "Use metres." in asked
    assert desk.texts(first.id) == ["The table is long.", "Noted."]
    assert desk.texts(second.id)[:4] == ["The table is long.", "Noted.", "How long?", "Use metres."]


def test_what_the_agent_had_not_taken_up_is_told_again(desk: Desk) -> None:
    """It was killed while it worked. The next run tells what it had not seen, once."""

    async def leave() -> str:
        options = desk.options("Measure the table.", follow_ups=saying("Use metres."))
        async with execute(options) as run:
            async for message in run:
                if isinstance(message, AssistantMessage):
                    break
            session_id = str(run.session_id)
            # The agent writes its transcript late.
            await asyncio.to_thread(until, lambda: "never" in desk.transcripts(session_id), "the transcript")
            return session_id

    with desk.model([tool_use("Bash", WAIT), "It is 2 m.", "As I said."]) as endpoint:
        session_id = asyncio.run(leave())
        desk.until_no_agent_runs()
        assert "Use metres." not in str(endpoint.of()[-1].body["messages"])
        second = desk.run("Go on.", session_id)
        assert second.id == session_id
        assert "User: Use metres." in endpoint.of()[-1].texts("user")[-1]
        third = desk.run("Again?", session_id)
        assert not third.notices
        assert "Use metres." not in endpoint.of()[-1].texts("user")[-1]
    assert desk.texts(session_id).count("Use metres.") == 1
