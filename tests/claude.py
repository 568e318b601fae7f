"""Runs the real `claude` binary, which comes inside the SDK's wheel, against a scripted endpoint."""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from endpoint import Endpoint

# Named, because what the client offers by default changes with the version and the model.
TOOLS = "Agent,Bash,Edit,Glob,Grep,Read,TaskCreate,TaskList,TaskUpdate,Write"

EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "SessionEnd",
)


def binary() -> Path | None:
    """The bundled client; None where the wheel has none. The package itself is slow to import and not needed."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    path = Path(spec.origin).parent / "_bundled" / "claude" if spec and spec.origin else None
    return path if path and path.exists() else None


@dataclass(frozen=True)
class Run:
    """What one run of the client left."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def result(self) -> dict[str, Any]:
        """The one JSON object that the client prints."""
        result: dict[str, Any] = json.loads(self.stdout)
        return result

    @property
    def session_id(self) -> str:
        """After /clear and a fork this is the new one."""
        return str(self.result["session_id"])


@dataclass
class Claude:
    """A client with a home, a working directory and a model of its own; nothing of ours leaks into its environment."""

    home: Path
    cwd: Path
    endpoint: Endpoint
    tools: str = TOOLS
    env: dict[str, str] = field(default_factory=dict)
    permissions: str = "--dangerously-skip-permissions"

    def run(self, prompt: str, *args: str, timeout: float = 60, check: bool = True) -> Run:
        """One prompt, unattended. Slash commands are prompts too. A run that outlives its time is killed whole."""
        with self.start(prompt, *args) as process:
            stdout, stderr = process.communicate(timeout=timeout)
        left = _left_running(process.pid)
        assert not left, f"the client left processes behind: {left}"
        assert not check or process.returncode == 0, f"claude failed: {stderr or stdout}"
        return Run(process.returncode, stdout, stderr)

    @contextlib.contextmanager
    def start(self, prompt: str, *args: str) -> Iterator[subprocess.Popen[str]]:
        """The same without waiting, for tests that do something to a client at work. It never outlives the block."""
        command = [str(binary()), "-p", "--output-format=json", self.permissions]
        process = subprocess.Popen(
            [*command, f"--tools={self.tools}", *args, "--", prompt],
            cwd=self.cwd,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                kill(process)

    def environment(self) -> dict[str, str]:
        """All that the client may see: enough to find programs, its own home, and our endpoint as the only model."""
        scratch = self.home / ".tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(scratch),
            "CLAUDE_CODE_TMPDIR": str(scratch),
            "ANTHROPIC_API_KEY": "dummy",
            "ANTHROPIC_BASE_URL": self.endpoint.url,
            "IS_SANDBOX": "1",  # else it refuses to run tools unattended as root
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            **self.env,
        }

    def transcript(self, session_id: str) -> Path:
        """The session's file, wherever under its home the client keeps it."""
        (path,) = (self.home / ".claude" / "projects").glob(f"*/{session_id}.jsonl")
        return path

    def listen(self, events: Iterable[str] = EVENTS, context: str = "") -> "Listener":
        """Put a tiny hook into the settings that keeps every payload; SessionStart's also tells `context`."""
        heard = self.home / "heard.jsonl"
        reply = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": context}}
        answer = self.home / "context.json"
        answer.parent.mkdir(parents=True, exist_ok=True)
        answer.write_text(json.dumps(reply) if context else "")
        # A payload is one line and ends in a newline, so cat alone keeps them apart.
        commands = {event: f"cat >>'{heard}'" for event in events}
        if "SessionStart" in commands:
            commands["SessionStart"] += f"; cat '{answer}'"
        hooks = {e: [{"hooks": [{"type": "command", "command": command}]}] for e, command in commands.items()}
        settings = self.home / ".claude" / "settings.json"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(json.dumps({"hooks": hooks}))
        return Listener(heard)


@dataclass(frozen=True)
class Listener:
    """What the tiny hook heard."""

    path: Path

    def payloads(self, event: str = "") -> list[dict[str, Any]]:
        """Every payload in order, or those of one event. Not splitlines: a payload may hold other line ends raw."""
        lines = self.path.read_text().split("\n") if self.path.exists() else []
        payloads: list[dict[str, Any]] = [json.loads(line) for line in lines if line]
        return [p for p in payloads if event in ("", p["hook_event_name"])]

    def events(self) -> list[str]:
        """The names in order, SessionStart's and SessionEnd's with their source and reason."""
        return [_name(p) for p in self.payloads()]


def _name(payload: dict[str, Any]) -> str:
    detail = payload.get("source") or payload.get("reason") or payload.get("tool_name")
    return f"{payload['hook_event_name']}.{detail}" if detail else str(payload["hook_event_name"])


def _processes() -> list[tuple[int, int, int, str]]:
    """Every living process: its id, its parent's, its group's, its command."""
    columns = ["ps", "-Aww", "-o", "pid=,ppid=,pgid=,stat=,command="]
    listing = subprocess.run(columns, capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 4) for line in listing.splitlines()]
    return [(int(row[0]), int(row[1]), int(row[2]), row[-1]) for row in rows if not row[3].startswith("Z")]


def kill(process: subprocess.Popen[str]) -> None:
    """End the client and its children at once, by their parents: each shell command has a group of its own."""
    rows, family = _processes(), {process.pid}
    while children := {pid for pid, parent, *_ in rows if parent in family} - family:
        family |= children
    for group in {process.pid} | {group for pid, _, group, _ in rows if pid in family}:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    process.communicate()


def _left_running(group: int, patience: float = 2) -> list[str]:
    """The living processes of a group. They are not our children, so there is no signal to wait for: we look again."""
    deadline = time.monotonic() + patience
    while (left := [row[3] for row in _processes() if row[2] == group]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left
