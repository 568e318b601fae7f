"""Tells what `claude` would know if it resumed a transcript: it follows the entries from the newest to the first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from backstory.agents.claude_code import lines
from backstory.agents.claude_code.transcript_files import opened


@dataclass(frozen=True, slots=True)
class Resumable:
    """The entries of a transcript that `claude` would know."""

    uuids: frozenset[str]
    prompts: tuple[str, ...]

    def held(self, uuids: Sequence[str]) -> int:
        """Return how many of these messages, oldest first, are known: all up to the newest that is."""
        return next((number for number in range(len(uuids), 0, -1) if uuids[number - 1] in self.uuids), 0)

    def has_prompt(self, text: str) -> bool:
        """Whether a prompt is known. Something may have been told before it."""
        return any(text.strip() in prompt for prompt in self.prompts)


def find(roots: Iterable[Path], content_id: str) -> Path | None:
    """Return the transcript of a session. The folder is named after the working directory, in a way of its own."""
    found = [path for root in roots for path in root.glob(f"*/{content_id}.jsonl")]
    return max(found, key=lambda path: path.stat().st_mtime_ns, default=None)


def read(path: Path) -> Resumable | None:
    """Read a transcript. None if a parent is missing: everything before it would be forgotten."""
    parents: dict[str, str | None] = {}
    prompts: list[str] = []
    newest: str | None = None
    with opened(path) as source:
        for line in source:
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if not isinstance(entry, dict) or not isinstance(uuid := entry.get("uuid"), str):
                continue
            parent = entry.get("parentUuid")
            parents[uuid] = parent if isinstance(parent, str) else None
            if entry.get("type") in ("user", "assistant") and not entry.get("isSidechain"):
                newest = uuid
                if entry["type"] == "user" and "message" in entry and (prompt := lines.prompt(entry)):
                    prompts.append(prompt)
    is_whole = newest is not None and _reaches_first(parents, newest)
    return Resumable(frozenset(parents), tuple(prompts)) if is_whole else None


def _reaches_first(parents: dict[str, str | None], uuid: str | None) -> bool:
    """Whether every parent is there. A compaction begins a new chain: its summary stands for what was before."""
    seen: set[str] = set()
    while uuid is not None:
        if uuid in seen or uuid not in parents:
            return False
        seen.add(uuid)
        uuid = parents[uuid]
    return True
