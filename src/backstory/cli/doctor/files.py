"""Checks of the data directory: settings, modes, room, the database, and what waits in the spool."""

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

MANY = 1000
MUCH = 100 << 20
DAY_MS = 24 * 3600 * 1000
DRAIN_S = 60.0


def config(scene: Machine) -> Iterator[Finding]:
    """Never mended by us: a file without its `exclude_projects` would remember what it must not."""
    if scene.config_error:
        yield Finding("config-unreadable", str(scene.config_error), scene.config_error.hint)


def modes(scene: Machine) -> Iterator[Finding]:
    paths = scene.settings.paths
    private = (paths.data, paths.token, paths.database, paths.config, paths.spool, paths.backups, paths.socket)
    there = [path for path in private if path.exists()]
    if strange := [path for path in there if path.stat().st_uid != os.getuid()]:
        yield Finding(
            "owned-by-another",
            f"{_names(strange)} of {paths.data} belongs to another user.",
            f"As that user or root: chown -R {os.getuid()} {paths.data}",
        )
    loose = [path for path in there if stat.S_IMODE(path.stat().st_mode) & 0o077]

    def mend() -> str:
        for path in loose:
            path.chmod(0o700 if path.is_dir() else 0o600)
        return f"{_names(loose)}: closed to others."

    if loose:
        yield Finding(
            "open-to-others",
            f"Other users of this machine can read {_names(loose)} in {paths.data}.",
            f"chmod -R go= {paths.data}; if the token may have been seen, delete it and restart: a new one is made.",
            mend,
        )


def _names(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths)


def disk(scene: Machine) -> Iterator[Finding]:
    folder = next(p for p in (scene.settings.data_dir, *scene.settings.data_dir.parents) if p.exists())
    free = shutil.disk_usage(folder).free
    if free < scene.settings.tuning.spare_mb << 20:
        yield Finding(
            "disk-nearly-full",
            f"{show.size(free)} are free where {scene.settings.data_dir} lies.",
            "Make room; nothing is lost as long as hooks can still write to the spool, and no backups are made.",
        )


def database(scene: Machine) -> Iterator[Finding]:
    """Through the worker, or, where there is none, by ourselves."""
    from backstory.store import check

    try:
        found = scene.client.get("/api/check")["problems"] if scene.health else check(scene.settings)
    except BackstoryError as error:
        if error.status == StoreUnavailable.status or isinstance(error, BadSetting):
            yield _unreadable(scene, str(error))
        return  # else a worker of another version, which is named as such
    except (TypeError, KeyError):
        return
    if found:
        yield Finding(
            "database-damaged",
            f"The database is damaged: {found[0]}",
            "`backstory repair` goes back to the last good backup and keeps the damaged file.",
            lambda: _restore(scene),
        )


def _unreadable(scene: Machine, says: str) -> Finding:
    """Mended where only the mode of our own file stands in the way. What somebody put there is not ours to move."""
    path = scene.settings.paths.database
    if scene.settings.database_url:
        return Finding("database-unreadable", says, "Look at the setting `database_url`, and at the server.")
    known = path.lstat()
    if stat.S_ISLNK(known.st_mode):
        do = f"Bring back {os.path.realpath(path)}, to which it is a link, or delete the link: then it begins empty."
    elif stat.S_ISREG(known.st_mode) and known.st_uid == os.getuid() and known.st_mode & 0o600 != 0o600:

        def mend() -> str:
            path.chmod(0o600)
            return f"{path.name}: its owner can read and write it again."

        return Finding("database-unreadable", says, f"chmod 600 {path}", mend)
    elif stat.S_ISREG(known.st_mode):
        do = "Look at the disk, and at the owner and mode of the file and its folder."
    else:
        do = f"That is no file. Move it away and copy the newest of {scene.settings.paths.backups} there, if any."
    return Finding("database-unreadable", says, do)


def _restore(scene: Machine) -> str:
    from backstory.cli.doctor.worker import restart
    from backstory.store import backups

    scene.settings.paths.suspect.touch(mode=0o600)
    pid = restart(scene)
    return f"{backups.restored(scene.settings.paths) or 'it is sound again'}. The worker is pid {pid}."


def restored(scene: Machine) -> Iterator[Finding]:
    from backstory.store import backups

    paths = scene.settings.paths
    if told := backups.restored(paths):

        def mend() -> str:
            paths.restored.unlink(missing_ok=True)
            return f"read; {paths.data / told.damaged} stays until you delete it." if told.damaged else "read."

        yield Finding(
            "database-restored",
            f"On {show.when(told.at)} {told}.",
            "What is missing is read again from spool and transcripts, if it is there. "
            "`backstory repair` takes this as read.",
            mend,
        )


def spool(scene: Machine) -> Iterator[Finding]:
    from backstory.capture.spool import is_usable

    files = [file for file in scene.settings.paths.spool.glob("[!.]*.json") if is_usable(file)]
    seen = [_size_and_age(file) for file in files]
    size, oldest = sum(size for size, _ in seen), max((age for _, age in seen), default=0)
    if len(files) <= MANY and size <= MUCH and not (scene.health and oldest > DAY_MS):
        return

    def mend() -> str:
        client = connect(scene.settings)
        until = time.monotonic() + DRAIN_S
        while waiting := [file for file in files if file.exists()]:
            if time.monotonic() > until or client.get("/api/health")["status"] != "ok":
                raise BackstoryError(f"{len(waiting)} still wait; worker.log may say why.")
            time.sleep(0.1)
        return f"{len(files)} events were taken in."

    yield Finding(
        "spool-growing",
        f"{len(files)} events ({show.size(size)}) wait in the spool, the oldest for {oldest // 3_600_000} hours.",
        "`backstory repair` has the worker take them in; if they stay, worker.log says why.",
        mend,
    )


def unusable(scene: Machine) -> Iterator[Finding]:
    """What the worker can neither take in nor set aside. It may be root's, so it is named and left alone."""
    from backstory.capture.spool import is_usable

    folder = scene.settings.paths.spool
    names = sorted(file.name for file in folder.glob("[!.]*.json") if not is_usable(file))
    if names:
        yield Finding(
            "spool-unusable",
            f"{len(names)} entries of {folder} are no events of yours: {', '.join(names[:3])}.",
            "Another user's, unreadable, or not files; perhaps an agent ran as root. Delete them, or chown them.",
        )


def _size_and_age(file: Path) -> tuple[int, int]:
    """In bytes and milliseconds; nothing of a file that the worker has just taken in."""
    try:
        known = file.lstat()
    except OSError:
        return 0, 0
    at = ids.event_time(file.name.partition(".")[0])
    return known.st_size, ids.now_ms() - (ids.at_ms(at) if at else int(known.st_mtime * 1000))


def rejected(scene: Machine) -> Iterator[Finding]:
    paths = scene.settings.paths
    files = sorted(paths.rejected.glob("*.json"))

    def mend() -> str:
        """A worker of another version may have refused what this one understands: once more, from the beginning."""
        again = [file.replace(paths.spool / file.name) for file in files]
        connect(scene.settings)
        until = time.monotonic() + DRAIN_S
        while any(file.exists() for file in again) and time.monotonic() < until:
            time.sleep(0.05)
        if back := [file for file in files if file.exists()]:
            raise BackstoryError(f"{len(again) - len(back)} were taken in, {len(back)} were refused again.")
        return f"{len(again)} events were taken in after all."

    if files:
        yield Finding(
            "spool-rejected",
            f"{len(files)} events were refused and lie in {paths.rejected}.",
            "`backstory repair` tries them again; delete what it leaves there.",
            mend,
        )
