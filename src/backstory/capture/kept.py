"""Keeps transcripts: copies the lines of the agent's files into the database, and follows the files as they grow."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from backstory import gate, ids, transcript_gate
from backstory.agents import AGENTS
from backstory.agents.transcripts import Keeping, Mark, TranscriptState
from backstory.batches import batches
from backstory.capture.intake import Intake, Roots
from backstory.capture.processes import processes
from backstory.errors import BadInput, NotFound, StoreUnavailable
from backstory.files import open_regular
from backstory.groups import names
from backstory.jobs import Job
from backstory.model import ContentId, Report, Session
from backstory.paths import is_observers
from backstory.project import Project
from backstory.store import kept, sessions
from backstory.store import transcripts as stored
from backstory.store.db import Store, Tx
from backstory.store.kept import KeptTranscript, TranscriptEntry, TranscriptKey
from backstory.store.transcripts import ReadTranscript
from backstory.truncate import written_size

log = logging.getLogger(__name__)
READER = "keep"
#: Seconds between two looks at the files of all kept transcripts. Hooks tell of most changes at once.
LOOK_S = 3600.0
#: Maximum entries in one transaction, so that other writers do not wait long.
MAX_ENTRIES = 100
#: Maximum characters of entries in one transaction.
MAX_CHARS = 1 << 20
#: Characters of entries that are cleaned together.
PIECE = 256 << 10
#: Bytes before the place where reading continues. They must not have changed.
COMPARED_BYTES = 4096


@dataclass(frozen=True, slots=True)
class _Part:
    """One file of a session: its transcript, or that of a subagent."""

    agent: str
    file: Path
    key: TranscriptKey
    private_ids: frozenset[str]  #: the agent's ids of private prompts


@dataclass(frozen=True, slots=True)
class _Read:
    """A line that was read."""

    end: int  #: the offset after it
    entry: TranscriptEntry | None  #: None if it is damaged, or not wanted
    is_damaged: bool
    is_private: bool  #: whether its round is


class KeptTranscripts:
    """Keeps the transcripts that the user has chosen, or all of them."""

    def __init__(self, store: Store, intake: Intake, roots: Roots, secret: bytes, after: asyncio.Event) -> None:
        self._store, self._intake, self._roots, self._secret = store, intake, roots, secret
        self._after = after  #: set when the spool is empty: its reports come first
        self._waiting: dict[tuple[str, Path], None] = {}
        self._wanted = asyncio.Event()
        self._copying = asyncio.Lock()  #: two passes over a file would both add the lines that have no id
        self.job = Job("kept transcripts", self._run)

    def soon(self, agent: str, path: Path) -> None:
        """Have a transcript read soon, because it has grown."""
        self._waiting[agent, path] = None
        self._wanted.set()

    async def keep(self, agent: str, path: Path) -> tuple[Session, Counter[str]]:
        """Keep a transcript from now on. Return its session, and how many entries were `added` and lines `damaged`."""
        file = await asyncio.to_thread(checked_path, self._roots, agent, path)
        if file is None or _keeping(agent) is None or self._is_in_group(file):
            raise NotFound("There is no such transcript.", "Give a file in the folder of the agent's transcripts.")
        session = await self._session(agent, file)
        if await asyncio.to_thread(self._store.read, lambda tx: kept.is_refused(tx, session)):
            raise BadInput(
                "This transcript is not kept, because a part of the session was forgotten.",
                "Forgotten text would come back with it.",
            )
        return session, await self._copy(agent, file, session)

    async def keep_session(self, agent: str, name: str) -> tuple[Session, Counter[str]]:
        """Keep the transcript of a session from now on, by our id, the agent's id or its beginning."""
        session = await asyncio.to_thread(self._store.read, lambda tx: _named(tx, name))
        file = await asyncio.to_thread(self._find, agent, name, session)
        if file is None and session is None:
            raise NotFound(f"There is no session {name[:80]}.", "`backstory sessions` lists them.")
        if file is None:
            raise NotFound(
                "The transcript of this session is not on this machine.",
                "The agent may have deleted it, or it is on another machine.",
            )
        return await self.keep(session.agent if session else agent, file)

    def _is_in_group(self, file: Path) -> bool:
        """Whether an agent in a group writes a file. Its transcripts are in the data directory, and stay there."""
        return names.of_path(self._intake.settings.paths.data, str(file)) is not None

    async def grow(self, agent: str, path: Path) -> None:
        """Read on in a transcript if it is kept. Never raises."""
        try:
            file = await asyncio.to_thread(checked_path, self._roots, agent, path)
            if file is None or _keeping(agent) is None or self._is_in_group(file):
                return
            session = await asyncio.to_thread(self._store.read, lambda tx: _kept_session(tx, agent, file))
            if session is not None:
                if not await self._intake.unwanted(_start_of(session), Project(session.project, session.project_key)):
                    await self._copy(agent, file, session)
            elif self._intake.settings.keep_transcripts == "all":
                with contextlib.suppress(NotFound, BadInput):  # it is empty, excluded or forgotten
                    await self.keep(agent, file)
        except StoreUnavailable as error:
            log.warning("a transcript was not kept: %s", error)
        except Exception as error:
            # Only the type is logged: the text of the error may quote the transcript.
            log.warning("a transcript could not be kept (%s)", type(error).__name__)

    async def append(self, key: TranscriptKey, entries: Sequence[Mapping[str, Any]]) -> int:
        """Add entries that a program hands over. Return how many are new."""

        known, private_ids = await asyncio.to_thread(self._store.read, lambda tx: _known(tx, key))
        is_private, clean = bool(known and known.is_private), list[TranscriptEntry]()
        for batch, size in await asyncio.to_thread(_pieces, entries):
            work = partial(_prepared, key.session.agent, batch, is_private, private_ids)
            more, is_private = await processes.run(work, size=size)
            clean += more
        return await self._intake.write(lambda tx: kept.append(tx, key, "sdk", clean, is_private, self._secret))

    async def session(self, agent: str, content_id: str, project_key: str, cwd: str) -> Session:
        """Return a session by the agent's id of it. It is created if it is unknown."""
        report = Report(agent, "session_start", ContentId(content_id), "", ids.now(), cwd=cwd)
        where = Project(project_key.rpartition("/")[2] or project_key, project_key)
        return await self._get_or_create(report, where)

    async def _session(self, agent: str, file: Path) -> Session:
        """Return the session of a file. It is created if it is unknown."""
        transcripts = AGENTS[agent].transcripts
        first = await asyncio.to_thread(lambda: next(iter(transcripts.read(file, Mark(), False)), None))
        if first is None:
            raise NotFound("There is nothing in this transcript yet.")
        where = replace(await self._intake.project(first.cwd), branch=first.git_branch)
        content_id = ContentId(_session_of(agent, file))
        return await self._get_or_create(replace(first, content_id=content_id, transcript_path=str(file)), where)

    async def _get_or_create(self, report: Report, where: Project) -> Session:
        if await self._intake.unwanted(report, where):
            raise BadInput("This project is excluded.", "See the setting `exclude_projects`.")
        agent, content_id = report.agent, report.content_id
        return await self._intake.write(
            lambda tx: sessions.by_content_id(tx, agent, content_id) or sessions.get_or_create(tx, report, where)
        )

    async def _run(self) -> None:
        await self._after.wait()
        while True:
            async for agent, file in self._files():
                await self._grow_wanted()
                await self.grow(agent, file)
            look_at = time.monotonic() + LOOK_S
            while (left := look_at - time.monotonic()) > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._wanted.wait()
                await self._grow_wanted()

    async def _grow_wanted(self) -> None:
        self._wanted.clear()
        while self._waiting:
            agent, path = next(iter(self._waiting))
            del self._waiting[agent, path]
            await self.grow(agent, path)

    async def _files(self) -> AsyncIterator[tuple[str, Path]]:
        """Yield the transcripts that are kept, or all of them."""
        for agent, row in AGENTS.items():
            known = await asyncio.to_thread(self._kept_ids, agent)
            for root in self._roots.get(agent, ()):
                for file in await asyncio.to_thread(list, row.transcripts.find(root)):
                    if _session_of(agent, file) in known or self._intake.settings.keep_transcripts == "all":
                        yield agent, file

    def _kept_ids(self, agent: str) -> set[str]:
        return self._store.read(lambda tx: kept.content_ids(tx, agent))

    def _find(self, agent: str, name: str, session: Session | None) -> Path | None:
        """Return the transcript of a session: where hooks said it is, or else wherever the agent keeps it."""
        agent, name = (session.agent, session.content_session_id) if session else (agent, name)
        if _keeping(agent) is None:
            return None
        path = session.transcript_path if session else None
        if path and (file := checked_path(self._roots, agent, Path(path))):
            return file
        for root in self._roots.get(agent, ()):
            for each in AGENTS[agent].transcripts.find(root):
                if _session_of(agent, each) == name:
                    return checked_path(self._roots, agent, each)
        return None

    async def _copy(self, agent: str, file: Path, session: Session) -> Counter[str]:
        """Copy what is new in a transcript and in those of its subagents."""
        async with self._copying:
            return await self._copy_parts(agent, file, session)

    async def _copy_parts(self, agent: str, file: Path, session: Session) -> Counter[str]:
        counts: Counter[str] = Counter()
        private_ids = await asyncio.to_thread(self._store.read, lambda tx: kept.private_prompt_ids(tx, session.id))
        for path in (file, *await asyncio.to_thread(AGENTS[agent].transcripts.beside, file)):
            keeping = _keeping(agent)
            checked = await asyncio.to_thread(checked_path, self._roots, agent, path)
            if checked is not None and keeping is not None:
                key = TranscriptKey(session, session.project_key, keeping.subpath(file, path))
                counts += await self._copy_part(_Part(agent, checked, key, private_ids))
        return counts

    async def _copy_part(self, part: _Part) -> Counter[str]:
        """Read on from where the last pass ended. The new place is stored together with what was read."""
        before = await asyncio.to_thread(AGENTS[part.agent].transcripts.state, part.file)
        name = gate.text(str(part.file))
        known = await asyncio.to_thread(self._store.read, lambda tx: _last_read(tx, name, part.key))
        if known and (known.inode, known.size, known.changed_ns) == (before.inode, before.size, before.changed_ns):
            return Counter()
        counts: Counter[str] = Counter()
        end = await asyncio.to_thread(_start, known, before, part.file)
        pieces = batches(self._lines(part, end), _size, MAX_ENTRIES, MAX_CHARS)
        while batch := await asyncio.to_thread(next, pieces, None):
            end = batch[-1].end
            counts["damaged"] += sum(line.is_damaged for line in batch)
            # Without the time of the change, because there is more to read.
            read = ReadTranscript(READER, name, before.inode, before.size, 0, end, _digest(part.file, end))
            counts["added"] += await self._intake.write(
                lambda tx, batch=batch, read=read: self._store_batch(tx, part, batch, read)  # type: ignore[misc]
            )
        changed_ns = before.changed_ns
        read = ReadTranscript(READER, name, before.inode, before.size, changed_ns, end, _digest(part.file, end))
        await self._intake.write(lambda tx: stored.put(tx, read))
        return counts

    def _store_batch(self, tx: Tx, part: _Part, batch: Sequence[_Read], read: ReadTranscript) -> int:
        entries = [line.entry for line in batch if line.entry is not None]
        added = kept.append(tx, part.key, "file", entries, batch[-1].is_private, self._secret)
        stored.put(tx, read)
        return added

    def _lines(self, part: _Part, start: int) -> Iterator[_Read]:
        """Read lines, clean them, and number those that have no id and say the same."""
        keeping = _keeping(part.agent)
        assert keeping is not None  # noqa: S101 - checked before
        known, _ = self._store.read(lambda tx: _known(tx, part.key))
        is_private, said, end = bool(start and known and known.is_private), Counter[str](), start
        # What has no id was handed over by the program already, unless the file is read from its beginning.
        ids_only = bool(start and known and known.source == "sdk")
        for line in keeping.lines(part.file, start):
            end = line.end
            if line.entry is None:
                yield _Read(end, None, True, is_private)
                continue
            made, is_private = keeping.clean(line.entry, is_private, part.private_ids)
            entry = TranscriptEntry(made)
            if not entry.has_id and not start:
                entry.nth = said[entry.mark]
                said[entry.mark] += 1
            yield _Read(end, None if ids_only and not entry.has_id else entry, False, is_private)
        if (about := keeping.about(part.file)) is not None:
            made, _ = keeping.clean(about, is_private, part.private_ids)
            yield _Read(end, TranscriptEntry(made, nth=0), False, is_private)


def checked_path(roots: Roots, agent: str, path: Path) -> Path | None:
    """Return the file of a transcript, links resolved, if it is under the roots of the agent."""
    try:
        file = path.resolve(strict=True)
        is_inside = any(file.is_relative_to(root.resolve()) for root in roots.get(agent, ()))
    except (OSError, ValueError, RuntimeError):
        return None
    wanted = is_inside and file.name.endswith(AGENTS[agent].transcripts.suffixes[0]) and not is_observers(file)
    return file if wanted and file.is_file() else None


def _keeping(agent: str) -> Keeping | None:
    return AGENTS[agent].transcripts.keeping if agent in AGENTS else None


def _session_of(agent: str, file: Path) -> str:
    keeping = _keeping(agent)
    return keeping.session_of(file) if keeping else ""


def _length(entry: Mapping[str, Any]) -> int:
    try:
        return written_size(entry)
    except RecursionError:
        return PIECE  # it is nested too deeply to be kept


def _pieces(entries: Sequence[Mapping[str, Any]]) -> list[tuple[list[Mapping[str, Any]], int]]:
    """Return batches of entries, each with its size."""
    return [(batch, sum(map(_length, batch))) for batch in batches(entries, _length, MAX_ENTRIES, PIECE)]


def _prepared(
    agent: str, entries: Sequence[Mapping[str, Any]], is_private: bool, private_ids: frozenset[str]
) -> tuple[list[TranscriptEntry], bool]:
    clean = []
    for entry in entries:
        made, is_private = _clean(agent, entry, is_private, private_ids)
        clean.append(TranscriptEntry(made))
    return clean, is_private


def _clean(
    agent: str, entry: Mapping[str, Any], is_private: bool, private_ids: frozenset[str]
) -> tuple[dict[str, Any], bool]:
    """Clean an entry in the way of its agent."""
    keeping = _keeping(agent)
    return keeping.clean(entry, is_private, private_ids) if keeping else (transcript_gate.clean(entry), False)


def _known(tx: Tx, key: TranscriptKey) -> tuple[KeptTranscript | None, frozenset[str]]:
    return kept.find(tx, key), kept.private_prompt_ids(tx, key.session.id)


def _kept_session(tx: Tx, agent: str, file: Path) -> Session | None:
    """Return the session of a file if its transcript is kept."""
    session = sessions.by_content_id(tx, agent, ContentId(_session_of(agent, file)))
    return session if session and kept.of_session(tx, session.id) else None


def _named(tx: Tx, name: str) -> Session | None:
    """Return a session by our id, the agent's id or its beginning."""
    number = ids.number(name)
    return (None if number is None else sessions.by_id(tx, number)) or sessions.by_prefix(tx, name)


def _start_of(session: Session) -> Report:
    """Return a report of a session, to ask whether it is wanted."""
    return Report(session.agent, "session_start", session.content_session_id, "", ids.now(), cwd=session.cwd)


def _last_read(tx: Tx, name: str, key: TranscriptKey) -> ReadTranscript | None:
    """Return how far a file was read. One that is kept no more, or again, is read from its beginning."""
    return stored.find(tx, READER, name) if kept.find(tx, key) else None


def _size(line: _Read) -> int:
    return len(line.entry.payload) if line.entry else 0


def _start(known: ReadTranscript | None, now: TranscriptState, file: Path) -> int:
    """Return where to read on: after what was read, or at the beginning of another file of the same name.

    A file that was deleted and restored may have the same inode, so the last bytes are compared, too.
    """
    if known is None or known.inode != now.inode or known.mark_offset > now.size:
        return 0
    return known.mark_offset if known.mark_prompt == _digest(file, known.mark_offset) else 0


def _digest(file: Path, offset: int) -> str:
    """Return a digest of the bytes before an offset."""
    start = max(offset - COMPARED_BYTES, 0)
    with os.fdopen(open_regular(file), "rb") as source:
        source.seek(start)
        return hashlib.sha256(source.read(offset - start)).hexdigest()
