"""The sweep, with a moved clock: idle sessions pause, those of the Python API expire, none is touched at work."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from box import Box, until

from backstory import ids
from backstory.errors import StoreUnavailable
from backstory.model import ContentId, Kind, Report, Session, SessionStatus
from backstory.project import Project
from backstory.sessions import lock, session_file
from backstory.sessions.session_file import Message, Metadata, SessionFile
from backstory.sessions.states import SessionKind
from backstory.settings import Settings
from backstory.store import agent_sessions, events, idle_sessions, sessions, titles
from backstory.store.db import Store, Tx
from backstory.worker.jobs.sweep import Sweep, Swept

SHOP = Project("shop", "github.com/dev/shop")
START_MS = ids.at_ms("2026-01-01T10:00:00.000Z")
MINUTE = 60_000
HOUR = 60 * MINUTE
NOTHING = Swept([], [])


class Clock:
    """A sweep, and the sessions that it finds, at times that the test chooses."""

    def __init__(self, store: Store, data: Path, **changes: Any) -> None:
        self.store, self.settings = store, replace(Settings(data_dir=data), **changes)
        self.paths = self.settings.paths
        self._sweep = Sweep(self.settings, store)

    def sweep(self, minutes: float) -> Swept:
        return self._sweep.run(START_MS + int(minutes * MINUTE))

    def take(self, name: str, kind: Kind, minutes: float = 0, *, done: bool = True) -> Session:
        """An event of a session, observed at once if it is `done`."""
        at = ids.from_ms(START_MS + int(minutes * MINUTE))
        report = Report("claude-code", kind, ContentId(name), ids.new_event_id(), at, payload={"prompt": "Go on"})

        def work(tx: Tx) -> Session:
            session = sessions.get_or_create(tx, report, SHOP)
            if kind == "prompt":
                sessions.add_prompt(tx, session, "Go on", at)
                session = sessions.get(tx, session.id)
            events.add(tx, session, report)
            sessions.move(tx, session, {"prompt": "prompt", "session_end": "end"}.get(kind, "work"), at=at)
            if done:
                tx.script(f"UPDATE events SET status = 'done' WHERE session_id = {session.id};")  # noqa: S608
            return sessions.get(tx, session.id)

        return self.store.write(work)

    def agent(self, name: str, file: bool = True) -> Session:
        """An active session of the Python API."""
        session = self.take(name, "prompt")
        self.store.write(lambda tx: agent_sessions.put(tx, session.id, "a-model"))
        if file:
            at = session.created_at
            said = Message("user", ({"type": "text", "text": "Go on"},), at)
            metadata = Metadata("a-model", "/shop", at, at, 1, status=SessionStatus.ACTIVE)
            session_file.write(self.paths, SessionFile(ContentId(name), metadata, (said,)))
        return session

    def archives(self, name: str) -> dict[str, str]:
        folder = session_file.archives_of(self.paths, name)
        return {path.name: path.read_text() for path in folder.glob("*")}

    def status(self, session: Session) -> str:
        return self.store.read(lambda tx: sessions.get(tx, session.id)).status

    def file_status(self, name: str) -> str:
        found = session_file.read(self.paths, name)
        assert found is not None
        assert len(found.messages) == 1
        return found.metadata.status

    def moves(self, session: Session) -> list[tuple[str, str, str]]:
        rows = self.store.read(lambda tx: sessions.moves(tx, session.id))
        return [(row["to_status"], row["cause"], row["at"][11:16]) for row in rows]


@pytest.fixture
def clock(store: Store, tmp_path: Path) -> Clock:
    return Clock(store, tmp_path / "data")


def test_a_session_that_expires_is_archived(clock: Clock) -> None:
    """As markdown, with all of it: again when it expires again, and from the store if its file is damaged. One that
    is not expired here, or says nothing, is not archived."""
    name, other, silent = (clock.agent(each).content_session_id for each in ("a", "b", "c"))
    (session_file.folder_of(clock.paths, other) / "session.json").write_text("{")
    session_file.change(clock.paths, silent, lambda _: [])
    clock.sweep(6)
    assert not clock.archives(name)
    clock.sweep(31)
    for each in (name, other):
        ((file, text),) = clock.archives(each).items()
        assert file.endswith("-go-on.md")
        assert text.startswith("# Go on\n\nArchived: ")
        assert text.partition("---\n\n")[2] == "**User**: Go on\n"
    assert not clock.archives(silent)
    folder = session_file.archives_of(clock.paths, name)
    assert {path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())} == {0o700, 0o600}

    session = clock.store.read(lambda tx: sessions.by_content_id(tx, "claude-code", ContentId(name)))
    assert session
    at = ids.from_ms(START_MS + 40 * MINUTE)
    said = {"role": "assistant", "content": [{"type": "text", "text": "I go on"}], "timestamp": at}
    session_file.change(clock.paths, name, lambda messages: [*messages, said])
    clock.store.write(lambda tx: sessions.move(tx, session, "restore", at=at, kind=SessionKind.AGENT))
    clock.store.write(lambda tx: titles.rename(tx, session.id, "The work"))
    clock.sweep(80)
    clock.sweep(120)
    ((file, text),) = clock.archives(name).items()
    assert file.endswith("-the-work.md")
    assert text.partition("---\n\n")[2] == "**User**: Go on\n\n**Claude**: I go on\n"


def test_what_is_archived_and_cannot_be_moved_expires_later(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive is written before the move. So a failure in between, or the end of the worker, loses none."""
    clock.agent("a")
    clock.sweep(6)

    def fails(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("The disk is full.")

    with monkeypatch.context() as change:
        change.setattr(idle_sessions, "move", fails)
        with pytest.raises(StoreUnavailable):
            clock.sweep(31)
    assert len(clock.archives("a")) == 1
    assert len(clock.sweep(31).expired) == 1
    assert len(clock.archives("a")) == 1


def test_a_session_of_the_python_api_pauses_and_expires(clock: Clock) -> None:
    """Both moves are recorded, in the store and in its file, which stays."""
    session = clock.agent("a")
    assert clock.sweep(4.9) == NOTHING
    assert clock.sweep(5.1) == Swept([session.id], [])
    assert (clock.status(session), clock.file_status("a")) == ("paused", "paused")
    assert clock.sweep(29.9) == NOTHING
    assert clock.sweep(30.1) == Swept([], [session.id])
    assert (clock.status(session), clock.file_status("a")) == ("expired", "expired")
    assert clock.sweep(10_000) == NOTHING
    assert clock.moves(session) == [
        ("created", "start", "10:00"),
        ("active", "prompt", "10:00"),
        ("paused", "idle", "10:05"),
        ("expired", "timeout", "10:30"),
    ]


def test_a_worker_that_was_away_makes_both_moves_at_once(clock: Clock) -> None:
    session = clock.agent("a")
    assert clock.sweep(24 * 60) == Swept([session.id], [session.id])
    assert [move[0] for move in clock.moves(session)] == ["created", "active", "paused", "expired"]


def test_a_session_fed_by_hooks_pauses_and_never_expires(clock: Clock) -> None:
    clock.take("h", "prompt")
    session = clock.take("h", "stop", 1)
    assert clock.sweep(5.9) == NOTHING
    assert clock.sweep(6.1) == Swept([session.id], [])
    assert clock.sweep(60 * 24 * 365) == NOTHING
    assert clock.status(session) == "paused"
    clock.take("h", "prompt", 10_000)
    assert clock.status(session) == "active"


@pytest.mark.parametrize("kind", ["prompt", "tool", "tool_failure"])
def test_a_round_that_has_not_ended_is_work(clock: Clock, kind: Kind) -> None:
    """A tool may run for an hour. After some hours without an event the agent is gone."""
    clock.take("h", "prompt")
    clock.take("h", "stop", 1)
    session = clock.take("h", kind, 2)
    hours = idle_sessions.WORK_MS / MINUTE
    assert clock.sweep(hours + 1.9) == NOTHING
    assert clock.status(session) == "active"
    assert clock.sweep(hours + 2.1) == Swept([session.id], [])


def test_a_tool_use_that_is_read_from_the_transcript_after_the_end_is_no_work(clock: Clock) -> None:
    clock.take("h", "prompt")
    clock.take("h", "stop", 2)
    session = clock.take("h", "tool", 1)
    assert clock.sweep(8) == Swept([session.id], [])


def test_a_session_whose_events_wait_is_not_touched(clock: Clock, store: Store) -> None:
    clock.take("h", "prompt")
    session = clock.take("h", "stop", 1, done=False)
    assert clock.sweep(24 * 60) == NOTHING
    store.write(lambda tx: tx.script("UPDATE events SET status = 'done';"))
    assert clock.sweep(24 * 60) == Swept([session.id], [])


def test_a_session_whose_lock_is_held_is_not_touched(clock: Clock) -> None:
    """Not while it is active, and not while it is paused and somebody has just resumed it."""
    session = clock.agent("a")
    with lock.hold(clock.paths, "a"):
        assert clock.sweep(24 * 60) == NOTHING
    assert clock.sweep(6) == Swept([session.id], [])
    with lock.hold(clock.paths, "a"):
        assert clock.sweep(24 * 60) == NOTHING
        assert (clock.status(session), clock.file_status("a")) == ("paused", "paused")
    assert clock.sweep(24 * 60) == Swept([], [session.id])


def test_a_caller_that_is_killed_leaves_its_session_to_the_sweep(clock: Clock) -> None:
    """A round without an end is no work in a session of the Python API: the lock tells."""
    session = clock.agent("a")
    code = (
        "import sys, pathlib; from backstory.paths import Paths; from backstory.sessions import lock\n"
        "with lock.hold(Paths(pathlib.Path(sys.argv[1])), 'a'): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(clock.paths.data)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == b"held\n"
        assert clock.sweep(24 * 60) == NOTHING
        caller.kill()
    assert clock.sweep(24 * 60) == Swept([session.id], [session.id])


def test_a_session_of_another_machine_is_not_expired_here(clock: Clock) -> None:
    """Workers may share a database. The lock is on the machine that has the file."""
    session = clock.agent("a", file=False)
    assert clock.sweep(60) == NOTHING, "the round has not ended"
    clock.take("a", "stop", 1)
    assert clock.sweep(60) == Swept([session.id], [])
    assert clock.sweep(24 * 60) == NOTHING
    assert clock.status(session) == "paused"


def test_a_run_that_the_worker_did_not_see_counts(clock: Clock) -> None:
    """The worker was away during a run. Its file says when the session was used last, and how the run ended."""
    used, ended, failed = (clock.agent(name) for name in ("used", "ended", "failed"))
    for session, minutes, status in ((used, 100, "active"), (ended, 50, "completed"), (failed, 50, "failed")):
        name = session.content_session_id
        found = session_file.read(clock.paths, name)
        assert found is not None
        at = ids.from_ms(START_MS + minutes * MINUTE)
        metadata = replace(found.metadata, last_message_at=at, status=SessionStatus(status))
        session_file.write(clock.paths, replace(found, metadata=metadata))
    assert clock.sweep(104) == NOTHING
    assert [clock.status(one) for one in (used, ended, failed)] == ["active", "completed", "failed"]
    assert clock.file_status("ended") == "completed"
    assert clock.moves(ended)[-1] == ("completed", "end_turn", "11:44")
    assert clock.sweep(106) == Swept([used.id], [])
    assert clock.sweep(131) == Swept([], [used.id])


def test_a_session_that_went_on_by_hooks_is_idle_like_any_other(clock: Clock) -> None:
    """Its file says `completed`, but that was before."""
    session = clock.agent("a")
    session_file.set_status(clock.paths, "a", SessionStatus.COMPLETED)
    clock.take("a", "prompt", 10)
    assert clock.sweep(16) == Swept([session.id], [])
    assert clock.status(session) == "paused"


def test_other_states_are_not_swept(clock: Clock, store: Store) -> None:
    causes = {"created": None, "completed": "end_turn", "failed": "fail"}
    for status, cause in causes.items():
        session = clock.agent(status) if cause else clock.take(status, "session_start")
        if cause:
            store.write(lambda tx, one=session, c=cause: sessions.move(tx, one, c, kind=SessionKind.AGENT))  # type: ignore[misc]
        else:
            store.write(lambda tx, one=session: tx.run("session_set_status", id=one.id, status="created"))  # type: ignore[misc]
    assert clock.sweep(24 * 60) == NOTHING


def test_a_restored_session_is_active_until_it_is_idle_again(clock: Clock, store: Store) -> None:
    session = clock.agent("a")
    clock.sweep(24 * 60)
    expired = store.read(lambda tx: sessions.get(tx, session.id))
    for cause in ("prompt", "message", "work", "end_turn", "fail", "end", "idle"):
        assert store.write(lambda tx, c=cause: sessions.move(tx, expired, c, kind=SessionKind.AGENT)) == "expired"  # type: ignore[misc]
    assert store.write(lambda tx: sessions.move(tx, expired, "restore", kind=SessionKind.AGENT)) == "active"
    clock.take("a", "prompt", 24 * 60)
    assert clock.sweep(24 * 60 + 4) == NOTHING
    assert clock.sweep(24 * 60 + 6) == Swept([session.id], [])


def test_a_damaged_file_does_not_stop_the_sweep(clock: Clock) -> None:
    first, second = clock.agent("a"), clock.agent("b")
    (clock.paths.agent_sessions / "a" / "session.json").write_text("{")
    assert clock.sweep(24 * 60) == Swept([first.id, second.id], [first.id, second.id])
    assert clock.file_status("b") == "expired"


def test_more_sessions_than_a_page_are_swept(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backstory.worker.jobs.sweep.PAGE", 3)
    numbers = []
    for number in range(8):
        clock.take(f"h{number}", "prompt")
        numbers.append(clock.take(f"h{number}", "stop", 1).id)
    assert clock.sweep(10).paused == numbers


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"pause_minutes": 60.0}, ([], [])),
        ({"pause_minutes": 0.0}, ([], [])),
        ({"expire_minutes": 90.0}, ([1], [])),
        ({"expire_minutes": 0.0}, ([1], [])),
        ({"pause_minutes": 20.0, "expire_minutes": 25.0}, ([1], [1])),
    ],
)
def test_the_times_are_settings(
    store: Store, tmp_path: Path, changes: dict[str, float], expected: tuple[list[int], list[int]]
) -> None:
    clock = Clock(store, tmp_path / "data", **changes)
    assert clock.agent("a").id == 1
    assert clock.sweep(45) == Swept(*expected)


def test_an_event_between_the_look_and_the_move_keeps_the_session_active(clock: Clock, store: Store) -> None:
    """The move looks again, with the session locked."""
    clock.take("h", "prompt")
    session = clock.take("h", "stop", 1)
    since = ids.from_ms(START_MS + 5 * MINUTE)
    assert store.read(lambda tx: idle_sessions.active(tx, since, 0, 9)) == [session]
    clock.take("h", "stop", 7)
    now_ms = START_MS + 10 * MINUTE
    assert store.write(lambda tx: idle_sessions.move(tx, session.id, "idle", since, now_ms)) is None
    assert clock.status(session) == "active"


def test_the_worker_sweeps_by_itself(box: Box) -> None:
    """The job runs on its timer, and the lock of a live caller keeps it away."""
    box.settings |= {f"BACKSTORY_{name}_MINUTES": "0.01" for name in ("SWEEP", "PAUSE", "EXPIRE")}
    box.start()
    paths = Settings(data_dir=box.data).paths
    route, body = "/api/agent-sessions/", {"cwd": str(box.project), "model": "m", "cause": "prompt"}

    def status(name: str) -> str:
        return str(box.client.get(route + name)["status"])

    with lock.hold(paths, "held"):
        for name in ("held", "free"):
            box.client.post(route + name, body)
        with lock.hold(paths, "free"):
            pass
        until(lambda: status("free") == "expired", "the sweep to expire the session")
        assert status("held") == "active"
    until(lambda: status("held") == "expired", "the sweep to expire the session that is free now")
