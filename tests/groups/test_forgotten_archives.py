"""What is forgotten leaves the archives of a group, and does not come back with the next one."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from group_desk import Desk, run
from transcripts import Script

from backstory import ids, project
from backstory.agents.claude_code import resumable
from backstory.groups import forgotten_transcripts, snapshots
from backstory.groups.archive import Archives
from backstory.groups.forgotten_archives import ForgottenArchives
from backstory.groups.forgotten_transcripts import without_forgotten
from backstory.groups.ipc_files import IpcFiles
from backstory.groups.pointers import Pointers
from backstory.model import ContentId, Report, Session
from backstory.settings import Settings
from backstory.store import forget, forget_rows, forgotten, groups, prompts, sessions, turns
from backstory.store.db import Store, Tx
from backstory.store.forget_rows import Forgotten
from backstory.worker.jobs.sweep import Sweep

KEY = b"key"


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> Desk:
    made = Desk(store, tmp_path / "data")
    made.data.mkdir()
    made.create("family")
    made.archives = Archives(store, made.data, "Claude", KEY)
    made.pointers = Pointers(store, made.data, made.archives)
    return made


def remembered(desk: Desk, script: Script) -> Session:
    """Store what a transcript says, as the worker does."""

    def work(tx: Tx) -> Session:
        about = ("claude-code", "session_start", ContentId(script.session))
        session = sessions.get_or_create(tx, Report(*about, ids.new_event_id(), ids.now()), project.of_group("family"))  # type: ignore[arg-type]
        for line in script.lines:
            content = line["message"]["content"]
            if line["type"] == "user":
                session = sessions.get(tx, session.id)
                sessions.add_prompt(tx, session, content, line["timestamp"])
            else:
                turns.add_reply(tx, session, 1, content[0]["text"], line["timestamp"], turns.NO_DETAILS)
        return session

    return desk.store.write(work)


def clean(desk: Desk, *needles: str) -> None:
    files = ForgottenArchives(desk.store, desk.data, desk.archives, desk.pointers.forget)
    files.clean((lambda text: all(needle in text.lower() for needle in needles)) if needles else None)


def test_a_forgotten_prompt_leaves_archives_and_titles(desk: Desk) -> None:
    """The title is its beginning, and so is the name of the file."""
    script = desk.talk("family", 1, "The door code is 4711, remember it", "I will", "And the garden?", "It blooms")
    session = remembered(desk, script)

    async def leave() -> None:
        await desk.pointers.set("family", script.session, 0)
        await desk.pointers.clear("family")

    run(leave())
    (name,) = desk.archived("family")
    assert "the-door-code-is-4711" in name
    clean(desk)
    assert list(desk.archived("family")) == [name]  # nothing was forgotten yet
    desk.create("main")
    for group in ("family", "main"):
        IpcFiles(desk.paths(group)).prepare()
        snapshots.write_history(IpcFiles(desk.paths(group)), run(desk.pointers.resumable(group)))
        assert "4711" in (desk.paths(group).ipc / "session_history.json").read_text()

    def work(tx: Tx) -> None:
        gone = Forgotten(key=KEY)
        prompt = prompts.by_number(tx, session.id, 1)
        assert prompt
        forget.prompt(tx, prompt.id, gone)
        forget.finish(tx, gone)

    desk.store.write(work)
    clean(desk)
    ((name, text),) = desk.archived("family").items()
    assert "4711" not in name + text
    assert "And the garden?" in text
    for group in ("family", "main"):  # the main group is told of the sessions of all
        snapshot = (desk.paths(group).ipc / "session_history.json").read_text()
        assert "4711" not in snapshot
        assert '"Conversation"' in snapshot
    (entry,) = run(desk.pointers.history("family"))
    assert entry.name == "Conversation"
    # Nor does the next part of the conversation bring it back.
    script.now += timedelta(seconds=5)
    desk.go_on("family", script, "One more thing", "Yes?")
    assert run(desk.archives.write("family", script.session))
    assert "4711" not in "".join(desk.archived("family").values())


def test_a_forgotten_sentence_leaves_the_message(desk: Desk) -> None:
    """The rest of what was said stays, and so does the title."""
    script = desk.talk("family", 1, "Where do we meet?", "The door code is 4711. We meet at nine.")
    assert run(desk.archives.write("family", script.session, "Talk"))
    session = remembered(desk, script)

    def work(tx: Tx) -> None:
        forgotten.add_passage(tx, KEY, "The door code is 4711.", script.lines[-1]["timestamp"])
        forget_rows.mark(tx, session.id, "round", "1")

    desk.store.write(work)
    clean(desk)
    ((name, text),) = desk.archived("family").items()
    assert name.endswith("-talk.md")
    assert text.endswith("**User**: Where do we meet?\n\n**Claude**: We meet at nine.\n")


def test_words_leave_archives_without_a_transcript(desk: Desk) -> None:
    """Such an archive cannot be written again, so all of it goes."""
    script = desk.talk("family", 1, "The door code is 4711", "I will remember 4711")
    session = remembered(desk, script)
    assert run(desk.archives.write("family", script.session, "Talk"))
    desk.paths("family").transcript(script.session).unlink()

    def work(tx: Tx) -> None:
        gone = Forgotten(key=KEY)
        forget.matching(tx, "4711", "", gone)
        forget.finish(tx, gone)

    desk.store.write(work)
    clean(desk, "4711")
    assert desk.archived("family") == {}
    assert session.id


def test_a_forgotten_session_leaves_its_group(desk: Desk) -> None:
    first, second = desk.talk("family", 1), desk.talk("family", 2)
    session = remembered(desk, first)
    remembered(desk, second)

    async def leave_both() -> None:
        for script in (first, second):
            await desk.pointers.set("family", script.session, (await desk.pointers.get("family")).generation)
            await desk.archives.write("family", script.session, "Talk")
        await desk.pointers.resume("family", (await desk.pointers.history("family"))[0].id)

    run(leave_both())
    state, beside = desk.paths("family").state, desk.paths("family").transcript(first.session).with_suffix("")
    for place in (beside / "tool-results", beside / "subagents", state / "session-env" / first.session):
        place.mkdir(parents=True)
        (place / "file").write_text("Question 1")
    (state / "todos").mkdir()
    (state / "todos" / f"{first.session}-agent-1.json").write_text("Question 1")
    (state / "todos" / f"{second.session}-agent-1.json").write_text("Question 2")
    IpcFiles(desk.paths("family")).prepare()
    snapshots.write_history(IpcFiles(desk.paths("family")), run(desk.pointers.history("family")))

    def work(tx: Tx) -> None:
        gone = Forgotten(key=KEY)
        forget.session(tx, session.id, gone)
        forget.finish(tx, gone)

    desk.store.write(work)
    clean(desk)
    assert run(desk.pointers.get("family")).session_id is None
    assert [entry.session_id for entry in run(desk.pointers.history("family"))] == [second.session]
    assert not desk.paths("family").transcript(first.session).exists()
    assert desk.paths("family").transcript(second.session).exists()
    assert [path.name for path in state.rglob("*") if first.session in str(path)] == []
    assert (state / "todos" / f"{second.session}-agent-1.json").exists()
    assert first.session not in (desk.paths("family").ipc / "session_history.json").read_text()
    (text,) = desk.archived("family").values()
    assert "Question 2" in text
    assert [row.session_id for row in desk.store.read(lambda tx: groups.archives(tx, "family"))] == [second.session]


def test_forgotten_text_leaves_the_transcript(desk: Desk) -> None:
    """An agent that resumes it is not told it again. Its entries stay, so that it can be resumed."""
    script = desk.talk(
        "family", 1, "The door code is 4711", "I know. We meet at nine.", "And the pin of the safe?", "Yes"
    )
    script.uses("Bash", {"command": "echo 4711"}, "t1")
    script.answers("t1", "4711")
    script.lines.append({"type": "last-prompt", "lastPrompt": "And the pin of the safe?", "sessionId": script.session})
    desk.go_on("family", script)
    paths = desk.paths("family")
    beside = paths.transcript(script.session).with_suffix("") / "subagents" / "agent-1.jsonl"
    beside.parent.mkdir(parents=True)
    beside.write_bytes(script.raw() + b"not json\n")
    moment = script.lines[0]["timestamp"]

    def work(tx: Tx) -> None:
        forgotten.add(tx, KEY, "The door code is 4711", moment)
        forgotten.add_passage(tx, KEY, "We meet at nine.", moment)
        change = without_forgotten(tx, KEY, {"t1"}, lambda text: "pin" in text)
        forgotten_transcripts.clean(paths, script.session, change)

    desk.store.write(work)
    for file in (paths.transcript(script.session), beside):
        text = file.read_text()
        for gone in ("4711", "nine", "safe"):
            assert gone not in text
        assert "I know." in text
        assert [line.get("uuid") for line in _lines(text)] == [line.get("uuid") for line in script.lines]
        assert all(block["text"] for line in _lines(text) for block in _texts(line))
    assert beside.read_text().endswith("not json\n")
    assert [path.name for path in beside.parent.iterdir()] == [beside.name]
    assert resumable.read(paths.transcript(script.session))


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _texts(line: dict[str, Any]) -> list[dict[str, Any]]:
    content = line.get("message", {}).get("content")
    return [block for block in content if block["type"] == "text"] if isinstance(content, list) else []


def test_a_session_that_expires_is_archived(desk: Desk) -> None:
    script = desk.talk("family", 1)
    session = remembered(desk, script)
    sweep = Sweep(Settings(data_dir=desk.data), desk.store, desk.archives)
    run(sweep.archive([session.id]))
    (archive,) = desk.store.read(lambda tx: groups.archives(tx, "family"))
    assert (archive.cause, [archive.file]) == ("expire", list(desk.archived("family")))
