"""Memory that ages honestly, and a start that is about the work under way."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from box import Box, until

from backstory.store.statements import stated


def change(box: Box, session: str, path: str, text: str) -> None:
    """A session that writes a file, as an agent reports it."""
    file = box.project / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    common = {"session_id": session, "cwd": str(box.project)}
    box.client.post("/hooks/claude-code/UserPromptSubmit", common | {"prompt": f"Please write {path}"})
    given = {"file_path": str(file), "content": text}
    used = {"tool_name": "Write", "tool_use_id": f"toolu_{session}_{path}", "tool_input": given}
    told = {"tool_response": {"type": "create", "filePath": str(file)}}
    box.client.post("/hooks/claude-code/PostToolUse", common | used | told)
    box.client.post("/hooks/claude-code/Stop", common | {"last_assistant_message": f"Wrote {path}."})
    box.settle()


def test_an_observation_says_that_its_file_has_changed_since(running: Box) -> None:
    """By what the file holds, not by its time: touched is not changed, put back is as before, gone is changed."""
    change(running, "one", "cart.py", "def total():\n    return 1\n")
    assert "cart.py" in running.told("a")
    assert "file changed since" not in running.told("b")
    file = running.project / "cart.py"
    file.touch()
    assert "file changed since" not in running.told("c")
    file.write_text("def total():\n    return 2\n")
    line = next(line for line in running.told("d").splitlines() if line.endswith("(file changed since)"))
    assert "cart.py" in line
    number = line.split()[0].lstrip("#")
    assert "changed since then: cart.py" in running.cli("show", number).stdout
    assert running.client.get(f"/api/observations/{number}")["changed"] == ["cart.py"]
    file.write_text("def total():\n    return 1\n")
    assert "file changed since" not in running.told("e")
    file.unlink()
    assert "file changed since" in running.told("f")


def test_what_a_pipe_or_a_folder_holds_is_not_waited_for(running: Box) -> None:
    """A file that turns into something else is changed, and nobody hangs on it."""
    change(running, "one", "cart.py", "x = 1\n")
    (running.project / "cart.py").unlink()
    os.mkfifo(running.project / "cart.py")
    assert "file changed since" in running.told("a")


def test_a_later_value_takes_the_place_of_an_earlier_one(running: Box) -> None:
    """The newer is told, the older stands behind it as history; of two subjects neither touches the other."""
    say = [
        "The staging database is db2.internal",
        "The production database is db1.internal",
        "Use Redis for the session cache",
        "The staging database is db3.internal",
        "Switched from Redis to Postgres for the session cache",
    ]
    ids = [json.loads(running.cli("remember", text, "--json").stdout)["id"] for text in say]
    told = running.told()
    assert "db3.internal" in told and "db1.internal" in told and "Postgres" in told
    assert "db2.internal" not in told and "Use Redis" not in told
    pointers = {row["id"]: row["superseded_by"] for row in running.rows("SELECT id, superseded_by FROM observations")}
    assert pointers == dict(zip(ids, [ids[3], None, ids[4], None, None], strict=True))
    found = running.client.get("/api/search", query="staging database", kind="observations")["items"]
    mine = [row for row in found if row["id"] in (ids[0], ids[3])]
    assert [row["id"] for row in mine] == [ids[3], ids[0]]
    assert mine[1]["superseded_by"] == ids[3]


def test_forgetting_the_newer_brings_the_older_back(running: Box) -> None:
    """What points to nothing is no history."""
    ids = [
        json.loads(running.cli("remember", f"The staging database is {name}", "--json").stdout)["id"]
        for name in ("db2", "db3")
    ]
    gone = running.cli("forget", str(ids[1]), "--yes", check=False)
    assert gone.returncode == 0, gone.stderr
    assert "db2" in running.told()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Use Redis for the session cache", ("for session cache", "redis")),
        ("Use tabs, not spaces, for indentation", ("for indentation", "tabs")),
        ("We decided to use PostgreSQL instead of MySQL for the ledger", ("for ledger", "postgresql")),
        ("retry_seconds = 5", ("retry_seconds", "5")),
        ("The default branch was changed to main", ("default branch", "main")),
        ("The worker listens on port 80.", ("worker listens on", "port 80")),
        ("Decision: Use Redis for the session cache", ("for session cache", "redis")),
        ("Added the `--force` option to `resume`", ("`--force", "there")),
        ("We removed `--force`, because nobody used it", ("`--force", "gone")),
        ("The parser is slow", None),
        ("It is 3", None),
        ("What is the port", None),
        ("Fixed the parser in lexer.py", None),
        ("The build is broken because of the missing module in core", None),
    ],
)
def test_a_sentence_states_a_value_of_a_subject_or_nothing(text: str, found: tuple[str, str] | None) -> None:
    """Only what a later sentence could contradict counts."""
    assert stated(text) == found


def git(box: Box, *words: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@b.c")
    subprocess.run(["git", "-C", str(box.project), *who, *words], check=True, capture_output=True)


def test_a_session_is_told_first_of_what_is_being_worked_on(box: Box) -> None:
    """With little room, an observation about a file that has changes outlives newer ones about others."""
    box.settings["BACKSTORY_CONTEXT_TOKENS"] = "210"
    box.start()
    git(box, "init", "-q")
    change(box, "s0", "ledger.py", "a = 0\n")
    for n in range(1, 13):
        change(box, f"s{n}", f"other{n}.py", f"a = {n}\n")
    git(box, "add", "-A")
    git(box, "commit", "-qm", "all")

    def listed() -> list[str]:
        # On a busy machine an agent may have been told nothing: it does not wait.
        told = until(lambda: box.told(os.urandom(4).hex()), "a context")
        return [line for line in told.splitlines() if line.startswith("#")]

    before = listed()
    assert before and not any("ledger.py" in line for line in before)
    (box.project / "ledger.py").write_text("a = 10\n")
    until(lambda: any("ledger.py" in line for line in listed()), "what is being worked on")
