"""The files of a working tree that have changes which are not committed.

git is not asked: it would run the programs that a repository's configuration names. The index is read instead, and
files are compared with it by size and time, then by content.
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

#: Seconds. An agent waits for this; of a repository that takes longer, only what was found by then is told.
SECONDS = 0.15
#: Files that are told, those changed last.
MOST = 50
#: Bytes of an index; about 300,000 files.
INDEX = 32 << 20
#: Bytes of a file that is compared by its content.
FILE = 1 << 20
#: Bytes of all such files together.
FILES = 8 << 20
#: Entries of a directory that are looked through for new files.
LISTED = 5_000
#: Directories within each other; each holds a descriptor open.
DEPTH = 64
#: Names that no file has. An index that holds them is not git's.
NO_NAME = frozenset((b"", b".", b".."))
#: Nanoseconds.
SECOND = 10**9
_KIND = 0o170000
_KIND_AND_RUN = _KIND | stat.S_IXUSR
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


async def changed_files(cwd: str) -> frozenset[str]:
    """Files with changes that are not committed, from the root of the working tree; none where that can't be told.

    Seen are: files that differ from the index, files in conflict, staged files, and new files beside tracked ones.
    Staged and new files count if they were written since HEAD last moved. Not seen are staged deletions, submodules,
    and whole new directories. A file that a filter rewrites counts as changed once its time has changed.
    """
    return await asyncio.to_thread(_look, cwd, time.monotonic() + SECONDS) if cwd else frozenset()


def _look(cwd: str, until: float) -> frozenset[str]:
    repository = locate(cwd)
    if repository is None:
        return frozenset()
    try:
        scan = _Scan(repository, until)
        try:
            scan.run()
        finally:
            scan.close()
    except (OSError, ValueError, UnreadableIndex):
        return frozenset()
    newest = sorted(scan.found, reverse=True)[:MOST]
    return frozenset(path.decode("utf-8", "replace") for _, path in newest)


class _Directory:
    """A directory of the working tree that is being looked through."""

    def __init__(self, path: bytes, handle: int | None, is_gone: bool = False) -> None:
        self.path, self.handle, self.is_gone = path, handle, is_gone
        self.tracked: set[str] = set()  #: names in it that git knows

    def enter(self, name: bytes) -> _Directory:
        """A directory in it. Links are not followed: git tracks nothing behind them."""
        path = self.path + b"/" + name if self.path else name
        if self.handle is None:
            return _Directory(path, None, self.is_gone)
        try:
            return _Directory(path, os.open(name, _DIRECTORY, dir_fd=self.handle))
        except OSError as error:
            return _Directory(path, None, error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP))


class _Scan:
    """One look through a working tree, in the order of its index."""

    def __init__(self, repository: Repository, until: float) -> None:
        self.found: list[tuple[int, bytes]] = []  #: changed files, each with its time in nanoseconds
        self._repository, self._until = repository, until
        config = repository.config()
        self._hash = "sha256" if config.get(("extensions", "", "objectformat"), "").lower() == "sha256" else "sha1"
        self._has_modes = config.get(("core", "", "filemode"), "").lower() not in ("false", "no", "off", "0")
        self._moved = _time(repository.git_dir / "logs" / "HEAD")  #: when a commit or a checkout last moved HEAD
        self._indexed = _time(repository.git_dir / "index")
        self._to_hash = FILES
        self._recent: list[tuple[int, bytes]] = []  #: as in the index, but written since HEAD moved: perhaps staged
        self._inside = [_Directory(b"", os.open(repository.root, _DIRECTORY & ~os.O_NOFOLLOW))]

    def close(self) -> None:
        for directory in self._inside:
            if directory.handle is not None:
                os.close(directory.handle)

    def run(self) -> None:
        index = None
        if self._indexed:
            file = self._repository.git_dir / "index"
            if file.stat().st_size > INDEX:
                raise UnreadableIndex
            index = Index(read_regular(file, INDEX), hashlib.new(self._hash, usedforsecurity=False).digest_size)
            for number, entry in enumerate(index.entries()):
                if number % 64 == 0 and time.monotonic() > self._until:
                    return
                self._compare(entry)
        while len(self._inside) > 1:
            self._leave()
        self._list_new(self._inside[0])
        if index:
            folders = {path.rpartition(b"/")[0] for _, path in self._recent}
            committed = index.committed(folders)
            # Before the first commit nothing is noted, and everything is new.
            as_committed = committed if committed is not None or not self._moved else folders
            self.found += [one for one in self._recent if one[1].rpartition(b"/")[0] not in (as_committed or ())]

    def _compare(self, entry: Entry) -> None:
        directory, name = self._go_to(entry.path)
        kind = stat.S_IFMT(entry.mode)
        if directory is None or entry.is_ignored or kind not in (stat.S_IFREG, stat.S_IFLNK):
            return
        if directory.handle is None:
            if directory.is_gone:
                self.found.append((0, entry.path))
            return
        try:
            now = os.stat(name, dir_fd=directory.handle, follow_symlinks=False)
        except FileNotFoundError:
            self.found.append((0, entry.path))
            return
        if entry.is_unfinished or self._differs(entry, now, directory.handle, name):
            self.found.append((now.st_mtime_ns, entry.path))
        elif now.st_mtime_ns >= self._moved:
            self._recent.append((now.st_mtime_ns, entry.path))

    def _differs(self, entry: Entry, now: os.stat_result, directory: int, name: bytes) -> bool:
        """Whether a file differs from the index: by size and time, and by content where these leave it open."""
        mode, written = now.st_mode, now.st_mtime_ns
        if (entry.mode ^ mode) & (_KIND_AND_RUN if self._has_modes and stat.S_ISREG(mode) else _KIND):
            return True
        size = now.st_size & 0xFFFFFFFF
        if entry.size == size:
            # What was written when the index was, or later, may have been changed after git looked at it.
            if entry.nanoseconds:
                if entry.seconds * SECOND + entry.nanoseconds == written < self._indexed:
                    return False
            elif entry.seconds == written // SECOND < self._indexed // SECOND:
                return False
        elif entry.size:
            return True
        return self._holds_other(entry, now, directory, name)

    def _holds_other(self, entry: Entry, now: os.stat_result, directory: int, name: bytes) -> bool:
        """Whether the content differs; what is too large to be read counts as the same."""
        if now.st_size > min(FILE, self._to_hash):
            return False
        self._to_hash -= now.st_size
        try:
            if stat.S_ISLNK(now.st_mode):
                content = os.readlink(name, dir_fd=directory)
            else:
                content = read_regular(name, FILE, within=directory)
        except OSError:
            return False
        blob = hashlib.new(self._hash, b"blob %d\0" % len(content), usedforsecurity=False)
        blob.update(content)
        return blob.digest() != entry.blob

    def _go_to(self, path: bytes) -> tuple[_Directory | None, bytes]:
        """The directory of a path, opened step by step, and the path's last name; None if there can be no such path."""
        folder, _, name = path.rpartition(b"/")
        if name in NO_NAME:
            return None, name
        if folder != self._inside[-1].path:
            parts = folder.split(b"/") if folder else []
            if len(parts) > DEPTH or not NO_NAME.isdisjoint(parts):
                return None, name
            while self._inside[-1].path and not (folder + b"/").startswith(self._inside[-1].path + b"/"):
                self._leave()
            for part in parts[len(self._inside) - 1 :]:
                self._inside[-1].tracked.add(os.fsdecode(part))
                self._inside.append(self._inside[-1].enter(part))
        self._inside[-1].tracked.add(os.fsdecode(name))
        return self._inside[-1], name

    def _leave(self) -> None:
        directory = self._inside.pop()
        self._list_new(directory)
        if directory.handle is not None:
            os.close(directory.handle)

    def _list_new(self, directory: _Directory) -> None:
        """Files in it that git does not track and that were written since HEAD moved. Some may be ignored by git."""
        if directory.handle is None or time.monotonic() > self._until:
            return
        with contextlib.suppress(OSError), os.scandir(directory.handle) as listed:
            for item in islice(listed, LISTED):
                if item.name in directory.tracked or item.name == ".git" or not item.is_file(follow_symlinks=False):
                    continue
                at = item.stat(follow_symlinks=False).st_mtime_ns
                if at >= self._moved:
                    name = os.fsencode(item.name)
                    self.found.append((at, directory.path + b"/" + name if directory.path else name))


def _time(path: Path) -> int:
    """When a file was written, in nanoseconds; 0 if there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
