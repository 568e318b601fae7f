"""Installs our skill as a file of its own, and removes it if nobody has changed it."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from importlib.resources import files
from pathlib import Path

from backstory.agents.install import (
    SHARED,
    FileChange,
    InstalledPart,
    missing_dirs,
    read,
    remove_empty,
    swap,
    write_whole,
)
from backstory.paths import read_object


def text() -> bytes:
    """Return the skill: it teaches an agent to look things up."""
    return (files("backstory.agents") / "skill.md").read_bytes()


def part(path: Path, record: Path, mode: int = SHARED) -> InstalledPart:
    """Return our skill as a part of an installation."""
    installed = partial(install, path, record, mode=mode)
    return InstalledPart("skill is", path, record, installed, partial(uninstall, path, record))


def install(path: Path, record: Path, dry_run: bool = False, mode: int = SHARED) -> FileChange:
    """Write or update the skill. One that somebody else wrote or changed stays as it is."""
    before, after = read(path), text()
    digest, made = _known(record)
    if before is not None and before != after and _digest(before) != digest:
        return FileChange(path, before, before, "unchanged")
    fresh = before is None
    change = FileChange(path, before, after, "unchanged" if before == after else "installed" if fresh else "updated")
    if not dry_run and (change.what != "unchanged" or _digest(after) != digest):
        if fresh:
            made = tuple(missing_dirs(path))
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(record, json.dumps({"digest": _digest(after), "made_dirs": made}).encode(), 0o600)
        swap(path, before, after, mode)
    return change


def uninstall(path: Path, record: Path, dry_run: bool = False) -> FileChange:
    """Delete the skill, if it is as we wrote it."""
    before = read(path)
    digest, made = _known(record)
    if before is None or _digest(before) != digest:
        if not dry_run:
            record.unlink(missing_ok=True)
        return FileChange(path, before, before, "absent")
    if not dry_run and swap(path, before, None):
        remove_empty(made)
        record.unlink(missing_ok=True)
    return FileChange(path, before, None, "removed")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _known(record: Path) -> tuple[str, tuple[str, ...]]:
    kept = read_object(record)
    return str(kept.get("digest", "")), tuple(kept.get("made_dirs", ()))
