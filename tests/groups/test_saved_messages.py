"""A group whose transcript is gone: what is saved of its session is archived, under its name and its date."""

from __future__ import annotations

from pathlib import Path

import pytest
from group_desk import Desk, run, session_id

from backstory import ids
from backstory.agents import DEFAULT_AGENT
from backstory.model import ContentId, Report, SessionStatus
from backstory.paths import Paths
from backstory.project import of_group
from backstory.sessions import session_file
from backstory.sessions.session_file import Message, Metadata, SessionFile
from backstory.store import sessions, turns
from backstory.store.db import Store, Tx

BEGAN = "2026-02-21T08:30:00.000Z"
LATER = "2026-02-22T08:30:00.000Z"


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> Desk:
    made = Desk(store, tmp_path / "data")
    made.data.mkdir()
    made.create("family")
    return made


def said(role: str, text: str, at: str) -> Message:
    return Message(role, ({"type": "text", "text": text},), at)


def keep(desk: Desk, number: int, *messages: Message, began: str = BEGAN, parent: str | None = None) -> None:
    """Write the session.json of a session of the family."""
    folder = str(desk.paths("family").folder)
    about = Metadata("m", folder, began, LATER, status=SessionStatus.ACTIVE, parent_id=parent)
    session_file.write(Paths(desk.data), SessionFile(ContentId(session_id(number)), about, messages))


def remember(desk: Desk, number: int, group: str, *texts: str) -> None:
    """Store a conversation of a group, as its hooks report it."""

    def work(tx: Tx) -> None:
        content_id = ContentId(session_id(number))
        session = sessions.get_or_create(tx, Report(DEFAULT_AGENT, "prompt", content_id, "e1", BEGAN), of_group(group))
        for at, text in enumerate(texts):
            if at % 2:
                turns.add_reply(tx, session, at // 2 + 1, text, BEGAN)
            else:
                sessions.add_prompt(tx, sessions.get(tx, session.id), text, BEGAN)

    desk.store.write(work)


def body(text: str) -> str:
    return text.partition("---\n\n")[2]


def test_a_clear_archives_what_session_json_has(desk: Desk) -> None:
    """With its own name and date. What was private stays out."""
    use = {"type": "tool_use", "tool_use": {"id": "t", "name": "Bash", "input": {}}}
    keep(
        desk,
        1,
        said("user", "Plan a trip to Japan", BEGAN),
        Message("assistant", ({"type": "text", "text": "I look."}, use), BEGAN),
        Message("user", ({"type": "tool_result", "tool_result": {"tool_use_id": "t", "content": "x"}},), BEGAN),
        said("assistant", "Here are some suggestions", BEGAN),
        said("user", "<private>4711</private>", BEGAN),
        said("assistant", "A private reply", BEGAN),
    )

    async def work() -> None:
        await desk.pointers.set("family", session_id(1), 0)
        entry = await desk.pointers.clear("family")
        assert (entry.name, entry.created_at, entry.transcript_available) == ("Plan a trip to Japan", BEGAN, False)

    run(work())
    (text,) = desk.archived("family").values()
    assert text.startswith("# Plan a trip to Japan\n")
    assert body(text) == (
        "**User**: Plan a trip to Japan\n\n**Claude**: I look.\n\n**Claude**: Here are some suggestions\n"
    )


def test_without_session_json_it_archives_what_is_stored(desk: Desk) -> None:
    """Of this group alone, whatever a session.json or a session of another one has."""
    remember(desk, 1, "family", "Plan a trip to Japan", "Here are some suggestions")
    remember(desk, 2, "work", "A secret of theirs", "Yes")
    folder = Paths(desk.data).agent_sessions / session_id(1)
    folder.mkdir(parents=True)
    (folder / "session.json").write_text("{")

    async def work() -> None:
        for number in (1, 2):
            await desk.pointers.set("family", session_id(number), (await desk.pointers.get("family")).generation)
            await desk.pointers.clear("family")
        theirs, ours = await desk.pointers.history("family")
        assert (ours.name, ours.created_at) == ("Plan a trip to Japan", BEGAN)
        assert theirs.name == "Conversation"

    run(work())
    (text,) = desk.archived("family").values()
    assert body(text) == "**User**: Plan a trip to Japan\n\n**Claude**: Here are some suggestions\n"


def test_what_was_archived_before_the_transcript_was_lost_is_not_archived_again(desk: Desk) -> None:
    script = desk.talk("family", 1, "One", "Two")

    async def work() -> None:
        first = await desk.archives.write("family", script.session, "Talk", "compact")
        assert first
        written = ids.now()
        while ids.now() == written:
            pass
        desk.paths("family").transcript(script.session).unlink()
        parts = (said("user", "One", BEGAN), said("assistant", "Two", BEGAN))
        keep(desk, 1, *parts, said("user", "Three", ids.now()), said("assistant", "Four", ids.now()))
        await desk.pointers.set("family", script.session, 0)
        await desk.pointers.clear("family", "Talk")
        resumed = await desk.pointers.resume("family", (await desk.pointers.history("family"))[0].id)
        assert resumed.session_id == script.session
        await desk.pointers.clear("family", "Talk")  # nothing was said since

    run(work())
    assert sorted(body(text) for text in desk.archived("family").values()) == [
        "**User**: One\n\n**Claude**: Two\n",
        "**User**: Three\n\n**Claude**: Four\n",
    ]


def test_a_session_that_goes_on_with_a_lost_one_keeps_its_name_and_date(desk: Desk) -> None:
    """Also over a second loss. Its archives have what was said in it alone."""

    async def work() -> None:
        keep(desk, 1, said("user", "Plan a trip to Japan", BEGAN), said("assistant", "Yes", BEGAN))
        await desk.pointers.set("family", session_id(1), 0)
        entry = await desk.pointers.clear("family", "Travel Planning")
        seen = await desk.pointers.resume("family", entry.id)
        before = [said("user", "Plan a trip to Japan", BEGAN), said("assistant", "Yes", BEGAN)]
        for number in (2, 3):  # the agent goes on in a session of another id
            talk = (said("user", f"And then {number}?", ids.now()), said("assistant", "Then that", ids.now()))
            keep(desk, number, *before, *talk, began=LATER, parent=session_id(number - 1))
            before += [*talk]
            assert await desk.pointers.set("family", session_id(number), seen.generation)
        await desk.pointers.clear("family")
        past = await desk.pointers.history("family")
        assert [(each.name, each.created_at) for each in past] == [("Travel Planning", BEGAN)] * 3

    run(work())
    assert [body(text) for name, text in desk.archived("family").items() if name.endswith("-2.md")] == [
        "**User**: And then 2?\n\n**Claude**: Then that\n"
    ]
    assert len(desk.archived("family")) == 3


def test_a_session_after_a_clear_inside_the_agent_has_a_name_of_its_own(desk: Desk) -> None:
    async def work() -> None:
        keep(desk, 1, said("user", "Plan a trip to Japan", BEGAN))
        await desk.pointers.set("family", session_id(1), 0)
        keep(desk, 2, said("user", "Do my taxes", LATER), began=LATER, parent=session_id(1))
        await desk.pointers.set("family", session_id(2), 0)
        entry = await desk.pointers.clear("family")
        assert (entry.name, entry.created_at) == ("Do my taxes", LATER)

    run(work())
