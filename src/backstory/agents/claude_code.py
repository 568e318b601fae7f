"""Claude Code: its payloads in our words, its replies in its own, its settings, the end of its transcripts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backstory.agents.install import Hook
from backstory.agents.servers import server
from backstory.errors import BadInput
from backstory.files import open_regular, read_regular
from backstory.model import ContentId, Kind, Report

NAME = "claude-code"

#: its event -> our kind, and which of its fields we keep
_KINDS: dict[str, tuple[Kind, tuple[str, ...]]] = {
    "SessionStart": ("session_start", ("source", "model", "session_title", "seconds_since_last_response")),
    "UserPromptSubmit": ("prompt", ("prompt", "source")),
    "PostToolUse": ("tool", ("tool_input", "tool_response", "duration_ms", "agent_id", "agent_type")),
    "PostToolUseFailure": (
        "tool_failure",
        ("tool_input", "error", "is_interrupt", "duration_ms", "agent_id", "agent_type"),
    ),
    "Stop": ("stop", ("last_assistant_message", "last_user_message", "stop_hook_active")),
    # An answer that the API broke off ends its round too; no Stop follows.
    "StopFailure": ("stop", ("error", "error_details")),
    "SubagentStop": ("subagent_stop", ("last_assistant_message", "agent_id", "agent_type")),
    "PreCompact": ("pre_compact", ("trigger", "custom_instructions")),
    "PostCompact": ("post_compact", ("trigger", "compact_summary")),
    "SessionEnd": ("session_end", ("reason",)),
}
_CONTINUE = b'{"continue":true,"suppressOutput":true}'
#: Their output would become instructions, or nobody reads it.
_SILENT = ("PreCompact", "PostCompact", "SessionEnd")
_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
#: How much of a transcript's end is read for the last message.
_TAIL = 1 << 20
#: Bytes of a settings file, which may be a project's.
_SETTINGS = 16 << 20


def read(event: str, payload: Mapping[str, Any], event_id: str, occurred_at: str) -> Report | None:
    """A payload in our words; None for an event that we do not listen to."""
    if event not in _KINDS:
        return None
    kind, kept = _KINDS[event]
    if kind == "subagent_stop" and payload.get("agent_type") == "":
        return None  # compaction's own
    return Report(
        agent=NAME,
        kind=kind,
        content_id=ContentId(_text(payload, "session_id", required=True)),
        event_id=event_id,
        occurred_at=occurred_at,
        cwd=_text(payload, "cwd"),
        tool_name=_text(payload, "tool_name", required=kind in ("tool", "tool_failure")) or None,
        tool_use_id=_text(payload, "tool_use_id") or None,
        prompt_id=_text(payload, "prompt_id") or None,
        transcript_path=_text(payload, "transcript_path") or None,
        is_notification=kind == "prompt" and _is_notification(payload),
        payload={name: _clean(payload[name]) for name in kept if payload.get(name) is not None},
    )


def _text(payload: Mapping[str, Any], name: str, required: bool = False) -> str:
    value = payload.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or (required and not value.strip()):
        raise BadInput(f"`{name}` must be a text.", "Send the payload as Claude Code gives it to its hooks.")
    if len(value) > 4096:
        raise BadInput(f"`{name}` is longer than 4096 characters.")
    return value


def _clean(value: Any) -> Any:
    return without_reminders(value) if isinstance(value, str) else value


def without_reminders(text: str) -> str:
    """What the client slipped into a message is not part of it."""
    return _REMINDER.sub("", text).strip() if "<system-reminder>" in text else text


def _is_notification(payload: Mapping[str, Any]) -> bool:
    text = payload.get("prompt")
    return payload.get("source") == "system" or (
        isinstance(text, str) and text.lstrip().startswith("<task-notification>")
    )


def reply(event: str, context: str) -> bytes:
    """What Claude Code expects on the hook's standard output. Nothing where it would become instructions."""
    if event == "SessionStart":
        output = {"hookEventName": event, "additionalContext": context}
        return json.dumps({"hookSpecificOutput": output}, ensure_ascii=False).encode() if context else b""
    if event == "UserPromptSubmit" and context:
        output = {"hookEventName": event, "additionalContext": context}
        told = {"continue": True, "suppressOutput": True, "hookSpecificOutput": output}
        return json.dumps(told, ensure_ascii=False).encode()
    # What the output of an event that we do not know would do, we do not know either.
    return b"" if event in _SILENT or event not in _KINDS else _CONTINUE


def last_message(path: str, roots: tuple[Path, ...]) -> str:
    """The assistant's last words in a transcript. Only files under the agent's own roots are opened."""
    try:
        file = Path(path).resolve(strict=True)
        if file.suffix != ".jsonl" or not any(file.is_relative_to(root.resolve()) for root in roots):
            return ""
        with os.fdopen(open_regular(file), "rb") as source:
            source.seek(max(0, os.fstat(source.fileno()).st_size - _TAIL))
            lines = source.read(_TAIL).splitlines()
    except (OSError, ValueError, RuntimeError):  # the last: how Python 3.11 tells of links that lead in a circle
        return ""
    parts: list[str] = []
    found = None
    # One line a block: those of the last message share its id.
    for line in reversed(lines):
        message = _assistant(line)
        if message is None:
            continue
        if found not in (None, message.get("id")):
            break
        texts = [
            b.get("text", "") for b in message.get("content", []) if isinstance(b, dict) and b.get("type") == "text"
        ]
        if texts:
            found = message.get("id")
            parts[:0] = texts
    return without_reminders("\n".join(parts))


def _assistant(line: bytes) -> dict[str, Any] | None:
    if b'"assistant"' not in line:
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or entry.get("type") != "assistant" or entry.get("isSidechain"):
        return None
    message = entry.get("message")
    return message if isinstance(message, dict) and isinstance(message.get("content"), list) else None


def config_dir(home: Path, env: Mapping[str, str]) -> Path:
    return Path(env["CLAUDE_CONFIG_DIR"]) if env.get("CLAUDE_CONFIG_DIR") else home / ".claude"


def roots(home: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Where its transcripts lie."""
    return (config_dir(home, env) / "projects",)


def settings(scope: str, home: Path, cwd: Path, env: Mapping[str, str]) -> Path:
    """The settings file of a scope."""
    return cwd / ".claude" / "settings.json" if scope == "project" else config_dir(home, env) / "settings.json"


def servers(scope: str, home: Path, cwd: Path, env: Mapping[str, str]) -> Path:
    """The file in which it looks for MCP servers."""
    if scope == "project":
        return cwd / ".mcp.json"
    return (Path(env["CLAUDE_CONFIG_DIR"]) if env.get("CLAUDE_CONFIG_DIR") else home) / ".claude.json"


def skill(scope: str, home: Path, cwd: Path, env: Mapping[str, str]) -> Path:
    """Where our skill lies."""
    return settings(scope, home, cwd, env).parent / "skills" / "backstory" / "SKILL.md"


def read_settings(path: Path) -> dict[str, Any]:
    """What a settings file says; nothing where it can't be read."""
    try:
        value = json.loads(read_regular(path, _SETTINGS))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def hooks(shim: str) -> dict[str, Hook]:
    """One entry an event. They name the shim alone, so an upgrade never rewrites them."""
    return {
        event: Hook(f"{shim} {NAME} {event}", timeout=5, matcher="*" if event.startswith("PostToolUse") else None)
        for event in _KINDS
    }


def muted(content: bytes) -> str:
    """A sentence if the client is told to run no hooks at all."""
    try:
        off = json.loads(content).get("disableAllHooks") is True
    except (ValueError, AttributeError):
        off = False
    return "But `disableAllHooks` is on in that file: no hook runs, and nothing is remembered." if off else ""


def plugin_hooks() -> dict[str, Any]:
    """The plugin's hooks.json: the same entries, for a shim that may be missing, and a look at the versions."""
    shim = '"${BACKSTORY_DATA_DIR:-$HOME/.backstory}/bin/backstory-hook"'
    # Where the settings have them too, those are enough: whatever is told twice is paid for twice.
    settings = '"${CLAUDE_CONFIG_DIR:-$HOME/.claude}/settings.json"'
    entries = hooks(f"[ ! -x {shim} ] || grep -qs /bin/backstory-hook {settings} || {shim}")
    entries["Setup"] = Hook('sh "${CLAUDE_PLUGIN_ROOT}/hooks/setup.sh"', timeout=10)
    described = "Tells backstory what happens, and a new session what it knows."
    return {"description": described, "hooks": {event: [hook.group] for event, hook in entries.items()}}


def plugin_servers() -> dict[str, Any]:
    """The plugin's .mcp.json: the bridge of whatever installation there is."""
    return {"mcpServers": {"backstory": server()}}


def plugin_enabled(settings: Mapping[str, Any]) -> bool:
    """Whether a settings file switches our plugin on, from whatever marketplace."""
    enabled = settings.get("enabledPlugins")
    return isinstance(enabled, dict) and any(
        name.partition("@")[0] == "backstory" and bool(on) for name, on in enabled.items()
    )


def ours(command: str) -> bool:
    """A shim of ours, wherever the data directory is."""
    return bool(re.search(rf"/bin/backstory-hook['\"]? {NAME} \w+$", command))
