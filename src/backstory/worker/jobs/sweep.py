"""The sweep: pauses idle sessions, and expires those of the Python API. It never touches a session at work."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from backstory import ids
from backstory.capture.intake import Announce
from backstory.errors import BadInput, SessionBusy, SessionUnreadable, StoreUnavailable
from backstory.groups.archive import Archives
from backstory.jobs import Job
from backstory.live_settings import LiveSettings
from backstory.model import Session, SessionStatus
from backstory.project import group_of
from backstory.sessions import lock, session_file, states
from backstory.sessions.session_file import Metadata
from backstory.settings import Settings
from backstory.store import idle_sessions, sessions
from backstory.store.db import Store
from backstory.worker.session_archives import SessionArchives

log = logging.getLogger(__name__)
#: Seconds between two looks at the settings, at most.
LOOK_S = 5.0
#: Sessions that are read at once.
PAGE = 100
#: How a run ended while the worker was away: status in the file of a session -> cause.
ENDED = {SessionStatus.COMPLETED: "end_turn", SessionStatus.FAILED: "fail"}
#: Finds sessions without an event `since` a moment, with an id `after` the last page's.
Find = Callable[..., list[Session]]


@dataclass(frozen=True, slots=True)
class Swept:
    """The sessions that a sweep has moved, by our ids."""

    paused: list[int]
    expired: list[int]


class Sweep:
    """A job that looks for idle sessions every `sweep_minutes`."""

    def __init__(
        self, settings: Settings, store: Store, archives: Archives | None = None, announce: Announce = lambda *_: None
    ) -> None:
        self._settings, self._paths = LiveSettings(settings), settings.paths
        self._store, self._archives, self._announce = store, archives, announce
        self.job = Job("sweep", self._repeat, self._end)
        self.session_archives = SessionArchives(settings.paths, store, settings.assistant_name)
        self._stopping = False

    async def _end(self) -> None:
        self._stopping = True

    async def _repeat(self) -> None:
        last = time.monotonic()  # the transcripts of open sessions are read first, after a start
        while True:
            pause_s = self._settings().sweep_minutes * 60
            await asyncio.sleep(min(pause_s or LOOK_S, LOOK_S))
            if not pause_s or time.monotonic() < last + pause_s:
                continue
            last = time.monotonic()
            try:
                swept = await asyncio.to_thread(self.run, ids.now_ms())
                await self._tell([*swept.paused, *swept.expired])
                await self.archive(swept.expired)
            except StoreUnavailable as error:
                log.warning("the sweep has to wait: %s", error)

    def run(self, now_ms: int) -> Swept:
        """Move the sessions that are idle at a moment: first from active to paused, then from paused to expired."""
        chosen = self._settings()
        return Swept(
            paused=self._sweep(idle_sessions.active, "idle", chosen.pause_minutes, now_ms),
            expired=self._sweep(idle_sessions.paused_agents, "timeout", chosen.expire_minutes, now_ms),
        )

    async def _tell(self, moved: list[int]) -> None:
        """Announce the new states of sessions."""
        known = await asyncio.to_thread(self._store.read, lambda tx: sessions.by_ids(tx, moved)) if moved else {}
        for one in known.values():
            self._announce("session", {"id": one.id, "project_key": one.project_key, "status": one.status})

    async def archive(self, expired: list[int]) -> None:
        """Write the expired sessions of groups as markdown."""
        known = await asyncio.to_thread(self._store.read, lambda tx: sessions.by_ids(tx, expired))
        for session in known.values():
            if self._archives and (group := group_of(session.project_key)):
                try:
                    await self._archives.write(group, session.content_session_id, cause="expire")
                except (BadInput, OSError) as error:
                    log.warning("an expired session of %s was not archived: %s", group, type(error).__name__)

    def _sweep(self, find: Find, cause: str, minutes: float, now_ms: int) -> list[int]:
        """Apply a cause to the sessions without an event for some minutes. Return those that it has moved."""
        moved: list[int] = []
        target = states.MOVES[cause].to
        since, after = ids.from_ms(now_ms - int(minutes * 60_000)), 0
        while minutes and not self._stopping:
            page = self._store.read(partial(find, since=since, after=after, limit=PAGE))
            moved += [session.id for session in page if self._move(session, cause, since, now_ms) == target]
            if len(page) < PAGE:
                break
            after = page[-1].id
        return moved

    def _move(self, session: Session, cause: str, since: str, now_ms: int) -> SessionStatus | None:
        """Move a session, unless it is at work. One with a directory is at work while somebody holds its lock."""
        name, work = session.content_session_id, partial(idle_sessions.move, number=session.id)
        work = partial(work, since=since, now_ms=now_ms)
        if not session_file.has_folder(self._paths, name):
            # The lock of a session of the Python API may be on another machine, so such a session is not expired here.
            return self._store.write(partial(work, cause=cause)) if cause == "idle" else None
        try:
            with lock.hold(self._paths, name, wait_s=0):
                known = self._metadata(session)
                if known and known.last_message_at >= since:
                    return None
                if known and known.last_message_at > session.last_event_at:
                    cause = ENDED.get(known.status, cause)
                if cause == "timeout" and not group_of(session.project_key):
                    self._archive(name)  # first, because a worker that is killed in between looks at it again
                if status := self._store.write(partial(work, cause=cause, is_locked=True)):
                    self._write_status(session, status)
                return status
        except SessionBusy:
            return None
        except OSError as error:
            log.warning("session %s could not be locked: %s", session.id, type(error).__name__)
            return None

    def _archive(self, name: str) -> None:
        """Write a session that expires as markdown."""
        try:
            self.session_archives.write(name)
        except OSError as error:
            log.warning("session %s expires and was not archived: %s", name, type(error).__name__)

    def _metadata(self, session: Session) -> Metadata | None:
        """Return what the file of a session says. It is newer than the store if the worker was away during a run."""
        try:
            return session_file.read_metadata(self._paths, session.content_session_id)
        except SessionUnreadable:
            return None

    def _write_status(self, session: Session, status: SessionStatus) -> None:
        try:
            session_file.set_status(self._paths, session.content_session_id, status)
        except (SessionUnreadable, OSError) as error:
            log.warning("the file of session %s could not be written: %s", session.id, type(error).__name__)
