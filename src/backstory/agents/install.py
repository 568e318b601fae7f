"""What the installers share: the place of an installation, the change of a file, and atomic writes."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from backstory.errors import SettingsUnreadable
from backstory.paths import read_object, sync

What = Literal["installed", "updated", "unchanged", "removed", "restored", "absent"]

#: Modes of files that we create. Those in a user's home may hold keys one day, those of a project are for everybody.
PRIVATE = 0o600
SHARED = 0o666
#: Attempts to write a file that another program changes at the same time.
ATTEMPTS = 5
LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent runs, which of its files are changed, and what they call."""

    scope: str  #: "user" or "project"
    home: Path
    cwd: Path
    env: Mapping[str, str]
    hook: str = ""  #: the shell command of the hook
    mcp: str = ""  #: the program of the MCP server; empty: the one of the default data directory
    records: Path = Path()  #: the folder of the installation records

    @property
    def mode(self) -> int:
        """The mode of a file that is created, before the umask."""
        return SHARED if self.scope == "project" else PRIVATE

    def record(self, agent: str, path: Path, suffix: str = ".kept") -> Path:
        """The path of a part's record. The records of hooks end in .json: only they say that an agent reports."""
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
        return self.records / f"{agent}-{digest}{suffix}"


@dataclass(frozen=True, slots=True)
class FileChange:
    """What was or would be done to a file. `None` means that there is no file."""

    path: Path
    before: bytes | None
    after: bytes | None
    what: What

    def diff(self) -> str:
        old, new = (LINE.findall((content or b"").decode("utf-8", "replace")) for content in (self.before, self.after))
        name, none = str(self.path), os.devnull
        source, target = (none if content is None else name for content in (self.before, self.after))
        lines = difflib.unified_diff(old, new, source, target)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def summary(self) -> str:
        """What was or would be done to the file, in a few words."""
        if self.before == self.after:
            return "no change"
        lines = self.diff().splitlines()[2:]
        added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        counts = [f"{sign}{count}" for sign, count in (("+", added), ("-", removed)) if count]
        whole = ", a new file" if self.before is None else ", the file goes" if self.after is None else ""
        return f"{' '.join(counts)} {'line' if added + removed == 1 else 'lines'}{whole}"


@dataclass(frozen=True, slots=True)
class InstalledPart:
    """Something that we install in a file or folder of an agent. Each file format has a function that makes one."""

    what: str  #: what it is and its verb, such as "hooks are"
    path: Path
    record: Path  #: a JSON object for uninstall; "made_dirs" are the folders that we made
    #: dry_run -> what was or would be changed
    install: Callable[[bool], FileChange]
    uninstall: Callable[[bool], FileChange]

    def made_dirs(self) -> tuple[str, ...]:
        made_dirs = read_object(self.record).get("made_dirs")
        return tuple(map(str, made_dirs)) if isinstance(made_dirs, list) else ()


def carry_out(path: Path, attempt: Callable[[Path, bytes | None], FileChange | None]) -> FileChange:
    """Repeat the attempt while another program changes the file. A symbolic link is followed and stays a link."""
    try:
        target = Path(os.path.realpath(path))
        for _ in range(ATTEMPTS):
            if change := attempt(target, read(target)):
                return change
    except OSError as error:
        raise SettingsUnreadable(f"{path} could not be read or written: {error.strerror}.") from error
    except RecursionError as error:
        raise SettingsUnreadable(f"{path} is nested too deeply, so nothing was changed.") from error
    raise SettingsUnreadable(f"{path} is being changed by another program.", "Quit the agent and try again.")


def read(target: Path) -> bytes | None:
    try:
        if not stat.S_ISREG(target.stat().st_mode):  # reading a pipe could block for ever
            raise SettingsUnreadable(f"{target} is not a file, so nothing was changed.")
        return target.read_bytes()
    except FileNotFoundError:
        return None


def swap(target: Path, before: bytes | None, after: bytes | None, mode: int = SHARED) -> bool:
    """Replace the content of a file. Returns False, and does nothing, if it is not `before` any more. `mode` is that of
    a new file; new folders can be entered by whoever can read it."""
    if after is not None and after != before:
        made = missing_dirs(target)
        try:
            for folder in reversed(made):
                Path(folder).mkdir(mode | (mode & 0o444) >> 2, exist_ok=True)
            return write_whole(target, after, mode, lambda: read(target) == before)
        except OSError:
            remove_empty(made)
            raise
    if read(target) != before:
        return False
    if before is not None and after is None:
        target.unlink()
    return True


def write_whole(target: Path, data: bytes, mode: int, still: Callable[[], bool] = lambda: True) -> bool:
    """Write a file atomically, with the mode and owner of the one it replaces. Returns False if `still` does."""
    temporary = target.with_name(f".backstory-{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                old = target.stat()
                with contextlib.suppress(PermissionError):  # only the superuser can give a file back to its owner
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if not still():
            return False
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    sync(target.parent)  # so that the new name survives a power failure
    return True


def missing_dirs(target: Path) -> list[str]:
    """The directories that must be made for a file, innermost first."""
    return [str(parent) for parent in target.parents if not parent.exists()]


def remove_empty(directories: Iterable[str]) -> None:
    for directory in directories:
        with contextlib.suppress(OSError):
            Path(directory).rmdir()
