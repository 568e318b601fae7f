"""Finds the files of a working tree that have uncommitted changes.

Does not run git, because git would run programs that the repository's configuration names. Instead this reads the index
and compares files with it, first by size and time, then by content.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import stat
import time
from itertools import islice
from pathlib import Path

from backstory.files import read_regular
from backstory.recall.git_index import Entry, Index, UnreadableIndex
from backstory.repository import Repository, locate

#: Maximum seconds, because an agent waits for the result. In a larger repository the result is incomplete.
TIMEOUT_S = 0.15
#: Maximum number of files in the result. The most recently changed ones are kept.
MAX_FILES = 50
#: Maximum bytes of an index: about 300,000 files.
MAX_INDEX_BYTES = 32 << 20
#: Maximum bytes of a file whose content is compared.
MAX_FILE_BYTES = 1 << 20
#: Maximum bytes of all such files together.
MAX_TOTAL_BYTES = 8 << 20
#: Maximum entries of a directory that are checked for new files.
MAX_LISTED = 5_000
#: Maximum levels of directories. Each holds a descriptor open.
MAX_DEPTH = 64
#: Invalid names of files. git never writes them to an index.
INVALID_NAMES = frozenset((b"", b".", b".."))
#: Nanoseconds per second.
NS_PER_SECOND = 10**9
_KIND = 0o170000  # bits of a mode: regular file, link, directory
_KIND_AND_EXECUTABLE = _KIND | stat.S_IXUSR
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


async def changed_files(cwd: str) -> frozenset[str] | None:
    """Return files with uncommitted changes, relative to the root of the working tree. None if it is unknown whether
    there are any: the tree cannot be read, or time ran out before a changed file was found.

    Includes files that differ from the index, files in conflict, staged files, and new files next to tracked ones.
    Staged and new files count if they were written since HEAD last moved. Staged deletions, submodules and new
    directories are not detected. A file that a filter rewrites counts as changed as soon as its time has changed.
    """
    return await asyncio.to_thread(_scan, cwd, time.monotonic() + TIMEOUT_S) if cwd else None


def _scan(cwd: str, deadline: float) -> frozenset[str] | None:
    repository = locate(cwd)
    if repository is None:
        return None
    try:
        with contextlib.closing(_Scan(repository, deadline)) as scan:
            scan.run()
    except (OSError, ValueError, UnreadableIndex):
        return None
    if scan.is_cut_short and not scan.changed:
        return None
    newest = sorted(scan.changed, reverse=True)[:MAX_FILES]
    return frozenset(path.decode("utf-8", "replace") for _, path in newest)


class _Directory:
    """A directory of the working tree that is being scanned."""

    def __init__(self, path: bytes, handle: int | None, is_gone: bool = False) -> None:
        self.path, self.handle, self.is_gone = path, handle, is_gone
        self.tracked: set[str] = set()  #: names of its entries that git tracks

    def enter(self, name: bytes) -> _Directory:
        """Open a subdirectory. Symbolic links are not followed, because git tracks nothing behind them."""
        path = self.path + b"/" + name if self.path else name
        if self.handle is None:
            return _Directory(path, None, self.is_gone)
        try:
            return _Directory(path, os.open(name, _DIRECTORY, dir_fd=self.handle))
        except OSError as error:
            return _Directory(path, None, error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP))


class _Scan:
    """One scan of a working tree, in the order of its index."""

    def __init__(self, repository: Repository, deadline: float) -> None:
        self.changed: list[tuple[int, bytes]] = []  #: (modification time in nanoseconds, path)
        self.is_cut_short = False  #: time ran out
        self._repository, self._deadline = repository, deadline
        config = repository.config()
        self._hash = "sha256" if config.get(("extensions", "", "objectformat"), "").lower() == "sha256" else "sha1"
        self._has_modes = config.get(("core", "", "filemode"), "").lower() not in ("false", "no", "off", "0")
        self._head_moved_at = _mtime(repository.git_dir / "logs" / "HEAD")  #: by a commit or a checkout
        self._index_written_at = _mtime(repository.git_dir / "index")
        self._hash_budget = MAX_TOTAL_BYTES
        self._recent: list[tuple[int, bytes]] = []  #: unchanged, but written since HEAD moved: perhaps staged
        self._open_directories = [_Directory(b"", os.open(repository.root, _DIRECTORY & ~os.O_NOFOLLOW))]

    def close(self) -> None:
        for directory in self._open_directories:
            if directory.handle is not None:
                os.close(directory.handle)

    def run(self) -> None:
        index = None
        if self._index_written_at:
            file = self._repository.git_dir / "index"
            if file.stat().st_size > MAX_INDEX_BYTES:
                raise UnreadableIndex
            hash_size = hashlib.new(self._hash, usedforsecurity=False).digest_size
            index = Index(read_regular(file, MAX_INDEX_BYTES), hash_size)
            for number, entry in enumerate(index.entries()):
                if number % 64 == 0 and self._is_late():
                    return
                self._compare(entry)
        while len(self._open_directories) > 1:
            self._leave()
        self._list_new(self._open_directories[0])
        if index:
            folders = {path.rpartition(b"/")[0] for _, path in self._recent}
            committed = index.committed(folders)
            # Before the first commit the index records no trees, and every file is new.
            as_committed = committed if committed is not None or not self._head_moved_at else folders
            self.changed += [one for one in self._recent if one[1].rpartition(b"/")[0] not in (as_committed or ())]

    def _is_late(self) -> bool:
        self.is_cut_short = self.is_cut_short or time.monotonic() > self._deadline
        return self.is_cut_short

    def _compare(self, entry: Entry) -> None:
        directory, name = self._go_to(entry.path)
        kind = stat.S_IFMT(entry.mode)
        if directory is None or entry.is_ignored or kind not in (stat.S_IFREG, stat.S_IFLNK):
            return
        if directory.handle is None:
            if directory.is_gone:
                self.changed.append((0, entry.path))
            return
        try:
            now = os.stat(name, dir_fd=directory.handle, follow_symlinks=False)
        except FileNotFoundError:
            self.changed.append((0, entry.path))
            return
        if entry.is_unfinished or self._differs(entry, now, directory.handle, name):
            self.changed.append((now.st_mtime_ns, entry.path))
        elif now.st_mtime_ns >= self._head_moved_at:
            self._recent.append((now.st_mtime_ns, entry.path))

    def _differs(self, entry: Entry, now: os.stat_result, directory: int, name: bytes) -> bool:
        """Whether a file differs from the index: by size and time, and by content if these are not conclusive."""
        mode, written = now.st_mode, now.st_mtime_ns
        if (entry.mode ^ mode) & (_KIND_AND_EXECUTABLE if self._has_modes and stat.S_ISREG(mode) else _KIND):
            return True
        size = now.st_size & 0xFFFFFFFF
        if entry.size == size:
            # A file that was written at the time of the index or later may have changed after git had read it.
            if entry.nanoseconds:
                if entry.seconds * NS_PER_SECOND + entry.nanoseconds == written < self._index_written_at:
                    return False
            elif entry.seconds == written // NS_PER_SECOND < self._index_written_at // NS_PER_SECOND:
                return False
        elif entry.size:
            return True
        return self._content_differs(entry, now, directory, name)

    def _content_differs(self, entry: Entry, now: os.stat_result, directory: int, name: bytes) -> bool:
        """Whether the content differs. A file that is too large to be read counts as unchanged."""
        if now.st_size > min(MAX_FILE_BYTES, self._hash_budget):
            return False
        self._hash_budget -= now.st_size
        try:
            if stat.S_ISLNK(now.st_mode):
                content = os.readlink(name, dir_fd=directory)
            else:
                content = read_regular(name, MAX_FILE_BYTES, within=directory)
        except OSError:
            return False
        blob = hashlib.new(self._hash, b"blob %d\0" % len(content), usedforsecurity=False)
        blob.update(content)
        return blob.digest() != entry.blob

    def _go_to(self, path: bytes) -> tuple[_Directory | None, bytes]:
        """Open the directory of a path, level by level. Returns it and the file name; None if the path is invalid."""
        folder, _, name = path.rpartition(b"/")
        if name in INVALID_NAMES:
            return None, name
        if folder != self._open_directories[-1].path:
            parts = folder.split(b"/") if folder else []
            if len(parts) > MAX_DEPTH or not INVALID_NAMES.isdisjoint(parts):
                return None, name
            while self._open_directories[-1].path and not (folder + b"/").startswith(
                self._open_directories[-1].path + b"/"
            ):
                self._leave()
            for part in parts[len(self._open_directories) - 1 :]:
                self._open_directories[-1].tracked.add(os.fsdecode(part))
                self._open_directories.append(self._open_directories[-1].enter(part))
        self._open_directories[-1].tracked.add(os.fsdecode(name))
        return self._open_directories[-1], name

    def _leave(self) -> None:
        directory = self._open_directories.pop()
        self._list_new(directory)
        if directory.handle is not None:
            os.close(directory.handle)

    def _list_new(self, directory: _Directory) -> None:
        """Add untracked files that were written since HEAD moved. git may ignore some of them."""
        if directory.handle is None or self._is_late():
            return
        with contextlib.suppress(OSError), os.scandir(directory.handle) as listed:
            for item in islice(listed, MAX_LISTED):
                if item.name in directory.tracked or item.name == ".git" or not item.is_file(follow_symlinks=False):
                    continue
                written_at = item.stat(follow_symlinks=False).st_mtime_ns
                if written_at >= self._head_moved_at:
                    name = os.fsencode(item.name)
                    self.changed.append((written_at, directory.path + b"/" + name if directory.path else name))


def _mtime(path: Path) -> int:
    """Return the modification time of a file in nanoseconds; 0 if it does not exist."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
