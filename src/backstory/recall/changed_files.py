"""Finds observations whose files have changed since. It reads the files and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from backstory.file_digests import digest
from backstory.store import memories
from backstory.store.db import Tx


def changed(tx: Tx, ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """observation -> its files that were changed or deleted since it was made"""
    is_there, digest_now = cache(Path.is_dir), cache(digest)
    changes: dict[int, list[str]] = {}
    for file in memories.observed_files(tx, sorted(set(ids))):
        # A directory that is not there is on another machine, or was moved.
        homes = [Path(home) for home in dict.fromkeys((file.root, file.cwd)) if home and is_there(Path(home))]
        if homes and all(digest_now(home / file.path) != file.digest for home in homes):
            changes.setdefault(file.observation_id, []).append(file.path)
    return {number: tuple(sorted(paths)) for number, paths in changes.items()}
