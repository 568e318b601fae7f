"""Ends a program when its owner closes the switch or is killed. `launch` is the other end."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from backstory import launch
from backstory.paths import ensure_private

#: Starts `launch`. What follows is the pipe, the program and its arguments.
LAUNCH = (sys.executable, "-I", "-S", str(Path(launch.__file__)))


class KillSwitch:
    """The owner's end of the pipe to `launch`. Closing it, by us or by the kernel, kills the program."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"line-{uuid4().hex}"
        os.mkfifo(self.path, 0o600)
        self._handle: int | None = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            self.path.unlink(missing_ok=True)


def write_launcher(path: Path, pipe: str, program: str, command: Sequence[str] = ()) -> None:
    """Write a script that runs a program through `launch`. Two variables name the pipe and the program.

    With a `command`, that is run instead of the program, with the arguments of the script behind its own.
    """
    started = shlex.join(command) if command else f'"${program}"'
    ensure_private(path, f'#!/bin/sh\nexec {shlex.join(LAUNCH)} "${pipe}" {started} "$@"\n'.encode(), 0o700)
