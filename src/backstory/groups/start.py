"""How the agent of a group is started: its variables, its sandbox and its options."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.errors import BackstoryError
from backstory.groups import names, sandbox, state_dir
from backstory.groups.model_env import CERTIFICATES, CREDENTIALS
from backstory.groups.names import GroupPaths
from backstory.groups.sandbox import Container, Mount
from backstory.paths import ensure_private
from backstory.sessions import Options, Sandbox
from backstory.sessions.options import program
from backstory.settings import Settings, environment

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions
    from claude_agent_sdk.types import HookContext, HookInput, PermissionMode, SyncHookJSONOutput, SystemPromptPreset

#: Variables of an agent without a sandbox.
HOST_ENV = ("PATH", "HOME", "USER", "SHELL", "LANG", "TZ", "TMPDIR")
#: Variables that a program needs to reach Docker or Podman.
ENGINE_ENV = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "XDG_RUNTIME_DIR", "CONTAINER_HOST")
#: Variables that the SDK sets and the agent needs.
SDK_ENV = ("CLAUDE_CODE_ENTRYPOINT", "CLAUDE_AGENT_SDK_VERSION", "CLAUDE_CODE_SDK_READS_SESSION_STATE")
#: The shell that runs the agent's commands. It drops the credentials, so that commands do not see them.
SHELL = f'#!/bin/bash\nunset {" ".join(CREDENTIALS)}\nexec /bin/bash -c "$@"\n'
#: Names the program that runs the agent's commands.
SHELL_PREFIX = "CLAUDE_CODE_SHELL_PREFIX"
#: Variables inside a sandbox.
INSIDE_ENV = {
    "HOME": sandbox.HOME,
    "USER": "node",
    "SHELL": "/bin/bash",
    "PATH": sandbox.PATH,
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",  # noqa: S108 - that of the sandbox
    "CLAUDE_CONFIG_DIR": sandbox.STATE,
    "IS_SANDBOX": "1",
    SHELL_PREFIX: sandbox.SHELL,
}
#: The name of our server; its tools are called `mcp__backstory__clear_session` and so on.
SERVER = "backstory"
#: Seconds for Docker or Podman to remove a container.
ENGINE_S = 30.0
#: Messages of the model in a query, at most.
MAX_TURNS = 200
#: Characters that the agent says in a query, at most.
MAX_OUTPUT = 100_000_000
NO_CREDENTIALS = "The agent has no credentials for its model."
SET_CREDENTIALS = f"Set {', '.join(CREDENTIALS[:-1])} or {CREDENTIALS[-1]}; `claude setup-token` makes the last one."

Callback = Callable[["HookInput", str | None, "HookContext"], Awaitable["SyncHookJSONOutput"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuery:
    """What the agent is asked, and in which session."""

    prompt: str
    session_id: str | None = None
    history: tuple[Any, ...] = ()  #: the messages of the session so far
    resume_at: str | None = None  #: the message after which it goes on; None: the last one
    follow_ups: Callable[[], AsyncIterator[str]] | None = None  #: the messages that come while the agent works
    callbacks: Mapping[str, Callback]  #: event -> what the host does then
    on_stderr: Callable[[str], None]


def write_files(folder: Path) -> None:
    """Write the files that all sandboxes share."""
    ensure_private(folder / "passwd", sandbox.PASSWD.encode())
    ensure_private(folder / "shell", SHELL.encode(), 0o700)


def check_auth(settings: Settings) -> None:
    """Raise an error if an agent could ask the worker for everything: a sandbox shares the network of the machine."""
    if settings.auth == "off":
        message = "Agents of groups are not started while `auth` is off: they could read all of memory."
        raise BackstoryError(message, "Run `backstory config set auth on`.")


def check_credentials(paths: GroupPaths, env: Mapping[str, str]) -> None:
    """Raise an error if the agent could not reach its model."""
    if not any(name in env for name in CREDENTIALS) and not (paths.state / ".credentials.json").is_file():
        raise BackstoryError(NO_CREDENTIALS, SET_CREDENTIALS)


def options(settings: Settings, paths: GroupPaths, variables: Mapping[str, str], query: GroupQuery) -> Options:
    """Return the options of a query in a group."""
    import claude_agent_sdk as sdk

    is_free = settings.group_sandbox == "none"
    base = sdk.ClaudeAgentOptions(cli_path=settings.claude_path or None)
    env, box = _start(settings, paths, variables, base)
    server = Path(sandbox.__file__).with_name("mcp_server.py")
    ours = {"command": sys.executable, "args": ["-I", "-S", str(server), str(paths.ipc)]}
    if not is_free:
        python = sandbox.python() if settings.group_sandbox == "bubblewrap" else "python3"
        ours = {"command": python, "args": ["-I", "-S", sandbox.SERVER, sandbox.IPC]}
    # Outside of a sandbox, Claude Code's own rules are all that keeps the agent in its directory.
    mode: PermissionMode = "acceptEdits" if is_free else "bypassPermissions"
    hooks: Any = {event: [sdk.HookMatcher(hooks=[callback])] for event, callback in query.callbacks.items()}
    has_project = names.is_main(paths.group) and settings.main_project
    project = settings.main_project if is_free else sandbox.PROJECT
    more: list[str | Path] = [paths.folder.parent] if names.is_main(paths.group) and is_free else []
    return Options(
        prompt=query.prompt,
        follow_ups=query.follow_ups,
        cwd=paths.folder,
        model=settings.group_model or None,
        max_turns=MAX_TURNS,
        max_continuations=0,
        max_output=MAX_OUTPUT,
        permission_mode=mode,
        allowed_tools=[f"mcp__{SERVER}"],
        session_id=query.session_id,
        conversation_history=query.history,
        env=env,
        allowed_env=frozenset(),
        sandbox=box,
        sdk=sdk.ClaudeAgentOptions(
            system_prompt=_system_prompt(paths),
            mcp_servers={SERVER: {"type": "stdio", "command": ours["command"], "args": ours["args"]}},  # type: ignore[typeddict-item]
            strict_mcp_config=True,
            add_dirs=[*more, project] if has_project else more,
            hooks=hooks,
            resume_session_at=query.resume_at,
            stderr=query.on_stderr,
        ),
    )


def _system_prompt(paths: GroupPaths) -> SystemPromptPreset:
    """Return the system prompt, with the memory that all groups share. The main group reads that by itself."""
    # Without `snapshot`, a resumed session keeps the system prompt of its first run.
    prompt: SystemPromptPreset = {"type": "preset", "preset": "claude_code", "snapshot": False}
    shared = "" if names.is_main(paths.group) else state_dir.shared_memory(paths)
    return {**prompt, "append": shared} if shared else prompt


def _start(
    settings: Settings, paths: GroupPaths, variables: Mapping[str, str], base: ClaudeAgentOptions
) -> tuple[dict[str, str], Sandbox]:
    """Return the variables of the process that is started, and its command line."""
    claude, runs = Path(program(base)).resolve(), settings.paths.agent_runs
    transcripts = paths.transcript("x").parent
    if settings.group_sandbox == "none":
        _share_transcripts(paths)
        env = _of_host(*HOST_ENV) | {"CLAUDE_CONFIG_DIR": str(paths.state), SHELL_PREFIX: str(runs / "shell")}
        return {**env, **variables}, Sandbox(command=(str(claude),), transcripts=transcripts)
    with claude.open("rb") as binary:
        if binary.read(2) == b"#!":
            raise BackstoryError(f"{claude} is a script, which would not run in a sandbox.", "Set `claude_path`.")
    shell = Mount(runs / "shell", sandbox.SHELL)
    seen = (*sandbox.mounts(paths, _main_project(settings)), shell, *_certificates(paths, variables))
    covered, inside = sandbox.hidden(paths.data, seen), INSIDE_ENV | _of_host("TZ")
    if box := _container(settings, paths):
        command = box.command(claude, seen, covered, inside, (*variables, *SDK_ENV))
        env = _of_host(*ENGINE_ENV)
    else:
        covered = (*covered, *sandbox.hidden_in_system(paths.data))
        command, env = sandbox.bubblewrap(claude, seen, covered, runs / "passwd"), inside
    return {**env, **variables}, Sandbox(command=sandbox.with_path(command), transcripts=transcripts)


def remove_left(settings: Settings, paths: GroupPaths) -> None:
    """Remove the container of a group that a killed worker has left. Other sandboxes end with the worker."""
    if box := _container(settings, paths):
        subprocess.run(sandbox.with_path(box.removal), check=False, capture_output=True, timeout=ENGINE_S)


def _container(settings: Settings, paths: GroupPaths) -> Container | None:
    if settings.group_sandbox not in ("docker", "podman"):
        return None
    # Two data directories may have groups of the same name.
    mark = hashlib.sha256(str(paths.data).encode()).hexdigest()[:8]
    return Container(settings.group_sandbox, settings.group_image, f"backstory-{mark}-{paths.group}")


def _of_host(*wanted: str) -> dict[str, str]:
    host = environment()
    return {name: host[name] for name in wanted if name in host}


def _main_project(settings: Settings) -> Path | None:
    return Path(settings.main_project) if settings.main_project else None


def _certificates(paths: GroupPaths, variables: Mapping[str, str]) -> list[Mount]:
    """Return the mounts of files with certificates. A file of the data directory is never shown."""
    found = [Mount(Path(variables[name]).resolve(), variables[name]) for name in CERTIFICATES if name in variables]
    own = paths.data.resolve()
    return [each for each in found if each.outside.is_file() and not each.outside.is_relative_to(own)]


def _share_transcripts(paths: GroupPaths) -> None:
    """Let Claude Code, outside of a sandbox, keep its transcripts where it keeps them inside of one."""
    folder = paths.transcript("x").parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = folder.with_name(re.sub(r"[^A-Za-z0-9]", "-", str(paths.folder.resolve())))
    if not place.exists():
        place.symlink_to(folder.name)
