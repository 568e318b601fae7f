"""The conversation as it is kept: from hooks, transcripts and files of others, once and under lasting numbers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from box import Box, until
from test_private import assert_nowhere
from transcripts import Script

CANARY = "quagga5e2b"


@pytest.fixture
def listening(running: Box) -> Box:
    """Installed, so that transcripts are looked at, with a worker that is up."""
    running.cli("install", "--agent", "claude-code")
    return running


def said(box: Box, session: str = "") -> list[tuple[int, str, str | None]]:
    sql = "SELECT number, role, text FROM turns t JOIN sdk_sessions s ON s.id = t.session_id "
    rows = box.rows(sql + "WHERE s.content_session_id = ? OR ? = '' ORDER BY t.session_id, number", session, session)
    return [(row["number"], row["role"], row["text"]) for row in rows]


def script(box: Box) -> Script:
    """A conversation that goes on now: what is older than the install is not read unasked."""
    from datetime import UTC, datetime

    return Script(cwd=str(box.project), now=datetime.now(UTC))


def hooks(box: Box, talk: Script, *calls: tuple[str, dict[str, Any]], path: Path | None = None) -> None:
    more = {"transcript_path": str(path)} if path else {}
    for event, payload in calls:
        assert box.hook(event, {"session_id": talk.session} | more | payload).returncode == 0


def test_what_hooks_tell_is_not_doubled_by_the_transcript(listening: Box) -> None:
    """Without a transcript: prompt and last message. Then the transcript is there, with all that was said."""
    talk = script(listening)
    asked, ended = ("UserPromptSubmit", {"prompt": "Mend it."}), ("Stop", {"last_assistant_message": "Mended."})
    hooks(listening, talk, asked, ended)
    assert said(listening) == [(0, "user", "Mend it."), (1, "assistant", "Mended.")]
    talk.prompt("Mend it.")
    talk.says("Let me look.", stop="tool_use")
    talk.uses("Bash", {"command": f"grep {CANARY}"}, "t1")
    talk.answers("t1", "nothing")
    talk.says("Mended.")
    path = talk.write(listening.home / ".claude" / "projects" / "shop")
    hooks(listening, talk, ("PreCompact", {"trigger": "manual"}), path=path)
    until(lambda: len(said(listening)) == 3, "the transcript to be read")
    assert said(listening)[2] == (2, "assistant", "Let me look.")
    until(lambda: listening.rows("SELECT 1 FROM chunks WHERE text LIKE ?", f"%{CANARY}%"), "the tool's arguments")
    assert [row["mark"] is not None for row in listening.rows("SELECT mark FROM turns ORDER BY number")] == [
        False,
        True,
        True,
    ]


def test_numbers_stay_through_compaction_and_rewind(listening: Box) -> None:
    """Read as it grows, and imported whole into another memory: the same turns under the same numbers."""
    talk = script(listening)
    folder = listening.home / ".claude" / "projects" / "shop"

    def look() -> list[tuple[int, str, str | None]]:
        path = talk.write(folder)
        hooks(listening, talk, ("PreCompact", {"trigger": "auto"}), path=path)
        replies = [line for line in talk.lines if line["type"] == "assistant"]
        until(lambda: sum(role == "assistant" for _, role, _ in said(listening)) == len(replies), "the transcript")
        return said(listening)

    talk.prompt("First.")
    fork = talk.says("One.")
    first = look()
    talk.compacts("It was about one.")
    talk.prompt("Second.")
    talk.says("Two.")
    second = look()
    talk.leaf = fork
    talk.prompt("Second, differently.")
    talk.says("Three.")
    third = look()
    assert third[:2] == first
    assert third[:4] == second
    assert [text for _, _, text in third] == ["First.", "One.", "Second.", "Two.", "Second, differently.", "Three."]
    whole = Script(session="9" * 8, lines=[line | {"sessionId": "9" * 8} for line in talk.lines])
    for line in whole.lines:  # as another machine's: the same talk under ids of its own
        line["uuid"] = f"x{line['uuid']}"
    path = whole.write(listening.root / "elsewhere")
    listening.cli("import", "claude-code", str(path))
    assert said(listening, whole.session) == third


def test_a_private_round_of_a_transcript_leaves_numbers_only(running: Box) -> None:
    """Neither prompt nor reply, in no file; what was forgotten does not come back with a second import."""
    talk = Script()
    talk.prompt(f"<private>{CANARY}</private>")
    talk.says(f"So {CANARY} it is.")
    talk.prompt("The zebra, please.")
    talk.says("A zebra it is.")
    path = talk.write(running.root / "old")
    running.cli("import", "claude-code", str(path))
    assert [text for _, _, text in said(running)] == [None, None, "The zebra, please.", "A zebra it is."]
    assert_nowhere(running, CANARY)
    running.cli("forget", "--matching", "zebra", "--yes")
    path.touch()
    running.cli("import", "claude-code", str(path))
    assert [text for _, _, text in said(running)] == [None] * 4
    assert_nowhere(running, "zebra")


LINES: list[dict[str, Any]] = [
    {"project": "p1", "session": "c1", "turn": 0, "role": "user", "text": "Which car?", "at": "2023/03/10 (Fri) 07:53"},
    {
        "project": "p1",
        "session": "c1",
        "turn": 1,
        "role": "assistant",
        "text": "The red one.",
        "at": "2023-03-10T07:54",
    },
    {"project": "p1", "session": "c1", "turn": 2, "role": "system", "text": "internal", "at": None},
    {"project": "p1", "session": "c1", "turn": 3, "role": "user", "text": f"<private>{CANARY}", "at": 1678434900},
    {"project": "p1", "session": "c1", "turn": 4, "role": "assistant", "text": f"Ah, {CANARY}.", "at": 1678434901000},
    {"project": "p2", "session": "c2", "turn": 0, "role": "Gina", "text": "Hey!", "at": "4:04 pm on 20 January, 2023"},
    {
        "project": "p2",
        "session": "c2",
        "turn": 1,
        "role": "Jon",
        "text": "Lost my job.",
        "at": "4:04 pm on 20 January, 2023",
    },
]


def test_conversations_of_others_are_imported_once(running: Box) -> None:
    """Turns keep their numbers, times and names; private stays private; again nothing changes, more is added."""
    file = running.root / "talks.jsonl.gz"
    file.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in LINES).encode() + b"no json\n[1]\n\n"))
    told = json.loads(running.cli("import", "conversations", str(file), "--json").stdout)
    assert (told["added"], told["known"], told["unreadable"]) == (6, 0, 2)
    assert said(running) == [
        (0, "user", "Which car?"),
        (1, "assistant", "The red one."),
        (3, "user", None),
        (4, "assistant", None),
        (0, "user", "Hey!"),
        (1, "user", "Lost my job."),
    ]
    assert [row["at"] for row in running.rows("SELECT at FROM turns ORDER BY id")] == [
        "2023-03-10T07:53:00.000Z",
        "2023-03-10T07:54:00.000Z",
        "2023-03-10T07:55:00.000Z",
        "2023-03-10T07:55:01.000Z",
        "2023-01-20T16:04:00.000Z",
        "2023-01-20T16:04:00.000Z",
    ]
    assert_nowhere(running, CANARY)
    listed = running.client.get("/api/sessions")["items"]
    assert {row["kind"] for row in running.rows("SELECT kind FROM word_rows")} == {"turn", "chunk"}, "found once"
    assert [(s["content_session_id"], s["agent"], s["project"], s["prompt_counter"], s["status"]) for s in listed] == [
        ("c1", "conversations", "p1", 2, "completed"),
        ("c2", "conversations", "p2", 2, "completed"),
    ]
    assert listed[0]["first_user_prompt"] == "Which car?"
    assert "turn: Which car?" in running.cli("search", "which car was it").stdout, "what was only said is found, too"
    (chunk,) = running.rows("SELECT text FROM chunks WHERE session_id = ?", listed[1]["id"])
    assert chunk["text"] == "Gina: Hey!\nJon: Lost my job."
    before = running.dump()
    again = json.loads(running.cli("import", "conversations", str(file), "--json").stdout)
    assert (again["added"], again["known"]) == (0, 6)
    assert running.dump() == before
    late = {"session": "c1", "turn": 2, "role": "user", "text": "In between.", "at": "2023-03-10T07:54:30Z"}
    file.write_bytes(gzip.compress(json.dumps(late).encode()))
    running.cli("import", "conversations", str(file))
    assert [row["text"] for row in running.rows("SELECT text FROM chunks WHERE session_id = 1")] == [
        "Which car?\nThe red one.\nIn between."
    ]


def test_a_file_that_is_no_conversation_is_refused(running: Box) -> None:
    """Missing, empty, cut, or something else: a sentence, never a stack trace; and an excluded project stays out."""
    (running.root / "empty.jsonl").write_text("")
    (running.root / "other.jsonl").write_text('{"session": 4}\n{"session": "s", "text": "x", "turn": -1}\n')
    (running.root / "cut.jsonl.gz").write_bytes(gzip.compress(b"x" * 10000)[:30])
    for name in ("nowhere.jsonl", "empty.jsonl", "other.jsonl", "cut.jsonl.gz"):
        answer = running.cli("import", "conversations", str(running.root / name), check=False)
        assert answer.returncode == 1, name
        assert "Traceback" not in answer.stderr
    running.cli("config", "set", "exclude_projects", "p1")
    file = running.root / "talks.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    told = json.loads(running.cli("import", "conversations", str(file), "--json").stdout)
    assert (told["added"], told["skipped"]) == (2, 4)
