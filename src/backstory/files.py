"""Opens regular files only, so that a pipe or a device in place of a file can neither block nor flood the reader."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def open_regular(path: str | bytes | Path, *, within: int | None = None) -> int:
    """Open a regular file for reading and return its descriptor; raise OSError if it is anything else. With `within`,
    the descriptor of a directory, `path` is an entry of it and symbolic links are not followed."""
    follow = within is None
    # Checked before opening, because opening a device can have side effects.
    _check(path, os.stat(path, dir_fd=within, follow_symlinks=follow))
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(path, flags, dir_fd=within)
    try:
        _check(path, os.fstat(handle))  # the file may have been replaced in between
    except OSError:
        os.close(handle)
        raise
    return handle


def read_regular(path: str | bytes | Path, limit: int, *, within: int | None = None) -> bytes:
    """Read the first `limit` bytes of a regular file; raise OSError if it is anything else."""
    with os.fdopen(open_regular(path, within=within), "rb") as file:
        return file.read(limit)


def _check(path: str | bytes | Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{Path(os.fsdecode(path)).name} is not a regular file")


def open_directory(base: Path, *names: str, create: bool = False) -> int:
    """Open a directory below `base` and return its descriptor; raise OSError if it is anything else. Symbolic links
    below `base` are not followed, so the directory is inside, whoever may write there. With `create`, missing
    directories are made, accessible only to their owner."""
    handle = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in names:
        if name in ("", ".", "..") or "/" in name:
            os.close(handle)
            raise ValueError("not the name of an entry")
        outer = handle
        try:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=outer)
            handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=outer)
        finally:
            os.close(outer)
    return handle
