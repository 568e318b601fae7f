"""What a file holds, as a short mark: to tell later whether it has changed since."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from backstory.files import open_regular

#: A larger file is known by its size and time: reading it would cost more than the answer is worth.
READ = 2_000_000
#: Files of one round that are looked at; a round that touched more is not about one of them.
MOST = 40


def mark(path: Path) -> str | None:
    """The mark of a file's content; None if it is no file that can be read."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size > READ:
                return f"{status.st_size}-{status.st_mtime_ns}"
            return hashlib.blake2b(file.read(READ + 1), digest_size=12).hexdigest()
    except (OSError, ValueError):
        return None


def marks(cwd: str, paths: Iterable[str]) -> dict[str, str]:
    """The marks of the files that are there, by the names they were told under."""
    found: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        if len(found) >= MOST:
            break
        if value := mark(Path(cwd, path)):
            found[path] = value
    return found
