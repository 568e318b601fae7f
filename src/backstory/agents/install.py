"""Puts our hooks into an agent's JSON settings file and takes them out again, leaving the file as it was found."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from backstory.agents.settings_text import (
    Hook,
    Ours,
    containers,
    is_blank,
    odd_shape,
    value_of,
    with_hooks,
    without_hooks,
)
from backstory.errors import SettingsUnreadable

__all__ = ["FileChange", "Hook", "install", "uninstall"]

What = Literal["installed", "updated", "unchanged", "removed", "restored", "absent"]

ATTEMPTS = 5  # somebody who writes this file five times while we do is not going to stop
LINE = re.compile(r"[^\n]*\n|[^\n]+")


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
class InstallRecord:
    """What we found and what we wrote, kept in our data directory, so that uninstall can lead back."""

    origin: bytes | None  # the file without us
    written: bytes
    made_file: bool  # still true when others have added to the file since, so that an emptied one goes
    made_dirs: tuple[str, ...]  # innermost first

    @classmethod
    def load(cls, path: Path) -> InstallRecord | None:
        """A record that is gone or broken is no record: our entries are then found by their command alone."""
        try:
            kept = json.loads(path.read_bytes())
            origin = None if kept["origin"] is None else kept["origin"].encode()
            meaning(origin)
            return cls(origin, kept["written"].encode(), bool(kept["made_file"]), tuple(map(str, kept["made_dirs"])))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def save(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        origin = None if self.origin is None else self.origin.decode()
        kept = {"origin": origin, "written": self.written.decode(), "made_file": self.made_file}
        write_whole(path, json.dumps(kept | {"made_dirs": self.made_dirs}, indent=1).encode(), 0o600)


def install(path: Path, hooks: Mapping[str, Hook], ours: Ours, record: Path, dry_run: bool = False) -> FileChange:
    """Brings the file to hold exactly these hooks of ours, and all that others have put there."""
    if not all(ours(hook.command) for hook in hooks.values()):
        raise ValueError("a hook that `ours` does not know could never be taken out again")

    def attempt(target: Path, before: bytes | None) -> FileChange | None:
        text, old = text_of(path, before), InstallRecord.load(record)
        if odd := odd_shape(value_of(text)):
            raise SettingsUnreadable(f"{path} {odd}, so nothing was changed.")
        bare = without_ours(path, before, old, ours)
        after = with_hooks(text, hooks, ours, containers(meaning(bare))).encode()
        held = bare != before
        change = FileChange(path, before, after, "unchanged" if after == before else "updated" if held else "installed")
        if dry_run or (after == before and old is not None):
            return change
        # Without our entries in it, the present file is the original, whatever an old record says.
        made_file, made_dirs = made_by_us(target, before, old if held or before is None else None)
        # The record goes first: without its entries it does no harm, entries without it lead back less well.
        InstallRecord(bare, after, made_file, made_dirs).save(record)
        return change if swap(target, before, after) else None

    known = InstallRecord.load(record)
    try:
        return carry_out(path, attempt)
    except SettingsUnreadable:
        put_back(known, record)
        raise


def uninstall(path: Path, ours: Ours, record: Path, dry_run: bool = False) -> FileChange:
    """Takes our entries out: the original bytes again where nobody else has changed the file, else all but ours."""

    def attempt(target: Path, before: bytes | None) -> FileChange | None:
        old = InstallRecord.load(record)
        after = without_ours(path, before, old, ours)
        back = after is None or (old is not None and after == old.origin)
        change = FileChange(path, before, after, "absent" if after == before else "restored" if back else "removed")
        if dry_run:
            return change
        if not swap(target, before, after):
            return None
        if after is None and old is not None:
            remove_empty(old.made_dirs)
        record.unlink(missing_ok=True)
        return change

    return carry_out(path, attempt)


def carry_out(path: Path, attempt: Callable[[Path, bytes | None], FileChange | None]) -> FileChange:
    """Tries until the file holds still. A link is followed, so that it stays a link."""
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


def without_ours(path: Path, before: bytes | None, record: InstallRecord | None, ours: Ours) -> bytes | None:
    """The file as it would be had we never come; None for no file."""
    if before is None:
        return None
    if record is not None and before == record.written:  # whether or not `ours` still knows what an older we wrote
        return record.origin
    text = text_of(path, before)
    origin = record.origin if record is not None else None
    rest = without_hooks(text, ours, containers(meaning(origin)))
    if rest == text:
        return before
    if record is not None and record.made_file and value_of(rest) == {}:
        return None
    # Somebody may have laid the file out anew, as agents do when they store a setting: then it is still the same.
    return origin if origin is not None and value_of(rest) == meaning(origin) else rest.encode()


def meaning(content: bytes | None) -> Any:
    return value_of((content or b"").decode())


def text_of(path: Path, before: bytes | None) -> str:
    """The file's text, known to be JSON; an empty one stands for no settings."""
    try:
        text = (before or b"").decode()
        value_of(text)
    except UnicodeDecodeError as error:
        raise SettingsUnreadable(f"{path} is not UTF-8 text, so nothing was changed.") from error
    except ValueError as error:
        where = isinstance(error, json.JSONDecodeError) and f"{error.msg} at line {error.lineno}, column {error.colno}"
        hint = "Settings are plain JSON, without comments and without a comma before a closing bracket."
        raise SettingsUnreadable(f"{path} is not JSON ({where or error}), so nothing was changed.", hint) from error
    return "{}\n" if is_blank(text) else text


def put_back(known: InstallRecord | None, record: Path) -> None:
    """Whoever asks the records where we are installed is not told of an install that failed."""
    if InstallRecord.load(record) == known:
        return
    with contextlib.suppress(OSError):
        if known is None:
            record.unlink(missing_ok=True)
        else:
            known.save(record)


# The file


def made_by_us(target: Path, before: bytes | None, old: InstallRecord | None) -> tuple[bool, tuple[str, ...]]:
    """Whether the file, and which directories, are there only because of us, now or since an older record."""
    made_dirs = dict.fromkeys([*missing_dirs(target), *(old.made_dirs if old else ())])
    return before is None or (old is not None and old.made_file), tuple(made_dirs)


def read(target: Path) -> bytes | None:
    try:
        if not stat.S_ISREG(target.stat().st_mode):  # reading a pipe would wait for ever
            raise SettingsUnreadable(f"{target} is not a file, so nothing was changed.")
        return target.read_bytes()
    except FileNotFoundError:
        return None


def swap(target: Path, before: bytes | None, after: bytes | None) -> bool:
    """Puts one content in the place of the other; False, and nothing done, if somebody was quicker."""
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
    """Writes a file whole or not at all, with the mode and owner of the one it replaces, if `still` at the end."""
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
