"""The routes of sessions that are driven through the Python API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box, until

from backstory.model import ContentId
from backstory.paths import Paths
from backstory.sessions import lock, session_file
from backstory.sessions.session_file import Message, Metadata, SessionFile

ID = "0b0b7d4e-6f0d-4f43-8f83-2f6a5e1c9a10"
TOTALS = {
    "message_count": 3,
    "turn_count": 2,
    "input_tokens": 900,
    "output_tokens": 80,
    "cost_micros": 12_000,
    "last_stop_reason": "end_turn",
}


@pytest.fixture(params=["sqlite", "postgres"])
def worker(request: pytest.FixtureRequest, box: Box) -> Iterator[Box]:
    """A running worker, on each engine."""
    if request.param == "postgres":
        box.settings["BACKSTORY_DATABASE_URL"] = request.getfixturevalue("database_url")
    box.start()
    yield box
    box.clean_up()


def report(box: Box, cause: str, name: str = ID, **more: Any) -> tuple[int, dict[str, Any]]:
    body = {"cwd": str(box.project), "model": "claude-sonnet-4-20250514", "cause": cause} | more
    answer = box.http("POST", f"/api/agent-sessions/{name}", body)
    return answer.status, answer.json


def moved(box: Box, cause: str, name: str = ID, **more: Any) -> tuple[str, bool]:
    status, answer = report(box, cause, name, **more)
    assert status == 200, answer
    return answer["status"], answer["moved"]


def moves(box: Box, name: str = ID) -> list[tuple[str | None, str, str]]:
    found = box.client.get(f"/api/sessions/{name}")["moves"]
    assert all(row["at"] for row in found)
    return [(row["from_status"], row["to_status"], row["cause"]) for row in found]


def set_status(box: Box, status: str) -> None:
    """The state that hours of waiting would have given it."""
    from backstory.store.postgres import PostgresStore
    from backstory.store.sqlite import SqliteStore

    url = box.settings.get("BACKSTORY_DATABASE_URL")
    store = PostgresStore(url, box.root) if url else SqliteStore(box.data / "backstory.db")
    store.write(lambda tx: tx.script(f"UPDATE sdk_sessions SET status = '{status}';"))  # noqa: S608
    store.close()


def test_a_run_from_its_start_to_its_end(worker: Box) -> None:
    """Every move is answered and recorded; what comes twice changes nothing."""
    assert moved(worker, "start") == ("created", True)
    assert moved(worker, "start") == ("created", False)
    assert moved(worker, "message") == ("active", True)
    assert moved(worker, "message") == ("active", False)
    assert moved(worker, "end_turn", metadata=TOTALS) == ("completed", True)
    assert moved(worker, "end_turn") == ("completed", False)
    assert moved(worker, "message") == ("completed", False)
    assert moved(worker, "prompt", reason="resumed") == ("active", True)
    assert moved(worker, "fail", reason="ResultError: overloaded") == ("failed", True)
    assert moved(worker, "prompt") == ("active", True)
    assert moved(worker, "end", reason="closed") == ("completed", True)
    assert moves(worker) == [
        (None, "created", "start"),
        ("created", "active", "message"),
        ("active", "completed", "end_turn"),
        ("completed", "active", "prompt"),
        ("active", "failed", "ResultError: overloaded"),
        ("failed", "active", "prompt"),
        ("active", "completed", "closed"),
    ]
    session = worker.client.get(f"/api/sessions/{ID}")
    assert (session["agent"], session["project"], session["cwd"]) == ("claude-code", "shop", str(worker.project))


def test_the_totals_are_what_was_reported_last(worker: Box) -> None:
    assert worker.http("GET", f"/api/agent-sessions/{ID}").status == 404
    moved(worker, "prompt")
    shown = worker.client.get(f"/api/agent-sessions/{ID}")
    assert (shown["status"], shown["model"], shown["message_count"]) == ("active", "claude-sonnet-4-20250514", 0)
    assert shown["last_stop_reason"] is None
    moved(worker, "end_turn", metadata=TOTALS)
    moved(worker, "prompt", model="", metadata={"message_count": 4})
    shown = worker.client.get(f"/api/agent-sessions/{ID}")
    assert {name: shown[name] for name in TOTALS} == TOTALS | {"message_count": 4}
    assert (shown["content_session_id"], shown["cwd"]) == (ID, str(worker.project))
    assert shown["model"] == "claude-sonnet-4-20250514"
    assert shown["created_at"] <= shown["last_event_at"]


def test_an_expired_session_opens_only_by_a_restore(worker: Box) -> None:
    moved(worker, "prompt")
    set_status(worker, "expired")
    before = worker.client.get(f"/api/agent-sessions/{ID}")
    for cause in ("prompt", "message", "end_turn", "fail", "end"):
        status, answer = report(worker, cause, metadata=TOTALS)
        assert (status, answer["error"]) == (409, f"Session {ID} has expired.")
        assert "Restore it" in answer["hint"]
    assert worker.client.get(f"/api/agent-sessions/{ID}") == before, "nothing is half written"
    assert moved(worker, "start") == ("expired", False)
    assert moved(worker, "restore") == ("active", True)
    assert moves(worker)[-1] == ("expired", "active", "restore")
    assert moved(worker, "prompt") == ("active", False)


def test_an_impossible_move_is_refused(worker: Box) -> None:
    status, answer = report(worker, "end_turn")
    assert (status, answer["error"]) == (409, f"Session {ID} is created, so `end_turn` is impossible.")
    assert worker.http("GET", f"/api/agent-sessions/{ID}").status == 404, "nor was the session created"


def test_a_bad_id_or_body_is_refused(running: Box) -> None:
    for name in ("..", "a.b", "a%2Fb", "%00", "-a", "a" * 129, "%C3%A9"):
        status, _ = report(running, "prompt", name)
        assert status in (400, 404), name
    bodies: list[dict[str, Any]] = [{"metadata": {"message_count": -1}}, {"metadata": {"cost_micros": 1.5}}, {"cwd": 1}]
    for cause, more in [("idle", {}), ("work", {}), *(("prompt", body) for body in bodies)]:
        status, answer = report(running, cause, **more)
        assert (status, bool(answer["hint"])) == (400, True), (cause, more)
    assert not running.rows("SELECT 1 FROM sdk_sessions")


def test_a_session_that_goes_on_from_a_lost_one_is_linked_to_it(running: Box) -> None:
    moved(running, "prompt")
    moved(running, "start", "another", parent=ID)
    moved(running, "start", ID, parent=ID)
    moved(running, "start", "third", parent="unknown")
    first, second, third = running.rows("SELECT id, parent_id FROM sdk_sessions ORDER BY id")
    assert (first["parent_id"], second["parent_id"], third["parent_id"]) == (None, first["id"], None)


def test_nothing_is_kept_of_an_excluded_project(box: Box) -> None:
    box.settings["BACKSTORY_EXCLUDE_PROJECTS"] = "shop"
    box.start()
    assert report(box, "prompt") == (200, {"id": None, "status": None, "moved": False})
    assert not box.rows("SELECT 1 FROM sdk_sessions")


def test_secrets_are_not_stored(running: Box) -> None:
    secret = "AKIA" + "QYLPMN5HFIQR7XYA"
    moved(running, "prompt")
    moved(running, "fail", reason=f"bad key {secret}\nin line 2", model=secret, metadata={"last_stop_reason": secret})
    assert secret not in json.dumps(running.dump(), default=str)


def test_the_end_of_a_process_does_not_end_a_session_that_is_driven(running: Box) -> None:
    """The agent's process ends after each run. The caller says whether the session has ended, too."""
    paths = Paths(running.data)
    with lock.hold(paths, ID):
        moved(running, "prompt")
        running.hook("SessionEnd", {"session_id": ID, "reason": "other"})
        assert worker_status(running) == "active"
    running.hook("SessionEnd", {"session_id": ID, "reason": "other"})
    assert worker_status(running) == "completed"


def worker_status(box: Box) -> str:
    return str(box.client.get(f"/api/agent-sessions/{ID}")["status"])


# Forgetting


def write_file(box: Box, *texts: str) -> Path:
    """The session.json of a session whose first tool use has these texts in its output."""
    at = box.rows("SELECT last_event_at FROM sdk_sessions")[0]["last_event_at"]
    messages = [
        Message("user", ({"type": "text", "text": "Look at it"},), at),
        Message("assistant", ({"type": "tool_use", "tool_use": {"id": "t1", "name": "Bash", "input": {}}},), at),
        Message("user", ({"type": "tool_result", "tool_result": {"tool_use_id": "t1", "content": texts[0]}},), at),
        *(Message("assistant", ({"type": "text", "text": text},), at) for text in texts[1:]),
    ]
    metadata = Metadata("m", str(box.project), at, at, len(messages))
    session_file.write(Paths(box.data), SessionFile(ContentId(ID), metadata, tuple(messages)))
    return box.data / "agent-sessions" / ID / "session.json"


def work(box: Box) -> None:
    use = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "cat a"}}
    box.hook("UserPromptSubmit", {"session_id": ID, "prompt": "Look at it"})
    box.hook("PostToolUse", {"session_id": ID, "tool_response": "the heliotrope is here"} | use)
    box.hook("Stop", {"session_id": ID, "last_assistant_message": "The heliotrope is broken because of the rain."})
    box.settle()
    moved(box, "message")


def test_forgetting_a_session_deletes_its_file(worker: Box) -> None:
    """Also while a caller drives the session, whose next write leaves nothing."""
    work(worker)
    file = write_file(worker, "the heliotrope is here")
    with lock.hold(Paths(worker.data), ID):
        worker.cli("forget", "--session", ID, "--yes")
        assert not file.exists()
        write_file(worker, "the heliotrope is here")
        assert not file.exists()
    assert worker.http("GET", f"/api/agent-sessions/{ID}").status == 404
    assert not worker.rows("SELECT 1 FROM agent_sessions")
    status, answer = report(worker, "prompt")
    assert (status, answer["error"]) == (409, f"Session {ID} was forgotten.")
    assert moved(worker, "message")[1] is False
    assert worker.rows("SELECT cwd, project FROM sdk_sessions") == [{"cwd": "", "project": ""}]


def test_forgetting_words_removes_them_from_the_file(running: Box) -> None:
    work(running)
    texts = ("the heliotrope is here", "The heliotrope is broken because of the rain.", "Heliotrope again", "The sky")
    file = write_file(running, *texts)
    running.cli("forget", "--matching", "heliotrope", "--yes")
    assert "heliotrope" not in file.read_text().lower()
    assert "The sky" in file.read_text()
    assert "Look at it" in file.read_text()


def test_a_file_in_use_is_cleaned_when_it_is_free(box: Box) -> None:
    """Even by the next worker."""
    worker = box.start()
    work(box)
    texts = ("the heliotrope is here", "The heliotrope is broken because of the rain.", "The sky")
    file = write_file(box, *texts)
    with lock.hold(Paths(box.data), ID):
        body = {"matching": "heliotrope"}
        assert box.client.post("/api/forget", body)["wiped"] is False
        write_file(box, *texts)  # the caller still has them
        box.kill(worker)
        box.start()
        assert "heliotrope" in file.read_text()
    until(lambda: "heliotrope" not in file.read_text(), "the file to be cleaned")
    assert "The sky" in file.read_text()
    until(lambda: not (file.parent / "unclean").exists(), "the mark to go")
