"""The lock of a session of the Python API: one caller at a time drives it. It ends with the process that has it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from backstory.errors import SessionBusy
from backstory.paths import Paths
from backstory.sessions.session_file import folder_of, has_folder, make_folder

#: Seconds to wait for a lock. The worker takes it for a moment, to look at a session, pause it or expire it.
WAIT_S = 1.0
#: Seconds between two tries.
PAUSE_S = 0.01


@contextmanager
def hold(paths: Paths, content_id: str, wait_s: float = WAIT_S) -> Iterator[None]:
    """Hold the lock of a session. Raises SessionBusy if somebody else has it, in this process or another."""
    path = make_folder(paths, content_id) / "lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        until = time.monotonic() + wait_s
        while not _try(handle, fcntl.LOCK_EX):
            if time.monotonic() >= until:
                raise SessionBusy(f"Session {content_id} is in use: one caller at a time may drive it.")
            time.sleep(PAUSE_S)
        yield
    finally:
        os.close(handle)  # this releases the lock


def is_held(paths: Paths, content_id: str) -> bool:
    """Tell whether somebody holds the lock of a session. A session that has no directory has no lock."""
    if not has_folder(paths, content_id):
        return False
    try:
        handle = os.open(folder_of(paths, content_id) / "lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        return not _try(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def _try(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
