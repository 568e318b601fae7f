"""Signs browsers in: `backstory open` gets a code that works once, and the page exchanges it for a session."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import os
import secrets
import struct
import time
from pathlib import Path

#: Seconds in which a code must be used.
CODE_S = 120.0
#: Seconds that a session lasts.
SESSION_S = 12 * 3600.0
#: Times that the kernel's list of connections is read: a row can be missing while other connections come and go.
READS = 5
#: Sessions at the same time. A further one replaces the oldest.
SESSIONS = 64


class Browsers:
    """Codes and sessions. Only their digests are kept, in memory, so they end with the worker."""

    def __init__(self) -> None:
        self._codes: dict[bytes, tuple[float, bytes]] = {}  #: code -> its end, and its session
        self._sessions: dict[bytes, float] = {}

    def make_code(self) -> str:
        self._expire()
        code = secrets.token_urlsafe(16)
        self._codes[_digest(code)] = time.monotonic() + CODE_S, b""
        return code

    def exchange(self, code: str) -> str | None:
        """Return a session for a code. A code that is used twice was seen by somebody else, so its session ends."""
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
    """Return whether the peer of a connection within this machine belongs to a user other than us and root: a browser
    gets its code on a command line, which every user can read. Only Linux lists the owner of each connection."""
    try:
        peer = ipaddress.ip_address(address)
        if isinstance(peer, ipaddress.IPv6Address):
            peer = peer.ipv4_mapped or peer
        owners = _owners(peer, port)
    except (OSError, ValueError):
        return False
    if not owners:
        return peer.is_loopback  # the owner cannot be checked
    return not owners & {0, os.getuid()}


def _owners(peer: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> set[int]:
    """Return the user ids of the local sockets with this address and port."""
    tables = {"/proc/net/tcp6": _hexadecimal(peer.packed, port)}
    if isinstance(peer, ipaddress.IPv4Address):  # an IPv6 socket can connect to it, too
        mapped = ipaddress.IPv6Address(f"::ffff:{peer}").packed
        tables = {"/proc/net/tcp": _hexadecimal(peer.packed, port), "/proc/net/tcp6": _hexadecimal(mapped, port)}
    for _ in range(READS):
        for table, local_address in tables.items():
            with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
                rows = [line.split() for line in Path(table).read_text("ascii").splitlines()[1:]]
                # A socket that no process holds has inode 0, and is listed as root's.
                held = [row for row in rows if len(row) > 9 and row[1] == local_address and row[9] != "0"]
                if held:
                    return {int(row[7]) for row in held}
    return set()


def _hexadecimal(address: bytes, port: int) -> str:
    """Format an address as the kernel does."""
    words = struct.unpack(f"={len(address) // 4}I", address)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
