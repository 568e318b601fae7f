"""Finds observations whose files have changed since. It reads the files and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from backstory.file_digests import digest
from backstory.store import memories
from backstory.store.db import Tx


def changed(tx: Tx, ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """observation -> its files that were changed or deleted since it was made"""
    digests: dict[Path, str | None] = {}
    is_there: dict[str, bool] = {}
    changes: dict[int, list[str]] = {}
    for file in memories.observed_files(tx, sorted(set(ids))):
        path = Path(file.cwd, file.path)
        if file.cwd not in is_there:
            is_there[file.cwd] = Path(file.cwd).is_dir()
        if not is_there[file.cwd]:
            continue  # the directory is on another machine, or was moved
        if path not in digests:
            digests[path] = digest(path)
        if digests[path] != file.digest:
            changes.setdefault(file.observation_id, []).append(file.path)
    return {number: tuple(sorted(paths)) for number, paths in changes.items()}
