"""A run of the agent of one group: a message, the follow-ups that come while it works, and what it tells."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from backstory import ids
from backstory.agents.claude_code import resumable
from backstory.errors import BackstoryError, Forbidden, SessionUnreadable
from backstory.groups import ipc, snapshots, start
from backstory.groups.archive import opened_transcript
from backstory.groups.ipc_files import IpcFiles
from backstory.groups.messages import take_close, take_messages
from backstory.groups.names import GroupPaths
from backstory.groups.pointers import Pointer
from backstory.groups.progress import RunProgress
from backstory.model import SessionStatus
from backstory.sessions import Message, Run, SessionRecovered, execute, history, metadata, restore
from backstory.sessions.session_file import from_json
from backstory.settings import Settings
from backstory.text import cut, one_line

if TYPE_CHECKING:
    from claude_agent_sdk import AssistantMessage
    from claude_agent_sdk.types import HookContext, HookInput, SyncHookJSONOutput

    from backstory.groups.runs import GroupRuns, Surroundings
    from backstory.sessions.run import Streamed

#: Seconds that the agent has for its answer after it was asked to end.
CLOSE_S = 30.0
#: Seconds between two looks for `_close`.
LOOK_S = 0.2
#: Characters of the input of a tool that are shown.
MAX_INPUT = 200
#: Characters of the context of a new session. Claude Code replaces more by the name of a file.
MAX_CONTEXT = 9_900
#: Lines of the agent's standard error that are kept.
STDERR_LINES = 5
#: Why something is told again -> what the user is told about it
NOTICES = {
    "deleted": "The transcript of this conversation is gone.",
    "empty": "The transcript of this conversation is empty.",
    "damaged": "The transcript of this conversation is damaged.",
    "refused": "The agent does not know this conversation any more.",
    "rebuilt": "The record of this conversation was damaged, and was written again from what is whole.",
}


class SessionMoved(Exception):
    """The group moved on to another session before this one had told its id."""


@dataclass(slots=True)
class Deadlines:
    """When a query ends, whatever the agent does, by the clock of the event loop."""

    idle: float = math.inf  #: nothing was heard of it
    timeout: float = math.inf  #: the run has taken too long
    closed: float = math.inf  #: it was asked to end

    @property
    def next(self) -> tuple[float, str]:
        return min((self.closed, "closed"), (self.idle, "idle"), (self.timeout, "timeout"))


class GroupRun:
    """A run. It ends when there is no message left."""

    def __init__(
        self,
        settings: Settings,
        paths: GroupPaths,
        around: Surroundings,
        variables: Mapping[str, str],
        message: str,
        runs: GroupRuns,
    ) -> None:
        self.paths, self.group, self.progress, self.started_at = paths, paths.group, RunProgress(), ids.now()
        self.is_ending = False  #: somebody outside has ended it
        self.has_ended = asyncio.Event()
        self.waiting: asyncio.Future[Any] | None = None  #: for a slot
        self.session_id: str | None = None  #: the session of the last query, as soon as the agent has told it
        self._settings, self._around, self._variables, self._runs = settings, around, variables, runs
        self._messages, self._files = [message], IpcFiles(paths)
        self._deadlines, self._limit = Deadlines(), asyncio.timeout(None)
        self._resumed: str | None = None  #: the session that is resumed
        self._resume_at: str | None = None  #: the last message of the model, if nothing came after it
        self._has_begun = self._has_told = False  #: the agent has named its session; it knows what is remembered
        self._has_answered = asyncio.Event()  #: and nothing that was sent to it since
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)

    async def work(self) -> str:
        """Answer messages until none is left. Return why the run ended: done, closed, idle or timeout."""
        if minutes := self._settings.group_run_minutes:
            self._deadlines.timeout = asyncio.get_running_loop().time() + minutes * 60
        self._messages[:0] = take_messages(self._files)
        is_closed = False
        while self._messages and not self.is_ending:
            pointer = await self._around.pointers.get(self.group)
            try:
                await self._answer("\n".join(self._messages), pointer)
            except SessionMoved:
                continue
            except TimeoutError:
                if (reason := self._deadlines.next[1]) != "closed":
                    return reason
            has_moved = (await self._around.pointers.get(self.group)).generation != pointer.generation
            is_closed = take_close(self._files) or self._deadlines.closed < math.inf or has_moved
            if is_closed and not has_moved:
                break
            # A message that came while the agent cleared its session, or chose another one, belongs to the next.
            self._deadlines.closed = math.inf
            self._messages = take_messages(self._files)  # in this thread: `GroupRuns.send` must not come in between
        return "closed" if is_closed or self.is_ending else "done"

    def close(self, *, at_once: bool = False) -> None:
        """End the run, at once or when the agent has answered."""
        self.is_ending = True
        if self.waiting:
            self.waiting.cancel()
        self._close(0 if at_once else CLOSE_S)

    def describe(self, error: Exception) -> str:
        """Return a sentence about a failure."""
        errors = getattr(error, "errors", None)
        said = "; ".join(map(str, errors)) if isinstance(errors, list) and errors else " ".join(self._stderr)
        if isinstance(error, OSError) and error.strerror:
            said = error.strerror  # such as that the disk is full
        return f"The agent failed: {cut(one_line(said), 500) if said else type(error).__name__}"

    def _close(self, seconds: float) -> None:
        self._deadlines.closed = min(self._deadlines.closed, asyncio.get_running_loop().time() + seconds)
        self._reschedule()

    def _heard(self) -> None:
        """Note that the agent works."""
        if minutes := self._settings.group_idle_minutes:
            self._deadlines.idle = asyncio.get_running_loop().time() + minutes * 60
        self._reschedule()

    def _reschedule(self) -> None:
        with suppress(RuntimeError):  # no query runs, or it has just ended
            self._limit.reschedule(None if math.isinf(when := self._deadlines.next[0]) else when)

    async def _answer(self, prompt: str, pointer: Pointer) -> None:
        """Ask the agent, within the deadlines. Carry out what it asks for by files in the meantime."""
        await self._write_snapshots()
        self._limit = asyncio.timeout(None)
        async with self._limit, self._watching(pointer):
            around = self._around
            async with ipc.serving(self._files, around.pointers, around.search, pointer.generation):
                self._heard()
                await self._query(prompt, pointer)

    @asynccontextmanager
    async def _watching(self, pointer: Pointer) -> AsyncIterator[None]:
        """Look for `_close` while the agent works, and whether its session was cleared."""

        async def watch() -> None:
            is_closed = has_moved = False
            while not (is_closed or has_moved):
                await asyncio.sleep(LOOK_S)
                with suppress(OSError):  # an agent can take the permissions from its own directories
                    is_closed = await asyncio.to_thread(take_close, self._files)
                has_moved = (await self._around.pointers.get(self.group)).generation != pointer.generation
            self.is_ending = self.is_ending or not has_moved
            self._close(CLOSE_S)

        task = asyncio.create_task(watch(), name=f"close of {self.group}")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, OSError, BackstoryError):
                await task

    async def _write_snapshots(self) -> None:
        past, groups = await self._around.pointers.resumable(self.group), await self._around.groups()
        await asyncio.to_thread(snapshots.write, self._files, past, self._runs.current(), groups)

    async def _query(self, prompt: str, pointer: Pointer) -> None:
        """Ask once, in the session of the pointer."""
        if pointer.session_id != self.session_id:
            self.session_id = self._resume_at = None
        self._resumed = pointer.session_id
        said = await self._said(pointer.session_id) if pointer.session_id else ()
        query = start.GroupQuery(
            prompt=prompt,
            session_id=pointer.session_id,
            history=said,
            resume_at=self._resume_at,
            follow_ups=partial(self._follow_ups, pointer),
            callbacks={"PreCompact": self._archive} | ({} if said else {"UserPromptSubmit": self._tell}),
            on_stderr=self._stderr.append,
        )
        options = await asyncio.to_thread(start.options, self._settings, self.paths, self._variables, query)
        known = pointer.session_id
        self._has_begun = self._has_told = False
        self._has_answered.clear()
        async with aclosing(execute(options)) as run:
            async for message in run:
                self._heard()
                if run.session_id and run.session_id != known:
                    known = await self._point(run.session_id, pointer)
                self._has_begun = self._has_begun or run.session_id is not None
                if run.session_id and run.session_id != self.session_id:
                    self.session_id = run.session_id
                    self.progress.add("started", session_id=self.session_id, resumed=known == pointer.session_id)
                self._show(message, run)

    async def _follow_ups(self, pointer: Pointer) -> AsyncIterator[str]:
        """Yield the messages that come while the agent works, until it has answered and there is none.

        Those that come after a clear or a resume are for the next session.
        """
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._has_answered.wait()
            if not self._has_begun and not self._has_answered.is_set():
                continue
            if self.is_ending or (await self._around.pointers.get(self.group)).generation != pointer.generation:
                return
            texts = take_messages(self._files)
            if not texts and self._has_answered.is_set():
                return
            self._has_answered.clear()
            for text in texts:
                self._heard()
                yield text

    async def _said(self, session_id: str) -> tuple[Message, ...]:
        """Return the messages of a session. One that has expired is opened again: its group still points to it."""
        about = None
        with suppress(SessionUnreadable):  # it is rebuilt when the agent is started
            about = await asyncio.to_thread(metadata, session_id)
        if about and about.status == SessionStatus.EXPIRED:
            await restore(session_id)
        said = await asyncio.to_thread(self._kept, session_id) or await self._around.said(self.group, session_id)
        if not said:
            self.progress.add("recovered", text=f"{NOTICES['deleted']} Nothing of it is known.", reason="deleted")
        return said

    def _kept(self, session_id: str) -> tuple[Message, ...]:
        with suppress(SessionUnreadable):
            if said := history(session_id):
                return said
        with opened_transcript(self.paths, session_id) as path:
            known = resumable.read(path) if path else None
        return tuple(map(from_json, known.news)) if known else ()

    async def _point(self, session_id: str, pointer: Pointer) -> str:
        """Make the session of the agent that of its group, unless the group has moved on since."""
        if await self._around.pointers.set(self.group, session_id, pointer.generation):
            return session_id
        if (await self._around.pointers.get(self.group)).generation != pointer.generation:
            raise SessionMoved
        raise Forbidden("The agent named a session of another group.", "Look at what it did, then try again.")

    def _show(self, message: Streamed, run: Run) -> None:
        """Tell a message of the agent to those who follow the run."""
        import claude_agent_sdk as sdk

        if isinstance(message, SessionRecovered):
            is_new = message.session_id != message.lost_session_id
            told = f"It goes on in a new session, which was told {message.messages} messages." if is_new else ""
            text = f"{NOTICES.get(message.reason, NOTICES['damaged'])} {told}".strip()
            self.progress.add("recovered", text=text, reason=message.reason, lost_session_id=message.lost_session_id)
        elif isinstance(message, sdk.AssistantMessage):
            if not message.parent_tool_use_id:
                self._show_reply(message)
        elif isinstance(message, sdk.ResultMessage):
            self._has_answered.set()
            self.progress.add(
                "result",
                text=message.result or "",
                is_error=message.is_error,
                session_id=run.session_id,
                stop_reason=message.stop_reason or message.subtype,
                cost_usd=message.total_cost_usd,
            )
        elif isinstance(message, sdk.UserMessage) or (
            isinstance(message, sdk.SystemMessage) and message.subtype == "compact_boundary"
        ):
            self._resume_at = None

    def _show_reply(self, message: AssistantMessage) -> None:
        import claude_agent_sdk as sdk

        self._resume_at = None if message.error else message.uuid
        for block in message.content:
            if isinstance(block, sdk.TextBlock) and not message.error:
                self.progress.add("text", text=block.text)
            elif isinstance(block, sdk.ToolUseBlock):
                self._resume_at = None
                self.progress.add("tool", name=block.name, input=_shown(block.input))

    async def _archive(self, payload: HookInput, tool_use_id: str | None, context: HookContext) -> SyncHookJSONOutput:
        """Archive the conversation, because the agent is about to replace it by a summary."""
        # A resumed session may be compacted before it has told its id.
        if session_id := self.session_id or self._resumed:
            await self._around.archives.write(self.group, session_id, cause="compact")
        return {}

    async def _tell(self, payload: HookInput, tool_use_id: str | None, context: HookContext) -> SyncHookJSONOutput:
        """Tell a new session what is remembered of the earlier ones of its group."""
        if self._has_told:
            return {}  # a follow-up
        self._has_told = True
        told = await self._around.context(self.group)
        if not told.strip():
            return {}
        output = {"hookEventName": "UserPromptSubmit", "additionalContext": cut(told, MAX_CONTEXT)}
        return {"hookSpecificOutput": output}  # type: ignore[typeddict-item]


def _shown(value: Mapping[str, Any]) -> str:
    """Return the input of a tool in one line."""
    return cut(one_line(", ".join(f"{name}: {each}" for name, each in value.items())), MAX_INPUT)
