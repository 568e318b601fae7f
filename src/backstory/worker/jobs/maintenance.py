"""Takes care of the files while the worker runs: daily backups, damage to the database, old output, rejected events.
It also ends a worker whose package was uninstalled."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import backstory
from backstory import ids
from backstory.errors import StoreUnavailable
from backstory.jobs import Job
from backstory.live_settings import LiveSettings
from backstory.paths import remove_abandoned
from backstory.settings import Settings
from backstory.store import backups, payloads, smaller
from backstory.store.db import Store

log = logging.getLogger(__name__)

#: Seconds between two checks. A commit is in SQLite's log alone for at most this long.
CHECK_S = 2.0
#: Milliseconds between two deletions of old output.
DROP_OUTPUT_MS = 3_600_000
#: Seconds between two searches for files that killed processes have left.
ABANDONED_S = 3600.0
#: Seconds without a write after which nobody waits, and a backup may begin.
QUIET_S = 60.0
#: Seconds without a write that a backup needs to go on.
STILL_QUIET_S = 0.5
#: Seconds. A backup that could not begin for so long is taken although somebody writes, as gently as ever.
OVERDUE_S = 7200.0
#: Files that are kept in spool/rejected, at most.
REJECTED = 1000
#: What a worker runs from. Without it, it cannot load the rest of its code, and nobody can start it again.
PROGRAM = tuple(Path(name).absolute() for name in (backstory.__file__, sys.executable) if name)


class Maintenance:
    """A job that checks the files every few seconds. A check lists one or two small folders."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._paths, self._store = LiveSettings(settings), settings.paths, store
        self._output_dropped_to = 0  #: the last event whose output was looked at
        self._drop_output_at_ms = 0  #: when old output is deleted next
        self._remove_abandoned_at = 0.0  #: when temporary files are looked for next, on the monotonic clock
        self.job = Job("maintenance", self._watch, self._end)
        self._stopping = False
        self._due_since = 0.0  #: since when a backup is due, on the monotonic clock; 0 if none is
        self.damaged = False  #: the database must be repaired, which needs a restart

    async def _end(self) -> None:
        self._stopping = True

    async def _watch(self) -> None:
        while not self.damaged:
            await asyncio.sleep(min(CHECK_S, self._settings().backup_hours * 3600 or CHECK_S))
            if missing := next(filter(_is_gone, PROGRAM), None):
                log.warning("backstory was uninstalled: %s is gone; stopping", missing)
                break
            try:
                await asyncio.to_thread(self._check)
            except (StoreUnavailable, InterruptedError, OSError) as error:
                log.warning("maintenance has to wait: %s", type(error).__name__)
        # Stop as on a signal from outside. `serve.run` repairs a damaged database and starts again.
        os.kill(os.getpid(), signal.SIGTERM)

    def _check(self) -> None:
        """Do what is due. Set `damaged` if the database is."""
        for chore in (self._checkpoint, self._prune_rejected, self._drop_old_output, self._remove_abandoned):
            try:
                chore()
            except StoreUnavailable as error:
                # A damaged page may be the reason. The check below finds out.
                log.warning("maintenance has to wait: %s", type(error).__name__)
            if self.damaged:
                return
        paths = self._paths
        if self._settings().database_url or not paths.database.exists():
            return
        try:
            if not self._back_up() and paths.suspect.exists():
                self._check_suspect()
            self._vacuum()
        except backups.Damaged as error:
            log.error("%s", error)
            paths.suspect.touch(mode=0o600)
            self.damaged = True

    def _back_up(self) -> bool:
        """Take the daily backup if it is due and nobody writes. Return whether it was taken."""
        if not self._has_room() or not backups.is_due(self._paths.backups, self._settings().backup_hours):
            self._due_since = 0.0
            return False
        self._due_since = self._due_since or time.monotonic()
        is_overdue = time.monotonic() - self._due_since > OVERDUE_S
        if not is_overdue and not self._is_quiet():
            return False

        def stopping() -> bool:
            return self._stopping or (not is_overdue and self._store.idle_s() < self._quiet_s(STILL_QUIET_S))

        with backups.LOCK, contextlib.suppress(InterruptedError):  # somebody writes: it is tried again
            backups.create(self._paths.database, "daily", stopping, is_gentle=True)
            self._due_since = 0.0
        return not self._due_since

    def _has_room(self) -> bool:
        """Whether the disk has room for another copy of the database."""
        free, spare = shutil.disk_usage(self._paths.data).free, self._settings().tuning.spare_mb << 20
        return free > self._paths.database.stat().st_size + spare

    def _is_quiet(self) -> bool:
        return self._store.idle_s() >= self._quiet_s(QUIET_S)

    def _quiet_s(self, seconds: float) -> float:
        """Return the seconds to wait. Somebody who wants backups often does not wait long for one."""
        hours = self._settings().backup_hours
        return min(seconds, hours * 900) if hours else seconds

    def _vacuum(self) -> None:
        """Give the space back that rows of an earlier version took, once all are converted and nobody writes."""
        if self._is_quiet() and self._store.read(smaller.is_vacuum_due) and self._has_room():
            self._store.vacuum()
            self._store.write(smaller.vacuumed)

    def _checkpoint(self) -> None:
        """Move commits from SQLite's log into the database. If its files were removed, a restart puts them back."""
        try:
            self._store.checkpoint()
        finally:
            is_rescued = not self._settings().database_url and self._paths.rescued.exists()
            self.damaged = is_rescued and backups.is_free(self._paths.database)

    def _check_suspect(self) -> None:
        """Read the whole database, because a query met damage."""
        if problems := backups.problems(self._paths.database, lambda: self._stopping):
            raise backups.Damaged(f"The database is damaged: {problems[0]}.")
        self._paths.suspect.unlink(missing_ok=True)

    def _drop_old_output(self) -> None:
        """Delete the output of tools after `output_days`. Each run continues where the previous one ended."""
        days, now = self._settings().output_days, ids.now_ms()
        if not days or now < self._drop_output_at_ms:
            return
        before = ids.from_ms(now - days * 86_400_000)
        while not self._stopping:
            last = self._store.write(lambda tx: payloads.drop_output(tx, before, self._output_dropped_to))
            if last is None:
                break
            self._output_dropped_to = last
        self._drop_output_at_ms = now + DROP_OUTPUT_MS

    def _remove_abandoned(self) -> None:
        """Remove temporary files of processes that were killed while they wrote. Those of sessions have their text."""
        if time.monotonic() < self._remove_abandoned_at:
            return
        self._remove_abandoned_at = time.monotonic() + ABANDONED_S
        paths = self._paths
        ours = (paths.data, paths.bin, paths.agent_runs, paths.observer, paths.forgetting)
        for folder in (*ours, *paths.agent_sessions.glob("*")):
            with contextlib.suppress(OSError):
                remove_abandoned(folder)

    def _prune_rejected(self) -> None:
        """Delete the oldest rejected events. The newest are kept for the user to look at."""
        for file in sorted(self._paths.rejected.glob("*.json"), reverse=True)[REJECTED:]:
            file.unlink(missing_ok=True)


def _is_gone(path: Path) -> bool:
    """Whether a file was removed. One that cannot be looked at is still there."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
