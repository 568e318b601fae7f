"""Short digests of files, to detect later whether a file has changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from backstory.files import open_regular

#: Maximum bytes of a file that is hashed. The digest of a larger one is its size and modification time.
MAX_BYTES = 2_000_000
#: Maximum number of files per round. A round that touched more is not about any single one.
MAX_FILES = 40


def digest(path: Path) -> str | None:
    """Return a digest of the content of a file; None if it cannot be read."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size > MAX_BYTES:
                return f"{status.st_size}-{status.st_mtime_ns}"
            return hashlib.blake2b(file.read(MAX_BYTES + 1), digest_size=12).hexdigest()
    except (OSError, ValueError):
        return None


def digests(cwd: str, paths: Iterable[str]) -> dict[str, str]:
    """Map each path that names a readable file to its digest."""
    by_path: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        if len(by_path) >= MAX_FILES:
            break
        if value := digest(Path(cwd, path)):
            by_path[path] = value
    return by_path
