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
#: Objects that are tried when the entry at the end of a damaged line is looked for.
MAX_STARTS = 1000
#: How the entries of a conversation begin, as the client writes them.
_FIRST_KEY = b'{"parentUuid":'
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


def entries(path: Path, offset: int, whole: bool) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the entries that matter, each with the offset of its line. A line that cannot be read is None."""
    with opened(path) as source:
        source.seek(offset)
        for at, size, line in read_lines(source, offset, whole):
            matters = _matters(line)
            entry = parsed(line) if matters else None
            if entry:
                yield at, entry
            elif matters or size > len(line) or _is_damaged(line):
                yield at, None
                if last := _appended(line):
                    yield at + last[0], last[1]


def begins_with(path: Path, offset: int, uuid: str) -> bool:
    """Whether the entry with this id stands at an offset. If not, the file was cut and has grown since. A summary of
    what was before may stand there, too: a round goes on after it."""
    with opened(path) as source:
        source.seek(offset)
        entry = next((parsed(line) for _, _, line in read_lines(source, offset, True)), None)
    return entry is not None and (entry.get("uuid") == uuid or entry.get("subtype") == "compact_boundary")


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


def _is_damaged(line: bytes) -> bool:
    """Whether a line that was not parsed is no entry: its end or its beginning is missing, or another was appended."""
    is_whole = line.startswith(b"{") and line.endswith((b"}\n", b"}\r\n", b"}"))
    return not line.isspace() and (not is_whole or line.find(_FIRST_KEY, 1) > 0)


def _appended(line: bytes) -> tuple[int, dict[str, Any]] | None:
    """Return the entry at the end of a line that begins with a part of another, and where it begins. A client that was
    killed leaves such a part, and the next one appends to it. What may be a value in the part itself is not returned:
    anybody may have written it."""
    text, decoder, at = line.decode("latin-1").rstrip(), json.JSONDecoder(), 0
    for _ in range(MAX_STARTS):
        at = text.find('{"', at)
        if at < 0:
            return None
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1  # of the part: its end is missing
            continue
        if end == len(text):
            is_value = text[max(at - 9, 0) : at].rstrip().endswith((":", ",", "["))
            entry = None if is_value else parsed(line[at:])
            return (at, entry) if entry and {"type", "sessionId"} <= entry.keys() else None
        at = end
    return None


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
