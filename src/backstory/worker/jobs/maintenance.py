"""Takes care of the files while the worker runs: daily backups, damage to the database, old output, rejected events."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal

from backstory import ids
from backstory.errors import StoreUnavailable
from backstory.jobs import Job
from backstory.live_settings import LiveSettings
from backstory.settings import Settings
from backstory.store import backups, payloads
from backstory.store.db import Store

log = logging.getLogger(__name__)

#: Seconds between two checks. A commit is in SQLite's log alone for at most this long.
CHECK_S = 2.0
#: Milliseconds between two deletions of old output.
DROP_OUTPUT_MS = 3_600_000
#: Files that are kept in spool/rejected, at most.
REJECTED = 1000


class Maintenance:
    """A job that checks the files every few seconds. A check lists one or two small folders."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._current, self._paths, self._store = LiveSettings(settings), settings.paths, store
        self._output_dropped_to = 0  #: the last event whose output was looked at
        self._drop_output_at_ms = 0  #: when old output is deleted next
        self.job = Job("maintenance", self._watch, self._end)
        self._stopping = False
        self.damaged = False  #: the database must be repaired, which needs a restart

    @property
    def _settings(self) -> Settings:
        return self._current()

    async def _end(self) -> None:
        self._stopping = True

    async def _watch(self) -> None:
        while not self.damaged:
            await asyncio.sleep(min(CHECK_S, self._settings.backup_hours * 3600 or CHECK_S))
            try:
                await asyncio.to_thread(self._check)
            except (StoreUnavailable, InterruptedError, OSError) as error:
                log.warning("maintenance has to wait: %s", type(error).__name__)
        # Stop as on a signal from outside. `serve.run` repairs the database and starts again.
        os.kill(os.getpid(), signal.SIGTERM)

    def _check(self) -> None:
        """Do what is due. Set `damaged` if the database is."""
        for chore in (self._checkpoint, self._prune_rejected, self._drop_old_output):
            try:
                chore()
            except StoreUnavailable as error:
                # A damaged page may be the reason. The check below finds out.
                log.warning("maintenance has to wait: %s", type(error).__name__)
            if self.damaged:
                return
        paths = self._paths
        if self._settings.database_url or not paths.database.exists():
            return
        try:
            if not self._back_up() and paths.suspect.exists():
                self._check_suspect()
        except backups.Damaged as error:
            log.error("%s", error)
            paths.suspect.touch(mode=0o600)
            self.damaged = True

    def _back_up(self) -> bool:
        """Take the daily backup if it is due. Return whether it was."""
        database, spare = self._paths.database, self._settings.tuning.spare_mb << 20
        with backups.LOCK:
            has_room = shutil.disk_usage(self._paths.data).free > database.stat().st_size + spare
            is_due = has_room and backups.is_due(self._paths.backups, self._settings.backup_hours)
            if is_due:
                backups.create(database, "daily", lambda: self._stopping)
        return is_due

    def _checkpoint(self) -> None:
        """Move commits from SQLite's log into the database. If its files were removed, a restart puts them back."""
        try:
            self._store.checkpoint()
        finally:
            is_rescued = not self._settings.database_url and self._paths.rescued.exists()
            self.damaged = is_rescued and backups.is_free(self._paths.database)

    def _check_suspect(self) -> None:
        """Read the whole database, because a query met damage."""
        if problems := backups.problems(self._paths.database, lambda: self._stopping):
            raise backups.Damaged(f"The database is damaged: {problems[0]}.")
        self._paths.suspect.unlink(missing_ok=True)

    def _drop_old_output(self) -> None:
        """Delete the output of tools after `output_days`. Each run continues where the previous one ended."""
        days, now = self._settings.output_days, ids.now_ms()
        if not days or now < self._drop_output_at_ms:
            return
        before = ids.from_ms(now - days * 86_400_000)
        while not self._stopping:
            last = self._store.write(lambda tx: payloads.drop_output(tx, before, self._output_dropped_to))
            if last is None:
                break
            self._output_dropped_to = last
        self._drop_output_at_ms = now + DROP_OUTPUT_MS

    def _prune_rejected(self) -> None:
        """Delete the oldest rejected events. The newest are kept for the user to look at."""
        for file in sorted(self._paths.rejected.glob("*.json"), reverse=True)[REJECTED:]:
            file.unlink(missing_ok=True)
