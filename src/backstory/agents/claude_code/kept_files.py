"""Reads Claude Code's transcripts line by line to keep them, and writes kept ones back."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from backstory import gate, transcript_gate
from backstory.agents.claude_code import lines
from backstory.agents.claude_code.resuming import MAX_FOLDER_CHARS, encoded
from backstory.agents.claude_code.transcript_files import opened, parsed, read_lines
from backstory.agents.transcripts import Keeping, TranscriptLine
from backstory.files import read_regular
from backstory.paths import locked, remove_abandoned, write_private, written

#: The type of the entry that stands for the file `.meta.json` beside the transcript of a subagent.
METADATA = "agent_metadata"
#: Maximum bytes of such a file.
MAX_METADATA_BYTES = 1 << 20
_SUBPATH = re.compile(r"subagents(?:/[\w-][\w.-]{0,127}){1,8}", re.ASCII)


def session_of(path: Path) -> str:
    return path.stem


def subpath(path: Path, part: Path) -> str:
    """Return `subagents/agent-1` for the transcript of a subagent, and nothing for that of the session."""
    return "" if part == path else part.relative_to(path.with_suffix("")).with_suffix("").as_posix()


def complete_lines(path: Path, offset: int) -> Iterator[TranscriptLine]:
    """Yield the complete lines from an offset on. Blank ones are skipped."""
    with opened(path) as source:
        source.seek(offset)
        for at, size, line in read_lines(source, offset, False):
            if line.strip() or size > len(line):
                yield TranscriptLine(at + size, parsed(line))


def about(path: Path) -> dict[str, Any] | None:
    """Return what the client keeps beside the transcript of a subagent, such as its type."""
    try:
        entry = parsed(read_regular(path.with_suffix(".meta.json"), MAX_METADATA_BYTES))
    except OSError:
        return None
    return {**entry, "type": METADATA} if entry else None


def clean(entry: Mapping[str, Any], is_private: bool, private_ids: frozenset[str]) -> tuple[dict[str, Any], bool]:
    """Clean an entry. If its prompt is private as a whole, only its structure is left, as for the rest of the round."""
    if entry.get("type") == "user" and "message" in entry:
        given = entry.get("promptId")
        if isinstance(given, str) and given in private_ids:
            is_private = True
        elif entry.get("isSidechain"):
            is_private = False if isinstance(given, str) else is_private
        elif (asked := lines.prompt(entry)) is not None:
            is_private = not gate.text(asked).strip()
    clean = transcript_gate.clean(entry)
    return (transcript_gate.blank(clean) if is_private else clean), is_private


def is_folder_of(name: str, cwd: str) -> bool:
    """Whether the client names a folder so. The client and its SDK add different hashes to a long name."""
    whole = encoded(cwd)
    return name == whole or (len(whole) > MAX_FOLDER_CHARS and name.startswith(f"{whole[:MAX_FOLDER_CHARS]}-"))


def part(path: Path, subpath: str) -> Path:
    """Return the file of a subagent."""
    if not _SUBPATH.fullmatch(subpath):
        raise ValueError("not the name of a transcript")
    return path.with_suffix("") / f"{subpath}.jsonl"


def write(path: Path, entries: Iterable[str]) -> None:
    """Write a transcript, readable only by its owner, unless it exists."""
    metadata = None
    with contextlib.suppress(FileExistsError), locked(path.parent):
        remove_abandoned(path.parent, path.name)
        with written(path, is_new=True) as out:
            for entry in entries:
                if f'"{METADATA}"' in entry and (found := parsed(entry.encode())) and found.get("type") == METADATA:
                    metadata = found
                else:
                    out.write(entry.encode() + b"\n")
            if path.exists() and not path.stat().st_size:
                path.unlink()  # the client finds no conversation in an empty file
        if metadata:
            del metadata["type"]
            write_private(path.with_suffix(".meta.json"), json.dumps(metadata).encode())


KEEPING = Keeping(
    session_of=session_of,
    subpath=subpath,
    lines=complete_lines,
    about=about,
    clean=clean,
    part=part,
    is_folder_of=is_folder_of,
    write=write,
)
