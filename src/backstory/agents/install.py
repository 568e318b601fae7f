"""What installers of all file formats share: where things go, what changed, and files that are written whole."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from backstory.errors import SettingsUnreadable

What = Literal["installed", "updated", "unchanged", "removed", "restored", "absent"]

#: Somebody who writes a file five times while we do is not going to stop.
ATTEMPTS = 5
LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent is started, whose files are meant, and what they are to call."""

    scope: str  #: "user" or "project"
    home: Path
    cwd: Path
    env: Mapping[str, str]
    hook: str = ""  #: how a shell calls the hook
    mcp: str = ""  #: the program of the MCP server; empty for the one of the usual data directory
    records: Path = Path()  #: the folder of the records

    def record(self, agent: str, path: Path, suffix: str = ".kept") -> Path:
        """The record of a part. Those of hooks end in .json: they alone say where an agent reports."""
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
        return self.records / f"{agent}-{digest}{suffix}"


@dataclass(frozen=True, slots=True)
class FileChange:
    """What was done to a settings file, or would be; None stands for no file."""

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


@dataclass(frozen=True, slots=True)
class InstalledPart:
    """One thing of ours in one file or folder of an agent's. Each file format has a function that makes one."""

    what: str  #: how a sentence about it begins: "hooks are"
    path: Path
    record: Path  #: what uninstall needs to know, a JSON object; "made_dirs" are the folders that we made
    #: dry_run -> what was changed, or would be
    install: Callable[[bool], FileChange]
    uninstall: Callable[[bool], FileChange]

    def made_dirs(self) -> tuple[str, ...]:
        try:
            return tuple(map(str, json.loads(self.record.read_bytes())["made_dirs"]))
        except (OSError, ValueError, KeyError, TypeError):
            return ()


def carry_out(path: Path, attempt: Callable[[Path, bytes | None], FileChange | None]) -> FileChange:
    """Try until the file holds still. A link is followed, so that it stays a link."""
    try:
        target = Path(os.path.realpath(path))
        for _ in range(ATTEMPTS):
            if change := attempt(target, read(target)):
                return change
    except OSError as error:
        raise SettingsUnreadable(f"{path} could not be read or written: {error.strerror}.") from error
    except RecursionError as error:
        raise SettingsUnreadable(f"{path} is nested too deeply, so nothing was changed.") from error
    raise SettingsUnreadable(f"{path} changes faster than we can write it.", "Quit the agent and try again.")


def read(target: Path) -> bytes | None:
    try:
        if not stat.S_ISREG(target.stat().st_mode):  # reading a pipe would wait for ever
            raise SettingsUnreadable(f"{target} is not a file, so nothing was changed.")
        return target.read_bytes()
    except FileNotFoundError:
        return None


def swap(target: Path, before: bytes | None, after: bytes | None) -> bool:
    """Put one content in the place of the other; False, and nothing done, if somebody was quicker."""
    if after is not None and after != before:
        made = missing_dirs(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            return write_whole(target, after, 0o666, lambda: read(target) == before)
        except OSError:
            remove_empty(made)
            raise
    if read(target) != before:
        return False
    if before is not None and after is None:
        target.unlink()
    return True


def write_whole(target: Path, data: bytes, mode: int, still: Callable[[], bool] = lambda: True) -> bool:
    """Write a file whole or not at all, with the mode and owner of the one it replaces, if `still` at the end."""
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
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # or the new name may not outlive a power cut
    finally:
        os.close(directory)
    return True


def missing_dirs(target: Path) -> list[str]:
    """The directories that have to be made for this file, innermost first."""
    return [str(parent) for parent in target.parents if not parent.exists()]


def remove_empty(directories: Iterable[str]) -> None:
    for directory in directories:
        with contextlib.suppress(OSError):
            Path(directory).rmdir()
