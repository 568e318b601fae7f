"""Writes conversations of a group as markdown, from the agent's transcripts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from backstory import ids
from backstory.agents.claude_code.transcript import Transcript
from backstory.agents.transcripts import MAX_BYTES
from backstory.errors import BadInput
from backstory.files import create_regular, open_below, open_directory, open_regular, read_regular
from backstory.groups import saved_messages
from backstory.groups.names import GroupPaths
from backstory.groups.saved_messages import ArchivedMessage, Redact
from backstory.model import Report
from backstory.store import forgotten, groups
from backstory.store.db import Store, Tx
from backstory.store.groups import UNTITLED, Archive, Leaving
from backstory.text import cut, one_line

log = logging.getLogger(__name__)
#: Characters of a message. The rest is cut off.
MAX_MESSAGE = 2000
#: Bytes of an archive that are shown.
MAX_FILE = 4 << 20
#: Characters of the title in the name of a file.
MAX_SLUG = 50
#: Characters of a title that is made from a prompt.
MAX_TITLE = 60
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class TranscriptScan:
    """What a transcript says about a session, without its messages."""

    title: str = ""  #: given in the agent, else made by it, else the beginning of the first prompt
    created_at: str = ""  #: empty if there is no message
    last_mark: str | None = None  #: the last message


class Archives:
    """Writes the archives of all groups. A conversation that goes on is written in parts, so no text stands twice."""

    def __init__(self, store: Store, data: Path, assistant_name: str, forgotten_key: bytes = b"") -> None:
        self._store, self._data, self._assistant, self._key = store, data, assistant_name, forgotten_key
        self.locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  #: one archiver a group

    async def write(self, group: str, session_id: str, title: str | None = None, cause: str = "asked") -> Path | None:
        """Write what is new in a conversation since its last archive. Return the file; None if there is nothing new."""
        GroupPaths(self._data, group)
        async with self.locks[group]:
            leaving = await asyncio.to_thread(self.describe, group, session_id, title, cause)
            made = await asyncio.wrap_future(self._store.submit(lambda tx: groups.request_archive(tx, group, leaving)))
            written = await self.write_requested(group)
        return written.get(made.id) if made else None

    def describe(self, group: str, session_id: str, title: str | None, cause: str) -> Leaving:
        """Read what the history and the archive of a session need to know. Blocks."""
        paths = GroupPaths(self._data, group)

        def work(tx: Tx) -> Leaving:
            redact, before = self._redacting(tx), groups.last_mark(tx, group, session_id)
            began = saved_messages.began(tx, paths, session_id)
            found = scan(paths, session_id, redact)
            if found.last_mark is None:
                found = _scan_saved(tx, paths, session_id, redact)
            name = one_line(title or "") or began.name or found.title or UNTITLED
            at = began.created_at or found.created_at or saved_messages.created_at(tx, session_id) or ids.now()
            return Leaving(session_id, name, at, cause, found.last_mark, before)

        return self._store.read(work)

    async def write_requested(self, group: str) -> dict[int, Path]:
        """Write the archives that were requested, also those of a worker that was killed. Return id -> file."""
        return await asyncio.to_thread(self.write_requested_now, group)

    def write_requested_now(self, group: str) -> dict[int, Path]:
        """The same. Blocks."""
        paths, written = GroupPaths(self._data, group), {}
        for archive in self._store.read(lambda tx: groups.unwritten_archives(tx, group)):
            try:
                name = self._write(paths, archive)
            except (OSError, BadInput) as error:  # an imported row can have any id
                log.warning("An archive of the group %s could not be written: %s", group, type(error).__name__)
                continue
            if name:
                written[archive.id] = paths.conversations / name
        return written

    def _write(self, paths: GroupPaths, archive: Archive) -> str | None:
        """Write a file under a name that is free. One that was written before the worker was killed is recognised."""
        if next(self.messages(paths, archive), None) is None:
            self._store.write(lambda tx: groups.remove_archive(tx, archive))
            return None
        folder = open_directory(paths.data, "groups", paths.group, "conversations", create=True)
        temporary = f".{secrets.token_hex(8)}.tmp"
        try:
            try:
                handle = create_regular(temporary, folder, 0o644)
                with os.fdopen(handle, "w", encoding="utf-8", newline="") as out:
                    for part in rendered(archive, self._left(paths, archive), self._assistant):
                        out.write(part)
                    out.flush()
                    os.fsync(handle)
                return self._name(folder, temporary, archive)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
        finally:
            os.close(folder)

    def messages(self, paths: GroupPaths, archive: Archive) -> Iterator[ArchivedMessage]:
        """Yield the messages of an archive: from the transcript, or from what is saved if that is gone."""
        if is_available(paths, archive.session_id):
            return messages_of(paths, archive)
        return iter(self._store.read(lambda tx: saved_messages.part(tx, paths, archive)))

    def _left(self, paths: GroupPaths, archive: Archive) -> Iterator[ArchivedMessage]:
        """Yield the messages of an archive without what was forgotten."""
        is_any = self._store.read(forgotten.is_any)
        for said in self.messages(paths, archive):
            left = self._store.read(lambda tx, said=said: self.redacted(tx, said)) if is_any else said  # type: ignore[misc]
            if left:
                yield left

    def _redacting(self, tx: Tx) -> Redact:
        """Return `redacted`, or what does nothing if nothing was ever forgotten."""
        return partial(self.redacted, tx) if forgotten.is_any(tx) else lambda said: said

    def redacted(self, tx: Tx, said: ArchivedMessage) -> ArchivedMessage | None:
        """Return a message without what was forgotten: the same if nothing was, None if nothing is left."""
        if forgotten.has(tx, self._key, said.text, said.at):
            return None
        left = forgotten.cut(tx, self._key, said.text, said.at)
        if left == said.text:
            return said
        return replace(said, text=left.strip()) if left.strip() else None

    async def write_all_requested(self) -> None:
        """Write what a worker that was killed has left."""
        for group in await asyncio.to_thread(self._store.read, groups.with_unwritten_archives):
            async with self.locks[group]:
                with contextlib.suppress(BadInput, OSError):  # an imported group can have any name
                    await asyncio.to_thread(self._remove_temporary, GroupPaths(self._data, group))
                    await self.write_requested(group)

    def _remove_temporary(self, paths: GroupPaths) -> None:
        """Remove the files that a worker which was killed has not finished."""
        folder = open_directory(paths.data, "groups", paths.group, "conversations", create=True)
        try:
            with os.scandir(folder) as entries:
                for name in [entry.name for entry in entries if _TEMPORARY.fullmatch(entry.name)]:
                    with contextlib.suppress(OSError):
                        os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)

    def _name(self, folder: int, temporary: str, archive: Archive) -> str:
        """Give the temporary file its name, and note it."""
        for name in file_names(archive):
            try:
                os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                if not _is_same(folder, temporary, name):
                    continue
            if self._store.write(lambda tx, name=name: _take_name(tx, archive, name)):  # type: ignore[misc]
                return name
        raise AssertionError("unreachable")


def _take_name(tx: Tx, archive: Archive, name: str) -> bool:
    """Note the name of an archive. Another process may have written the same archive at the same time."""
    if (known := groups.archive_id(tx, archive.group_folder, name)) is None:
        groups.set_archive_file(tx, archive, name)
    return known in (None, archive.id)


def _is_same(folder: int, one: str, other: str) -> bool:
    """Whether two files have the same contents."""
    try:
        with (
            os.fdopen(open_regular(one, within=folder), "rb") as first,
            os.fdopen(open_regular(other, within=folder), "rb") as second,
        ):
            while (chunk := first.read(1 << 16)) == second.read(1 << 16):
                if not chunk:
                    return True
    except OSError:
        return False
    return False


def read_file(paths: GroupPaths, name: str) -> str:
    """Read an archive. A sandbox can write to its directory, so no link is followed."""
    folder = open_directory(paths.data, "groups", paths.group, "conversations")
    try:
        return read_regular(name, MAX_FILE, within=folder).decode("utf-8", "replace")
    finally:
        os.close(folder)


@contextmanager
def opened_transcript(paths: GroupPaths, session_id: str) -> Iterator[Path | None]:
    """Open the transcript of a session. A sandbox could have placed a link on the way to it: none is followed."""
    try:
        handle = open_below(paths.data, paths.transcript(session_id))
    except OSError:
        yield None
        return
    try:
        yield Path(f"/dev/fd/{handle}") if 0 < os.fstat(handle).st_size <= MAX_BYTES else None
    finally:
        os.close(handle)


def is_available(paths: GroupPaths, session_id: str) -> bool:
    """Whether a session has a transcript that can be resumed."""
    with opened_transcript(paths, session_id) as path:
        return path is not None


def scan(paths: GroupPaths, session_id: str, redact: Redact = lambda said: said) -> TranscriptScan:
    """Read a transcript for its title, its beginning and its end. No title is made from what was forgotten."""
    titles: dict[str, str] = {}
    first, asked, last = None, None, None
    has_hidden = False
    with opened_transcript(paths, session_id) as path:
        if path is None:
            return TranscriptScan()
        for report in _reports(path):
            if report.kind == "title":
                titles[str(report.payload.get("source"))] = str(report.payload.get("title") or "")
            elif said := _said(report):
                left = redact(said) if said.text else None
                has_hidden = has_hidden or left is not said
                first = first or said
                asked = asked or (left if said.role == "user" else None)
                last = said if said.text else last
    # The agent makes its title from all prompts, the private ones too.
    made = "" if has_hidden else titles.get("agent", "")
    given = ArchivedMessage("", "user", titles.get("custom", ""), "")
    title = given.text if redact(given) is given else ""
    title = title or made or cut(one_line(asked.text if asked else ""), MAX_TITLE)
    return TranscriptScan(title, first.at if first else "", last.mark if last else None)


def _scan_saved(tx: Tx, paths: GroupPaths, session_id: str, redact: Redact) -> TranscriptScan:
    """Return the same of a session whose transcript is gone, from what is saved of it."""
    if not (said := saved_messages.messages(tx, paths, session_id)):
        return TranscriptScan(saved_messages.title(tx, paths, session_id))
    asked = next((left for each in said if each.role == "user" and (left := redact(each))), None)
    made = cut(one_line(asked.text if asked else ""), MAX_TITLE)
    return TranscriptScan(saved_messages.title(tx, paths, session_id) or made, said[0].at, said[-1].mark)


def messages_of(paths: GroupPaths, archive: Archive) -> Iterator[ArchivedMessage]:
    """Yield the messages of an archive."""
    with opened_transcript(paths, archive.session_id) as path:
        if path is None:
            return
        is_inside = archive.after_mark is None
        is_private = False
        for report in _reports(path):
            said = _said(report)
            if said is None:
                continue
            if said.role == "user":
                is_private = not said.text
            if is_inside and said.text and not is_private:
                yield said
            is_inside = is_inside or said.mark == archive.after_mark
            if said.mark == archive.last_mark:
                return


def _reports(path: Path) -> Iterator[Report]:
    return iter(Transcript(path, whole=True, queued=True))


def _said(report: Report) -> ArchivedMessage | None:
    """Return the message that a report tells; None if it tells something else. A private one has no text."""
    if report.kind not in ("prompt", "reply") or report.is_notification:
        return None
    role, name = ("user", "prompt") if report.kind == "prompt" else ("assistant", "text")
    text = report.payload.get(name)
    return ArchivedMessage(report.event_id, role, text.strip() if isinstance(text, str) else "", report.occurred_at)


def rendered(archive: Archive, messages: Iterator[ArchivedMessage], assistant_name: str) -> Iterator[str]:
    """Yield an archive as markdown."""
    yield f"# {archive.title}\n\nArchived: {_moment(archive.archived_at)}\n\n---\n\n"
    is_first = True
    for said in messages:
        name = "User" if said.role == "user" else assistant_name
        text = said.text if len(said.text) <= MAX_MESSAGE else said.text[:MAX_MESSAGE] + "..."
        yield f"{'' if is_first else chr(10)}**{name}**: {text}\n"
        is_first = False


def _local(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp).astimezone()


def _moment(stamp: str) -> str:
    """Format a time as in `Feb 21, 3:39 AM`, whatever the language of this machine."""
    at = _local(stamp)
    return f"{_MONTHS[at.month - 1]} {at.day}, {at.hour % 12 or 12}:{at.minute:02} {'AM' if at.hour < 12 else 'PM'}"


def file_names(archive: Archive) -> Iterator[str]:
    """Yield the names that a file may have: `2026-02-21-tax-research.md`, then `2026-02-21-tax-research-2.md` …"""
    at, words = _local(archive.archived_at), slug(archive.title)
    stem = f"{at:%Y-%m-%d}-{words or f'conversation-{at:%H%M}'}"
    yield f"{stem}.md"
    number = 2
    while True:
        yield f"{stem}-{number}.md"
        number += 1


def slug(title: str) -> str:
    """Return a title as a part of a name of a file."""
    words = re.sub(r"[\W_]+", "-", unicodedata.normalize("NFC", title).lower()).strip("-")
    if words == UNTITLED.lower():
        return ""
    while len(words) > MAX_SLUG or len(words.encode()) > 4 * MAX_SLUG:
        words = words[: min(MAX_SLUG, len(words) - 1)]
    return words.strip("-")
