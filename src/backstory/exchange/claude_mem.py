"""What claude-mem remembers, as rows of ours: sessions, prompts, observations and summaries, with their times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from backstory import ids, privacy
from backstory.exchange.turn_lines import moment
from backstory.model import TYPES
from backstory.store.claude_mem import ClaudeMem
from backstory.store.db import Row
from backstory.text import cut, one_line

#: Who is said to have observed it.
PROVIDER = "claude-mem"
_AGENTS = {"claude": "claude-code", "": "claude-code", "gemini": "gemini-cli"}
_LISTS = ("facts", "concepts", "files_read", "files_modified")
_TOLD = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def rows(source: ClaudeMem, keys: Mapping[str, str]) -> Iterator[tuple[str, Row]]:
    """Everything, parents before children. `keys` are those of the projects that are known here by name."""
    sessions: dict[str, int] = {}
    for row in source.rows("sdk_sessions"):
        made = _session(row, keys)
        if made is None:
            continue
        for name in _names(row):
            sessions[name] = made["id"]
        yield "sdk_sessions", made
    for row in source.rows("observations"):
        if (number := _parent(row, sessions)) and (seen := _observation(row, number, keys)):
            yield "observations", seen
    last = {_round(row): row["id"] for row in source.rows("session_summaries")}
    for row in source.rows("session_summaries"):
        # Of several that tell of one round the last holds.
        if (number := _parent(row, sessions)) and last[_round(row)] == row["id"]:
            yield "session_summaries", _summary(row, number, keys)
    numbers = set(sessions.values())
    for row in source.rows("user_prompts"):
        number = row.get("session_db_id") if row.get("session_db_id") in numbers else _parent(row, sessions)
        if number and row.get("prompt_number"):
            yield "user_prompts", _prompt(row, number)


def _names(row: Row) -> list[str]:
    """By what the other rows name a session: older versions had other words for it."""
    wanted = ("memory_session_id", "sdk_session_id", "content_session_id", "claude_session_id")
    return [row[name] for name in wanted if isinstance(row.get(name), str) and row[name]]


def _parent(row: Row, sessions: Mapping[str, int]) -> int | None:
    return next((sessions[name] for name in _names(row) if name in sessions), None)


def _round(row: Row) -> tuple[str, int]:
    return next(iter(_names(row)), ""), row.get("prompt_number") or 0


def _at(row: Row, name: str) -> str | None:
    return moment(row.get(f"{name}_epoch")) or moment(row.get(name))


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return privacy.strip_text(value) if isinstance(value, str) else ""


def _where(row: Row, keys: Mapping[str, str]) -> Row:
    name = _text(row, "project")[:500]
    return {"project": name, "project_key": keys.get(name, name)}


def _session(row: Row, keys: Mapping[str, str]) -> Row | None:
    content_id = row.get("content_session_id") or row.get("claude_session_id")
    if not isinstance(content_id, str) or not content_id:
        return None
    agent = str(row.get("platform_source") or "")
    begun = _at(row, "started_at") or ids.now()
    ended = _at(row, "completed_at")
    return _where(row, keys) | {
        "id": row["id"],
        "agent": _AGENTS.get(agent, agent)[:100],
        "content_session_id": content_id[:512],
        "memory_session_id": row.get("memory_session_id") or row.get("sdk_session_id") or None,
        "memory_provider": PROVIDER,
        "title": _text(row, "custom_title") or None,
        "first_user_prompt": _text(row, "user_prompt")[:2000] or None,
        "prompt_counter": row.get("prompt_counter") or 0,
        "status": "failed" if row.get("status") == "failed" else "completed",
        "end_reason": "imported",
        "created_at": begun,
        "last_event_at": max(begun, ended or begun),
        "completed_at": ended or begun,
    }


def _observation(row: Row, session_id: int, keys: Mapping[str, str]) -> Row | None:
    narrative = _text(row, "narrative") or _text(row, "text")
    title = one_line(_text(row, "title")) or cut(one_line(narrative), 120)
    if not title:
        return None
    told: dict[str, Any] = {
        "type": row["type"] if row.get("type") in TYPES else "discovery",
        "title": title,
        "subtitle": _text(row, "subtitle"),
        "narrative": narrative,
    } | {name: _list(row.get(name)) for name in _LISTS}
    lists = {name: json.dumps(told[name], ensure_ascii=False) for name in _LISTS}
    return (
        _where(row, keys)
        | told
        | lists
        | {
            "id": row["id"],
            "session_id": session_id,
            "prompt_number": row.get("prompt_number") or 0,
            "memory_session_id": next(iter(_names(row))),
            "compressed_observation": json.dumps(told, ensure_ascii=False),
            "provider": PROVIDER,
            "created_at": _at(row, "created_at") or ids.now(),
        }
    )


def _list(value: Any) -> list[str]:
    """A list as it is kept there: JSON, or a text with a line for each."""
    if not isinstance(value, str) or not value.strip():
        return []
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = value.splitlines()
    found = found if isinstance(found, list) else [found]
    return [privacy.strip_text(item) for item in found if isinstance(item, str) and item.strip()]


def _summary(row: Row, session_id: int, keys: Mapping[str, str]) -> Row:
    return (
        _where(row, keys)
        | {name: _text(row, name) for name in _TOLD}
        | {
            "id": row["id"],
            "session_id": session_id,
            "prompt_number": row.get("prompt_number") or 0,
            "memory_session_id": next(iter(_names(row))),
            "source": "stop",
            "provider": PROVIDER,
            "created_at": _at(row, "created_at") or ids.now(),
        }
    )


def _prompt(row: Row, session_id: int) -> Row:
    text = _text(row, "prompt_text")
    return {
        "id": row["id"],
        "session_id": session_id,
        "prompt_number": row["prompt_number"],
        "prompt": text if text.strip() else None,
        "is_private": int(not text.strip()),
        "created_at": _at(row, "created_at") or ids.now(),
    }
