"""Writes the files of a group to an archive. Its agent may have made anything there."""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from backstory import files
from backstory.groups.names import GroupPaths

#: Bytes of a block, of an archive and of what a file has on the disk.
BLOCK = 512
#: Bytes that are read at a time.
PART = 1 << 20
#: Bytes of a file from which on its holes are left out.
LARGE = 1 << 20


def write(paths: GroupPaths, out: IO[bytes]) -> int:
    """Write the files of a group. Links are kept as links, and holes as holes: a file has a size of its choice, and its
    data is what it has on the disk. Return how many entries have paths too long to be opened; they are left out."""
    left_out = 0
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        waiting = [str(folder) for folder in (paths.folder, paths.state.parent) if folder.is_dir()]
        while waiting:
            path = waiting.pop()
            try:
                waiting += _add(tar, path, os.path.relpath(path, paths.data))
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno != errno.ENAMETOOLONG:
                    raise
                left_out += 1
            tar.members.clear()  # type: ignore[attr-defined] # it would keep a million small files in memory
    return left_out


def _add(tar: tarfile.TarFile, path: str, name: str) -> list[str]:
    """Add an entry. Return the paths of those in it, if it is a directory."""
    if stat.S_ISDIR(os.lstat(path).st_mode):
        os.close(files.open_up(path))  # its agent may have shut it
        tar.add(path, name, recursive=False)
        with os.scandir(path) as entries:
            return [entry.path for entry in entries]
    entry = tar.gettarinfo(path, name)
    if entry is None:  # a socket
        return []
    if not entry.isreg():
        tar.addfile(entry)
        return []
    with os.fdopen(_opened(path), "rb") as source:
        if os.fstat(source.fileno()).st_blocks * BLOCK < entry.size >= LARGE:
            _add_with_holes(tar, entry, source)
        else:
            tar.addfile(entry, source)
    return []


def _opened(path: str) -> int:
    try:
        return files.open_regular(path)
    except PermissionError:
        with suppress(NotImplementedError):
            Path(path).chmod(0o600, follow_symlinks=False)
        return files.open_regular(path)


def _add_with_holes(tar: tarfile.TarFile, entry: tarfile.TarInfo, source: IO[bytes]) -> None:
    """Add a file without its holes, in the format 1.0 of GNU tar: a map of its pieces, then the pieces."""
    pieces = list(_pieces(source.fileno(), entry.size))
    numbers = [len(pieces), *(number for piece in pieces for number in piece)]
    layout = "".join(f"{number}\n" for number in numbers).encode()
    layout += bytes(-len(layout) % BLOCK)
    sparse = {"major": "1", "minor": "0", "name": entry.name, "realsize": str(entry.size)}
    entry.pax_headers = {f"GNU.sparse.{key}": value for key, value in sparse.items()}
    folder, base = os.path.split(entry.name)
    entry.name = f"{folder}/GNUSparseFile.0/{base}"
    entry.size = len(layout) + sum(size for _, size in pieces)
    tar.addfile(entry, _Joined(layout, source, pieces))  # type: ignore[arg-type] # only `read` is called


def _pieces(handle: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield where a file has data, and how much."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(handle, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # only a hole is left
        if begin >= size:
            break
        end = min(os.lseek(handle, begin, os.SEEK_HOLE), size)
        yield begin, end - begin
    yield size, 0  # so GNU tar ends a file that ends in a hole


class _Joined:
    """Reads a map and then pieces of a file."""

    def __init__(self, layout: bytes, source: IO[bytes], pieces: list[tuple[int, int]]) -> None:
        self._parts = self._read(layout, source, pieces)
        self._rest = b""

    def read(self, size: int) -> bytes:
        while len(self._rest) < size and (part := next(self._parts, b"")):
            self._rest += part
        result, self._rest = self._rest[:size], self._rest[size:]
        return result

    @staticmethod
    def _read(layout: bytes, source: IO[bytes], pieces: list[tuple[int, int]]) -> Iterator[bytes]:
        yield layout
        for begin, size in pieces:
            source.seek(begin)
            left = size
            while left and (part := source.read(min(left, PART))):
                left -= len(part)
                yield part
