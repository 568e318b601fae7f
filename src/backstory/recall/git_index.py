"""Reads git's index: the files that git tracks, and how each looked when it was added. The bytes may be hostile."""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator
from typing import NamedTuple

#: Bytes of a path; the kernel takes none that is longer.
PATH = 4096
#: Directories that are looked through for what was staged.
DIRECTORIES = 50_000
_HEADER = struct.Struct(">4sII")
_EXTENSION = struct.Struct(">4sI")
_EXTENDED, _STAGE, _ASSUME_VALID = 0x4000, 0x3000, 0x8000
_SKIP_WORKTREE, _INTENT_TO_ADD = 0x4000, 0x2000


class UnreadableIndex(Exception):
    """The index is damaged, or in a form that is not known here."""


class Entry(NamedTuple):
    """One tracked file."""

    path: bytes
    mode: int
    size: int  #: the lowest 32 bits; 0 also where git leaves it open
    seconds: int  #: when it was modified
    nanoseconds: int  #: 0 where the writer of the index does not record it
    blob: bytes  #: the hash of its content
    is_ignored: bool  #: the user has told git not to look at it
    is_unfinished: bool  #: in conflict, or to be added later


class Index:
    """An index of version 2, 3 or 4, with hashes of 20 (SHA-1) or 32 bytes (SHA-256)."""

    def __init__(self, data: bytes, hash_size: int) -> None:
        if len(data) < _HEADER.size + hash_size:
            raise UnreadableIndex
        magic, self._version, self._count = _HEADER.unpack_from(data)
        if magic != b"DIRC" or self._version not in (2, 3, 4):
            raise UnreadableIndex
        self._data, self._hash_size = data, hash_size
        #: mtime, mode, size, hash and flags, without ctime, device, inode, user and group
        self._entry = struct.Struct(f">8xII8xI8xI{hash_size}sH")
        self._end = len(data) - hash_size  #: where the checksum begins
        self._at = _HEADER.size  #: how far it was read

    def entries(self) -> Iterator[Entry]:
        """All entries, in their order. To be read to the end before `committed` is asked."""
        data, version, end_of_all, path = self._data, self._version, self._end, b""
        unpack, fixed = self._entry.unpack_from, self._entry.size
        for _ in range(self._count):
            start = self._at
            begin = start + fixed
            if begin > end_of_all:
                raise UnreadableIndex
            seconds, nanoseconds, mode, size, blob, flags = unpack(data, start)
            more = 0
            if flags & _EXTENDED:
                more = int.from_bytes(data[begin : begin + 2])
                begin += 2
            keep = 0
            if version == 4:
                cut, begin = self._varint(begin)
                keep = len(path) - cut
            end = data.find(b"\0", begin, begin + PATH)
            if not begin <= end < end_of_all or keep < 0:
                raise UnreadableIndex
            path = path[:keep] + data[begin:end]
            if not path or len(path) > PATH:
                raise UnreadableIndex
            # Up to version 3 an entry is filled up with 1 to 8 zeros, to a multiple of 8.
            self._at = end + 1 if version == 4 else start + ((end - start) // 8 + 1) * 8
            is_ignored = bool(flags & _ASSUME_VALID or more & _SKIP_WORKTREE)
            is_unfinished = bool(flags & _STAGE or more & _INTENT_TO_ADD)
            yield Entry(path, mode, size, seconds, nanoseconds, blob, is_ignored, is_unfinished)

    def committed(self, wanted: Container[bytes]) -> frozenset[bytes] | None:
        """Those directories of the wanted into which nothing was added since the last commit or checkout.

        None if the index does not say. The root is the empty name.
        """
        found = None
        while self._at + _EXTENSION.size <= self._end:
            name, size = _EXTENSION.unpack_from(self._data, self._at)
            self._at += _EXTENSION.size
            if name == b"TREE":
                found = frozenset(self._trees(self._at, min(self._at + size, self._end), wanted))
            elif name[:1].islower() and name != b"sdir":
                raise UnreadableIndex  # not to be passed over, such as `link`: most entries are in another file
            self._at += size
        return found

    def _trees(self, at: int, end: int, wanted: Container[bytes]) -> Iterator[bytes]:
        """The directories whose tree object is noted: git drops it with the first change below."""
        inside: list[tuple[bytes, int]] = []  # the directories above, each with how many in it are still to come
        for _ in range(DIRECTORIES):
            if at >= end:
                return
            name, _, rest = self._data[at : min(at + PATH, end)].partition(b"\0")
            numbers = rest.partition(b"\n")[0]
            at += len(name) + len(numbers) + 2
            try:
                files, below = map(int, numbers.split(b" "))
            except ValueError:
                raise UnreadableIndex from None
            while inside and not inside[-1][1]:
                inside.pop()
            path = name
            if inside:
                above, left = inside[-1]
                inside[-1] = (above, left - 1)
                path = above + b"/" + name if above else name
            if len(path) > PATH:
                raise UnreadableIndex
            inside.append((path, below))
            if files >= 0:
                at += self._hash_size
                if path in wanted:
                    yield path
        raise UnreadableIndex

    def _varint(self, at: int) -> tuple[int, int]:
        """A number as git writes offsets, and where it ends."""
        value = -1
        while at < self._end and value < PATH:
            byte = self._data[at]
            at += 1
            value = (value + 1) << 7 | byte & 0x7F
            if byte < 0x80:
                return value, at
        raise UnreadableIndex
