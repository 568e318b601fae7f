"""Options of a run, and how they become options of the Claude Agent SDK."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory import settings
from backstory.errors import BackstoryError, BadInput
from backstory.sessions.session_file import Message

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
    from claude_agent_sdk.types import HookEvent, PermissionMode, SystemPromptCustom, SystemPromptPreset

#: Variables that the agent inherits: where programs and files are, who pays for the model, how to reach it, and what
#: the user has switched off.
ALLOWED_ENV = frozenset(
    {
        *("PATH", "HOME", "USER", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "TMPDIR", "CLAUDE_CONFIG_DIR"),
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"),
        *("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"),
        *("DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER", "BACKSTORY_DATA_DIR"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    }
)
#: Variables that the SDK sets for the agent.
_SDK_ENV = (
    *("CLAUDE_CODE_ENTRYPOINT", "CLAUDE_AGENT_SDK_VERSION", "CLAUDE_CODE_SDK_READS_SESSION_STATE", "PWD"),
    *("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "CLAUDE_CONFIG_DIR", "TRACEPARENT", "TRACESTATE"),
)
#: Turns of a run, at most.
MAX_TURNS = 20
#: How often work that the turn limit stopped goes on by itself.
MAX_CONTINUATIONS = 5
#: Bytes of one message of the agent, at most. With the SDK's own limit, the output of a tool can end a run.
MAX_BUFFER = 64 << 20
#: Characters for which a message counts at least if there is a limit of output. One that is not kept counts a tenth.
MIN_OUTPUT = 10_000
NO_SDK = "The Claude Agent SDK is not installed."
NO_CLAUDE = "No `claude` was found."


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """How to start the agent in a sandbox, where it sees other paths than the caller."""

    command: tuple[str, ...]  #: starts `claude` in the sandbox; its arguments follow
    transcripts: Path  #: the folder with the agent's transcripts, as the caller sees it

    def transcript(self, content_id: str) -> Path | None:
        """Return the transcript of a session. A link could lead anywhere: the agent may have put it there."""
        path = self.transcripts / f"{content_id}.jsonl"
        is_led_away = any(each.is_symlink() for each in (path, path.parent, path.parent.parent))
        return path if path.is_file() and not is_led_away else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to run. Without `session_id` and `conversation_history` it is a new session."""

    prompt: str
    #: Messages that are sent to the agent while it works. The run ends when they end and all are answered.
    follow_ups: Callable[[], AsyncIterator[str]] | None = None
    cwd: str | Path | None = None  #: None: that of the session, else the current directory
    model: str | None = None  #: None: the agent's own choice
    system_prompt: str | None = None  #: None: that of Claude Code
    max_turns: int = MAX_TURNS
    max_continuations: int = MAX_CONTINUATIONS
    max_output: int = 0  #: characters of its messages, at most; each counts for `MIN_OUTPUT` at least. 0: no limit
    permission_mode: PermissionMode = "dontAsk"
    allowed_tools: Sequence[str] = ()
    session_id: str | None = None  #: the session to resume
    conversation_history: Sequence[Message | Mapping[str, Any]] | None = None  #: its messages so far
    env: Mapping[str, str] = field(default_factory=dict)  #: variables for the agent
    allowed_env: frozenset[str] = ALLOWED_ENV  #: variables that it inherits, by name
    sdk: ClaudeAgentOptions | None = None  #: further options of the SDK, such as `mcp_servers`
    sandbox: Sandbox | None = None  #: None: the agent runs as the caller does

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise BadInput("The prompt is empty.")
        if self.max_turns < 1 or self.max_continuations < 0:
            raise BadInput("`max_turns` must be at least 1 and `max_continuations` at least 0.")

    @property
    def resumes(self) -> bool:
        """Whether the session is resumed: there is an id, a history, and the history is not empty."""
        return bool(self.session_id) and self.conversation_history is not None and len(self.conversation_history) > 0

    def asked(self, prompts: Sequence[str], sent: Callable[[str], None]) -> str | AsyncIterator[dict[str, Any]]:
        """Return what the SDK is given: a prompt, or a stream that begins with prompts. Each follow-up is told to
        `sent`."""
        follow_ups = self.follow_ups
        if follow_ups is None:
            return prompts[0]

        async def stream() -> AsyncIterator[dict[str, Any]]:
            for prompt in prompts:
                yield _user_message(prompt)
            async for text in follow_ups():
                sent(text)
                yield _user_message(text)

        return stream()

    def environment(self) -> dict[str, str]:
        """Return the environment of the agent."""
        inherited = {name: value for name, value in settings.environment().items() if name in self.allowed_env}
        return inherited | dict(self.sdk.env if self.sdk else {}) | dict(self.env)

    def for_sdk(
        self, resume: str | None, cwd: Path, hooks: Mapping[HookEvent, list[HookMatcher]], launcher: Path, pipe: Path
    ) -> ClaudeAgentOptions:
        """Return the options of the SDK. It starts the agent through `launcher`, which drops other variables."""
        import claude_agent_sdk as sdk

        base = self.sdk or sdk.ClaudeAgentOptions()
        env = self.environment()
        names = ",".join((*env, *_SDK_ENV))
        claude = self.sandbox.command[0] if self.sandbox else program(base)
        own = {"BACKSTORY_PIPE": str(pipe), "BACKSTORY_CLAUDE": claude, "BACKSTORY_VARIABLES": names}
        theirs = base.hooks or {}
        every: set[HookEvent] = {*hooks, *theirs}
        return replace(
            base,
            model=self.model or base.model,
            system_prompt=self._system_prompt() if self.system_prompt else base.system_prompt or _CLAUDE_CODE,
            max_turns=self.max_turns,
            cwd=cwd,
            permission_mode=self.permission_mode,
            allowed_tools=[*base.allowed_tools, *self.allowed_tools],
            resume=resume,
            hooks={event: [*hooks.get(event, []), *theirs.get(event, [])] for event in every},
            env=env | own,
            cli_path=launcher,
            max_buffer_size=base.max_buffer_size or MAX_BUFFER,
        )

    def _system_prompt(self) -> SystemPromptCustom:
        # Without `snapshot`, a resumed session keeps the system prompt of its first run.
        return {"type": "custom", "prompt": self.system_prompt or "", "snapshot": False}


def _user_message(text: str) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    return {"type": "user", "session_id": "", "message": message, "parent_tool_use_id": None}


_CLAUDE_CODE: SystemPromptPreset = {"type": "preset", "preset": "claude_code"}


def program(base: ClaudeAgentOptions) -> str:
    """Return the path of `claude`: the given one, else the one inside the SDK, else the one on PATH."""
    import claude_agent_sdk as sdk

    bundled = Path(sdk.__file__).parent / "_bundled" / "claude"
    found = base.cli_path or (bundled if bundled.exists() else shutil.which("claude"))
    if found is None:
        raise BackstoryError(NO_CLAUDE, "Install Claude Code, or name it with `sdk=ClaudeAgentOptions(cli_path=…)`.")
    return str(Path(found).absolute())
