"""I16: forgetting removes rows, payloads and words from every file, and nothing brings them back."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from box import Box, until
from test_private import assert_nowhere, every_file
from transcripts import Script

from backstory.store import backups
from backstory.store.index.match import unpack_marks
from backstory.store.packing import unpack

CANARY = "heliotrope9d41"
HOOKS: list[tuple[str, dict[str, Any]]] = [
    ("SessionStart", {"source": "startup"}),
    ("UserPromptSubmit", {"prompt": "Mend the basket", "prompt_id": "p1"}),
    (
        "PostToolUse",
        {
            "prompt_id": "p1",
            "tool_name": "Bash",
            "tool_use_id": "toolu_1",
            "tool_input": {"command": f"pytest tests/test_{CANARY}.py"},
            "tool_response": {
                "stdout": f"FAILED tests/test_{CANARY}.py::test_{CANARY} - assert 1 == 2\n1 failed in 0.1s"
            },
        },
    ),
    ("Stop", {"prompt_id": "p1", "last_assistant_message": f"It is empty because test_{CANARY}.py never saves."}),
    ("UserPromptSubmit", {"prompt": "Now the till", "prompt_id": "p2"}),
    (
        "PostToolUse",
        {
            "prompt_id": "p2",
            "tool_name": "Bash",
            "tool_use_id": "toolu_2",
            "tool_input": {"command": "pytest tests/test_till.py"},
            "tool_response": {"stdout": "FAILED tests/test_till.py::test_till - assert 3 == 4\n1 failed in 0.1s"},
        },
    ),
    (
        "Stop",
        {"prompt_id": "p2", "last_assistant_message": "The till is off because it counts the drawer twice."},
    ),
]
#: In the prompt as well, where all of the session goes.
WHOLE = [
    (
        event,
        payload | {"prompt": f"Mend {CANARY}"} if payload.get("prompt_id") == "p1" and "prompt" in payload else payload,
    )
    for event, payload in HOOKS
]
WAYS = ["observation", "delete", "session", "project", "matching"]


def renamed(hooks: list[tuple[str, dict[str, Any]]], way: str) -> list[tuple[str, dict[str, Any]]]:
    """The same with words and ids of one way to forget."""
    text = json.dumps(hooks).replace(CANARY, CANARY + way).replace("till", f"till{way}")
    text = text.replace("toolu_", f"toolu_{way}_").replace('"p1"', f'"{way}-p1"').replace('"p2"', f'"{way}-p2"')
    return [(event, payload) for event, payload in json.loads(text)]


def work(box: Box, hooks: list[tuple[str, dict[str, Any]]], session: str = "s-one", cwd: Path | None = None) -> None:
    """Report a session. Tool uses are observed before the reply, as if the agent took its time."""
    for event, payload in hooks:
        if event == "Stop":
            box.settle()
        answer = box.hook(event, {"session_id": session, "cwd": str(cwd or box.project)} | payload)
        assert (answer.returncode, answer.stderr) == (0, b"")
    box.settle()


def holding(box: Box, words: str = CANARY) -> list[int]:
    """The observations that have the words."""
    sql = "SELECT id FROM observations WHERE title || narrative || facts || compressed_observation LIKE ?"
    return [row["id"] for row in box.rows(sql, f"%{words}%")]


def vocabulary(box: Box) -> set[str]:
    """Every word that the index still knows, of rows that are there or not."""
    copy = box.root / "look.db"
    shutil.copy(box.data / "backstory.db", copy)
    with contextlib.closing(sqlite3.connect(copy)) as db:
        db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(words, row)")
        return {row[0] for row in db.execute("SELECT term FROM terms")}


def forget(box: Box, way: str) -> None:
    canary = CANARY + way
    if way == "observation":
        numbers = [str(number) for number in holding(box, canary)]
        looked = box.cli("forget", *numbers)
        assert "Would be forgotten" in looked.stdout and "--yes" in looked.stdout
        assert holding(box, canary)
        box.cli("forget", *numbers, "--yes")
        return
    if way == "delete":
        for number in holding(box, canary):
            answer = box.http("DELETE", f"/api/observations/{number}")
            assert answer.status == 200
            assert answer.json["wiped"]
        return
    words = {"session": ["--session", "s-session"], "project": ["--project", "project"]}
    found = words.get(way, ["--matching", canary])
    looked = box.cli("forget", *found)
    assert "Would be forgotten" in looked.stdout
    assert holding(box, canary)
    box.cli("forget", *found, "--yes")


def remembered_forgotten_and_told_again(box: Box, way: str) -> None:
    """In a session and a project of its own."""
    canary, session, cwd = CANARY + way, f"s-{way}", box.root / way
    cwd.mkdir()
    hooks = renamed(WHOLE if way in ("session", "project", "matching") else HOOKS, way)
    work(box, hooks, session, cwd)
    assert holding(box, canary), way
    assert holding(box, f"till{way}"), way
    kept = box.root / f"kept-{way}.jsonl"
    box.cli("export", "--output", str(kept))
    assert canary in kept.read_text(), way
    spooled = leave_copies(box, session, hooks[2][1] | {"cwd": str(cwd)})
    forget(box, way)
    assert_nowhere(box, canary)
    assert not any(canary in word for word in vocabulary(box)), way
    assert len(backups.copies(box.data / "backstory.db")) == 1, "one fresh backup in place of the old"
    if way not in ("session", "project"):
        assert holding(box, f"till{way}"), "the rest stays"
        assert box.client.get("/api/search", query=f"till{way}")["items"], way
    # The same payloads again under new event ids, the same file in the spool, and the export from before.
    work(box, [hook for hook in hooks if hook[0] != "SessionStart"], session, cwd)
    for name, raw in spooled.items():
        (box.data / "spool" / name).write_bytes(raw)
    until(lambda: not box.spooled(), "the spool to be empty")
    box.settle()
    assert "rows were new" in box.cli("import", "backstory", str(kept)).stdout, way
    box.settle()
    assert not holding(box, canary), way
    start = {"session_id": f"after-{way}", "source": "startup", "cwd": str(cwd)}
    assert canary.encode() not in box.hook("SessionStart", start).stdout, way
    assert not [hit for hit in box.client.get("/api/search", query=canary)["items"] if canary in json.dumps(hit)], way


@pytest.mark.usefixtures("meaning")
def test_i16_what_is_forgotten_is_in_no_file_and_does_not_come_back(box: Box) -> None:
    """Database, free pages, log, index, backups and spool; then hooks, spool and an older export bring nothing back.
    Each way to forget, with words of its own."""
    worker = box.start()
    for way in WAYS:
        remembered_forgotten_and_told_again(box, way)
    box.stop(worker)
    assert_nowhere(box, CANARY)


def leave_copies(box: Box, session: str, used: dict[str, Any]) -> dict[str, bytes]:
    """Where else the text lies: old backups, a rejected file; and what a hook would have spooled, by its name."""
    folder = box.data / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)  # the first of the day may be there already
    for copy in (folder / "one.db", folder / "two.db", box.data / "backstory.db.before-0003"):
        with (
            contextlib.closing(sqlite3.connect(box.data / "backstory.db")) as source,
            contextlib.closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
    rejected = box.data / "spool" / "rejected"
    rejected.mkdir(mode=0o700, parents=True, exist_ok=True)
    payload = json.dumps(used | {"session_id": session}).encode()
    (rejected / "0000000000000-0000000000000000.claude-code.PostToolUse.json").write_bytes(payload)
    event = box.rows("SELECT event_id FROM events WHERE tool_use_id = ?", used["tool_use_id"])[0]["event_id"]
    return {f"{event}.claude-code.PostToolUse.json": payload}


def test_i16_what_waits_in_the_spool_is_forgotten_with_the_rest(box: Box) -> None:
    """Events that came while the worker was away are taken in before they are forgotten."""
    worker = box.start()
    work(box, WHOLE[:2])
    box.stop(worker)
    for event, payload in WHOLE[2:4]:
        box.hook(event, {"session_id": "s-one"} | payload)
    assert len(box.spooled()) == 2
    box.start()
    box.cli("forget", "--session", "s-one", "--yes")
    assert_nowhere(box, CANARY)
    assert box.rows("SELECT COUNT(*) AS n FROM events WHERE reason = 'forgotten'")[0]["n"] == 4


def test_i16_a_file_of_the_spool_that_comes_late_brings_nothing_back(running: Box) -> None:
    """It tells the same under another session id, from before it was forgotten. What is said again is remembered."""
    work(running, WHOLE)
    rows = running.rows("SELECT event_id, kind FROM events WHERE prompt_number = 1 ORDER BY id")
    running.cli("forget", "--matching", CANARY, "--yes")
    (running.data / "spool").mkdir(mode=0o700, exist_ok=True)
    names = {"prompt": WHOLE[1], "tool": WHOLE[2], "stop": WHOLE[3]}
    for row in rows:
        if row["kind"] in names:
            event, payload = names[row["kind"]]
            name = f"{row['event_id'].partition('-')[0]}-{'0' * 16}.claude-code.{event}.json"
            raw = json.dumps(payload | {"session_id": "s-fork", "tool_use_id": "toolu_fork", "prompt_id": "p-fork"})
            (running.data / "spool" / name).write_text(raw)
    until(lambda: not running.spooled(), "the spool to be empty")
    running.settle()
    assert_nowhere(running, CANARY)
    work(running, [(event, payload | {"prompt_id": "p-again"}) for event, payload in WHOLE[1:2]], "s-again")
    assert CANARY in str(running.rows("SELECT prompt FROM user_prompts"))


def test_i16_a_forgotten_session_stays_forgotten(running: Box) -> None:
    """What comes of it later leaves a number and a tombstone, and it is not listed."""
    work(running, WHOLE)
    running.cli("forget", "--session", "s-one", "--yes")
    work(running, [("UserPromptSubmit", {"prompt": f"more {CANARY}", "prompt_id": "p3"}), *WHOLE[2:4]])
    later = {"tool_name": "Bash", "tool_use_id": "toolu_9", "tool_input": {"command": CANARY}, "tool_response": CANARY}
    work(running, [("PostToolUse", later)])
    assert_nowhere(running, CANARY)
    assert running.client.get("/api/sessions")["items"] == []
    kept = running.rows("SELECT prompt_number, prompt FROM user_prompts ORDER BY prompt_number")
    assert [(row["prompt_number"], row["prompt"]) for row in kept] == [(1, None), (2, None), (3, None)]
    assert {row["payload"] for row in running.rows("SELECT payload FROM events")} == {None}


def test_i16_a_worker_killed_before_it_wiped_goes_on_at_its_next_start(box: Box) -> None:
    """Rows are gone with their transaction; the files are wiped by the next worker."""
    worker = box.start()
    work(box, HOOKS)
    box.kill(worker)
    with contextlib.closing(sqlite3.connect(box.data / "backstory.db")) as db:
        # What a kill leaves: deleted and committed, and nothing wiped.
        db.execute("PRAGMA secure_delete = OFF")
        db.execute("DELETE FROM observations WHERE title LIKE ?", (f"%{CANARY}%",))
        for number, stored in db.execute("SELECT id, payload FROM events WHERE payload IS NOT NULL").fetchall():
            if CANARY in unpack(stored):
                db.execute("UPDATE events SET payload = NULL, status = 'tombstone' WHERE id = ?", (number,))
        db.execute("DELETE FROM session_summaries WHERE prompt_number = 1")
        db.execute("UPDATE turns SET text = NULL WHERE text LIKE ?", (f"%{CANARY}%",))
        db.execute("DELETE FROM chunks WHERE text LIKE ?", (f"%{CANARY}%",))
        for number, title, stored, marks in db.execute(
            "SELECT words_rowid, title, body, marks FROM word_texts"
        ).fetchall():
            if CANARY in f"{title} {unpack(stored)}":
                text = (number, title, unpack(stored), unpack_marks(marks))
                db.execute("INSERT INTO words (words, rowid, title, body, marks) VALUES ('delete', ?, ?, ?, ?)", text)
                db.execute("DELETE FROM word_texts WHERE words_rowid = ?", (number,))
        db.execute("INSERT INTO erasures (asked_at) VALUES ('2026-01-01T00:00:00.000Z')")
        db.commit()
    assert any(CANARY.encode() in file.read_bytes() for file in every_file(box.data))
    box.start()
    until(lambda: not box.rows("SELECT 1 FROM erasures"), "the wiping")
    assert_nowhere(box, CANARY)


def test_i16_what_somebody_still_reads_is_wiped_when_they_are_done(running: Box) -> None:
    """A long reader holds the log; forgetting says so, and finishes by itself."""
    work(running, HOOKS)
    with contextlib.closing(sqlite3.connect(running.data / "backstory.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM events").fetchone()
        told = running.cli("forget", "--matching", CANARY, "--yes", check=False)
        assert told.returncode == 1
        assert "wiped when that ends" in told.stderr
        assert not holding(running)
    until(lambda: not list((running.data / "forgetting").glob("*.json")), "the wiping", 60)  # the order goes last
    assert not running.rows("SELECT 1 FROM erasures")
    assert_nowhere(running, CANARY)


def test_a_dry_run_and_what_is_refused_change_nothing(running: Box) -> None:
    """What would go is counted and listed, and all of it is still there. Nothing named, an unknown id, an unknown
    project: one clear sentence each. Who then forgets one is told which others were made of the same, and the stream's
    memory of the last messages is emptied, too."""
    work(running, WHOLE)
    before = running.rows("SELECT id, status, payload FROM events")
    gone = json.loads(running.cli("forget", "--matching", CANARY, "--json").stdout)
    assert gone["observations"] == holding(running)
    assert gone["items"]
    assert not gone["wiped"]
    assert running.rows("SELECT id, status, payload FROM events") == before
    assert running.client.get("/api/search", query=CANARY)["items"]
    assert running.http("POST", "/api/forget", {}).status == 400
    assert running.http("POST", "/api/forget", {"ids": [4711]}).status == 404
    assert running.http("POST", "/api/forget", {"project": "nowhere"}).status == 404
    refused = running.cli("forget", check=False)
    assert refused.returncode == 1
    assert "Nothing to forget was given" in refused.stderr
    assert running.rows("SELECT id, status, payload FROM events") == before
    first = holding(running)[0]
    gone = running.http("DELETE", f"/api/observations/{first}").json
    assert gone["observations"] == [first]
    assert set(gone["beside"]) == set(holding(running))
    assert running.http("DELETE", f"/api/observations/{first}").status == 404
    running.cli("forget", "--matching", CANARY, "--yes")
    with running_stream(running) as text:
        assert CANARY not in text


@contextlib.contextmanager
def running_stream(box: Box) -> Any:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=5)
    connection.request("GET", "/stream", headers={"Authorization": f"Bearer {box.token}", "Last-Event-ID": "1"})
    answer = connection.getresponse()
    try:
        box.client.post("/api/processing", {"isProcessing": True})
        text = b""
        while b"processing_status" not in text:
            text += answer.read1(1 << 16)
        yield text.decode()
    finally:
        connection.close()


def test_memory_of_a_path_is_not_needed_to_forget_it(running: Box, tmp_path: Path) -> None:
    """After a project is forgotten its name is nowhere in memory, and work in it is remembered anew."""
    work(running, WHOLE)
    running.cli("forget", "--project", "shop", "--yes")
    assert running.client.get("/api/projects")["items"] == []
    assert running.rows("SELECT DISTINCT project, project_key, cwd FROM sdk_sessions") == [
        {"project": "", "project_key": "", "cwd": ""}
    ]
    work(running, HOOKS, session="s-new")
    assert holding(running)


def script(box: Box, session: str, word: str, use: str) -> Script:
    """A transcript of two rounds that happened just now."""
    told = Script(session, str(box.project), datetime.now(UTC) - timedelta(seconds=30), prompt_ids=False)
    for number in range(2):
        told.prompt(f"Please mend {word}prompt{number} now")
        told.uses("Edit", {"file_path": f"/w/{word}file{number}.py", "old_string": f"{word}old"}, f"{use}{number}")
        told.answers(f"{use}{number}", f"{word}result of the edit")
        told.says(reply(word, number))
    return told


def reply(word: str, number: int) -> str:
    """Several statements, each of which becomes an observation or a sentence of a summary."""
    return (
        f"I mended {word}reply{number} in {word}file{number}. It was the fault of {word}cause{number}.\n\n"
        f"Decision: we use {word}cents{number} for all totals. The {word}token{number} stays."
    )


def test_i16_a_copy_under_another_session_id_brings_nothing_back(running: Box) -> None:
    """With ids of its own for every line, message and tool use: it is known by what it says. Told by hooks or by an
    import, forgotten by its session or by a word."""
    for by in ("hooks", "import"):
        for way in ("session", "matching", "observations, then session"):
            a_copy_brings_nothing_back(running, by, way)


def a_copy_brings_nothing_back(running: Box, by: str, way: str) -> None:
    name = f"{by}{way.replace(', then ', '')}"
    folder, canary, wombat = running.root / f"transcripts-{name}", CANARY + name, f"wombat{name}"
    first = script(running, f"s-gone-{name}", canary, f"use-{name}")
    copy = script(running, f"s-copy-{name}", canary, f"other-{name}")
    for line, again in zip(first.lines, copy.lines, strict=True):
        again["timestamp"] = line["timestamp"]
    other = script(running, f"s-kept-{name}", wombat, f"third-{name}")
    if by == "hooks":
        for number in range(2):
            running.hook(
                "UserPromptSubmit",
                {"session_id": f"s-gone-{name}", "prompt": f"Please mend {canary}prompt{number} now"},
            )
            edit = {"file_path": f"/w/{canary}file{number}.py", "old_string": f"{canary}old"}
            use = {
                "session_id": f"s-gone-{name}",
                "tool_name": "Edit",
                "tool_use_id": f"use-{name}{number}",
                "tool_input": edit,
            }
            running.hook("PostToolUse", use | {"tool_response": f"{canary}result of the edit"})
            says = reply(canary, number)
            running.hook("Stop", {"session_id": f"s-gone-{name}", "last_assistant_message": says})
    else:
        running.cli("import", "claude-code", str(first.write(folder)))
    running.settle()
    words = ["--session", f"s-gone-{name}"] if "session" in way else ["--matching", canary]
    if way.startswith("observations"):
        running.cli("forget", *map(str, holding(running, canary)), "--yes")
    running.cli("forget", *words, "--yes")
    assert_nowhere(running, canary)
    for file in (copy.write(folder), other.write(folder)):
        running.cli("import", "claude-code", str(file))
    running.settle()
    assert_nowhere(running, canary)
    assert len(holding(running, wombat)) >= 2, "another conversation comes in"
