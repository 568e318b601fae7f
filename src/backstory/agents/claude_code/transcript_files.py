"""Finds Claude Code's transcripts, and reads their lines, however long or damaged they are."""

from __future__ import annotations

import errno
import gzip
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from backstory.agents.claude_code import lines
from backstory.agents.claude_code.payloads import without_reminders
from backstory.agents.transcripts import MAX_BYTES
from backstory.files import open_below, open_regular

#: Bytes at the end of a transcript that are read for the last message.
TAIL_BYTES = 1 << 20
#: Maximum bytes of a line. Longer ones are skipped.
MAX_LINE_BYTES = 32 << 20
_CHAIN = (b'"type":"user"', b'"type":"assistant"', b'"type":"system"', b'"type": "')
_TITLES = (b'{"type":"custom-title"', b'{"type":"ai-title"', b'{"type":"summary"')
_BEGINS = (b'{"type":"queue-operation"', b'{"type":"cost-state"', *_TITLES, *(b"{" + mark for mark in _CHAIN))


def opened(path: Path) -> IO[bytes]:
    """Open a regular file, gzipped or not. Anything else is refused, because reading a pipe could block for ever, and
    so is a file that would take as long."""
    raw = os.fdopen(open_regular(path), "rb", buffering=1 << 18)
    if os.fstat(raw.fileno()).st_size > MAX_BYTES:
        raw.close()
        raise OSError(errno.EFBIG, "The transcript is too large")
    return cast(IO[bytes], _Unzipped(raw)) if path.suffix == ".gz" else raw


class _Unzipped(gzip.GzipFile):
    """A gzip reader that also closes the file under it."""

    def __init__(self, under: IO[bytes]) -> None:
        super().__init__(fileobj=under, mode="rb")
        self._under = under

    def close(self) -> None:
        super().close()
        self._under.close()


def entries(path: Path, offset: int, whole: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the entries that matter, each with the offset of its line."""
    with opened(path) as source:
        source.seek(offset)
        for at, _, line in read_lines(source, offset, whole):
            if _matters(line) and (entry := parsed(line)):
                yield at, entry


def read_lines(
    source: IO[bytes], offset: int, whole: bool, limit: int = MAX_LINE_BYTES
) -> Iterator[tuple[int, int, bytes]]:
    """Yield each line with its offset and size. One that is too long becomes empty. A truncated gzip just ends."""
    while True:
        try:
            line = source.readline(limit)
            size = len(line)
            while len(line) == limit and not line.endswith(b"\n"):
                line = source.readline(limit)
                size += len(line)
                if len(line) < limit or line.endswith(b"\n"):
                    line = b"\n"
        except (EOFError, gzip.BadGzipFile, OSError):
            return
        # A line without its end is still being written.
        if not line or not (line.endswith(b"\n") or whole):
            return
        yield offset, size, line
        offset += size


def parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _matters(line: bytes) -> bool:
    """Whether to parse a line. Most bytes of a file are in lines of other kinds."""
    if line.startswith(b'{"type":"'):
        return line.startswith(_BEGINS)
    if b'"attachment":{' in line[:1000]:
        return b'"type":"queued_command"' in line[:1000]
    return any(mark in line for mark in _CHAIN)


def beside(path: Path) -> list[Path]:
    """Return the transcripts of a session's subagents. They are in a folder named after the session."""
    folder = path.with_suffix("") / "subagents"
    return sorted(folder.rglob("*.jsonl")) if folder.is_dir() else []


def find(root: Path) -> Iterable[Path]:
    """Return the transcripts of sessions. There is one folder for each working directory."""
    return root.glob("*/*.jsonl")


def last_message(path: str, roots: tuple[Path, ...]) -> str:
    """Return the assistant's last message in a transcript. Only files under the agent's roots are opened."""
    try:
        file = Path(path).resolve(strict=True)
        base = next((root for root in map(Path.resolve, roots) if file.is_relative_to(root)), None)
        if file.suffix != ".jsonl" or base is None:
            return ""
        # An agent may put a link in its place now, so that it leads elsewhere.
        with os.fdopen(open_below(base, file), "rb") as source:
            source.seek(max(0, os.fstat(source.fileno()).st_size - TAIL_BYTES))
            tail = source.read(TAIL_BYTES).splitlines()
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links, in Python 3.11
        return ""
    parts: list[str] = []
    message_id = None
    # Each block is a line. Those of the last message share its id.
    for line in reversed(tail):
        message = _assistant(line)
        if message is None:
            continue
        if message_id not in (None, message.get("id")):
            break
        blocks = [block for block in lines.blocks(message) if block.get("type") == "text"]
        if texts := [block["text"] for block in blocks if isinstance(block.get("text"), str)]:
            message_id = message.get("id")
            parts[:0] = texts
    return without_reminders("\n".join(parts))


def _assistant(line: bytes) -> dict[str, Any] | None:
    if b'"assistant"' not in line:
        return None
    entry = parsed(line)
    if entry is None or entry.get("type") != "assistant" or entry.get("isSidechain"):
        return None
    message = entry.get("message")
    return message if isinstance(message, dict) and isinstance(message.get("content"), list) else None
