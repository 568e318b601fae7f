"""Parser for git's index: the tracked files, and the size, time and hash of each. The input is untrusted."""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator
from typing import NamedTuple

#: Maximum bytes of a path. The kernel accepts no longer ones.
MAX_PATH_BYTES = 4096
#: Maximum number of directories that are read from the TREE extension.
MAX_DIRECTORIES = 50_000
_HEADER = struct.Struct(">4sII")
_EXTENSION = struct.Struct(">4sI")
# Bits of an entry's flags.
_ASSUME_VALID = 0x8000
_EXTENDED = 0x4000
_STAGE = 0x3000
# Bits of its extended flags.
_SKIP_WORKTREE = 0x4000
_INTENT_TO_ADD = 0x2000


class UnreadableIndex(Exception):
    """The index is damaged, or has a format that is not supported."""


class Entry(NamedTuple):
    """One tracked file."""

    path: bytes
    mode: int
    size: int  #: the lowest 32 bits; 0 also if git does not know it
    seconds: int  #: modification time
    nanoseconds: int  #: of the modification time; 0 if the index does not record it
    blob: bytes  #: hash of its content
    is_ignored: bool  #: marked as assume-unchanged or skip-worktree
    is_unfinished: bool  #: in conflict, or added with --intent-to-add


class Index:
    """An index of version 2, 3 or 4, with hashes of 20 (SHA-1) or 32 bytes (SHA-256)."""

    def __init__(self, data: bytes, hash_size: int) -> None:
        if len(data) < _HEADER.size + hash_size:
            raise UnreadableIndex
        magic, self._version, self._count = _HEADER.unpack_from(data)
        if magic != b"DIRC" or self._version not in (2, 3, 4):
            raise UnreadableIndex
        self._data, self._hash_size = data, hash_size
        #: mtime, mode, size, hash and flags; skips ctime, device, inode, user and group
        self._entry = struct.Struct(f">8xII8xI8xI{hash_size}sH")
        self._end = len(data) - hash_size  #: offset of the checksum
        self._at = _HEADER.size  #: offset of the next unread byte

    def entries(self) -> Iterator[Entry]:
        """Yield all entries in order. Must be exhausted before `committed` is called."""
        data, version, checksum_at, path = self._data, self._version, self._end, b""
        unpack, fixed = self._entry.unpack_from, self._entry.size
        for _ in range(self._count):
            start = self._at
            path_start = start + fixed
            if path_start > checksum_at:
                raise UnreadableIndex
            seconds, nanoseconds, mode, size, blob, flags = unpack(data, start)
            extended_flags = 0
            if flags & _EXTENDED:
                extended_flags = int.from_bytes(data[path_start : path_start + 2])
                path_start += 2
            prefix_length = 0
            if version == 4:
                removed, path_start = self._varint(path_start)
                prefix_length = len(path) - removed
            end = data.find(b"\0", path_start, path_start + MAX_PATH_BYTES)
            if not path_start <= end < checksum_at or prefix_length < 0:
                raise UnreadableIndex
            path = path[:prefix_length] + data[path_start:end]
            if not path or len(path) > MAX_PATH_BYTES:
                raise UnreadableIndex
            # Up to version 3, 1 to 8 null bytes pad an entry to a multiple of 8.
            self._at = end + 1 if version == 4 else start + ((end - start) // 8 + 1) * 8
            is_ignored = bool(flags & _ASSUME_VALID or extended_flags & _SKIP_WORKTREE)
            is_unfinished = bool(flags & _STAGE or extended_flags & _INTENT_TO_ADD)
            yield Entry(path, mode, size, seconds, nanoseconds, blob, is_ignored, is_unfinished)

    def committed(self, wanted: Container[bytes]) -> frozenset[bytes] | None:
        """Return the wanted directories in which nothing was staged since the last commit or checkout; None if the
        index does not record it. The root directory is the empty name."""
        directories = None
        while self._at + _EXTENSION.size <= self._end:
            name, size = _EXTENSION.unpack_from(self._data, self._at)
            self._at += _EXTENSION.size
            if name == b"TREE":
                directories = frozenset(self._trees(self._at, min(self._at + size, self._end), wanted))
            elif name[:1].islower() and name != b"sdir":
                raise UnreadableIndex  # a required extension, such as `link`: most entries are in another file
            self._at += size
        return directories

    def _trees(self, at: int, end: int, wanted: Container[bytes]) -> Iterator[bytes]:
        """Yield the directories that have a valid tree object. git invalidates it on the first change inside."""
        parents: list[tuple[bytes, int]] = []  # parent directories, each with the number of its entries to come
        for _ in range(MAX_DIRECTORIES):
            if at >= end:
                return
            name, _, rest = self._data[at : min(at + MAX_PATH_BYTES, end)].partition(b"\0")
            numbers = rest.partition(b"\n")[0]
            at += len(name) + len(numbers) + 2
            try:
                files, subdirectories = map(int, numbers.split(b" "))
            except ValueError:
                raise UnreadableIndex from None
            while parents and not parents[-1][1]:
                parents.pop()
            path = name
            if parents:
                parent, remaining = parents[-1]
                parents[-1] = (parent, remaining - 1)
                path = parent + b"/" + name if parent else name
            if len(path) > MAX_PATH_BYTES:
                raise UnreadableIndex
            parents.append((path, subdirectories))
            if files >= 0:
                at += self._hash_size
                if path in wanted:
                    yield path
        raise UnreadableIndex

    def _varint(self, at: int) -> tuple[int, int]:
        """Decode a variable-length integer; return it and the offset after it."""
        value = -1
        while at < self._end and value < MAX_PATH_BYTES:
            byte = self._data[at]
            at += 1
            value = (value + 1) << 7 | byte & 0x7F
            if byte < 0x80:
                return value, at
        raise UnreadableIndex
