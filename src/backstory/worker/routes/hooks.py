"""Routes to which agents report: their own payloads at /hooks, neutral ones under /api/sessions."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from backstory import ids
from backstory.agents import AGENTS, DEFAULT_AGENT
from backstory.agents.agent import Agent
from backstory.capture import bodies
from backstory.capture.intake import Intake, Receipt
from backstory.capture.processes import processes
from backstory.capture.reconcile import Reconcile
from backstory.errors import BadInput, NotFound
from backstory.model import OBSERVED, ContentId, Kind, Report, Session
from backstory.store import sessions
from backstory.store.db import Store
from backstory.truncate import written_size
from backstory.worker.context_replies import ContextReplies, ContextReply
from backstory.worker.endpoints import Call, Endpoint, needs_capture, read_bytes
from backstory.worker.live import Live

#: Kinds whose contents are in a transcript, too.
IN_TRANSCRIPT = ("prompt", "tool", "tool_failure")
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
Number = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9-]*$")]
Path = Annotated[str, msgspec.Meta(max_length=4096)]


class NewPrompt(msgspec.Struct):
    """A prompt of a session with the agent's id."""

    session_id: Id
    prompt: str
    project: Path = ""
    prompt_number: Number | None = None
    cwd: Path = ""
    agent: Name = DEFAULT_AGENT
    event_id: Id | None = None


class NextPrompt(msgspec.Struct):
    """A prompt of a session with our id."""

    prompt: str
    project: Path = ""
    prompt_number: Number | None = None
    event_id: Id | None = None


class ToolUse(msgspec.Struct):
    """The use of a tool, and its output."""

    session_id: Id
    tool_name: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    tool_input: Any = None
    tool_response: Any = None
    cwd: Path = ""
    project: Path = ""
    tool_use_id: Id | None = None
    event_id: Id | None = None
    agent: Name = DEFAULT_AGENT


class RoundEnd(msgspec.Struct):
    """The end of a round, with its last messages."""

    session_id: Id
    last_user_message: str | None = None
    last_assistant_message: str | None = None
    cwd: Path = ""
    project: Path = ""
    event_id: Id | None = None
    agent: Name = DEFAULT_AGENT


class SessionEnd(msgspec.Struct):
    """The end of a session."""

    session_id: Id
    reason: str = "other"
    event_id: Id | None = None
    agent: Name = DEFAULT_AGENT


class Processing(msgspec.Struct):
    """Whether an agent is working, for the live stream."""

    is_processing: bool


class Prompted(msgspec.Struct):
    status: str  #: active, private, or skipped. A skipped prompt has a reason and nothing else.
    sessionDbId: int | UnsetType = UNSET
    promptNumber: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class Queued(msgspec.Struct, omit_defaults=True):
    status: str
    event_id: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class Ok(msgspec.Struct):
    status: str = "ok"


class Reporting:
    """The routes to which agents report."""

    #: Waits until what was spooled before an event is stored.
    wait_turn: Callable[[str], Awaitable[None]]

    def __init__(self, store: Store, intake: Intake, live: Live, replies: ContextReplies, reconcile: Reconcile) -> None:
        self._store, self._intake, self._live = store, intake, live
        self._replies, self._reconcile = replies, reconcile

    def table(self) -> list[Endpoint]:
        report = functools.partial(needs_capture, "POST", read=bodies.strip_tags, bare=True)
        return [
            needs_capture("POST", "/hooks/{agent}/{event}", self.hook, fails=(400, 413, 503)),
            report("/api/sessions/init", self.init, Prompted, NewPrompt),
            report("/api/sessions/{id:int}/init", self.init_by_id, Prompted, NextPrompt),
            report("/api/sessions/observations", self.tool_use, Queued, ToolUse, status=202),
            report("/api/sessions/summarize", self.round_end, Queued, RoundEnd, status=202),
            report("/api/sessions/complete", self.session_end, None, SessionEnd, fails=(404,)),
            needs_capture("POST", "/api/processing", self.processing, Ok, Processing, bare=True),
        ]

    async def hook(self, call: Call) -> Response:
        """Take the payload of an agent's hook and answer in the agent's format."""
        agent = AGENTS.get(call.request.path_params["agent"])
        if agent is None:
            raise NotFound("This agent is not known.", f"Known agents are: {', '.join(AGENTS)}.")
        event = call.request.path_params["event"]
        raw = await read_bytes(call.request)
        event_id = call.request.headers.get("x-backstory-event") or ids.new_event_id()
        given = await self._answer(agent, event, raw, event_id, is_spooled=False)
        response = _response(agent, event, given)
        # Not every agent takes a context at each event, and a hook that has given up has closed its connection.
        is_told = given and given.text and bytes(response.body) != agent.reply(event, "")
        if given and is_told and not await call.request.is_disconnected():
            response.background = self._replies.delivered(given)
        return response

    async def deliver(self, agent_name: str, event: str, raw: bytes, event_id: str) -> None:
        """Store a payload of the spool. Nobody waits for the answer."""
        await self._answer(AGENTS[agent_name], event, raw, event_id, is_spooled=True)

    async def _answer(
        self, agent: Agent, event: str, raw: bytes, event_id: str, is_spooled: bool
    ) -> ContextReply | None:
        """Store a payload and return the context that its agent is told; None for the end of an unknown session."""
        at = ids.event_time(event_id) or ids.now()
        about = (agent.name, event, event_id[:512], min(at, ids.now()))
        report, is_dropped = await processes.read(bodies.report, raw, *about)
        context = ContextReply()
        # The start of a session changes no order, and its agent waits for the answer.
        if report is not None and report.kind != "session_start" and not is_spooled:
            await self.wait_turn(event_id)
        if report is not None and is_dropped and report.transcript_path and report.kind in IN_TRANSCRIPT:
            self._reconcile.read(report)  # an event that is stored without its contents is not read again
        elif report is not None:
            try:
                taken = await self._take(report)
            except NotFound:
                self._reconcile.soon(report, None)
                return None
            self._reconcile.soon(report, taken.session.id if taken.session else None)
            if is_spooled:
                return context
            if report.kind == "session_start" and taken.skipped in (None, "duplicate"):
                context = await self._replies.at_start(report, taken)
            elif report.kind == "prompt":
                context = await self._replies.at_prompt(report, taken)
        return context

    async def _take(self, report: Report) -> Receipt:
        """Store the report of a hook. If its prompt is not known, because that hook was lost or is late, the transcript
        is read for it first: the prompt may be private."""
        if report.kind not in OBSERVED or not report.transcript_path:
            return await self._intake.take(report)
        if report.prompt_id:
            taken = await self._intake.take(report, untold="refuse")
            if taken.skipped != "untold":
                return taken
        has_transcript = await self._reconcile.store_prompts(report)
        return await self._intake.take(report, untold="hold back" if has_transcript else "take")

    async def init(self, call: Call) -> Prompted:
        """Store a prompt and number it. `skipped` comes with the reason why it was not stored."""
        return await self._prompt(call.body)

    async def init_by_id(self, call: Call) -> Prompted:
        """Store a prompt of a session with our id, like `/api/sessions/init`."""
        body: NextPrompt = call.body
        session = await self._session(call.number("id"))
        if session is None:
            raise NotFound("There is no such session.", "POST /api/sessions/init creates one and returns its id.")
        prompt = NewPrompt(session.content_session_id, body.prompt, body.project, body.prompt_number)
        prompt.cwd, prompt.agent, prompt.event_id = session.cwd, session.agent, body.event_id
        return await self._prompt(prompt)

    async def _prompt(self, body: NewPrompt) -> Prompted:
        report = await _to_report("prompt", body, {"prompt": body.prompt}, cwd=body.cwd)
        taken = await self._intake.take(report, body.project, body.prompt_number)
        if taken.session is None:
            return Prompted("skipped", reason=taken.skipped or "project")
        return Prompted("private" if taken.is_private else "active", taken.session.id, taken.prompt_number)

    async def tool_use(self, call: Call) -> Queued:
        """Queue the use of a tool. 202 after the commit; `skipped` comes with the reason why it was not stored."""
        body: ToolUse = call.body
        payload = {"tool_input": body.tool_input, "tool_response": body.tool_response}
        tool = {"tool_name": body.tool_name, "tool_use_id": body.tool_use_id}
        return await self._queue(await _to_report("tool", body, payload, cwd=body.cwd, **tool), body.project)

    async def round_end(self, call: Call) -> Queued:
        """Queue the end of a round. 202 after the commit; `skipped` comes with the reason why it was not stored."""
        body: RoundEnd = call.body
        names = ("last_user_message", "last_assistant_message")
        payload = {name: text for name in names if (text := getattr(body, name))}
        return await self._queue(await _to_report("stop", body, payload, cwd=body.cwd), body.project)

    async def _queue(self, report: Report, project: str) -> Queued:
        taken = await self._intake.take(report, project)
        if taken.skipped:
            return Queued("skipped", reason=taken.skipped)
        return Queued("queued", event_id=taken.event_id)

    async def session_end(self, call: Call) -> dict[str, Any]:
        """End a session."""
        taken = await self._intake.take(await _to_report("session_end", call.body, {"reason": call.body.reason}))
        session = await self._session(taken.session.id) if taken.session else None
        return sessions.shown(session) if session else {}

    async def _session(self, session_id: int) -> Session | None:
        return await asyncio.to_thread(self._store.read, lambda tx: sessions.by_id(tx, session_id))

    async def processing(self, call: Call) -> Ok:
        """Announce that an agent works or rests."""
        self._live.publish("processing_status", {"is_processing": call.body.is_processing})
        return Ok()


def _response(agent: Agent, event: str, given: ContextReply | None) -> Response:
    if given is None:
        return Response(b"", 200)
    return Response(agent.reply(event, given.text), 200, media_type="application/json")


async def _to_report(
    kind: Kind, body: NewPrompt | ToolUse | RoundEnd | SessionEnd, payload: dict[str, Any], **fields: Any
) -> Report:
    report = functools.partial(
        Report,
        agent=body.agent,
        kind=kind,
        content_id=ContentId(body.session_id),
        event_id=body.event_id or ids.new_event_id(),
        occurred_at=ids.now(),
        payload=payload,
        **fields,
    )
    return await processes.run(report, size=written_size(payload))


def parse_time(text: str, field: str) -> str:
    """Convert the time in a field of a body to the form in which times are stored."""
    try:
        return ids.from_ms(ids.at_ms(text))
    except (ValueError, OverflowError, OSError):
        raise BadInput(f"`{field}` is not a time.", "Write it as 2026-02-21T03:39:07.123Z.") from None
