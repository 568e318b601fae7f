"""Browsers that `backstory open` lets in: a code that works once, and the session that a page gets for it."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import secrets
import struct
import time
from pathlib import Path

#: Seconds in which a code must be used.
CODE_S = 120.0
#: Seconds that a session lasts: a day's work.
SESSION_S = 12 * 3600.0
#: Sessions at the same time; the oldest makes room.
SESSIONS = 64


class Browsers:
    """Kept in memory, by their digests, so that all of it ends with the worker."""

    def __init__(self) -> None:
        self._codes: dict[bytes, tuple[float, bytes]] = {}  #: code: until when, and the session that it gave
        self._sessions: dict[bytes, float] = {}

    def make_code(self) -> str:
        self._expire()
        code = secrets.token_urlsafe(16)
        self._codes[_digest(code)] = time.monotonic() + CODE_S, b""
        return code

    def exchange(self, code: str) -> str | None:
        """A session for a code. One that comes a second time was read by somebody else: its session ends then."""
        self._expire()
        until, session = self._codes.get(_digest(code), (0.0, b""))
        if not until:
            return None
        if session:
            self._sessions.pop(session, None)
            return None
        secret = secrets.token_urlsafe(32)
        while len(self._sessions) >= SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[_digest(secret)] = time.monotonic() + SESSION_S
        self._codes[_digest(code)] = until, _digest(secret)
        return secret

    def knows(self, secret: str) -> bool:
        return self._sessions.get(_digest(secret), 0.0) > time.monotonic()

    def _expire(self) -> None:
        now = time.monotonic()
        self._codes = {code: kept for code, kept in self._codes.items() if kept[0] > now}
        self._sessions = {session: until for session, until in self._sessions.items() if until > now}


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def is_of_another_user(address: str, port: int) -> bool:
    """Whether the other end of a connection within this machine belongs to another user than us or root.

    A browser is given its code on a command line, which every user of the machine can read. Linux says whose a
    connection is; elsewhere, and for connections from other machines, it is not known.
    """
    try:
        told = ipaddress.ip_address(address)
        if isinstance(told, ipaddress.IPv6Address):
            told = told.ipv4_mapped or told
        words = struct.unpack(f"={len(told.packed) // 4}I", told.packed)
        wanted = "".join(f"{word:08X}" for word in words) + f":{port:04X}"
        table = Path("/proc/net/tcp" if told.version == 4 else "/proc/net/tcp6").read_text("ascii")
    except (OSError, ValueError):
        return False
    rows = [line.split() for line in table.splitlines()[1:]]
    owners = {int(row[7]) for row in rows if len(row) > 7 and row[1] == wanted}
    return bool(owners) and not owners & {0, os.getuid()}
