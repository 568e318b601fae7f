"""The option --output: where a command writes a file, or standard output."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from backstory.cli import show
from backstory.errors import BackstoryError
from backstory.paths import expanded

#: What stands for standard output.
STDOUT = "-"


def add_option(command: Any, text: str) -> None:
    """Add --output, and --yes, which overwrites a file without a question."""
    command.add_argument("--output", default=STDOUT, metavar="FILE", help=f"{text} (default: standard output)")
    command.add_argument("--yes", action="store_true", help="overwrite the file without asking")


@contextlib.contextmanager
def opened(name: str, is_overwritten: bool, escape: Callable[[str], str] | None) -> Iterator[IO[bytes]]:
    """Open what --output names. A file appears whole when the block ends, and if that fails the old one stays. A link
    stays a link: its target is written. `escape` is applied to what goes to standard output, if it is given."""
    if name == STDOUT:
        yield _Escaped(escape) if escape else sys.stdout.buffer  # type: ignore[misc]
        return
    target = expanded(name)
    try:
        status = _status(target)
        if status and (not stat.S_ISREG(status.st_mode) or _is_standard(status)):
            with _existing(target, status) as out:
                yield out
            return
        if status and not is_overwritten:
            _ask(target)
        with _replaced(Path(os.path.realpath(target)), status) as out:
            yield out
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BackstoryError(f"{target} could not be written: {error.strerror}.") from None


def is_file(name: str) -> bool:
    """Whether --output names something else than standard output, so that a result can be printed there."""
    if name == STDOUT:
        return False
    try:
        status = _status(expanded(name))
        return status is None or not os.path.samestat(status, os.fstat(1))
    except OSError:
        return True


class _Escaped:
    """Standard output for bytes of text."""

    def __init__(self, escape: Callable[[str], str]) -> None:
        self._escape = escape

    def write(self, data: bytes) -> int:
        show.put(self._escape(data.decode("utf-8", "replace")))
        return len(data)

    def writelines(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.write(line)


def _status(target: Path) -> os.stat_result | None:
    try:
        return target.stat()
    except FileNotFoundError:
        return None


def _is_standard(status: os.stat_result) -> bool:
    """Whether a file is our standard output or error: /dev/stdout may be a file, which the shell has opened."""
    return any(os.path.samestat(status, os.fstat(number)) for number in (1, 2))


def _existing(target: Path, status: os.stat_result) -> IO[bytes]:
    """Open a device, a pipe or a standard stream, as it is."""
    for number in (1, 2):
        if os.path.samestat(status, os.fstat(number)):
            sys.stdout.flush()
            return os.fdopen(os.dup(number), "wb")
    return os.fdopen(os.open(target, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC), "wb")


def _ask(target: Path) -> None:
    if not show.can_ask():
        raise BackstoryError(f"{target} exists already.", "Add --yes to overwrite it.")
    if not show.confirmed(f"Overwrite {target}?"):
        raise BackstoryError(f"{target} was not overwritten.")


@contextlib.contextmanager
def _replaced(target: Path, old: os.stat_result | None) -> Iterator[IO[bytes]]:
    """Write a file beside the target and put it in its place. Only its owner can read a new one."""
    if old and not os.access(target, os.W_OK):
        raise PermissionError(0, "it is read-only")
    temporary = target.with_name(f".backstory-{secrets.token_hex(6)}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as out:
            if old:
                with contextlib.suppress(PermissionError):  # only the superuser can give a file to another user
                    os.fchown(handle, old.st_uid, old.st_gid)
                os.fchmod(handle, stat.S_IMODE(old.st_mode))
            yield out
            out.flush()
            os.fsync(handle)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
