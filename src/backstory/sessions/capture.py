"""Tells the worker what happens in a run: the moves of the session, and what hooks would report."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from backstory import agents
from backstory.agents.claude_code.payloads import EVENTS
from backstory.client import Client
from backstory.errors import BackstoryError, ImpossibleMove, WorkerAway
from backstory.model import SessionStatus
from backstory.paths import Paths
from backstory.sessions import kept, states
from backstory.sessions.record import Record
from backstory.sessions.states import SessionKind

if TYPE_CHECKING:
    from claude_agent_sdk import HookMatcher
    from claude_agent_sdk.types import HookContext, HookEvent, HookInput, SyncHookJSONOutput

log = logging.getLogger("backstory.sessions")
#: Seconds for the answer of a running worker.
ANSWER_S = 10.0
#: Causes that the caller asks for. The others have happened already.
ASKED = ("prompt", "restore")
RESTORE = "Call `restore` to open it again, or start a new session."
#: Reports of a run that are handed to the hook at the same time.
MAX_REPORTS = 8
#: Reports of a run that wait for that. Further ones are dropped: only a program that writes to the agent's output,
#: in its name, makes so many. The transcript has what really happened.
MAX_WAITING = 256
HOOK = Path(__file__).parent.parent / "hook.py"


class Worker:
    """The worker, as a run sees it. Without it a run goes on, and the next one tells it the totals.

    An agent in a sandbox sees other paths. `cwd` and `transcripts` are its directories as they are here.
    """

    def __init__(self, paths: Paths, cwd: Path | None = None, transcripts: Path | None = None) -> None:
        self._paths, self._client = paths, Client(paths.socket, ANSWER_S)
        self._cwd, self._transcripts = cwd, transcripts
        self.session_id: str | None = None  #: the session of the run, as soon as it is known
        self._is_away = False
        self._waiting = 0  #: reports that the hook does not have yet

    async def move(self, record: Record, cause: str, reason: str | None = None) -> None:
        """Move a session to its next state, in the worker and in the record.

        Raises ImpossibleMove for a prompt or a restore. Other impossible moves change nothing.
        """
        now = record.metadata
        about = {"cwd": now.cwd, "model": now.model, "parent": now.parent_id or "", "metadata": record.totals()}
        try:
            answer = await self._post(
                f"/api/agent-sessions/{record.id}", about | {"cause": cause, "reason": reason or ""}
            )
            after = answer["status"] or states.after(now.status, cause, SessionKind.AGENT)
        except WorkerAway:
            after = states.after(now.status, cause, SessionKind.AGENT)
            if after is None and cause in ASKED:
                raise ImpossibleMove(f"Session {record.id} is {now.status}.", RESTORE) from None
        except ImpossibleMove:
            if cause in ASKED:
                raise
            return
        record.set_status(SessionStatus(after or now.status))

    async def _post(self, route: str, body: Mapping[str, Any]) -> Any:
        """Send a request. Starts the worker if it is away. Raises WorkerAway if it cannot take the request."""
        import anyio

        if self._is_away:
            raise WorkerAway
        for attempt in range(2):
            try:
                return await anyio.to_thread.run_sync(self._client.post, route, body)
            except WorkerAway:
                if attempt == 0:
                    await self._start()
            except BackstoryError as error:
                if error.status == ImpossibleMove.status:
                    raise ImpossibleMove(str(error), error.hint) from None
                log.warning("The worker refused the report of a session: %s", error)
                raise WorkerAway from None
        self._is_away = True
        log.warning("The worker of backstory does not answer. The session is kept in session.json alone.")
        raise WorkerAway

    def restore_transcript(self, content_id: str, cwd: str) -> bool:
        """Write the transcript of a session back, if it was kept. Blocks."""
        try:
            return not self._is_away and kept.restore_transcript(content_id, cwd=cwd, client=self._client) is not None
        except (BackstoryError, OSError) as error:
            log.warning("The transcript of session %s could not be restored: %s", content_id, type(error).__name__)
            return False

    async def _start(self) -> None:
        import anyio

        await anyio.run_process([sys.executable, "-P", "-m", "backstory", "start"], check=False, cwd=Path.home())

    def hooks(self) -> dict[HookEvent, list[HookMatcher]]:
        """Return the hooks of a run. They report what Claude Code's own hooks would, so nothing is kept twice."""
        import anyio
        import claude_agent_sdk as sdk

        self._reports = anyio.CapacityLimiter(MAX_REPORTS)
        return {cast("HookEvent", event): [sdk.HookMatcher(hooks=[self._report])] for event in EVENTS}

    async def _report(self, payload: HookInput, tool_use_id: str | None, context: HookContext) -> SyncHookJSONOutput:
        """Hand a payload to the hook: it strips it, sends it, and spools it if the worker is away."""
        import anyio

        event = str(payload.get("hook_event_name"))
        if self._transcripts:
            if self.session_id not in (None, payload.get("session_id")):
                return {}  # a program in the sandbox has written to the agent's output
            own = self._transcripts / f"{payload.get('session_id')}.jsonl"
            told = {name: value for name, value in payload.items() if name != "agent_transcript_path"}
            payload = cast("HookInput", told | {"cwd": str(self._cwd), "transcript_path": str(own)})
        if self._waiting >= MAX_WAITING:
            return {}
        start = [sys.executable, "-I", "-S", str(HOOK), str(self._paths.data), agents.DEFAULT_AGENT, event]
        self._waiting += 1
        try:
            async with self._reports:
                await anyio.run_process(start, input=json.dumps(payload).encode(), check=False)
        finally:
            self._waiting -= 1
        return {}
