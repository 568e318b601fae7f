"""Reads the payloads of Claude Code's hooks as reports, and writes its replies."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from backstory.agents.claude_code.hook_fallback import CONTINUE
from backstory.errors import BadInput
from backstory.model import ContentId, Kind, Report

NAME = "claude-code"
START = "SessionStart"

#: Claude Code's event -> our kind, and the fields that are kept
EVENTS: dict[str, tuple[Kind, tuple[str, ...]]] = {
    "SessionStart": ("session_start", ("source", "model", "session_title", "seconds_since_last_response")),
    "UserPromptSubmit": ("prompt", ("prompt", "source", "session_title")),
    "PostToolUse": ("tool", ("tool_input", "tool_response", "duration_ms", "agent_id", "agent_type")),
    "PostToolUseFailure": (
        "tool_failure",
        ("tool_input", "error", "is_interrupt", "duration_ms", "agent_id", "agent_type"),
    ),
    "Stop": ("stop", ("last_assistant_message", "last_user_message", "stop_hook_active")),
    # An API error ends the round, and no Stop follows.
    "StopFailure": ("stop", ("error", "error_details")),
    "SubagentStop": ("subagent_stop", ("last_assistant_message", "agent_id", "agent_type")),
    "PreCompact": ("pre_compact", ("trigger", "custom_instructions")),
    "PostCompact": ("post_compact", ("trigger", "compact_summary")),
    "SessionEnd": ("session_end", ("reason",)),
}
#: Events whose output would become instructions, or is not read.
_SILENT = ("PreCompact", "PostCompact", "SessionEnd")
_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def read(event: str, payload: Mapping[str, Any], event_id: str, occurred_at: str) -> Report | None:
    """Return a payload as a report; None for an event that we do not listen to."""
    if event not in EVENTS:
        return None
    kind, kept = EVENTS[event]
    if kind == "subagent_stop" and payload.get("agent_type") == "":
        return None  # a subagent of the compaction itself
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
    """Remove the reminders that the client adds to messages."""
    return _REMINDER.sub("", text).strip() if "<system-reminder>" in text else text


def _is_notification(payload: Mapping[str, Any]) -> bool:
    text = payload.get("prompt")
    return payload.get("source") == "system" or (
        isinstance(text, str) and text.lstrip().startswith("<task-notification>")
    )


def reply(event: str, context: str) -> bytes:
    """Return what the hook prints. It is empty where output would become instructions."""
    if event == "SessionStart":
        output = {"hookEventName": event, "additionalContext": context}
        return json.dumps({"hookSpecificOutput": output}, ensure_ascii=False).encode() if context else b""
    if event == "UserPromptSubmit" and context:
        output = {"hookEventName": event, "additionalContext": context}
        answer = {"continue": True, "suppressOutput": True, "hookSpecificOutput": output}
        return json.dumps(answer, ensure_ascii=False).encode()
    # For an unknown event the effect of output is unknown too.
    return b"" if event in _SILENT or event not in EVENTS else CONTINUE
