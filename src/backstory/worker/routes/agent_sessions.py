"""Routes of sessions that are driven through the Python API: their moves and their totals."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Literal

import msgspec

from backstory import ids
from backstory.agents import DEFAULT_AGENT
from backstory.capture.intake import Intake
from backstory.errors import ImpossibleMove, NotFound
from backstory.model import ContentId, Report, Session, SessionStatus
from backstory.project import Project
from backstory.sessions import session_file, states
from backstory.sessions.states import SessionKind
from backstory.store import agent_sessions, sessions
from backstory.store.db import Store, Tx
from backstory.text import one_line
from backstory.worker.endpoints import Call, Endpoint, needs_capture, needs_read

Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Path = Annotated[str, msgspec.Meta(max_length=4096)]
Short = Annotated[str, msgspec.Meta(max_length=500)]


class AgentTotals(msgspec.Struct):
    """Totals of the whole session. Fields that are left out stay as they are."""

    message_count: Count | None = None
    turn_count: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cost_micros: Count | None = None
    last_stop_reason: Short | None = None


class AgentMove(msgspec.Struct):
    """What happened to a session. `parent` is the agent's id of the session that this one continues."""

    cause: Literal["start", "message", "prompt", "end_turn", "fail", "restore", "end"]
    cwd: Path
    model: Short = ""
    reason: Short = ""
    parent: Short = ""
    metadata: AgentTotals | None = None


class Moved(msgspec.Struct):
    """The state of a session, and whether it has changed. Without `id`, its project is excluded and nothing is kept."""

    id: int | None
    status: SessionStatus | None
    moved: bool


class ShownAgentSession(msgspec.Struct):
    """A session with its totals."""

    id: int
    content_session_id: str
    status: SessionStatus
    model: str
    cwd: str
    created_at: str
    last_event_at: str
    message_count: int
    turn_count: int
    input_tokens: int
    output_tokens: int
    cost_micros: int
    last_stop_reason: str | None


class AgentSessions:
    """The routes of sessions of the Python API."""

    def __init__(self, store: Store, intake: Intake) -> None:
        self._store, self._intake = store, intake

    def table(self) -> list[Endpoint]:
        path = "/api/agent-sessions/{content_id}"
        return [
            needs_capture("POST", path, self.move, Moved, AgentMove, fails=(409,)),
            needs_read("GET", path, self.show, ShownAgentSession),
        ]

    async def move(self, call: Call) -> Moved:
        """Report what happened to a session of the Python API. An unknown session is created."""
        body: AgentMove = call.body
        report = Report(
            agent=DEFAULT_AGENT,
            kind="session_start",
            content_id=_content_id(call),
            event_id=ids.new_event_id(),
            occurred_at=ids.now(),
            cwd=body.cwd,
        )
        where = await self._intake.project(body.cwd, reread=body.cause in ("start", "prompt"))
        if await self._intake.unwanted(report, where):
            return Moved(None, None, moved=False)
        return await self._intake.write(lambda tx: _move(tx, report, where, body))

    async def show(self, call: Call) -> ShownAgentSession:
        """Show the state and the totals of a session of the Python API."""
        content_id = _content_id(call)
        return await asyncio.to_thread(self._store.read, lambda tx: _shown(tx, content_id))


def _content_id(call: Call) -> ContentId:
    """Return the id in the path. It names a directory, too."""
    name = ContentId(call.request.path_params["content_id"])
    session_file.check_id(name)
    return name


def _move(tx: Tx, report: Report, where: Project, body: AgentMove) -> Moved:
    known = sessions.by_content_id(tx, report.agent, report.content_id)
    if known and known.forgotten_at:
        if body.cause in ("prompt", "restore"):
            raise ImpossibleMove(f"Session {report.content_id} was forgotten.", "Start a new session.")
        return Moved(known.id, known.status, moved=False)
    session = sessions.get_or_create(tx, report, where)
    _check(session, body.cause)
    totals = msgspec.structs.asdict(body.metadata) if body.metadata else {}
    agent_sessions.put(tx, session.id, body.model, **totals)
    parent = sessions.by_content_id(tx, report.agent, ContentId(body.parent)) if body.parent else None
    if parent and parent.id != session.id:
        sessions.set_parent(tx, session, parent.id)
    reason = one_line(body.reason) if body.cause != "prompt" else ""
    status = sessions.move(tx, session, body.cause, reason or None, report.occurred_at, SessionKind.AGENT)
    return Moved(session.id, status, moved=session.is_new or status != session.status)


def _check(session: Session, cause: str) -> None:
    if states.after(session.status, cause, SessionKind.AGENT) is None:
        name = session.content_session_id
        if session.status == SessionStatus.EXPIRED:
            raise ImpossibleMove(f"Session {name} has expired.", "Restore it first, or start a new session.")
        raise ImpossibleMove(f"Session {name} is {session.status}, so `{cause}` is impossible.", "Send a prompt first.")


def _shown(tx: Tx, content_id: ContentId) -> ShownAgentSession:
    session = sessions.by_content_id(tx, DEFAULT_AGENT, content_id)
    totals = agent_sessions.get(tx, session.id) if session else None
    if session is None or totals is None:
        raise NotFound("There is no such session of the Python API.", "`backstory sessions` lists all sessions.")
    return msgspec.convert(sessions.shown(session) | asdict(totals), ShownAgentSession)
