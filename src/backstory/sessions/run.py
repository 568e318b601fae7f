"""Runs an agent: resumes or starts a session, streams its messages, and keeps what is needed to go on later."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import ExitStack, aclosing, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast
from uuid import uuid4

from backstory import settings
from backstory.agents.claude_code import resumable
from backstory.errors import BackstoryError, Forbidden
from backstory.kill_switch import KillSwitch, write_launcher
from backstory.model import SessionStatus
from backstory.sessions import lock, session_file
from backstory.sessions.capture import Worker
from backstory.sessions.options import MIN_OUTPUT, NO_SDK, Options, Sandbox
from backstory.sessions.record import Record, TurnState
from backstory.sessions.recovery import SessionRecovered, compared, continued_as, preamble
from backstory.sessions.saved import taken, transcript_of
from backstory.sessions.session_file import Message

if TYPE_CHECKING:
    import claude_agent_sdk as sdk

    Streamed: TypeAlias = sdk.Message | SessionRecovered

#: The prompt that lets work go on after the turn limit.
GO_ON = "Go on from where you stopped."
#: Seconds for the agent to end after its result.
CLOSE_S = 10.0
_NOT_FOUND = "No conversation found"


@dataclass(frozen=True, slots=True)
class _Start:
    """How a run begins."""

    resume: str | None = None
    preamble: str = ""  #: what is told again before the prompt
    reason: str = ""  #: why something is told again; empty if the transcript is whole
    messages: int = 0  #: how many messages are told again
    resume_at: str | None = None  #: the message after which the conversation goes on; None: the last one


def execute(options: Options) -> Run:
    """Run an agent. Iterate over the result to get the messages of the SDK as they come."""
    return Run(options)


class Run(AsyncIterator["Streamed"]):
    """A run of an agent. It holds the lock of its session until it ends or is closed."""

    def __init__(self, options: Options) -> None:
        self.turns = TurnState(options.max_turns)
        self._options, self._paths = options, settings.bare().paths
        self._cwd = Path(options.cwd or ".").absolute()
        self._worker = Worker(self._paths, self._cwd, options.sandbox.transcripts if options.sandbox else None)
        self._locks = ExitStack()
        self._record: Record | None = None
        self._has_messages = False  #: the agent has said which session it is
        self._prompts: list[str] = []  #: prompts that were sent, until the session is known in which they are kept
        self._stop = ""  #: subtype of the last result
        self._output = 0  #: characters that count for `max_output`
        self._is_cleared = False  #: `/clear` has ended the session; another one follows
        self._is_between = False  #: and is not known yet
        self._is_rebuilt = False  #: session.json was damaged
        self._stream = self._messages()

    @property
    def session_id(self) -> str | None:
        """The id of the session, as soon as the agent has told it."""
        return self._record.id if self._record and self._has_messages else None

    def __aiter__(self) -> Run:
        return self

    async def __anext__(self) -> Streamed:
        return await anext(self._stream)

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the run. The agent ends with it."""
        await self._stream.aclose()

    async def _messages(self) -> AsyncGenerator[Streamed]:
        try:
            import claude_agent_sdk as sdk
        except ImportError:
            raise BackstoryError(NO_SDK, "Run `pip install 'backstory[claude]'`.") from None
        with self._locks:
            start, prompts = await self._begin(), [self._options.prompt]
            while True:
                error: Exception | None = None
                try:
                    async with aclosing(self._query(start, prompts)) as messages:
                        async for message in messages:
                            yield message
                except Exception as caught:  # some errors of the SDK have no class of their own
                    error = caught
                if start.resume and not self._has_messages and _is_lost(error):
                    start, prompts = self._lost("refused"), self._prompts
                elif isinstance(error, sdk.ResultError) and self._may_go_on():
                    self.turns.go_on()
                    start, prompts = _Start(self.session_id), [GO_ON]
                elif error is not None:
                    await self._fail(error)
                    raise error
                else:
                    return

    def _may_go_on(self) -> bool:
        """Whether the turn limit has ended the work, and it may go on by itself."""
        return self._stop == "error_max_turns" and self.turns.continuations < self._options.max_continuations

    async def _begin(self) -> _Start:
        """Take the session that is resumed, and see what is left of its transcript."""
        import anyio

        content_id = self._options.session_id
        if not content_id or not self._options.resumes:
            return _Start()
        await self._hold(content_id)
        self._record = await anyio.to_thread.run_sync(self._load, content_id)
        if self._options.cwd is None:
            self._cwd = Path(self._record.metadata.cwd)  # `claude` looks for the transcript by it
        if not (self._options.sdk and self._options.sdk.fork_session):
            await self._worker.move(self._record, "prompt")
        if self._options.sdk and self._options.sdk.session_store:
            start = _Start(content_id)  # the SDK takes the transcript from there
        else:
            start = await anyio.to_thread.run_sync(self._check, content_id, self._record.messages)
        at = self._options.sdk.resume_session_at if self._options.sdk and start.resume else None
        return replace(start, resume_at=at, reason=start.reason or ("rebuilt" if self._is_rebuilt else ""))

    def _load(self, content_id: str) -> Record:
        """Read session.json. A session that has none begins with the history that the caller gave."""
        history = self._options.conversation_history or ()
        given = tuple(one if isinstance(one, Message) else session_file.from_json(one) for one in history)
        found, self._is_rebuilt = taken(self._paths, content_id, self._transcript(content_id), given)
        if found:
            return Record(self._paths, found, self.turns)
        record = self._create(content_id)
        record.begin_with(given)
        return record

    def _create(self, content_id: str, model: str = "") -> Record:
        model = model or self._options.model or ""
        return Record.create(self._paths, content_id, model, str(self._cwd), self.turns)

    async def _hold(self, content_id: str) -> None:
        import anyio

        await anyio.to_thread.run_sync(self._locks.enter_context, lock.hold(self._paths, content_id))

    def _check(self, content_id: str, messages: tuple[Message, ...]) -> _Start:
        """Compare the transcript with what was kept, and decide how to go on. A lost one is restored if possible."""
        start = self._compare(content_id, messages)
        if start.resume is None and self._restored(content_id):
            return replace(self._compare(content_id, messages), reason=start.reason)
        return start

    def _transcript(self, content_id: str) -> Path | None:
        if self._options.sandbox:
            return self._options.sandbox.transcript(content_id)
        return transcript_of(content_id, self._options.environment())

    def _restored(self, content_id: str) -> bool:
        """Write a kept transcript back, in the place of a damaged one. Return whether there was one."""
        if self._options.sandbox:
            return False
        path = self._transcript(content_id)
        damaged = path.rename(path.with_name(f"{path.name}.damaged")) if path else None
        if self._worker.restore_transcript(content_id, str(self._cwd)):
            return True
        if path and damaged:
            damaged.rename(path)
        return False

    def _compare(self, content_id: str, messages: tuple[Message, ...]) -> _Start:
        path = self._transcript(content_id)
        if path is None:
            return self._lost("deleted")
        if path.stat().st_size == 0:
            return self._lost("empty")
        if (known := resumable.read(path, [one.uuid for one in messages if one.uuid])) is None:
            return self._lost("damaged")
        kept, rest = compared(known, messages)
        if known.news and self._record:
            # A caller that was killed did not see them, or somebody went on with the session in `claude` itself.
            is_own = any(one.uuid for one in kept) or self._record.metadata.parent_id
            self._record.catch_up([*(kept if is_own else ()), *map(session_file.from_json, known.news), *rest])
        return _Start(content_id, preamble(rest, is_whole=False), "damaged" if rest else "", len(rest))

    def _lost(self, reason: str) -> _Start:
        """Start a new session that is told what was kept of the lost one."""
        messages = self._record.messages if self._record else ()
        return _Start(None, preamble(messages, is_whole=True), reason, len(messages))

    async def _query(self, start: _Start, prompts: list[str]) -> AsyncGenerator[Streamed]:
        """Ask once. The agent is killed with this process, so that it does not work on unseen."""
        import anyio
        import claude_agent_sdk as sdk

        folder, self._prompts, self._stop = self._paths.agent_runs, [*prompts], ""
        self._paths.prepare()
        folder.mkdir(mode=0o700, exist_ok=True)
        lost = self._options.session_id if start.reason else None
        with closing(KillSwitch(folder)) as switch, _launcher(folder, self._options.sandbox) as launcher:
            options = self._options.for_sdk(start.resume, self._cwd, self._worker.hooks(), launcher, switch.path)
            options = replace(options, resume_session_at=start.resume_at)
            if start.preamble:
                # Otherwise `claude` would open files that the messages name with @.
                options = replace(options, verbatim_prompts=True)
            asked = self._options.asked([start.preamble + prompts[0], *prompts[1:]], self._sent)
            messages = cast("AsyncGenerator[sdk.Message]", sdk.query(prompt=asked, options=options))
            try:
                async for message in messages:
                    self._count(message)
                    await self._take(message, start)
                    if lost and self.session_id:
                        yield SessionRecovered(self.session_id, lost, start.reason, start.messages)
                        lost = None
                    yield message
            finally:
                if not self._stop:
                    switch.close()
                # A caller may leave with the result, while the agent still writes its transcript.
                with anyio.move_on_after(CLOSE_S, shield=True), suppress(Exception):
                    async for _ in messages:
                        pass

    def _sent(self, text: str) -> None:
        """Keep a follow-up, as soon as its session is known. It is saved with the next message of the agent."""
        self._prompts.append(text)
        if self._record and self._has_messages and not self._is_between:
            self._keep_prompts(self._record)

    def _keep_prompts(self, record: Record) -> None:
        for text in self._prompts:
            record.add_prompt(text)
        self._prompts = []

    def _count(self, message: sdk.Message) -> None:
        """Raise an error if the agent says more than it may. In a sandbox, any program can write to its output."""
        import claude_agent_sdk as sdk

        if not self._options.max_output:
            return
        is_kept = isinstance(message, sdk.AssistantMessage | sdk.UserMessage) and not message.parent_tool_use_id
        self._output += max(MIN_OUTPUT if is_kept else MIN_OUTPUT // 10, len(repr(message)))
        if self._output > self._options.max_output:
            raise BackstoryError("The agent said more than is kept.", "Look at what it did, then try again.")

    async def _take(self, message: sdk.Message, start: _Start) -> None:
        """Keep a message before the caller gets it."""
        import anyio
        import claude_agent_sdk as sdk

        if isinstance(message, sdk.SystemMessage) and message.subtype == "init":
            await self._capture(str(message.data["session_id"]), str(message.data.get("model") or ""), start)
        elif isinstance(message, sdk.AssistantMessage | sdk.ResultMessage) and message.session_id:
            await self._capture(message.session_id, "", start)
        elif isinstance(message, sdk.ConversationResetMessage):
            self._is_cleared = self._is_between = True
            del self._prompts[:1]  # the command itself
        if self._record is None or not self._has_messages:
            return
        if isinstance(message, sdk.AssistantMessage):
            self._record.add_reply(message)
            if self._record.metadata.status == SessionStatus.CREATED:
                await self._worker.move(self._record, "message")
        elif isinstance(message, sdk.UserMessage):
            self._record.add_results(message)
        elif isinstance(message, sdk.ResultMessage):
            self._stop = message.subtype
            self._record.add_result(message)
            cause = _cause(message)
            await self._worker.move(self._record, cause, message.terminal_reason if cause == "fail" else None)
        else:
            return
        await anyio.to_thread.run_sync(self._record.save)

    async def _capture(self, content_id: str, model: str, start: _Start) -> None:
        """Keep the id that the agent tells. Another one than before is a session of its own, linked to its parent."""
        import anyio

        record = self._record
        if record is None or record.id != content_id:
            record = await self._open(content_id, model, start)
        elif self._has_messages and not self._prompts:
            return
        self._record, self._has_messages, self._is_between = record, True, False
        self._worker.session_id = content_id
        self._keep_prompts(record)
        if model:
            record.set_model(model)
        await anyio.to_thread.run_sync(record.save)

    async def _open(self, content_id: str, model: str, start: _Start) -> Record:
        """Make the record of a session that has begun."""
        self._check_own(content_id)
        await self._hold(content_id)
        record, parent = self._create(content_id, model), self._record
        if parent is not None:
            # `/clear` begins with nothing, a fork and a recovery with all that was said.
            record.begin_with(() if self._is_cleared else parent.messages, parent.id)
        elif self._options.session_id:
            record.begin_with((), self._options.session_id)
        await self._worker.move(record, "start")
        if parent is not None and (start.reason or self._is_cleared):
            await self._worker.move(parent, "end", "clear" if self._is_cleared else continued_as(content_id))
            parent.save()
        return record

    def _check_own(self, content_id: str) -> None:
        """Refuse the id of a session that another directory has. What runs in a sandbox can write into its output."""
        known = session_file.read_metadata(self._paths, content_id) if self._options.sandbox else None
        if known and known.cwd != str(self._cwd):
            raise Forbidden("The agent named a session of another directory.", "Look at what it did, then try again.")

    async def _fail(self, error: Exception) -> None:
        """Record that the session failed. A result has said so already, except where there was none."""
        if self._record and not self._stop:
            await self._worker.move(self._record, "fail", type(error).__name__)
            with suppress(OSError):  # it may be the error itself
                self._record.save()


@contextmanager
def _launcher(folder: Path, sandbox: Sandbox | None) -> Iterator[Path]:
    """Write the script that starts the agent. The one without a sandbox is the same for all runs."""
    path = folder / (f"launch-{uuid4().hex}" if sandbox else "launch")
    write_launcher(path, "BACKSTORY_PIPE", "BACKSTORY_CLAUDE", sandbox.command if sandbox else ())
    try:
        yield path
    finally:
        if sandbox:
            path.unlink(missing_ok=True)


def _is_lost(error: Exception | None) -> bool:
    import claude_agent_sdk as sdk

    return isinstance(error, sdk.ResultError) and any(_NOT_FOUND in text for text in error.errors)


def _cause(result: sdk.ResultMessage) -> str:
    """Return what a result does to the session. The turn limit, and stops of other kinds, leave it open."""
    if result.is_error and result.subtype != "error_max_turns":
        return "fail"
    # A command such as `/compact` has no stop reason.
    return "end_turn" if result.stop_reason in ("end_turn", None) and not result.is_error else "message"
