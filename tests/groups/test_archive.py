"""Archives: the format to the letter, no text twice, nothing private, and no file of another's overwritten."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from group_desk import Desk, run, session_id
from transcripts import Script

from backstory.groups import archive
from backstory.store import groups
from backstory.store.db import Store
from backstory.store.groups import Archive

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture(autouse=True)
def local_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose time is not UTC."""
    with monkeypatch.context() as change:
        change.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> Desk:
    made = Desk(store, tmp_path / "data")
    made.data.mkdir()
    made.create("family")
    return made


def whole(desk: Desk, script: Script, title: str = "Travel Planning") -> Archive:
    last = archive.scan(desk.paths("family"), script.session).last_mark or ""
    return Archive(1, "family", script.session, title, "clear", None, last, "2026-02-21T08:39:07.123Z", None)


def markdown(desk: Desk, made: Archive) -> str:
    return "".join(archive.rendered(made, archive.messages_of(desk.paths("family"), made), "G2"))


def eventful() -> Script:
    """A conversation with everything that is left out of an archive."""
    script = Script(session_id(1), "/workspace/group")
    script.chain("user", {"isMeta": True, "message": {"role": "user", "content": "Caveat: meta"}})
    script.prompt("I want to plan a trip to Japan <system-reminder>hidden reminder</system-reminder>")
    script.bulk(10)
    script.says("Here are some", "m1", None)
    script.says("suggestions.", "m1", "tool_use")
    script.uses("Read", {"file_path": "a.md"}, "t1", "m1")
    script.answers("t1", "tool output")
    script.says("A subagent speaks.", isSidechain=True)
    script.prompt([{"type": "text", "text": "<private>only for you</private>"}])
    script.says("A private reply.")
    script.user("<task-notification>done</task-notification>")
    script.user("<local-command-stdout>output</local-command-stdout>")
    script.prompt(f"My address is <private>12 Elm Street</private> and the key is {SECRET}.")
    script.says("x" * 2001)
    script.compacts("The summary of a compaction")
    script.prompt("y" * 2000)
    return script


def test_the_format_to_the_letter(desk: Desk) -> None:
    script = eventful()
    script.write(desk.paths("family").transcript(script.session).parent)
    made = whole(desk, script)
    text = markdown(desk, made)
    key = re.search(r"and the key is (\S+)\.\n", text)
    assert key
    assert "ghp_" not in key[1]
    assert text == (
        "# Travel Planning\n\nArchived: Feb 21, 3:39 AM\n\n---\n\n"
        "**User**: I want to plan a trip to Japan\n\n"
        "**G2**: Here are some\nsuggestions.\n\n"
        f"**User**: My address is  and the key is {key[1]}.\n\n"
        f"**G2**: {'x' * 2000}...\n\n"
        f"**User**: {'y' * 2000}\n"
    )
    assert next(archive.file_names(made)) == "2026-02-21-travel-planning.md"


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Wind-down: reminder, setup!", "2026-02-21-wind-down-reminder-setup.md"),
        ("../../etc/passwd", "2026-02-21-etc-passwd.md"),
        ("Conversation", "2026-02-21-conversation-0339.md"),
        ("???", "2026-02-21-conversation-0339.md"),
        ("Reise nach Köln", "2026-02-21-reise-nach-köln.md"),
        ("a " * 60, f"2026-02-21-{'a-' * 24}a.md"),
    ],
)
def test_the_name_of_a_file(desk: Desk, title: str, name: str) -> None:
    names = archive.file_names(whole(desk, desk.talk("family", 1), title))
    assert [next(names), next(names)] == [name, name.replace(".md", "-2.md")]


def test_a_conversation_that_goes_on_is_written_in_parts(desk: Desk) -> None:
    """Before a compaction and at its end: each message once, and nothing if there is nothing new."""
    script = desk.talk("family", 1, "One", "Two")

    async def work() -> None:
        first = await desk.archives.write("family", script.session, "Talk", "compact")
        assert first
        assert await desk.archives.write("family", script.session, "Talk", "compact") is None
        script.compacts("What was said")
        desk.go_on("family", script, "Three", "Four")
        await desk.pointers.set("family", script.session, 0)
        await desk.pointers.clear("family", "Talk")

    run(work())
    parts = desk.archived("family")
    assert [len(name) for name in parts] == [len("2026-02-21-talk-2.md"), len("2026-02-21-talk.md")]
    said = [re.findall(r"^\*\*\w+\*\*: (.*)$", text, re.MULTILINE) for text in parts.values()]
    assert said == [["Three", "Four"], ["One", "Two"]]


def test_a_message_that_was_sent_while_the_agent_worked_is_in_the_archive(desk: Desk) -> None:
    script = desk.talk("family", 1, "Begin", "I begin")
    attached = {"type": "queued_command", "prompt": "Use the other one <private>hidden</private>"}
    script.chain("attachment", {"attachment": attached | {"commandMode": "prompt"}})
    script.chain("attachment", {"attachment": attached | {"commandMode": "task-notification"}})
    script.says("I use it")
    desk.go_on("family", script)
    said = markdown(desk, whole(desk, script)).partition("---\n\n")[2]
    assert said == "**User**: Begin\n\n**G2**: I begin\n\n**User**: Use the other one\n\n**G2**: I use it\n"


def test_a_title_is_derived(desk: Desk) -> None:
    """From the name in the agent, else from the first prompt; never from what an agent made of a private prompt."""
    script = desk.talk(
        "family", 1, "Plan the garden, and then the shed behind the house where the tools are kept", "Yes"
    )
    assert archive.scan(desk.paths("family"), script.session).title == (
        "Plan the garden, and then the shed behind the house where…"
    )
    script.lines.append({"type": "ai-title", "aiTitle": "A guess", "sessionId": script.session})
    desk.go_on("family", script)
    assert archive.scan(desk.paths("family"), script.session).title == "A guess"
    script.prompt("<private>secret</private>")
    desk.go_on("family", script)
    assert archive.scan(desk.paths("family"), script.session).title.startswith("Plan the garden")
    script.lines.append({"type": "custom-title", "customTitle": "Garden", "sessionId": script.session})
    desk.go_on("family", script)
    assert archive.scan(desk.paths("family"), script.session).title == "Garden"


def test_a_worker_that_was_killed_writes_each_archive_once(desk: Desk) -> None:
    """Killed before the file was written, and after it was written but before that was noted."""
    script = desk.talk("family", 1, "One", "Two")
    paths = desk.paths("family")
    leaving = desk.archives.describe("family", script.session, "Talk", "clear")
    made = desk.store.write(lambda tx: groups.request_archive(tx, "family", leaving))
    assert made
    assert run(desk.archives.write_requested("family")) == {
        made.id: paths.conversations / next(archive.file_names(made))
    }
    files = desk.archived("family")
    desk.store.write(lambda tx: groups.set_archive_file(tx, made, None))
    (paths.conversations / ".0123456789abcdef.tmp").write_text("what was written until then")
    run(desk.archives.write_all_requested())
    assert desk.archived("family") == files
    assert len(files) == 1
    (row,) = desk.store.read(lambda tx: groups.archives(tx, "family"))
    assert [row.file] == list(files)


def test_no_file_is_overwritten(desk: Desk) -> None:
    """Neither another archive with the same title, nor a file or a link that an agent has put there."""
    first, second = desk.talk("family", 1, "Same", "Same"), desk.talk("family", 2, "Same", "Same")
    folder = desk.paths("family").conversations

    async def work() -> list[str]:
        one = await desk.archives.write("family", first.session, "Talk")
        assert one
        outside = desk.data / "outside"
        (folder / one.name.replace(".md", "-2.md")).symlink_to(outside)
        (folder / one.name.replace(".md", "-3.md")).write_text("mine")
        two = await desk.archives.write("family", second.session, "Talk")
        assert two
        assert not outside.exists()
        return [one.name, two.name]

    one, two = run(work())
    assert two == one.replace(".md", "-4.md")
    assert (folder / one.replace(".md", "-3.md")).read_text() == "mine"
    assert len(list(folder.iterdir())) == 4  # no temporary file is left


def test_links_lead_nowhere(desk: Desk) -> None:
    """A transcript, or `conversations`, that a sandbox has replaced by a link to what is another's."""
    desk.create("work")
    theirs = desk.talk("work", 1, "A secret of theirs", "Yes")
    mine = desk.paths("family").transcript(session_id(2))
    mine.parent.mkdir(parents=True)
    mine.symlink_to(desk.paths("work").transcript(theirs.session))
    assert run(desk.archives.write("family", session_id(2))) is None
    assert not archive.is_available(desk.paths("family"), session_id(2))

    mine.unlink()
    mine.parent.rmdir()
    mine.parent.symlink_to(desk.paths("work").transcript(theirs.session).parent)
    assert not archive.is_available(desk.paths("family"), theirs.session)
    assert run(desk.archives.write("family", theirs.session)) is None

    own = desk.talk("work", 3)
    elsewhere = desk.data / "elsewhere"
    elsewhere.mkdir()
    desk.paths("work").folder.mkdir(parents=True, exist_ok=True)
    desk.paths("work").conversations.symlink_to(elsewhere)
    assert run(desk.archives.write("work", own.session)) is None
    assert not list(elsewhere.iterdir())
    desk.paths("work").conversations.unlink()
    assert len(run(desk.archives.write_requested("work"))) == 1  # it is written when it can be
