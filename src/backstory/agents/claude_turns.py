"""A Claude Code conversation as it reads: the tree of a transcript followed back from its newest leaf."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backstory.agents import claude_lines as lines
from backstory.agents.claude_code import without_reminders
from backstory.agents.claude_transcript import entries


@dataclass(frozen=True, slots=True)
class Turn:
    """One message, the user's or the assistant's, verbatim."""

    uuid: str
    role: str
    text: str
    at: str


@dataclass(slots=True)
class _Line:
    """What the tree needs of a line; its text stays in the file."""

    parent: str | None
    message: str | None  #: the id of the message of which it is a block
    order: int
    speaks: bool


def turns(path: Path) -> Iterator[Turn]:
    """The whole conversation along the newest branch, through compactions; branches that were left are left out.

    Two passes: the first keeps a few words a line, the second reads the texts of those that are wanted.
    """
    tree = {entry["uuid"]: _line(entry, order) for order, entry in enumerate(_chain(path))}
    wanted = _branch(tree)
    last: tuple[str, list[str], Turn] | None = None
    for entry in _chain(path):
        if entry["uuid"] not in wanted or not (text := _text(entry)):
            continue
        turn = Turn(entry["uuid"], entry["type"], text, str(entry.get("timestamp") or ""))
        message = tree[entry["uuid"]].message
        if last and message and last[0] == message:
            last[1].append(text)  # one line a block: they are one turn
            continue
        if last:
            yield _whole(last)
        last = (message or "", [text], turn)
    if last:
        yield _whole(last)


def _whole(found: tuple[str, list[str], Turn]) -> Turn:
    _, texts, turn = found
    return Turn(turn.uuid, turn.role, "\n".join(texts), turn.at)


def _chain(path: Path) -> Iterator[dict[str, Any]]:
    for _, entry in entries(path, 0, whole=True, links=True):
        if isinstance(entry.get("uuid"), str) and entry.get("type") in ("user", "assistant", "system", "attachment"):
            yield entry


def _line(entry: dict[str, Any], order: int) -> _Line:
    # A compaction begins a new chain; what it went on from is its logical parent.
    parent = entry.get("parentUuid") or entry.get("logicalParentUuid")
    message = entry.get("message")
    given = message.get("id") if isinstance(message, dict) else None
    speaks = entry["type"] in ("user", "assistant") and not entry.get("isSidechain") and not entry.get("isMeta")
    return _Line(parent if isinstance(parent, str) else None, given if isinstance(given, str) else None, order, speaks)


def _branch(tree: dict[str, _Line]) -> set[str]:
    """The lines from the newest leaf back to the first, and the blocks beside them that are of the same messages."""
    leaf = max((uuid for uuid, line in tree.items() if line.speaks), key=lambda u: tree[u].order, default=None)
    found: set[str] = set()
    while leaf in tree and leaf not in found:
        found.add(leaf)
        leaf = tree[leaf].parent or ""
    messages = {tree[uuid].message for uuid in found} - {None}
    beside = {uuid for uuid, line in tree.items() if line.message in messages}
    return {uuid for uuid in found | beside if tree[uuid].speaks}


def _text(entry: dict[str, Any]) -> str:
    if entry["type"] == "user":
        return "" if entry.get("isCompactSummary") else lines.prompt(entry) or ""
    texts = [b["text"] for b in lines.blocks(entry.get("message")) if isinstance(b.get("text"), str)]
    return without_reminders("\n".join(texts))
