"""The files by which host and sandbox talk: `ipc/{group}/{input,tasks,responses}` and snapshots.

An agent may write everywhere in the directory of its group, so anything can be there: links to other groups, pipes,
devices, huge files. The host opens entries by the descriptor of their directory, follows no link, and reads regular
files of limited size only. Everything else is moved to `ipc/errors`, which no sandbox sees.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from backstory import files
from backstory.groups.names import ERRORS, GroupPaths

#: Bytes of a file that the host reads. A request has a few hundred.
MAX_BYTES = 1 << 20
#: Entries of a directory that are looked at in one pass.
MAX_ENTRIES = 1000
#: Files that are kept in `ipc/errors`. Beyond that, what is bad is deleted.
MAX_ERRORS = 1000
#: Bytes of its name that a bad file keeps. With the name of its group it fits into the 255 that a name may have.
MAX_NAME = 120
#: Seconds in which the host writes a file. One under a temporary name that is older is left from a host that died.
WRITTEN_S = 60.0
#: The file in `input` that ends a run.
CLOSE = "_close"
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")


@dataclass(frozen=True, slots=True)
class TakenFile:
    """A file that was read and removed."""

    name: str
    data: bytes


class IpcFiles:
    """The files of one group. No sandbox can write to the directory above, which has those of all groups."""

    def __init__(self, paths: GroupPaths) -> None:
        self.paths, self.group = paths, paths.group
        self._ipc = paths.ipc.parent

    def prepare(self) -> None:
        """Make the directories, and remove what an earlier run has left there, except messages to the group."""
        self._ipc.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in ("tasks", "responses"):
            with self._opened(folder) as directory:
                while names := _names(directory):
                    for name in names:
                        self._remove(directory, name)
        for folder in ("", "input"):
            with self._opened(folder) as directory:
                _remove_temporary(directory)
        self.remove("input", CLOSE)

    def take(self, folder: str) -> list[TakenFile]:
        """Read and remove every `*.json` of a folder, in the order of their names. Each is taken once, even if the host
        dies before it has done what the file says."""
        taken = []
        with self._opened(folder) as directory:
            names = sorted(name for name in _names(directory) if name.endswith(".json") and not name.startswith("."))
            for name in names:
                try:
                    data = files.read_regular(name, MAX_BYTES + 1, within=directory)
                    if len(data) > MAX_BYTES:
                        raise OSError(errno.EFBIG, "too large")
                except FileNotFoundError:
                    continue  # its writer took it back
                except OSError:
                    with suppress(OSError):  # what was taken before it is carried out all the same
                        self._set_aside(directory, name)
                    continue
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=directory)
                    taken.append(TakenFile(name, data))
        return taken

    def put(self, folder: str, name: str, data: bytes) -> None:
        """Write a file under a temporary name, then rename it. A link in its place is replaced, not followed. The
        folder "" is the directory of the group itself."""
        with self._opened(folder) as directory:
            temporary = f".{secrets.token_hex(8)}.tmp"
            handle = files.create_regular(temporary, directory)
            try:
                with os.fdopen(handle, "wb") as out:
                    out.write(data)
                try:
                    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
                except IsADirectoryError:
                    self._set_aside(directory, name)
                    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
                raise

    def remove(self, folder: str, name: str) -> bool:
        """Remove a file; return whether there was one."""
        with self._opened(folder) as directory:
            return self._remove(directory, name)

    def set_aside(self, name: str, data: bytes) -> None:
        """Keep a file in `ipc/errors` that was taken and could not be used."""
        with self._errors() as errors:
            if len(_names(errors)) < MAX_ERRORS:
                with os.fdopen(files.create_regular(self._error_name(errors, name), errors), "wb") as out:
                    out.write(data)

    def remove_errors(self) -> None:
        """Remove what of this group is in `ipc/errors`."""
        for path in (self._ipc / ERRORS).glob(f"{self.group}.*"):
            files.remove(path)

    @contextmanager
    def _opened(self, folder: str) -> Iterator[int]:
        """The descriptor of a folder. Whatever else is in its place is moved away."""
        names = (self.group, folder) if folder else (self.group,)
        try:
            directory = files.open_directory(self._ipc, *names, create=True)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR) or not folder:
                raise
            with self._opened("") as own:
                self._set_aside(own, folder)
            directory = files.open_directory(self._ipc, *names, create=True)
        try:
            yield directory
        finally:
            os.close(directory)

    @contextmanager
    def _errors(self) -> Iterator[int]:
        directory = files.open_directory(self._ipc, ERRORS, create=True)
        try:
            yield directory
        finally:
            os.close(directory)

    def _set_aside(self, directory: int, name: str) -> None:
        with self._errors() as errors, suppress(FileNotFoundError):
            is_full, kept = len(_names(errors)) >= MAX_ERRORS, self._error_name(errors, name)
            files.move(name, kept, directory, errors)
            if is_full:  # it is deleted where its agent cannot add to it
                files.remove(kept, within=errors)

    def _error_name(self, errors: int, name: str) -> str:
        # No group has a `.` in its name.
        kept = f"{self.group}.{os.fsdecode(os.fsencode(name)[:MAX_NAME])}"
        try:
            os.stat(kept, dir_fd=errors, follow_symlinks=False)
        except FileNotFoundError:
            return kept
        return f"{kept}-{time.time_ns()}"

    def _remove(self, directory: int, name: str) -> bool:
        try:
            if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                self._set_aside(directory, name)
            else:
                os.unlink(name, dir_fd=directory)
        except FileNotFoundError:
            return False
        return True


def _remove_temporary(directory: int) -> None:
    """Remove what a host that was killed has begun to write."""
    for name in _names(directory):
        with suppress(OSError):
            changed_at = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime
            if _TEMPORARY.fullmatch(name) and time.time() - changed_at > WRITTEN_S:
                os.unlink(name, dir_fd=directory)


def _names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in itertools.islice(entries, MAX_ENTRIES)]
