"""Looks after the files while the worker runs: a checked backup a day, and a database that is damaged or removed."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal

from backstory import ids
from backstory.errors import StoreUnavailable
from backstory.jobs import Job
from backstory.settings import Settings
from backstory.store import backups, payloads
from backstory.store.db import Store

log = logging.getLogger(__name__)

LOOK_S = 2.0  #: so long at the most what is committed is in SQLite's log alone
SHED_MS = 3_600_000
REJECTED = 1000  #: files in spool/rejected that are kept at the most


class Maintenance:
    """A task that looks now and then: one or two listings of small folders."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._paths, self._store = settings, settings.paths, store
        self._shed_to, self._shed_at = 0, 0
        self.job = Job("care", self._watch, self._end)
        self._stopping = False
        self.damaged = False  #: the database has to be mended, which takes a new start

    async def _end(self) -> None:
        self._stopping = True

    async def _watch(self) -> None:
        pause = min(LOOK_S, self._settings.backup_hours * 3600 or LOOK_S)
        while not self.damaged:
            # Files change without a word to us, so this looks by the clock.
            await asyncio.sleep(pause)
            try:
                await asyncio.to_thread(self.look)
            except (StoreUnavailable, InterruptedError, OSError) as error:
                log.warning("the backup has to wait: %s", type(error).__name__)
        # As if somebody had told us to stop; `process.run` mends and starts again.
        os.kill(os.getpid(), signal.SIGTERM)

    def look(self) -> None:
        """Back up if it is time to; say so if the database is damaged."""
        self._checkpoint()
        if self.damaged:
            return
        self._prune()
        self._shed()
        paths = self._paths
        if self._settings.database_url or not paths.database.exists():
            return
        try:
            if not self._back_up() and paths.suspect.exists():
                self._doubt()
        except backups.Damaged as error:
            log.error("%s", error)
            paths.suspect.touch(mode=0o600)
            self.damaged = True

    def _back_up(self) -> bool:
        """Take the daily backup, if it is time to; whether it was."""
        with backups.TURN:
            is_due = backups.is_due(self._paths.backups, self._settings.backup_hours) and self._has_room()
            if is_due:
                backups.take(self._paths.database, "daily", lambda: self._stopping)
        return is_due

    def _checkpoint(self) -> None:
        """What is committed goes into the file; if the files were removed, a new start puts them back."""
        try:
            self._store.checkpoint()
        finally:
            here = not self._settings.database_url and self._paths.rescued.exists()
            self.damaged = here and backups.is_free(self._paths.database)

    def _doubt(self) -> None:
        """Somebody met damage: read it all."""
        if found := backups.problems(self._paths.database, lambda: self._stopping):
            raise backups.Damaged(f"The database is damaged: {found[0]}.")
        self._paths.suspect.unlink(missing_ok=True)

    def _has_room(self) -> bool:
        spare = self._settings.tuning.spare_mb << 20
        return shutil.disk_usage(self._paths.data).free > self._paths.database.stat().st_size + spare

    def _shed(self) -> None:
        """What tools answered goes after the days that are set; the first look is at all of it, later ones go on."""
        days, now = self._settings.output_days, ids.now_ms()
        if not days or now < self._shed_at:
            return
        before = ids.from_ms(now - days * 86_400_000)
        while not self._stopping:
            last = self._store.write(lambda tx: payloads.drop_output(tx, before, self._shed_to))
            if last is None:
                break
            self._shed_to = last
        self._shed_at = now + SHED_MS

    def _prune(self) -> None:
        """What was rejected is kept for people to look at, not for ever."""
        for file in sorted(self._paths.rejected.glob("*.json"), reverse=True)[REJECTED:]:
            file.unlink(missing_ok=True)
