"""Opens regular files only, so that a pipe or a device in place of a file can neither block nor flood the reader."""

from __future__ import annotations

import os
import secrets
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


def open_below(base: Path, path: Path) -> int:
    """Open a regular file below the directory `base` and return its descriptor. Symbolic links below `base` are not
    followed, so the file is inside, whoever may write there."""
    *folders, name = path.relative_to(base).parts
    folder = open_directory(base, *folders)
    try:
        return open_regular(name, within=folder)
    finally:
        os.close(folder)


def create_regular(name: str, within: int, mode: int = 0o600) -> int:
    """Create a file in the directory with the descriptor `within`, and return a descriptor to write to. Raise
    FileExistsError if anything has that name."""
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=within)


def write_once(name: str, data: bytes, within: int) -> None:
    """Write a file in a directory, unless something has that name already. It gets its name when it is whole."""
    with suppress(FileNotFoundError):
        os.stat(name, dir_fd=within, follow_symlinks=False)
        return
    temporary = f".{secrets.token_hex(8)}.tmp"
    try:
        with os.fdopen(create_regular(temporary, within), "wb") as out:
            out.write(data)
        with suppress(FileExistsError):
            os.link(temporary, name, src_dir_fd=within, dst_dir_fd=within, follow_symlinks=False)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=within)


def _check(path: str | bytes | Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{Path(os.fsdecode(path)).name} is not a regular file")


def open_directory(base: Path, *names: str, create: bool = False) -> int:
    """Open a directory below `base` and return its descriptor; raise OSError if it is anything else. Symbolic links
    below `base` are not followed, so the directory is inside, whoever may write there. With `create`, missing
    directories are made, accessible only to their owner, and those that their owner may not use are opened up."""
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
                handle = open_up(name, within=outer)
            else:
                handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=outer)
        finally:
            os.close(outer)
    return handle


def remove(path: str | Path, *, within: int | None = None) -> None:
    """Remove a file or a link, or a directory with everything in it, however deep, and whatever modes it has. No link
    is followed."""
    if not _is_folder(path, within):
        os.unlink(path, dir_fd=within)
        return
    top = open_up(path, within=within)
    try:
        while names := _names(top):
            for name in names:
                _remove_entry(top, name)
    finally:
        os.close(top)
    os.rmdir(path, dir_fd=within)


def _remove_entry(top: int, name: str) -> None:
    """Remove an entry of a directory. The directories in it become entries themselves, so no path gets too long."""
    if not _is_folder(name, top):
        os.unlink(name, dir_fd=top)
        return
    inner = open_up(name, within=top)
    try:
        for each in _names(inner):
            if _is_folder(each, inner):
                move(each, f".{secrets.token_hex(8)}", inner, top)
            else:
                os.unlink(each, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def move(name: str, new: str, within: int, to: int) -> None:
    """Move an entry of a directory to another one. A directory is moved whatever mode it has."""
    if _is_folder(name, within):
        os.close(open_up(name, within=within))  # its entry `..` changes
    os.rename(name, new, src_dir_fd=within, dst_dir_fd=to)


def open_up(path: str | Path, *, within: int | None = None) -> int:
    """Open a directory, whatever its mode, and let its owner change it. No link is followed in its place."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, dir_fd=within)
    except PermissionError:
        with suppress(NotImplementedError):  # it became a link
            os.chmod(path, 0o700, dir_fd=within, follow_symlinks=False)
        handle = os.open(path, flags, dir_fd=within)
    try:
        if os.fstat(handle).st_mode & 0o700 != 0o700:
            os.fchmod(handle, 0o700)
    except OSError:
        os.close(handle)
        raise
    return handle


def _is_folder(path: str | Path, within: int | None) -> bool:
    return stat.S_ISDIR(os.stat(path, dir_fd=within, follow_symlinks=False).st_mode)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]
