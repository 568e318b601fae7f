"""Opens a session of Claude Code again: the command, and where its transcript is looked for."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from pathlib import Path

from backstory.agents.resuming import Resuming
from backstory.files import open_regular

#: Characters after which the client cuts the name of a folder. It adds a hash that only the client can compute.
MAX_FOLDER_CHARS = 200
#: Bytes at the end of a transcript that are read. The client repeats there what it keeps about the session.
TAIL_BYTES = 64 << 10
_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def command(session_id: str) -> tuple[str, ...]:
    """Return the command. An id of another form could be taken for an option."""
    return ("claude", "--resume", session_id) if _ID.fullmatch(session_id) else ()


def transcript(root: Path, session_id: str) -> Path | None:
    """Return the transcript of a session. The client does not find a conversation in an empty file."""
    if not _ID.fullmatch(session_id):
        return None
    files = [file for file in root.glob(f"*/{session_id}.jsonl") if file.is_file() and file.stat().st_size]
    return max(files, key=lambda file: file.stat().st_mtime_ns, default=None)


def moved_to(path: Path) -> str:
    """Return the directory to which `/cd` has moved a session, from the last entry about it."""
    try:
        with os.fdopen(open_regular(path), "rb") as source:
            source.seek(max(0, os.fstat(source.fileno()).st_size - TAIL_BYTES))
            lines = source.read(TAIL_BYTES).splitlines()
    except OSError:
        return ""
    for line in reversed(lines):
        if b'"relocated"' in line:
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict) and entry.get("type") == "relocated":
                directory = entry.get("relocatedCwd")
                return directory if isinstance(directory, str) else ""
    return ""


def encoded(directory: str) -> str:
    """Return a directory as the client writes it into names, before it is cut."""
    return re.sub(r"[^A-Za-z0-9]", "-", unicodedata.normalize("NFC", os.path.realpath(directory)))


def place(root: Path, directory: str, session_id: str) -> Path:
    """Return where the client looks for a session. It names a folder after the real path of the directory."""
    name = encoded(directory)
    if len(name) > MAX_FOLDER_CHARS:
        start = name[:MAX_FOLDER_CHARS]
        name = next((known.name for known in sorted(root.glob(f"{start}-*"))), start)
    return root / name / f"{session_id}.jsonl"


RESUMING = Resuming(command, transcript, moved_to, place)
