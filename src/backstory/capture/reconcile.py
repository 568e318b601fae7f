"""Reads transcripts in the background and adds the events that hooks missed. Each line is read once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from backstory import gate, ids
from backstory.agents import AGENTS
from backstory.agents.transcripts import Mark, TranscriptState
from backstory.capture.backfill import Backfill, report_batches
from backstory.capture.group_transcripts import in_group
from backstory.capture.intake import Roots, is_compacted
from backstory.capture.kept import KeptTranscripts, checked_path
from backstory.errors import StoreUnavailable
from backstory.jobs import Job
from backstory.model import Report, SessionStatus
from backstory.settings import Settings
from backstory.store import events, observations, sessions
from backstory.store import transcripts as stored
from backstory.store.db import Store, Tx
from backstory.store.index import chunks
from backstory.store.migrate import created_at
from backstory.store.transcripts import ReadTranscript

log = logging.getLogger(__name__)
READER = "reconcile"
#: Seconds without a change after which a transcript, and its last round, count as ended.
QUIET_S = 600.0
#: Seconds until a transcript is read again, because the agent writes its last lines after it has called the hooks.
READ_AGAIN_S = 3.0
#: Maximum transcripts whose position is remembered for `store_prompts`.
MAX_POSITIONS = 64


@dataclass(frozen=True, slots=True)
class TranscriptRequest:
    """A transcript to read."""

    agent: str
    path: Path
    session_id: int | None = None  #: the session whose round waits until it is read
    is_second: bool = False
    ended_id: int | None = None  #: the session, if it has ended


class Reconcile:
    """Reads one transcript at a time: those of active sessions first, then those that changed without a worker."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        backfill: Backfill,
        roots: Roots,
        wake: Callable[[], None],
        after: asyncio.Event,
        kept: KeptTranscripts,
        caught_up: asyncio.Event,
    ) -> None:
        self._settings, self._store, self._backfill = settings, store, backfill
        self._roots, self._wake, self._kept = roots, wake, kept
        self._requests: dict[TranscriptRequest, None] = {}
        self._requested = asyncio.Event()
        self._after = after  #: set when the spool is empty: its reports come first
        self._caught_up = caught_up  #: set when the transcripts of these reports are read
        self.job = Job("reconcile", self._run)
        #: transcript -> its inode, and how far `store_prompts` has read it
        self._positions: dict[Path, tuple[int, Mark]] = {}

    def soon(self, report: Report, session_id: int | None) -> None:
        """Have a report's transcript read soon if it ends a round, a session or a context window."""
        if (report.kind in ("stop", "pre_compact", "session_end") or is_compacted(report)) and report.transcript_path:
            ended_id = session_id if report.kind == "session_end" else None
            self._want(TranscriptRequest(report.agent, Path(report.transcript_path), session_id, ended_id=ended_id))

    def read(self, report: Report) -> None:
        """Have a report's transcript read, because the report lacks its contents."""
        if report.transcript_path:
            self._want(TranscriptRequest(report.agent, Path(report.transcript_path)))

    async def store_prompts(self, report: Report) -> bool:
        """Store the prompts of a report's transcript that hooks missed. Return False if there is no transcript."""
        path = Path(report.transcript_path) if report.transcript_path else None
        file = path and await asyncio.to_thread(self._checked_path, report.agent, path)
        if file is None:
            return False
        try:
            prompts = await asyncio.to_thread(self._read_prompts, file, report.agent)
        except OSError as error:
            log.warning("a transcript could not be read (%s)", type(error).__name__)
            return True  # it exists and may be read later
        for batch in report_batches(prompts):
            await self._backfill.take(batch)
        return True

    def _read_prompts(self, file: Path, agent: str) -> list[Report]:
        """Return the prompts since the last call."""
        transcripts = AGENTS[agent].transcripts
        now = transcripts.state(file)
        inode, mark = self._positions.pop(file, (0, Mark()))
        if inode != now.inode or mark.offset > now.size:
            mark = _mark(self._last_read(file), now)
        reading, since = transcripts.read(file, Mark(mark.offset), False), self._since(agent)
        reports = in_group(self._settings.paths.data, file, reading)
        prompts = [report for report in reports if report.kind == "prompt" and report.occurred_at >= since]
        self._positions[file] = (now.inode, reading.place)
        while len(self._positions) > MAX_POSITIONS:
            del self._positions[next(iter(self._positions))]
        return prompts

    def _want(self, request: TranscriptRequest) -> None:
        self._requests[request] = None
        self._requested.set()

    async def _run(self) -> None:
        await self._after.wait()
        await self._read_requested()
        self._caught_up.set()
        changed = iter(await asyncio.to_thread(self._changed))
        while True:
            self._requested.clear()
            await self._read_requested()
            if (older := next(changed, None)) is None:
                await self._requested.wait()
            else:
                await self.read_now(older)

    async def _read_requested(self) -> None:
        while self._requests:
            request = next(iter(self._requests))
            del self._requests[request]
            await self.read_now(request)
            self._kept.soon(request.agent, request.path)
            if not request.is_second:
                later = replace(request, session_id=None, is_second=True)
                asyncio.get_running_loop().call_later(READ_AGAIN_S, self._want, later)

    async def read_now(self, request: TranscriptRequest) -> None:
        """Read a transcript, and release the round that waits for it."""
        try:
            added = await self._read(request)
            if added:
                log.info("%d events that hooks had missed were added from a transcript", added)
        except StoreUnavailable as error:
            log.warning("a transcript was not taken in: %s", error)
        except Exception as error:
            # Only the type is logged: the text of the error may quote the transcript.
            log.warning("a transcript could not be read (%s)", type(error).__name__)
        finally:
            if request.session_id is not None:
                number = request.session_id
                with contextlib.suppress(StoreUnavailable):
                    await self._write(lambda tx: _close(tx, number))
                self._wake()

    async def _read(self, request: TranscriptRequest) -> int:
        file = await asyncio.to_thread(self._checked_path, request.agent, request.path)
        if file is None:
            return 0
        transcripts = AGENTS[request.agent].transcripts
        since = await asyncio.to_thread(self._since, request.agent)
        is_over = request.is_second and await asyncio.to_thread(self._is_over, request.ended_id)
        counts: Counter[str] = Counter()
        for part in (file, *await asyncio.to_thread(transcripts.beside, file)):
            checked = await asyncio.to_thread(self._checked_path, request.agent, part)
            if checked is not None:
                counts += await self._read_one(request.agent, checked, since, is_over)
        return counts["added"]

    def _is_over(self, session_id: int | None) -> bool:
        """Whether a session has ended and was not resumed. Its last round has ended, too, even without a reply."""
        session = self._store.read(lambda tx: sessions.by_id(tx, session_id)) if session_id is not None else None
        return session is not None and session.status == SessionStatus.COMPLETED

    async def _read_one(self, agent: str, file: Path, since: str, is_over: bool) -> Counter[str]:
        """Read on from where the last pass ended. The new place is kept when everything before it is stored."""
        transcripts = AGENTS[agent].transcripts
        before = await asyncio.to_thread(transcripts.state, file)
        known = await asyncio.to_thread(self._last_read, file)
        if known and (known.inode, known.size, known.changed_ns) == (before.inode, before.size, before.changed_ns):
            return Counter()
        quiet = time.time() - before.changed_ns / 1e9 > QUIET_S
        reading = transcripts.read(file, _mark(known, before), quiet or is_over)
        reports = in_group(self._settings.paths.data, file, reading)
        pieces = report_batches(report for report in reports if report.occurred_at >= since)
        counts: Counter[str] = Counter()
        while batch := await asyncio.to_thread(next, pieces, None):
            counts += await self._backfill.take(batch)
        changed_ns = before.changed_ns if reading.ended else 0  # 0: read it again even if it does not change
        mark = reading.mark
        read = ReadTranscript(READER, _name(file), before.inode, before.size, changed_ns, mark.offset, mark.prompt)
        await self._write(lambda tx: stored.put(tx, read))
        return counts

    def _last_read(self, file: Path) -> ReadTranscript | None:
        return self._store.read(lambda tx: stored.find(tx, READER, _name(file)))

    async def _write(self, work: Callable[[Tx], object]) -> None:
        await asyncio.wrap_future(self._store.submit(work))

    def _checked_path(self, agent: str, path: Path) -> Path | None:
        return checked_path(self._roots, agent, path)

    def _since(self, agent: str) -> str:
        """Return the moment from which reports are taken: the install, or else the creation of the database."""
        if (installed := installed_ns(self._settings, agent)) is not None:
            return ids.from_ms(installed // 1_000_000)
        return self._store.read(created_at)

    def _changed(self) -> list[TranscriptRequest]:
        """Return the transcripts to read at the start: those of open sessions, and those newer than the install."""
        requests: dict[TranscriptRequest, None] = {}
        for agent in AGENTS:
            requests |= dict.fromkeys(TranscriptRequest(agent, path) for path in self._of_open(agent))
            installed = installed_ns(self._settings, agent)
            if installed is not None:
                requests |= dict.fromkeys(TranscriptRequest(agent, path) for path in self._newer(agent, installed))
        return list(requests)

    def _of_open(self, agent: str) -> list[Path]:
        return [Path(path) for path in self._store.read(lambda tx: sessions.open_transcripts(tx, agent))]

    def _newer(self, agent: str, installed: int) -> Iterator[Path]:
        stats = []
        for root in self._roots.get(agent, ()):
            for path in AGENTS[agent].transcripts.find(root):
                with contextlib.suppress(OSError):
                    stats.append((path.stat().st_mtime_ns, path))
        yield from (path for changed, path in sorted(stats, reverse=True) if changed >= installed)


def _close(tx: Tx, number: int) -> None:
    """Release a round after its transcript was read. Its last message is kept even if the transcript lacks it."""
    events.close_round(tx, number)
    if session := sessions.by_id(tx, number):
        observations.end_round(tx, session)
        chunks.extend(tx, session)


def installed_ns(settings: Settings, agent: str) -> int | None:
    """Return when backstory was installed for an agent, by the oldest record of it."""
    times = []
    with contextlib.suppress(OSError):
        for record in settings.paths.installs.glob(f"{agent}-*.json"):
            times.append(record.stat().st_mtime_ns)
    return min(times, default=None)


def _name(file: Path) -> str:
    """Return the path of a transcript as it is stored."""
    return gate.text(str(file))


def _mark(known: ReadTranscript | None, now: TranscriptState) -> Mark:
    """Return where to read on.

    A transcript is read from its beginning if it is another file under the same name, if it got shorter, or if its
    mark is damaged. Reports that are known are not added again.
    """
    if known is None or known.inode != now.inode:
        return Mark()
    offset, size, prompt = known.mark_offset, known.size, known.mark_prompt
    is_sound = isinstance(offset, int) and isinstance(size, int) and isinstance(prompt, str)
    return Mark(offset, prompt) if is_sound and 0 <= offset <= size <= now.size else Mark()
