"""The provider `claude`: the user's own `claude`, locked down, through the Claude Agent SDK. It keeps conversations."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.kill_switch import KillSwitch, write_launcher
from backstory.model import MemoryId, ModelCall
from backstory.observe.providers import DEFAULT_MODELS, Answer, Ask, Choice, ProviderFailure, failures, token_count

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, Message

NAME = "Claude"
#: A conversation with more tokens is not resumed, because every round reads all of it again. With 8,000 tokens an
#: observation costs twice as much as in a new conversation, with 20,000 four times as much.
MAX_CONVERSATION_TOKENS = 8_000
#: The number of conversations that are kept to be resumed.
KEPT_CONVERSATIONS = 32
#: Older versions of `claude` open the files that a prompt names with @.
MIN_VERSION = (2, 1, 248)
#: Added to the user's environment for every run: `claude` sends the prompt unchanged and does nothing else.
ENVIRONMENT = {
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_THINKING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_AUTO_COMPACT": "1",
    # `pauses` decides when to try again. With one retry, `claude` announces it and its pause, and is then stopped.
    "CLAUDE_CODE_MAX_RETRIES": "1",
}
NO_CLAUDE = "No `claude` of version 2.1.248 or newer was found. Install one, or see the setting `claude_path`."
LOG_IN = "Claude Code is not logged in. Run `claude` and log in, or set ANTHROPIC_API_KEY."
#: What `claude` calls an answer that was cut off at the token limit.
CUT_OFF = "max_output_tokens"
STALE = "The conversation to resume is gone."


class Claude:
    """The model. Each call runs `claude` in its own process group, and no process outlives the call."""

    def __init__(self, choice: Choice) -> None:
        self._choice, self._conversations = choice, choice.conversations
        self._model = choice.model or DEFAULT_MODELS["claude"]
        self._runtime_dir = choice.home.parent
        self._program_lock = asyncio.Lock()
        self._version_checks: dict[tuple[str, float], bool] = {}  #: (program, its mtime) -> whether it is new enough
        self._recent_ids: dict[str, None] = {}

    async def __call__(self, ask: Ask) -> Answer:
        program = await self._program()
        cleared, output, kill_switch = self._conversations.cleared, _RunOutput(), KillSwitch(self._runtime_dir)
        run = asyncio.create_task(self._run(ask, output, kill_switch, program))
        try:
            answer = await asyncio.shield(run)
        finally:
            # End every process of the run. The SDK would wait for them for a long time.
            kill_switch.close()
            await asyncio.gather(run, return_exceptions=True)
            unwanted = (not output.is_good and ask.resume is None) or self._conversations.cleared != cleared
            if output.memory_id and unwanted:
                await asyncio.to_thread(self._conversations.remove, only=output.memory_id)
        if ask.resume and self._conversations.cleared != cleared:
            raise ProviderFailure("stale", STALE)  # the conversation was removed during the call
        await self._remember(answer.memory_id)
        return answer

    async def _run(self, ask: Ask, output: _RunOutput, kill_switch: KillSwitch, program: str) -> Answer:
        import claude_agent_sdk as sdk

        logging.getLogger("claude_agent_sdk").setLevel(logging.CRITICAL + 1)  # it quotes output that it cannot parse
        try:
            async for message in sdk.query(prompt=ask.prompt, options=self._options(ask, kill_switch, program)):
                output.add(message)
                if output.failed:
                    kill_switch.close()  # it would retry; its remaining output is still read
        except sdk.ResultError as error:
            output.failed, output.status = not output.is_good, output.status or error.api_error_status
            if any("No conversation found" in text for text in error.errors):
                raise ProviderFailure("stale", STALE) from None
        except sdk.CLINotFoundError:
            raise ProviderFailure("setup", NO_CLAUDE) from None
        except sdk.ClaudeSDKError:
            output.failed = output.failed or not output.done
        if not output.is_good:
            raise output.failure()
        return output.answer(self._model)

    def _options(self, ask: Ask, kill_switch: KillSwitch, program: str) -> ClaudeAgentOptions:
        """Locked down: no tools, settings or servers, its own directory, and the prompt sent unchanged."""
        import claude_agent_sdk as sdk

        credentials = {"ANTHROPIC_API_KEY": self._choice.api_key, "ANTHROPIC_BASE_URL": self._choice.base_url}
        launch_env = {"BACKSTORY_OBSERVER": str(kill_switch.path), "BACKSTORY_CLAUDE": program}
        return sdk.ClaudeAgentOptions(
            system_prompt=ask.system,
            model=self._model,
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
            cli_path=self._runtime_dir / "claude",
            env=ENVIRONMENT | launch_env | {name: value for name, value in credentials.items() if value},
            stderr=lambda _: None,  # it may quote the prompt
        )

    async def _program(self) -> str:
        """The path of the `claude` to run: the one of the settings, else the one on PATH, else the one of the SDK."""
        async with self._program_lock:
            set_or_own = self._choice.program or shutil.which("claude") or ""
            candidates = [str(Path(set_or_own).expanduser().absolute())] if set_or_own else []
            if not self._choice.program and (bundled := _bundled_claude()):
                candidates.append(bundled)
            for program in candidates:
                with contextlib.suppress(OSError):
                    key = (program, Path(program).stat().st_mtime)
                    if key not in self._version_checks:
                        self._prepare()
                        self._version_checks[key] = await _is_new_enough(program)
                    if self._version_checks[key]:
                        return program
            raise ProviderFailure("setup", NO_CLAUDE)

    def _prepare(self) -> None:
        """Make the working directory, and the script that the SDK starts: it runs `claude` through `launch`."""
        self._choice.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self._runtime_dir, self._choice.home):
            folder.chmod(0o700)
        write_launcher(self._runtime_dir / "claude", "BACKSTORY_OBSERVER", "BACKSTORY_CLAUDE")

    async def _remember(self, memory_id: MemoryId | None) -> None:
        """Keep this conversation, and remove the oldest one if there are too many."""
        if memory_id:
            self._recent_ids.pop(memory_id, None)
            self._recent_ids[memory_id] = None
        if len(self._recent_ids) > KEPT_CONVERSATIONS:
            oldest = next(iter(self._recent_ids))
            del self._recent_ids[oldest]
            await asyncio.to_thread(self._conversations.remove, only=oldest)


@dataclass(slots=True)
class _RunOutput:
    """The output of a run so far."""

    memory_id: MemoryId | None = None
    model: str = ""
    texts: list[str] = field(default_factory=list)
    usage: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""  #: what `claude` calls the failure
    status: int | None = None
    retry_after_s: float | None = None
    failed: bool = False
    done: bool = False
    is_cut: bool = False

    @property
    def is_good(self) -> bool:
        return self.done and (self.is_cut or not self.failed)

    def add(self, message: Message) -> None:
        import claude_agent_sdk as sdk

        if isinstance(message, sdk.SystemMessage):
            if message.subtype == "init":
                self.memory_id = self.memory_id or MemoryId(message.data["session_id"])
            elif message.subtype == "api_retry":
                self.failed, self.status = True, message.data.get("error_status")
                self.error = str(message.data.get("error") or "")
                # Its own first pause is shorter than a second. A longer one was asked for by the server.
                pause_s = token_count(message.data.get("retry_delay_ms")) / 1000
                self.retry_after_s = pause_s if pause_s >= 1 else None
        elif isinstance(message, sdk.RateLimitEvent) and message.rate_limit_info.status == "rejected":
            resets_at = message.rate_limit_info.resets_at
            self.retry_after_s = max(0.0, resets_at - time.time()) if resets_at else None
        elif isinstance(message, sdk.AssistantMessage):
            if message.error:
                self.error = message.error
            else:
                self.model = message.model
                self.texts += [block.text for block in message.content if isinstance(block, sdk.TextBlock)]
        elif isinstance(message, sdk.ResultMessage):
            # The turn limit ends a run in which the model called a tool. Its text is an answer all the same.
            self.done = True
            self.failed = self.failed or (message.is_error and message.subtype != "error_max_turns")
            self.status = self.status or message.api_error_status
            self.usage = message.usage or {}
            # `claude` continues a cut answer a few times and then calls it an error.
            self.is_cut = self.error == CUT_OFF or message.stop_reason == "max_tokens"

    def answer(self, model: str) -> Answer:
        names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        uncached, written, cached, newly_cached = (token_count(self.usage.get(name)) for name in names)
        call = ModelCall("claude", self.model or model, uncached + cached + newly_cached, written, cached)
        grown = call.input_tokens + call.output_tokens > MAX_CONVERSATION_TOKENS
        return Answer("".join(self.texts), call, self.memory_id, grown, self.is_cut)

    def failure(self) -> ProviderFailure:
        if self.status:
            headers = {} if self.retry_after_s is None else {"retry-after": str(self.retry_after_s)}
            return failures.from_status(NAME, self.status, self.error, headers)
        if self.error == "authentication_failed":
            return ProviderFailure("auth", LOG_IN)
        if self.error == "billing_error":
            return failures.from_status(NAME, 402)
        return failures.unreachable(NAME)


def _bundled_claude() -> str | None:
    """The `claude` in the wheel of the SDK. Some wheels have none."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    path = Path(spec.origin).parent / "_bundled" / "claude" if spec and spec.origin else None
    return str(path) if path and path.exists() else None


async def _is_new_enough(program: str) -> bool:
    process = await asyncio.create_subprocess_exec(
        program,
        "--version",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(20):
            output, _ = await process.communicate()
    except TimeoutError:
        return False
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    version = re.match(rb"(\d+)\.(\d+)\.(\d+)", output)
    return version is not None and tuple(int(part) for part in version.groups()) >= MIN_VERSION


def connect(choice: Choice) -> Claude:
    """Make the model. Nothing runs yet."""
    if importlib.util.find_spec("claude_agent_sdk") is None:
        raise failures.not_installed("claude-agent-sdk", "claude")
    import claude_agent_sdk  # noqa: F401 - this runs in a thread, and the import takes a second

    for pipe in choice.home.parent.glob("line-*"):
        pipe.unlink(missing_ok=True)  # left by a worker that was killed
    return Claude(choice)
