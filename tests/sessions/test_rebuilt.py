"""A session.json that is damaged: it is set aside and rebuilt from what is whole, and the caller is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from box import Box
from claude import binary
from claude_agent_sdk import ResultError
from desk import Desk, at, finish
from endpoint import Step, tool_use
from test_lost import delete, prompted

from backstory.errors import SessionUnreadable
from backstory.sessions import execute, history, restore

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")
NOTHING = {"command": "true", "description": "Do nothing"}


@pytest.fixture
def desk(box: Box, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    machine = at(box, monkeypatch)
    yield machine
    machine.until_no_agent_runs()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def scribble(path: Path) -> None:
    path.write_text('{"id": "x", "metadata": {}, "messages": [{"role": "user"}]}')


def replace_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def file_of(desk: Desk, session_id: str) -> Path:
    return desk.box.data / "agent-sessions" / session_id / "session.json"


@pytest.mark.parametrize("harm", [truncate, scribble, replace_by_a_folder])
def test_a_session_whose_transcript_is_whole_goes_on(desk: Desk, harm: Callable[[Path], None]) -> None:
    """With all of its messages, its totals and its directory, wherever the caller is."""
    desk.box.start()
    steps: list[Step] = [tool_use("Bash", NOTHING), "Hello Ada.", "Ada.", "Yes."]
    with desk.model(steps) as endpoint:
        first = desk.run("I am Ada.")
        said, about = history(first.id), desk.about(first.id)
        harm(file_of(desk, first.id))
        desk.patch.chdir(desk.box.home)
        assert [[*one.content] for one in history(first.id)] == [[*one.content] for one in said]
        assert desk.about(first.id) == replace(
            about, created_at=desk.about(first.id).created_at, last_message_at=desk.about(first.id).last_message_at
        )
        second = desk.run("Who am I?", first.id, cwd=None)
        assert second.id == first.id
        (notice,) = second.notices
        assert (notice.lost_session_id, notice.session_id, notice.reason) == (first.id, first.id, "rebuilt")
        assert notice.messages == 0
        assert endpoint.of()[-1].texts("user")[-1] == "Who am I?"
        third = desk.run("Sure?", first.id)
        assert not third.notices
    assert desk.texts(first.id) == ["I am Ada.", "Hello Ada.", "Who am I?", "Ada.", "Sure?", "Yes."]
    assert desk.about(first.id).cwd == str(desk.box.project)
    assert desk.kept(first.id)["input_tokens"] == desk.about(first.id).input_tokens > about.input_tokens
    assert desk.kept(first.id)["turn_count"] == 4
    assert sorted(path.name for path in file_of(desk, first.id).parent.glob("session*")) == [
        "session.json",
        "session.json.damaged",
    ]


def test_without_a_transcript_it_is_rebuilt_from_the_store(desk: Desk) -> None:
    """And told to a new session."""
    desk.box.start()
    with desk.model(["Hello Ada.", "Ada."]) as endpoint:
        first = desk.run("I am Ada.")
        desk.box.settle()
        truncate(file_of(desk, first.id))
        delete(desk.transcript(first.id))
        second = desk.run("Who am I?", first.id)
        told = endpoint.of()[-1].texts("user")[-1]
    assert [notice.reason for notice in second.notices] == ["deleted"]
    assert "User: I am Ada." in told
    assert "Assistant: Hello Ada." in told
    assert desk.texts(first.id) == ["I am Ada.", "Hello Ada."]
    assert desk.texts(second.id) == ["I am Ada.", "Hello Ada.", "Who am I?", "Ada."]
    assert desk.about(second.id).parent_id == first.id


def test_without_a_worker_it_is_rebuilt_from_the_transcript(desk: Desk) -> None:
    worker = desk.box.start()
    with desk.model(["Hello Ada."]):
        first = desk.run("I am Ada.")
    desk.box.stop(worker)
    truncate(file_of(desk, first.id))
    assert desk.texts(first.id) == ["I am Ada.", "Hello Ada."]
    assert desk.about(first.id).cwd == str(desk.box.project)


def test_where_nothing_is_whole_the_file_stays_and_is_named(desk: Desk) -> None:
    """Unless the caller knows what was said."""
    session_id = "0b0b7d4e-6f0d-4f43-8f83-2f6a5e1c9a10"
    desk.box.start()
    file = file_of(desk, session_id)
    file.parent.mkdir(parents=True)
    file.write_text("{")
    for read in (history, desk.about, lambda name: asyncio.run(restore(name))):
        with pytest.raises(SessionUnreadable, match=r"session\.json"):
            read(session_id)
    assert [path.name for path in file.parent.glob("session*")] == ["session.json"]
    with desk.model(["Ada."]) as endpoint:
        given = replace(desk.options("Who am I?"), conversation_history=[prompted("I am Ada.")])
        done = asyncio.run(finish(execute(replace(given, session_id=session_id))))
        assert "User: I am Ada." in endpoint.of()[-1].texts("user")[-1]
    assert desk.texts(session_id) == ["I am Ada."]
    assert desk.texts(done.id) == ["I am Ada.", "Who am I?", "Ada."]
    assert file.with_name("session.json.damaged").read_text() == "{"


def test_an_expired_session_is_restored(desk: Desk) -> None:
    desk.box.start()
    with desk.model([tool_use("Bash", NOTHING), "Done."]):
        with pytest.raises(ResultError):
            desk.run("Begin.", max_turns=1, max_continuations=0)
        (session_id,) = (path.name for path in (desk.box.data / "agent-sessions").iterdir())
        desk.sweep(6)
        desk.sweep(31)
        assert desk.kept(session_id)["status"] == "expired"
        truncate(file_of(desk, session_id))
        assert desk.about(session_id).status == "expired"
        asyncio.run(restore(session_id))
        assert desk.about(session_id).status == desk.kept(session_id)["status"] == "active"
        assert desk.run("Go on.", session_id).id == session_id
    assert json.loads(file_of(desk, session_id).read_text())["id"] == session_id
