"""Tells what `claude` would know if it resumed a transcript: it follows the entries from the newest to the first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backstory import gate
from backstory.agents.claude_code import lines
from backstory.agents.claude_code.transcript_files import opened, read_lines
from backstory.text import harmless

#: Maximum bytes of an entry. One that is longer counts as missing.
MAX_ENTRY_BYTES = 256 << 20
#: Characters of a prompt by which it is recognised.
MAX_BEGINNING = 1000


@dataclass(frozen=True, slots=True)
class Resumable:
    """The entries of a transcript that `claude` would know."""

    uuids: frozenset[str]
    prompts: tuple[str, ...]
    news: tuple[Mapping[str, Any], ...]  #: the messages that nobody else knows, in the form of session.json
    cwd: str  #: the working directory of the newest message

    def held(self, uuids: Sequence[str]) -> int:
        """Return how many of these messages, oldest first, are known: all up to the newest that is."""
        return next((number for number in range(len(uuids), 0, -1) if uuids[number - 1] in self.uuids), 0)

    def has_prompt(self, text: str) -> bool:
        """Whether a prompt is known, by its beginning. Something may have been told before it."""
        beginning = text.strip()[:MAX_BEGINNING]
        # What is kept has no private text and no secrets. What is told again has no tags either.
        return any(
            beginning in prompt or harmless(beginning) in prompt or beginning in gate.text(prompt)
            for prompt in self.prompts
        )


def find(roots: Iterable[Path], content_id: str) -> Path | None:
    """Return the transcript of a session. The folder is named after the working directory, in a way of its own."""
    found = [path for root in roots for path in root.glob(f"*/{content_id}.jsonl")]
    return max(found, key=lambda path: path.stat().st_mtime_ns, default=None)


def read(path: Path, known: Iterable[str] = ()) -> Resumable | None:
    """Read a transcript. None if it cannot be read, or a parent is missing: all before that would be forgotten.

    `known` are the ids of messages that are known already. What comes after the last of them is news.
    """
    parents: dict[str, str | None] = {}
    prompts: list[str] = []
    news: list[Mapping[str, Any]] = []
    newest: str | None = None
    cwd = ""
    known = frozenset(known)
    try:
        source = opened(path)
    except OSError:
        return None
    with source:
        for _, _, line in read_lines(source, 0, True, MAX_ENTRY_BYTES):
            if (entry := _parsed(line)) is None:
                continue
            uuid, parent = entry["uuid"], entry.get("parentUuid")
            parents[uuid] = parent if isinstance(parent, str) else None
            queued = lines.queued_prompt(entry)
            if not (queued or entry.get("type") in ("user", "assistant")) or entry.get("isSidechain"):
                continue
            newest, cwd = uuid, str(entry.get("cwd") or cwd)
            message = _said("user", [_text(queued)], entry) if queued else _message(entry)
            prompts += [block["text"] for block in message["content"] if "text" in block and message["role"] == "user"]
            if uuid in known:
                news.clear()
            elif message["content"]:
                news.append(message)
    is_whole = newest is not None and _reaches_first(parents, newest)
    return Resumable(frozenset(parents), tuple(prompts), tuple(news), cwd) if is_whole else None


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("uuid"), str) else None


def _message(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry as a message of session.json. Its content is empty if nobody said it."""
    role = entry["type"]
    content: list[dict[str, Any]] = []
    if "message" in entry and not entry.get("isApiErrorMessage"):
        if role == "user" and (prompt := lines.prompt(entry)):
            content.append(_text(prompt))
        for block in lines.blocks(entry["message"]):
            kind = block.get("type")
            if kind == "text" and role == "assistant" and isinstance(block.get("text"), str):
                content.append(_text(block["text"]))
            elif kind in ("tool_use", "tool_result"):
                content.append({"type": kind, kind: {name: block[name] for name in block if name != "type"}})
    return _said(role, content, entry)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _said(role: str, content: list[dict[str, Any]], entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": content, "timestamp": entry.get("timestamp"), "uuid": entry["uuid"]}


def _reaches_first(parents: dict[str, str | None], uuid: str | None) -> bool:
    """Whether every parent is there. A compaction begins a new chain: its summary stands for what was before."""
    seen: set[str] = set()
    while uuid is not None:
        if uuid in seen or uuid not in parents:
            return False
        seen.add(uuid)
        uuid = parents[uuid]
    return True
