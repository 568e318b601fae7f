"""Opens regular files only: a pipe, a device or a directory in their place never blocks or fills the reader."""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: Bytes asked of the kernel at once.
CHUNK = 1 << 20


def open_regular(path: str | bytes | Path, *, within: int | None = None) -> int:
    """A descriptor of a regular file, to read from; OSError if it is anything else.

    Symbolic links are followed, except with `within`, the descriptor of the directory that `path` names an entry of.
    """
    follow = within is None
    _check(path, os.stat(path, dir_fd=within, follow_symlinks=follow))  # opening some devices has an effect of its own
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(path, flags, dir_fd=within)
    try:
        _check(path, os.fstat(handle))  # it may have been exchanged in between
    except OSError:
        os.close(handle)
        raise
    return handle


def read_regular(path: str | bytes | Path, limit: int, *, within: int | None = None) -> bytes:
    """The first `limit` bytes of a regular file; OSError if it is anything else."""
    handle = open_regular(path, within=within)
    try:
        chunks = []
        while limit > 0 and (chunk := os.read(handle, min(limit, CHUNK))):
            chunks.append(chunk)
            limit -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(handle)


def _check(path: str | bytes | Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{Path(os.fsdecode(path)).name} is not a regular file")
