"""Routes by which agents report: their own payloads at /hooks, and neutral ones under /api/sessions."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from backstory import ids
from backstory.agents import AGENTS, DEFAULT_AGENT
from backstory.capture.intake import Intake, Receipt
from backstory.capture.reconcile import Reconcile
from backstory.errors import BadInput, NotFound
from backstory.model import OBSERVED, ContentId, Kind, Report
from backstory.privacy import CONTENTS_DROPPED
from backstory.settings import Settings
from backstory.store import sessions
from backstory.store.db import Store, Tx
from backstory.worker.context_replies import ContextReplies
from backstory.worker.endpoints import Call, Endpoint, needs_capture, read_report
from backstory.worker.live import Live

T = TypeVar("T")
#: Kinds whose contents stand in a transcript, too.
IN_TRANSCRIPT = ("prompt", "tool", "tool_failure")
#: The text of a prompt that the hook could not strip in time, if the agent writes no transcript.
NOT_KEPT = "[This prompt was too large to be looked through for secrets in time. It was not kept.]"
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
Number = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9-]*$")]
Path = Annotated[str, msgspec.Meta(max_length=4096)]


class NewPrompt(msgspec.Struct):
    """A prompt of a session that is named by the agent's id."""

    session_id: Id
    prompt: str
    project: Path = ""
    prompt_number: Number | None = None
    cwd: Path = ""
    agent: Name = DEFAULT_AGENT
    event_id: Id | None = None


class NextPrompt(msgspec.Struct):
    """A prompt of a session that is named by our id."""

    prompt: str
    project: Path = ""
    prompt_number: Number | None = None
    event_id: Id | None = None


class ToolUse(msgspec.Struct):
    """A tool that was used, and what it answered."""

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
    """Whether an agent is at work, for those who watch."""

    is_processing: bool


class Prompted(msgspec.Struct):
    status: str  #: active, private, or skipped, which has a reason and nothing else
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
    """The routes of reports."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        intake: Intake,
        live: Live,
        replies: ContextReplies,
        reconcile: Reconcile,
    ) -> None:
        self._settings, self._store, self._intake, self._live = settings, store, intake, live
        self._replies = replies
        self._reconcile = reconcile

    def table(self) -> list[Endpoint]:
        said = "202 when it is stored; `skipped` says why it was not."
        told = functools.partial(needs_capture, "POST", read=read_report, bare=True)
        return [
            needs_capture(
                "POST",
                "/hooks/{agent}/{event}",
                self.hook,
                "An agent's own payload in, its own reply out.",
                fails=(400, 413, 503),
            ),
            told(
                "/api/sessions/init",
                self.init,
                "A prompt is told, and numbered; `skipped` says why it was not.",
                Prompted,
                NewPrompt,
            ),
            told("/api/sessions/{id:int}/init", self.init_by_id, "The same, by our id.", Prompted, NextPrompt),
            told("/api/sessions/observations", self.tool_use, said, Queued, ToolUse, status=202),
            told("/api/sessions/summarize", self.round_end, said, Queued, RoundEnd, status=202),
            told("/api/sessions/complete", self.session_end, "A session has ended.", None, SessionEnd, fails=(404,)),
            needs_capture(
                "POST", "/api/processing", self.processing, "An agent works, or rests.", Ok, Processing, bare=True
            ),
        ]

    async def hook(self, call: Call) -> Response:
        agent = AGENTS.get(call.request.path_params["agent"])
        if agent is None:
            raise NotFound("This agent is not known.", f"Known are: {', '.join(AGENTS)}.")
        event = call.request.path_params["event"]
        payload = await read_report(call.request)
        if not isinstance(payload, dict):
            raise BadInput("The payload is not a JSON object.", "Send what the agent gives to its hooks.")
        event_id = call.request.headers.get("x-backstory-event") or ids.new_event_id()
        return await self.deliver(agent.name, event, payload, event_id)

    async def deliver(self, agent_name: str, event: str, payload: dict[str, Any], event_id: str) -> Response:
        """Store a payload and answer it. The spool delivers its payloads here, too."""
        agent = AGENTS[agent_name]
        at = ids.event_time(event_id) or ids.now()
        is_dropped = payload.get(CONTENTS_DROPPED) is True
        if is_dropped:
            payload = {"prompt": NOT_KEPT, **payload}
        report = agent.read(event, payload, event_id[:512], min(at, ids.now()))
        context = ""
        if report is not None and is_dropped and report.transcript_path and report.kind in IN_TRANSCRIPT:
            self._reconcile.read(report)  # once stored without its contents, it would be known and never be read
        elif report is not None:
            try:
                taken = await self._take(report)
            except NotFound:
                self._reconcile.soon(report, None)
                return Response(b"", 200)  # the end of an unknown session
            self._reconcile.soon(report, taken.session.id if taken.session else None)
            if report.kind == "session_start" and taken.skipped in (None, "duplicate"):
                context = await self._replies.at_start(report, taken)
            elif report.kind == "prompt":
                context = await self._replies.at_prompt(report, taken)
        return Response(agent.reply(event, context), 200, media_type="application/json")

    async def _take(self, report: Report) -> Receipt:
        """Store the report of a hook.

        If its prompt is not known, that prompt's hook was lost or is late. The transcript is read for it first,
        because the prompt may be private.
        """
        if report.kind not in OBSERVED or not report.transcript_path:
            return await self._intake.take(report)
        if report.prompt_id:
            taken = await self._intake.take(report, untold="refuse")
            if taken.skipped != "untold":
                return taken
        has_transcript = await self._reconcile.store_prompts(report)
        return await self._intake.take(report, untold="hold back" if has_transcript else "take")

    async def _read(self, work: Callable[[Tx], T]) -> T:
        return await asyncio.to_thread(self._store.read, work)

    async def init(self, call: Call) -> Prompted:
        body: NewPrompt = call.body
        report = self._report("prompt", body.session_id, body.agent, body.event_id, body.cwd, {"prompt": body.prompt})
        return self._prompted(await self._intake.take(report, body.project, body.prompt_number))

    async def init_by_id(self, call: Call) -> Prompted:
        body: NextPrompt = call.body
        session = await self._read(lambda tx: sessions.by_id(tx, call.number("id")))
        if session is None:
            raise NotFound("There is no such session.", "POST /api/sessions/init makes one and answers with its id.")
        report = self._report(
            "prompt",
            session.content_session_id,
            session.agent,
            body.event_id,
            session.cwd,
            {"prompt": body.prompt},
        )
        return self._prompted(await self._intake.take(report, body.project, body.prompt_number))

    def _prompted(self, taken: Receipt) -> Prompted:
        if taken.session is None:
            return Prompted("skipped", reason=taken.skipped or "project")
        return Prompted("private" if taken.is_private else "active", taken.session.id, taken.prompt_number)

    async def tool_use(self, call: Call) -> Queued:
        body: ToolUse = call.body
        payload = {"tool_input": body.tool_input, "tool_response": body.tool_response}
        report = self._report("tool", body.session_id, body.agent, body.event_id, body.cwd, payload, body)
        return self._queued(await self._intake.take(report, body.project))

    async def round_end(self, call: Call) -> Queued:
        body: RoundEnd = call.body
        messages = {
            "last_user_message": body.last_user_message,
            "last_assistant_message": body.last_assistant_message,
        }
        payload = {name: text for name, text in messages.items() if text}
        report = self._report("stop", body.session_id, body.agent, body.event_id, body.cwd, payload)
        return self._queued(await self._intake.take(report, body.project))

    def _queued(self, taken: Receipt) -> Queued:
        if taken.skipped:
            return Queued("skipped", reason=taken.skipped)
        return Queued("queued", event_id=taken.event_id)

    async def session_end(self, call: Call) -> dict[str, Any]:
        body: SessionEnd = call.body
        report = self._report("session_end", body.session_id, body.agent, body.event_id, "", {"reason": body.reason})
        taken = await self._intake.take(report)
        session_id = taken.session.id if taken.session else 0
        session = await self._read(lambda tx: sessions.by_id(tx, session_id))
        return sessions.shown(session) if session else {}

    async def processing(self, call: Call) -> Ok:
        self._live.tell("processing_status", {"is_processing": call.body.is_processing})
        return Ok()

    def _report(
        self,
        kind: Kind,
        session_id: str,
        agent: str,
        event_id: str | None,
        cwd: str,
        payload: dict[str, Any],
        tool: ToolUse | None = None,
    ) -> Report:
        return Report(
            agent=agent,
            kind=kind,
            content_id=ContentId(session_id),
            event_id=event_id or ids.new_event_id(),
            occurred_at=ids.now(),
            cwd=cwd,
            tool_name=tool.tool_name if tool else None,
            tool_use_id=tool.tool_use_id if tool else None,
            payload=payload,
        )
