"""Checks of the data directory: settings, file modes, disk space, the database and the spool."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from backstory import ids
from backstory.cli import show
from backstory.cli.doctor.finding import Finding, Machine
from backstory.cli.worker import connect
from backstory.errors import BackstoryError, BadSetting, StoreUnavailable

#: The spool is growing if more events than this wait,
SPOOL_EVENTS = 1000
#: or more bytes,
SPOOL_BYTES = 100 << 20
#: or if an event waits longer than this although a worker runs, in milliseconds.
SPOOL_AGE_MS = 24 * 3600 * 1000
#: How long `repair` waits for the worker to read the spool, in seconds.
DRAIN_S = 60.0


def config(machine: Machine) -> Iterator[Finding]:
    """config.toml. It is never repaired: without its `exclude_projects`, excluded projects would be recorded."""
    if machine.config_error:
        yield Finding("config-unreadable", str(machine.config_error), machine.config_error.hint)


def modes(machine: Machine) -> Iterator[Finding]:
    paths = machine.settings.paths
    private = (paths.data, paths.token, paths.database, paths.config, paths.spool, paths.backups, paths.socket)
    existing = [path for path in private if path.exists()]
    if foreign := [path for path in existing if path.stat().st_uid != os.getuid()]:
        yield Finding(
            "owned-by-another",
            f"Another user owns {_names(foreign)} in {paths.data}.",
            f"As that user or as root, run `chown -R {os.getuid()} {paths.data}`.",
        )
    readable = [path for path in existing if stat.S_IMODE(path.stat().st_mode) & 0o077]

    def repair() -> str:
        for path in readable:
            path.chmod(0o700 if path.is_dir() else 0o600)
        return f"{_names(readable)}: only you have access now."

    if readable:
        yield Finding(
            "open-to-others",
            f"Other users of this machine can read {_names(readable)} in {paths.data}.",
            f"Run `chmod -R go= {paths.data}`. If somebody may have read the file `token`, delete it and run "
            "`backstory restart`, which creates a new one.",
            repair,
        )


def _names(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths)


def disk(machine: Machine) -> Iterator[Finding]:
    folder = next(p for p in (machine.settings.data_dir, *machine.settings.data_dir.parents) if p.exists())
    free = shutil.disk_usage(folder).free
    if free < machine.settings.tuning.spare_mb << 20:
        yield Finding(
            "disk-nearly-full",
            f"Only {show.size(free)} are free on the disk of {machine.settings.data_dir}.",
            "Free some space. No backups are made until then. No event is lost while hooks can write to the spool.",
        )


def database(machine: Machine) -> Iterator[Finding]:
    """The database, checked by the worker, or here if no worker runs."""
    from backstory.store import check

    try:
        problems = machine.client.get("/api/check")["problems"] if machine.health else check(machine.settings)
    except BackstoryError as error:
        if error.status == StoreUnavailable.status or isinstance(error, BadSetting):
            yield _unreadable(machine, str(error))
        return  # a worker of another version, which is a finding of its own
    except (TypeError, KeyError):
        return
    if problems:
        yield Finding(
            "database-damaged",
            f"The database is damaged: {problems[0]}",
            "Run `backstory repair` to restore the last good backup. It keeps the damaged file.",
            lambda: _restore(machine),
        )


def _unreadable(machine: Machine, says: str) -> Finding:
    """Repaired only if the mode of the user's own file is the cause. Nothing is moved or deleted."""
    path = machine.settings.paths.database
    if machine.settings.database_url:
        return Finding("database-unreadable", says, "Check the setting `database_url` and the server.")
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        do = f"Restore {os.path.realpath(path)}, to which it is a link, or delete the link to start empty."
    elif stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and status.st_mode & 0o600 != 0o600:

        def repair() -> str:
            path.chmod(0o600)
            return f"{path.name}: you can read and write it again."

        return Finding("database-unreadable", says, f"Run `chmod 600 {path}`.", repair)
    elif stat.S_ISREG(status.st_mode):
        do = "Check the disk, and the owner and mode of the file and its folder."
    else:
        do = f"It is not a file. Move it away. Copy the newest file of {machine.settings.paths.backups} there, if any."
    return Finding("database-unreadable", says, do)


def _restore(machine: Machine) -> str:
    from backstory.cli.doctor.worker import restart
    from backstory.store import backups

    machine.settings.paths.suspect.touch(mode=0o600)
    pid = restart(machine)
    result = backups.restored(machine.settings.paths) or "the database is no longer damaged"
    return f"{result}. The worker is pid {pid}."


def restored(machine: Machine) -> Iterator[Finding]:
    from backstory.store import backups

    paths = machine.settings.paths
    if notice := backups.restored(paths):

        def repair() -> str:
            paths.restored.unlink(missing_ok=True)
            kept = f" Delete {paths.data / notice.damaged} when you no longer need it." if notice.damaged else ""
            return f"marked as read.{kept}"

        yield Finding(
            "database-restored",
            f"On {show.when(notice.at)} {notice}.",
            "Missing events are read again from the spool and the transcripts, as far as they are there. "
            "Run `backstory repair` to mark this as read.",
            repair,
        )


def spool(machine: Machine) -> Iterator[Finding]:
    from backstory.capture.spool import is_usable

    files = [file for file in machine.settings.paths.spool.glob("[!.]*.json") if is_usable(file)]
    sizes_and_ages = [_size_and_age(file) for file in files]
    size, oldest = sum(size for size, _ in sizes_and_ages), max((age for _, age in sizes_and_ages), default=0)
    if len(files) <= SPOOL_EVENTS and size <= SPOOL_BYTES and not (machine.health and oldest > SPOOL_AGE_MS):
        return

    def repair() -> str:
        client = connect(machine.settings)
        until = time.monotonic() + DRAIN_S
        while waiting := [file for file in files if file.exists()]:
            if time.monotonic() > until or "database-unreadable" in client.get("/api/health")["problems"]:
                raise BackstoryError(f"{show.count(len(waiting), 'event')} still to be read. worker.log may say why.")
            time.sleep(0.1)
        return f"the worker read {show.count(len(files), 'event')}."

    yield Finding(
        "spool-growing",
        f"{len(files)} events ({show.size(size)}) wait in the spool, the oldest for {oldest // 3_600_000} hours.",
        "Run `backstory repair` to have the worker read them. If they stay, see worker.log.",
        repair,
    )


def unusable(machine: Machine) -> Iterator[Finding]:
    """Entries that the worker can neither read nor set aside. They may belong to root, so they are left alone."""
    from backstory.capture.spool import is_usable

    folder = machine.settings.paths.spool
    names = sorted(file.name for file in folder.glob("[!.]*.json") if not is_usable(file))
    if names:
        yield Finding(
            "spool-unusable",
            f"{show.count(len(names), 'entry', 'entries')} of {folder} cannot be read: {', '.join(names[:3])}.",
            "They belong to another user, are unreadable, or are not files. Perhaps an agent ran as root. "
            "Delete them, or change their owner with chown.",
        )


def _size_and_age(file: Path) -> tuple[int, int]:
    """In bytes and milliseconds. Zero for a file that the worker has just read and removed."""
    try:
        status = file.lstat()
    except OSError:
        return 0, 0
    created = ids.event_time(file.name.partition(".")[0])
    return status.st_size, ids.now_ms() - (ids.at_ms(created) if created else int(status.st_mtime * 1000))


def rejected(machine: Machine) -> Iterator[Finding]:
    from backstory.capture.spool import remove_if_empty

    paths = machine.settings.paths
    files = sorted(paths.rejected.glob("*.json"))

    def repair() -> str:
        """Spool the events again: another version of the worker may have rejected what this one understands."""
        events = [file for file in files if not remove_if_empty(file)]
        retried = [file.replace(paths.spool / file.name) for file in events]
        connect(machine.settings)
        until = time.monotonic() + DRAIN_S
        while any(file.exists() for file in retried) and time.monotonic() < until:
            time.sleep(0.05)
        if refused := [file for file in events if file.exists()]:
            raise BackstoryError(
                f"The worker read {show.count(len(retried) - len(refused), 'event')} and rejected {len(refused)} again."
            )
        empty = len(files) - len(events)
        deleted = f", and {show.count(empty, 'file')} without one {'was' if empty == 1 else 'were'} deleted"
        return f"the worker read {show.count(len(retried), 'event')}{deleted if empty else ''}."

    if files:
        yield Finding(
            "spool-rejected",
            f"The worker rejected {show.count(len(files), 'event')}: see {paths.rejected}.",
            "Run `backstory repair` to try them again. Delete what it leaves there.",
            repair,
        )
