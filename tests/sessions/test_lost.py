"""A transcript that was deleted, emptied, cut off or damaged: the conversation goes on, and the caller is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box
from claude import binary
from claude_agent_sdk import ClaudeAgentOptions
from desk import Desk, at
from endpoint import Step, tool_use

from backstory.sessions.transcript_store import TranscriptStore

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")


@pytest.fixture
def desk(box: Box, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    box.start()
    machine = at(box, monkeypatch)
    yield machine
    machine.until_no_agent_runs()


def delete(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def corrupt(path: Path) -> None:
    """Every line is garbage."""
    path.write_bytes(b"".join(b"\x00" + line[1:] + b"\n" for line in path.read_bytes().splitlines()))


def damage_the_middle(path: Path) -> None:
    """One line of the chain is garbage, so what is before it would be unknown."""
    lines = path.read_bytes().splitlines()
    number = next(n for n, line in enumerate(lines) if b"Hello Ada." in line and b'"assistant"' in line)
    lines[number] = b"{garbage"
    path.write_bytes(b"\n".join(lines) + b"\n")


def forge(path: Path) -> None:
    """A transcript that claims to be whole, and that `claude` refuses."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    kept = [{"uuid": line["uuid"], "parentUuid": None, "type": line["type"]} for line in lines if line.get("uuid")]
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in kept))


def prompted(text: str) -> dict[str, Any]:
    """A message of the user, as a caller gives it."""
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def test_a_lost_conversation_goes_on_in_a_new_session(desk: Desk) -> None:
    with desk.model(["Hello Ada.", "Yes.", "Ada.", "Still Ada."]) as endpoint:
        first = desk.run("I am Ada.")
        desk.run("Will you remember?", first.id)
        delete(desk.transcript(first.id))
        second = desk.run("Who am I?", first.id)
        (notice,) = second.notices
        assert second.messages[0] is notice
        assert (notice.lost_session_id, notice.session_id, notice.reason) == (first.id, second.id, "deleted")
        assert notice.messages == 4
        assert second.id != first.id
        asked = endpoint.of()[-1].texts("user")[-1]
        for words in ("User: I am Ada.", "Assistant: Hello Ada.", "User: Will you remember?", "Who am I?"):
            assert words in asked
        third = desk.run("And now?", second.id)
        assert third.id == second.id
        assert not third.notices
    said = ["I am Ada.", "Hello Ada.", "Will you remember?", "Yes.", "Who am I?", "Ada.", "And now?", "Still Ada."]
    assert desk.texts(second.id) == said
    assert desk.texts(first.id) == said[:4]
    assert desk.about(second.id).parent_id == first.id
    assert desk.about(first.id).status == "completed"
    sql = "SELECT p.content_session_id AS parent FROM sdk_sessions s JOIN sdk_sessions p ON p.id = s.parent_id"
    assert desk.box.rows(f"{sql} WHERE s.content_session_id = ?", second.id) == [{"parent": first.id}]


def test_a_conversation_may_be_lost_in_any_way(desk: Desk) -> None:
    for harm, reason in ((empty, "empty"), (corrupt, "damaged"), (damage_the_middle, "damaged"), (forge, "refused")):
        said = [
            "I am Ada.",
            "Hello Ada.",
            *(["More?", "Yes."] if harm is damage_the_middle else []),
            "Who am I?",
            "Ada.",
        ]
        with desk.model(list(said[1::2])) as endpoint:
            first = desk.run("I am Ada.")
            if "More?" in said:
                desk.run("More?", first.id)
            harm(desk.transcript(first.id))
            second = desk.run("Who am I?", first.id)
            assert "User: I am Ada." in endpoint.of()[-1].texts("user")[-1], harm
        (notice,) = second.notices
        assert (notice.lost_session_id, notice.session_id, notice.reason) == (first.id, second.id, reason), harm
        assert second.id != first.id
        assert desk.texts(second.id) == said, harm


def test_a_transcript_that_was_kept_is_restored(desk: Desk) -> None:
    """The same session goes on, and the agent knows all of it."""
    for harm, reason in ((delete, "deleted"), (empty, "empty"), (corrupt, "damaged")):
        with desk.model(["Hello Ada.", "Ada."]) as endpoint:
            first = desk.run("I am Ada.")
            desk.box.cli("sessions", "keep", first.id)
            harm(desk.transcript(first.id))
            second = desk.run("Who am I?", first.id)
            seen = endpoint.of()[-1].texts()
        (notice,) = second.notices
        assert (notice.lost_session_id, notice.session_id) == (first.id, first.id), harm
        assert (notice.reason, notice.messages) == (reason, 0), harm
        assert any(words.startswith("I am Ada.") for words in seen), harm
        assert desk.texts(first.id) == ["I am Ada.", "Hello Ada.", "Who am I?", "Ada."], harm
        assert desk.leaves(first.id) == 1, harm


def test_a_session_store_of_the_sdk_takes_the_place_of_the_file(desk: Desk) -> None:
    """The SDK takes the transcript from there, so a file that is missing is not missed."""
    store = ClaudeAgentOptions(session_store=TranscriptStore(desk.box.project))
    with desk.model(["Hello Ada.", "Ada.", "Still Ada."]) as endpoint:
        first = desk.run("I am Ada.", sdk=store)
        delete(desk.transcript(first.id))
        for prompt in ("Who am I?", "And now?"):
            done = desk.run(prompt, first.id, sdk=store)
            assert done.id == first.id
            assert not done.notices
            assert any(words.startswith("I am Ada.") for words in endpoint.of()[-1].texts())


def test_a_transcript_that_was_cut_off_is_resumed_and_the_rest_is_told(desk: Desk) -> None:
    """As after a crash: the same session, which is told what it no longer knows."""
    with desk.model(["Hello Ada.", "I am well.", "Ada, and you asked how I am."]) as endpoint:
        first = desk.run("I am Ada.")
        size = desk.transcript(first.id).stat().st_size
        desk.run("How are you?", first.id)
        with desk.transcript(first.id).open("rb+") as file:
            file.truncate(size + 100)
        second = desk.run("Who am I?", first.id)
        (notice,) = second.notices
        assert (notice.lost_session_id, notice.session_id, notice.reason) == (first.id, first.id, "damaged")
        assert notice.messages == 2
        seen = endpoint.of()[-1].texts()
    assert any(words.startswith("I am Ada.") for words in seen), "the agent still knows the beginning"
    assert "Assistant: I am well." in seen[-1]
    assert desk.texts(first.id)[-2:] == ["Who am I?", "Ada, and you asked how I am."]
    assert desk.about(first.id).parent_id is None


def test_what_is_told_again_is_not_remembered_again(desk: Desk) -> None:
    """The prompt is stored as it was written, and what was said keeps its one session. A caller that was killed, and
    has lost the record, finds the prompt as it was written in the transcript, too."""
    with desk.model(["The price is 12.", "As I said.", "Twelve."]):
        first = desk.run("What is the price?")
        delete(desk.transcript(first.id))
        second = desk.run("Again?", first.id)
        said = desk.texts(second.id)
        (desk.box.data / "agent-sessions" / second.id / "session.json").unlink()
        desk.run("More?", second.id, conversation_history=[prompted("Again?")])
        assert desk.texts(second.id) == [*said[2:], "More?", "Twelve."]
    desk.box.settle()
    rows = desk.box.rows(
        "SELECT content_session_id AS id, prompt FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id "
        "ORDER BY p.id"
    )
    assert [(row["id"], row["prompt"]) for row in rows] == [
        (first.id, "What is the price?"),
        (second.id, "Again?"),
        (second.id, "More?"),
    ]
    turns = [row["text"] for row in desk.box.rows("SELECT text FROM turns ORDER BY id")]
    assert turns == ["What is the price?", "The price is 12.", "Again?", "As I said.", "More?", "Twelve."]
    assert desk.box.rows("SELECT first_user_prompt AS said FROM sdk_sessions ORDER BY id DESC")[0] == {"said": "Again?"}


def test_files_that_were_named_are_not_opened_again(desk: Desk) -> None:
    """`claude` opens a file that a prompt names with @. What is told again is told as it is."""
    (desk.box.project / "secret.txt").write_text("The animal is a quokka.")
    with desk.model(["I see.", "Yes."]) as endpoint:
        first = desk.run("Do not open it: secret.txt")
        file = desk.box.data / "agent-sessions" / first.id / "session.json"
        file.write_text(file.read_text().replace("it: secret.txt", "it: @secret.txt"))
        delete(desk.transcript(first.id))
        desk.run("Go on.", first.id)
        asked = json.dumps(endpoint.of()[-1].body)
    assert "@secret.txt" in asked
    assert "quokka" not in asked


def test_a_session_without_session_json_begins_with_the_history_of_the_caller(desk: Desk) -> None:
    """A session of Claude Code itself, or one whose file was lost."""
    said = [prompted("I am Ada.")]
    with desk.model(["Ada."]) as endpoint:
        done = desk.run("Who am I?", "0b0b7d4e-6f0d-4f43-8f83-2f6a5e1c9a10", conversation_history=said)
        assert "User: I am Ada." in endpoint.of()[-1].texts("user")[-1]
    assert [notice.reason for notice in done.notices] == ["deleted"]
    assert desk.texts(done.id) == ["I am Ada.", "Who am I?", "Ada."]


def test_a_tool_use_that_was_cut_off_is_not_told(desk: Desk) -> None:
    """Neither to a new session nor as a result without its use."""
    steps: list[Step] = [tool_use("Bash", {"command": "echo one", "description": "One"}), "It printed one.", "Yes."]
    with desk.model(steps) as endpoint:
        first = desk.run("Print one.")
        file = desk.box.data / "agent-sessions" / first.id / "session.json"
        content = json.loads(file.read_text())
        use = {"type": "tool_use", "tool_use": {"id": "cut", "name": "Bash", "input": {"command": "echo two"}}}
        content["messages"].append({"role": "assistant", "content": [use], "timestamp": ""})
        file.write_text(json.dumps(content))
        delete(desk.transcript(first.id))
        desk.run("Go on.", first.id)
        asked = endpoint.of()[-1].texts("user")[-1]
    assert "echo one" in asked
    assert "echo two" not in asked
