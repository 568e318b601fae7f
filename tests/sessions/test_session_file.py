"""session.json and the lock of a session of the Python API."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from backstory.errors import BadInput, SessionBusy, SessionUnreadable
from backstory.model import ContentId, SessionStatus
from backstory.paths import Paths
from backstory.sessions import lock, session_file
from backstory.sessions.session_file import Message, Metadata, SessionFile

ID = ContentId("0b0b7d4e-6f0d-4f43-8f83-2f6a5e1c9a10")
AT = "2026-11-16T10:00:00.000Z"
METADATA = Metadata(model="claude-sonnet-4-20250514", cwd="/projects/my-app", created_at=AT, last_message_at=AT)
MESSAGES = (
    Message("user", ({"type": "text", "text": "List the files"},), AT),
    Message("assistant", ({"type": "tool_use", "tool_use": {"id": "t1", "name": "Bash", "input": {"a": 1}}},), AT),
    Message("user", ({"type": "tool_result", "tool_result": {"tool_use_id": "t1", "content": "a.py"}},), AT),
)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "data")


def file_of(paths: Paths) -> Path:
    return paths.agent_sessions / ID / "session.json"


def test_what_was_written_is_read(paths: Paths) -> None:
    assert session_file.read(paths, ID) is None
    session = SessionFile(ID, replace(METADATA, message_count=3, status=SessionStatus.ACTIVE), MESSAGES)
    session_file.write(paths, session)
    assert session_file.read(paths, ID) == session


def test_the_file_has_id_metadata_and_messages(paths: Paths) -> None:
    session_file.write(paths, SessionFile(ID, METADATA, MESSAGES))
    value = json.loads(file_of(paths).read_bytes())
    assert [*value] == ["id", "metadata", "messages"]
    assert value["metadata"]["createdAt"] == value["metadata"]["lastMessageAt"] == AT
    assert value["messages"][0] == {
        "role": "user",
        "content": [{"type": "text", "text": "List the files"}],
        "timestamp": AT,
    }


def test_only_its_owner_may_read_it(paths: Paths) -> None:
    with lock.hold(paths, ID):
        session_file.write(paths, SessionFile(ID, METADATA))
    folder = file_of(paths).parent
    assert {path.stat().st_mode & 0o777 for path in (folder, folder.parent, paths.data)} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("bad", ["", ".", "..", "../x", "a/b", "/etc", "a\0b", "a.b", "-a", "a\n", "é", "a" * 129])
def test_no_id_leads_out_of_the_directory(paths: Paths, bad: str) -> None:
    with pytest.raises(BadInput):
        session_file.read(paths, bad)
    with pytest.raises(BadInput):
        session_file.write(paths, SessionFile(ContentId(bad), METADATA))
    with pytest.raises(BadInput), lock.hold(paths, bad):
        pass
    assert not paths.data.exists()


def test_private_text_and_secrets_are_not_written(paths: Paths) -> None:
    blocks = (
        {"type": "text", "text": "a <private>hidden one</private> b"},
        {"type": "tool_result", "tool_result": {"tool_use_id": "t", "content": "AKIA" + "QYLPMN5HFIQR7XYA"}},
        {"type": "text", "text": "before <private>hidden two"},
        {"type": "text", "text": "hidden three"},
    )
    session_file.write(paths, SessionFile(ID, METADATA, (Message("user", blocks, AT),)))
    text = file_of(paths).read_text()
    assert "hidden" not in text
    assert "QYLPMN5HFIQR7XYA" not in text
    assert "before" in text


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"id": "x", "metadata": 1, "messages": []}', "[" * 100_000])
def test_a_damaged_file_is_named(paths: Paths, text: str) -> None:
    session_file.write(paths, SessionFile(ID, METADATA))
    file_of(paths).write_text(text)
    with pytest.raises(SessionUnreadable, match=r"session\.json"):
        session_file.read(paths, ID)


def test_unknown_fields_are_ignored(paths: Paths) -> None:
    session_file.write(paths, SessionFile(ID, METADATA, MESSAGES))
    value = json.loads(file_of(paths).read_bytes())
    value["metadata"]["newer"] = value["newer"] = 1
    file_of(paths).write_text(json.dumps(value))
    assert session_file.read(paths, ID) == SessionFile(ID, METADATA, MESSAGES)


def test_a_forgotten_session_is_not_written_again(paths: Paths) -> None:
    with lock.hold(paths, ID):
        session_file.write(paths, SessionFile(ID, METADATA, MESSAGES))
        session_file.forget(paths, ID)
        session_file.write(paths, SessionFile(ID, METADATA, MESSAGES))
    assert session_file.read(paths, ID) is None
    session_file.forget(paths, "unknown")
    assert not (paths.agent_sessions / "unknown").exists()


def test_a_status_is_changed_without_touching_the_messages(paths: Paths) -> None:
    session_file.set_status(paths, ID, SessionStatus.PAUSED)
    assert session_file.read(paths, ID) is None
    session_file.write(paths, SessionFile(ID, METADATA, MESSAGES))
    session_file.set_status(paths, ID, SessionStatus.EXPIRED)
    assert session_file.read(paths, ID) == SessionFile(ID, replace(METADATA, status=SessionStatus.EXPIRED), MESSAGES)


def test_one_caller_at_a_time(paths: Paths) -> None:
    assert not lock.is_held(paths, ID)
    with lock.hold(paths, ID):
        assert lock.is_held(paths, ID)
        with pytest.raises(SessionBusy, match=ID), lock.hold(paths, ID):
            pass
        with lock.hold(paths, "another"):
            pass
    assert not lock.is_held(paths, ID)
    with lock.hold(paths, ID):
        pass


def test_a_caller_waits_for_a_lock_of_a_moment(paths: Paths) -> None:
    """The sweep has it for as long as it takes to move a session."""
    held = lock.hold(paths, ID)
    held.__enter__()
    release = threading.Timer(0.1, held.__exit__, (None, None, None))
    release.start()
    with lock.hold(paths, ID, wait_s=60):
        release.join()


def test_a_look_at_the_lock_disturbs_nobody(paths: Paths) -> None:
    """The sweep looks at locks while callers take them."""
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            lock.is_held(paths, ID)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(300):
            with lock.hold(paths, ID):
                pass
    finally:
        done.set()
        looking.join()


def test_the_lock_ends_with_its_process(paths: Paths) -> None:
    code = (
        "import sys, pathlib; from backstory.paths import Paths; from backstory.sessions import lock\n"
        "with lock.hold(Paths(pathlib.Path(sys.argv[1])), sys.argv[2]): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(paths.data), ID], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert lock.is_held(paths, ID)
        with pytest.raises(SessionBusy), lock.hold(paths, ID):
            pass
        holder.kill()
    assert not lock.is_held(paths, ID)
    with lock.hold(paths, ID):
        pass
