"""Removes forgotten text from the transcripts of groups, so that no agent that resumes one is told it again."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from backstory import ids, transcript_gate
from backstory.agents import AGENTS, DEFAULT_AGENT
from backstory.agents.claude_code.transcript_files import parsed, read_lines
from backstory.agents.transcripts import MAX_BYTES
from backstory.files import create_regular, open_directory, open_regular
from backstory.groups.names import GroupPaths
from backstory.store import forgotten
from backstory.store.db import Tx

#: Returns an entry of a transcript without what was forgotten. The second argument is the time of the entry.
Change = Callable[[Mapping[str, Any], str], Mapping[str, Any]]


def clean(paths: GroupPaths, session_id: str, change: Change) -> None:
    """Write the transcript of a session, and those of its subagents, again if an entry changes.

    No agent may be at work in the session. An entry that is too long to be read is dropped.
    """
    own = paths.transcript(session_id)
    for file in (own, *AGENTS[DEFAULT_AGENT].transcripts.beside(own)):
        with suppress(FileNotFoundError):
            _rewrite(paths.data, file, change)


def without_forgotten(tx: Tx, key: bytes, tool_uses: Collection[str], has_words: Callable[[str], bool]) -> Change:
    """Return the change that removes forgotten texts, sentences and tool uses, and texts with certain words."""

    def change(entry: Mapping[str, Any], at: str) -> Mapping[str, Any]:
        texts = {text: text for text in transcript_gate.values(entry) if isinstance(text, str)}
        whole = forgotten.without(tx, key, texts, at)
        left = forgotten.redacted(tx, key, whole, at)

        def shorten(text: str) -> str:
            is_gone = text in texts and (text not in left or has_words(text))
            return "" if is_gone else str(left.get(text, text))

        return transcript_gate.changed(entry, shorten, tool_uses)

    return change


def _rewrite(base: Path, file: Path, change: Change) -> None:
    """Write a file again, under a name of its own until it is whole. Links on the way to it are not followed."""
    *folders, name = file.relative_to(base).parts
    folder, temporary = open_directory(base, *folders), f".{secrets.token_hex(8)}.tmp"
    try:
        with os.fdopen(open_regular(name, within=folder), "rb") as source:
            if os.fstat(source.fileno()).st_size > MAX_BYTES:
                return
            with os.fdopen(create_regular(temporary, folder), "wb") as out:
                is_changed = _copy(source, out, change)
        if is_changed:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        os.close(folder)


def _copy(source: IO[bytes], out: IO[bytes], change: Change) -> bool:
    """Copy the lines of a transcript, and change them. Return whether one of them was changed."""
    is_changed, at = False, ids.now()
    for _, size, line in read_lines(source, 0, True):
        entry, written = parsed(line), line
        if entry is not None:
            stamp = entry.get("timestamp")
            at = stamp if isinstance(stamp, str) else at  # an entry without a time belongs to the last message
            if (left := change(entry, at)) != entry:
                written = transcript_gate.dumped(left).encode() + b"\n"
        is_changed = is_changed or written != line or len(line) != size
        out.write(written)
    out.flush()
    os.fsync(out.fileno())
    return is_changed
