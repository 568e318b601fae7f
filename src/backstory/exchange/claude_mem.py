"""Converts the rows of a claude-mem database to ours: sessions, prompts, observations and summaries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from backstory import ids, privacy
from backstory.exchange.turn_lines import parse_time
from backstory.model import TYPES
from backstory.store.claude_mem import ClaudeMem
from backstory.store.db import Row
from backstory.text import cut, one_line

#: The provider of imported observations and summaries.
PROVIDER = "claude-mem"
_AGENTS = {"claude": "claude-code", "": "claude-code", "gemini": "gemini-cli"}
_LISTS = ("facts", "concepts", "files_read", "files_modified")
_SUMMARY_FIELDS = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def rows(source: ClaudeMem, keys: Mapping[str, str]) -> Iterator[tuple[str, Row]]:
    """Yield all rows, parents before children. `keys` maps the names of known projects to their keys."""
    sessions: dict[str, int] = {}
    prompts = _prompt_counts(source)
    for row in source.rows("sdk_sessions"):
        session = _session(row, keys, prompts)
        if session is None:
            continue
        for name in _session_ids(row):
            sessions[name] = session["id"]
        yield "sdk_sessions", session
    for row in source.rows("observations"):
        if (number := _parent(row, sessions)) and (observation := _observation(row, number, keys)):
            yield "observations", observation
    last = {_round(row): row["id"] for row in source.rows("session_summaries")}
    for row in source.rows("session_summaries"):
        # If a round has several summaries, the last one is used.
        if (number := _parent(row, sessions)) and last[_round(row)] == row["id"]:
            yield "session_summaries", _summary(row, number, keys)
    numbers = set(sessions.values())
    for row in source.rows("user_prompts"):
        number = row.get("session_db_id") if row.get("session_db_id") in numbers else _parent(row, sessions)
        if number and row.get("prompt_number"):
            yield "user_prompts", _prompt(row, number)


def _prompt_counts(source: ClaudeMem) -> dict[int | str, int]:
    """The number of the last prompt of each session, by its number and its ids. Sessions do not always have it."""
    last: dict[int | str, int] = {}
    for row in source.rows("user_prompts"):
        for name in (row.get("session_db_id"), *_session_ids(row)):
            if name:
                last[name] = max(last.get(name, 0), row.get("prompt_number") or 0)
    return last


def _session_ids(row: Row) -> list[str]:
    """The ids of a session in a row. Older versions of claude-mem have other columns for them."""
    columns = ("memory_session_id", "sdk_session_id", "content_session_id", "claude_session_id")
    return [row[name] for name in columns if isinstance(row.get(name), str) and row[name]]


def _parent(row: Row, sessions: Mapping[str, int]) -> int | None:
    return next((sessions[name] for name in _session_ids(row) if name in sessions), None)


def _round(row: Row) -> tuple[str, int]:
    return next(iter(_session_ids(row)), ""), row.get("prompt_number") or 0


def _at(row: Row, name: str) -> str | None:
    return parse_time(row.get(f"{name}_epoch")) or parse_time(row.get(name))


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return privacy.strip_text(value) if isinstance(value, str) else ""


def _where(row: Row, keys: Mapping[str, str]) -> Row:
    name = _text(row, "project")[:500]
    return {"project": name, "project_key": keys.get(name, name)}


def _session(row: Row, keys: Mapping[str, str], prompts: Mapping[int | str, int]) -> Row | None:
    content_id = row.get("content_session_id") or row.get("claude_session_id")
    if not isinstance(content_id, str) or not content_id:
        return None
    agent = str(row.get("platform_source") or "")
    started = _at(row, "started_at") or ids.now()
    ended = _at(row, "completed_at")
    names = (row["id"], *_session_ids(row))
    return _where(row, keys) | {
        "id": row["id"],
        "agent": _AGENTS.get(agent, agent)[:100],
        "content_session_id": content_id[:512],
        "memory_session_id": row.get("memory_session_id") or row.get("sdk_session_id") or None,
        "memory_provider": PROVIDER,
        "title": _text(row, "custom_title") or None,
        "first_user_prompt": _text(row, "user_prompt")[:2000] or None,
        "prompt_counter": max(row.get("prompt_counter") or 0, *(prompts.get(name, 0) for name in names)),
        "status": "failed" if row.get("status") == "failed" else "completed",
        "end_reason": "imported",
        "created_at": started,
        "last_event_at": max(started, ended or started),
        "completed_at": ended or started,
    }


def _observation(row: Row, session_id: int, keys: Mapping[str, str]) -> Row | None:
    narrative = _text(row, "narrative") or _text(row, "text")
    title = one_line(_text(row, "title")) or cut(one_line(narrative), 120)
    if not title:
        return None
    fields: dict[str, Any] = {
        "type": row["type"] if row.get("type") in TYPES else "discovery",
        "title": title,
        "subtitle": _text(row, "subtitle"),
        "narrative": narrative,
    } | {name: _list(row.get(name)) for name in _LISTS}
    lists = {name: json.dumps(fields[name], ensure_ascii=False) for name in _LISTS}
    compressed = {"compressed_observation": json.dumps(fields, ensure_ascii=False)}
    return _origin(row, session_id, keys) | fields | lists | compressed


def _list(value: Any) -> list[str]:
    """A list as claude-mem stores it: JSON, or a text with one item per line."""
    if not isinstance(value, str) or not value.strip():
        return []
    try:
        items = json.loads(value)
    except (ValueError, RecursionError):
        items = value.splitlines()
    items = items if isinstance(items, list) else [items]
    return [privacy.strip_text(item) for item in items if isinstance(item, str) and item.strip()]


def _summary(row: Row, session_id: int, keys: Mapping[str, str]) -> Row:
    texts = {name: _text(row, name) for name in _SUMMARY_FIELDS}
    return _origin(row, session_id, keys) | texts | {"source": "stop"}


def _origin(row: Row, session_id: int, keys: Mapping[str, str]) -> Row:
    """The columns that observations and summaries share."""
    return _where(row, keys) | {
        "id": row["id"],
        "session_id": session_id,
        "prompt_number": row.get("prompt_number") or 0,
        "memory_session_id": next(iter(_session_ids(row))),
        "provider": PROVIDER,
        "created_at": _at(row, "created_at") or ids.now(),
    }


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
