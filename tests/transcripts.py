"""Writes small transcripts as Claude Code writes them, for tests of whoever reads them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5


@dataclass
class Script:
    """A conversation, line by line. Each method adds a line under the last one, a second later."""

    session: str = "11111111-2222-3333-4444-555555555555"
    cwd: str = "/nowhere/shop"
    now: datetime = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
    lines: list[dict[str, Any]] = field(default_factory=list)
    leaf: str | None = None
    prompt_ids: bool = True
    prompt_id: str = ""

    def chain(self, kind: str, more: dict[str, Any], parent: str | None = "leaf") -> str:
        uuid = str(uuid5(NAMESPACE_URL, f"{self.session} {len(self.lines)}"))
        self.now += timedelta(seconds=1)
        stamp = self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"parentUuid": self.leaf if parent == "leaf" else parent, "isSidechain": False, "type": kind}
        line |= {"uuid": uuid, "timestamp": stamp, "sessionId": self.session, "cwd": self.cwd, "gitBranch": "main"}
        self.lines.append(line | more)
        self.leaf = uuid
        return uuid

    def user(self, content: Any, **more: Any) -> str:
        named = {"promptId": self.prompt_id} if self.prompt_ids and self.prompt_id else {}
        return self.chain("user", {"message": {"role": "user", "content": content}} | named | more)

    def prompt(self, content: Any, **more: Any) -> str:
        self.prompt_id = f"p{len(self.lines)}"
        return self.user(content, **more)

    def says(self, words: str, message: str = "", stop: str | None = "end_turn", **more: Any) -> str:
        return self._assistant({"type": "text", "text": words}, message or f"m{len(self.lines)}", stop, **more)

    def uses(self, name: str, given: Any, use: str, message: str = "", **more: Any) -> str:
        block = {"type": "tool_use", "id": use, "name": name, "input": given}
        return self._assistant(block, message or f"m{len(self.lines)}", "tool_use", **more)

    def _assistant(self, block: dict[str, Any], message: str, stop: str | None, **more: Any) -> str:
        content = {"id": message, "role": "assistant", "content": [block], "stop_reason": stop}
        return self.chain("assistant", {"message": content} | more)

    def answers(self, use: str, content: Any, whole: Any = None, failed: bool = False, **more: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": use, "content": content} | ({"is_error": True} if failed else {})
        return self.user([block], **({"toolUseResult": whole} if whole is not None else {}), **more)

    def compacts(self, summary: str) -> None:
        about = {"subtype": "compact_boundary", "logicalParentUuid": self.leaf, "compactMetadata": {"trigger": "auto"}}
        self.chain("system", about | {"content": "Conversation compacted"}, parent=None)
        self.user(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def bulk(self, size: int = 10_000) -> None:
        """The kinds that make up most of a real file."""
        self.lines.append({"type": "api-request-shape", "sessionId": self.session, "shape": '"type":"user"' * size})
        self.chain("attachment", {"attachment": {"type": "prompt_snapshot", "text": '"type":"user"' * size}})

    def raw(self) -> bytes:
        return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in self.lines)

    def write(self, folder: Path, name: str = "") -> Path:
        path = folder / (name or f"{self.session}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.raw())
        return path
