"""The Claude Agent SDK: the user's own `claude`, locked in, as a model that keeps a conversation about each session."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from backstory.model import MemoryId, ModelCall
from backstory.observe.providers import Answer, Ask, Choice, ProviderFailure, counted, failing, launch
from backstory.paths import write_private

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, Message

NAME = "claude"
WHO = "Claude"
MODEL = "haiku"
#: A conversation is read again with each round that goes on with it. What it may grow to is what that may cost: with
#: 8,000 tokens an observation costs twice what fresh rounds would, with 20,000 four times.
GROWN = 8_000
#: So many conversations are kept to go on with; one that is not there any more is begun anew.
KEPT = 32
#: From here on `claude` takes a prompt as it is written; an older one would open the files that it names with @.
OLDEST = (2, 1, 248)
#: What every run is told beside the user's own environment: no tricks with what it is sent, and no work of its own.
QUIET = {
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_THINKING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_AUTO_COMPACT": "1",
    # The queue tries again, and knows when. One retry is announced, with its pause, and then cut off.
    "CLAUDE_CODE_MAX_RETRIES": "1",
}
NONE = (
    "There is no `claude` of version 2.1.248 or newer to observe with. Install one, or see the setting `claude_path`."
)
LOG_IN = "Claude Code is not logged in. Run `claude` and log in, or set ANTHROPIC_API_KEY."
#: Its word for an answer that its limit of tokens cut.
CUT = "max_output_tokens"
STALE = "The conversation to go on with is gone."


class Claude:
    """Ask it by calling it. Each run is a process group of its own, and none outlives the call."""

    def __init__(self, choice: Choice) -> None:
        self._choice, self._conversations = choice, choice.conversations
        self._folder = choice.home.parent
        self._finding = asyncio.Lock()
        self._judged: dict[tuple[str, float], bool] = {}  #: program and its time -> whether it is new enough
        self._recent: dict[str, None] = {}

    async def __call__(self, ask: Ask) -> Answer:
        program = await self._program()
        cleared, heard, line = self._conversations.cleared, _Heard(), _Lifeline(self._folder)
        run = asyncio.create_task(self._run(ask, heard, line, program))
        try:
            answer = await asyncio.shield(run)
        finally:
            # Whatever happened, nothing of it runs on: the SDK alone would wait for it, politely and for long.
            line.cut()
            await asyncio.gather(run, return_exceptions=True)
            unwanted = (not heard.is_good and ask.resume is None) or self._conversations.cleared != cleared
            if heard.memory_id and unwanted:
                await asyncio.to_thread(self._conversations.remove, only=heard.memory_id)
        if ask.resume and self._conversations.cleared != cleared:
            raise ProviderFailure("stale", STALE)  # it went on with what has been forgotten meanwhile
        await self._remember(answer.memory_id)
        return answer

    async def _run(self, ask: Ask, heard: _Heard, line: _Lifeline, program: str) -> Answer:
        import claude_agent_sdk as sdk

        logging.getLogger("claude_agent_sdk").setLevel(logging.CRITICAL + 1)  # it quotes what it could not read
        try:
            async for message in sdk.query(prompt=ask.prompt, options=self._options(ask, line, program)):
                heard.hear(message)
                if heard.failed:
                    line.cut()  # it would go on by itself; what it says is read to its end all the same
        except sdk.ResultError as error:
            heard.failed, heard.status = not heard.is_good, heard.status or error.api_error_status
            if any("No conversation found" in text for text in error.errors):
                raise ProviderFailure("stale", STALE) from None
        except sdk.CLINotFoundError:
            raise ProviderFailure("setup", NONE) from None
        except sdk.ClaudeSDKError:
            heard.failed = heard.failed or not heard.done
        if not heard.is_good:
            raise heard.failure()
        return heard.answer(self._choice.model or MODEL)

    def _options(self, ask: Ask, line: _Lifeline, program: str) -> ClaudeAgentOptions:
        """The jail: no tools, no settings, no servers, a directory of its own, and the text as it is."""
        import claude_agent_sdk as sdk

        given = {"ANTHROPIC_API_KEY": self._choice.api_key, "ANTHROPIC_BASE_URL": self._choice.base_url}
        mark = {"BACKSTORY_OBSERVER": str(line.path), "BACKSTORY_CLAUDE": program}
        return sdk.ClaudeAgentOptions(
            system_prompt=ask.system,
            model=self._choice.model or MODEL,
            resume=ask.resume,
            tools=[],
            mcp_servers={},
            strict_mcp_config=True,
            setting_sources=[],
            verbatim_prompts=True,
            permission_mode="dontAsk",
            max_turns=1,
            effort="low",
            cwd=self._choice.home,
            cli_path=self._folder / "claude",
            env=QUIET | mark | {name: value for name, value in given.items() if value},
            stderr=lambda _: None,  # it may quote what it was sent
        )

    async def _program(self) -> str:
        """The `claude` to run, made ready: the one that is set, else the user's own, else the one inside the SDK."""
        async with self._finding:
            set_or_own = self._choice.program or shutil.which("claude") or ""
            candidates = [str(Path(set_or_own).expanduser().absolute())] if set_or_own else []
            if not self._choice.program and (inside := _inside()):
                candidates.append(inside)
            for program in candidates:
                with contextlib.suppress(OSError):
                    known = (program, Path(program).stat().st_mtime)
                    if known not in self._judged:
                        self._prepare()
                        self._judged[known] = await _is_new_enough(program)
                    if self._judged[known]:
                        return program
            raise ProviderFailure("setup", NONE)

    def _prepare(self) -> None:
        """The directory to work in, and the program that the SDK is given: it starts the real one on our line."""
        self._choice.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self._folder, self._choice.home):
            folder.chmod(0o700)
        start = shlex.join([sys.executable, "-I", "-S", str(Path(launch.__file__))])
        shim = self._folder / "claude"
        write_private(shim, f'#!/bin/sh\nexec {start} "$BACKSTORY_OBSERVER" "$BACKSTORY_CLAUDE" "$@"\n'.encode())
        shim.chmod(0o700)

    async def _remember(self, memory_id: MemoryId | None) -> None:
        """Keep the conversations of late, and no more of them."""
        if memory_id:
            self._recent.pop(memory_id, None)
            self._recent[memory_id] = None
        if len(self._recent) > KEPT:
            oldest = next(iter(self._recent))
            del self._recent[oldest]
            await asyncio.to_thread(self._conversations.remove, only=oldest)


class _Lifeline:
    """Our end of a run: when it is let go of, by us or by the kernel, the run's processes are killed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"line-{uuid4().hex}"
        os.mkfifo(self.path, 0o600)
        self._handle: int | None = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def cut(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            self.path.unlink(missing_ok=True)


@dataclass(slots=True)
class _Heard:
    """What a run has said so far."""

    memory_id: MemoryId | None = None
    model: str = ""
    texts: list[str] = field(default_factory=list)
    usage: Mapping[str, Any] = field(default_factory=dict)
    called: str = ""  #: its own word for what went wrong
    status: int | None = None
    retry_after_s: float | None = None
    failed: bool = False
    done: bool = False
    is_cut: bool = False

    @property
    def is_good(self) -> bool:
        return self.done and (self.is_cut or not self.failed)

    def hear(self, message: Message) -> None:
        import claude_agent_sdk as sdk

        if isinstance(message, sdk.SystemMessage):
            if message.subtype == "init":
                self.memory_id = self.memory_id or MemoryId(message.data["session_id"])
            elif message.subtype == "api_retry":
                self.failed, self.status = True, message.data.get("error_status")
                self.called = str(message.data.get("error") or "")
                # Its own first pause is shorter than a second; a longer one is what the server asked for.
                pause_s = counted(message.data.get("retry_delay_ms")) / 1000
                self.retry_after_s = pause_s if pause_s >= 1 else None
        elif isinstance(message, sdk.RateLimitEvent) and message.rate_limit_info.status == "rejected":
            resets_at = message.rate_limit_info.resets_at
            self.retry_after_s = max(0.0, resets_at - time.time()) if resets_at else None
        elif isinstance(message, sdk.AssistantMessage):
            if message.error:
                self.called = message.error
            else:
                self.model = message.model
                self.texts += [block.text for block in message.content if isinstance(block, sdk.TextBlock)]
        elif isinstance(message, sdk.ResultMessage):
            # With a turn left it would have been told that there is no such tool; what it said is an answer.
            self.done = True
            self.failed = self.failed or (message.is_error and message.subtype != "error_max_turns")
            self.status = self.status or message.api_error_status
            self.usage = message.usage or {}
            # `claude` has a cut answer continued, a few times; then it calls that an error.
            self.is_cut = self.called == CUT or message.stop_reason == "max_tokens"

    def answer(self, model: str) -> Answer:
        read, written, cached, kept = (
            counted(self.usage.get(name))
            for name in (
                "input_tokens",
                "output_tokens",
                "cache_read_input_tokens",
                "cache_creation_input_tokens",
            )
        )
        call = ModelCall(NAME, self.model or model, read + cached + kept, written, cached)
        grown = call.input_tokens + call.output_tokens > GROWN
        return Answer("".join(self.texts), call, self.memory_id, grown, self.is_cut)

    def failure(self) -> ProviderFailure:
        if self.status:
            told = {} if self.retry_after_s is None else {"retry-after": str(self.retry_after_s)}
            return failing.of_status(WHO, self.status, self.called, told)
        if self.called == "authentication_failed":
            return ProviderFailure("auth", LOG_IN)
        if self.called == "billing_error":
            return failing.of_status(WHO, 402)
        return failing.no_answer(WHO)


def _inside() -> str | None:
    """The `claude` inside the SDK's wheel; there are wheels without one."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    path = Path(spec.origin).parent / "_bundled" / "claude" if spec and spec.origin else None
    return str(path) if path and path.exists() else None


async def _is_new_enough(program: str) -> bool:
    asked = await asyncio.create_subprocess_exec(
        program,
        "--version",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(20):
            said, _ = await asked.communicate()
    except TimeoutError:
        return False
    finally:
        if asked.returncode is None:
            asked.kill()
            await asked.wait()
    version = re.match(rb"(\d+)\.(\d+)\.(\d+)", said)
    return version is not None and tuple(int(part) for part in version.groups()) >= OLDEST


def connect(choice: Choice) -> Claude:
    """Ready to be asked; nothing runs yet."""
    if importlib.util.find_spec("claude_agent_sdk") is None:
        raise failing.not_installed("claude-agent-sdk", "claude")
    import claude_agent_sdk  # noqa: F401 - here, in a thread: it takes a second

    for left in choice.home.parent.glob("line-*"):
        left.unlink(missing_ok=True)  # of a worker that was killed
    return Claude(choice)
