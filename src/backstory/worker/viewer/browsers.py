"""Signs browsers in: `backstory open` gets a code that works once, and the page exchanges it for a session."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import secrets
import struct
import threading
import time
from pathlib import Path

from backstory.paths import read_object, write_private

#: Seconds in which a code must be used.
CODE_S = 120.0
#: Seconds that a session lasts.
SESSION_S = 12 * 3600.0
#: Times that the kernel's list of connections is read: a row can be missing while other connections come and go.
READS = 5
#: Sessions at the same time. A further one replaces the oldest.
SESSIONS = 64


class Browsers:
    """Codes and sessions. Only their digests are kept: those of codes in memory, those of sessions in a file, so that a
    page stays signed in when the worker restarts. Another token ends all sessions."""

    def __init__(self, path: Path, token: str) -> None:
        self._path, self._owner = path, _digest(f"browsers of {token}")
        self._codes: dict[str, tuple[float, str]] = {}  #: code -> its end, and its session
        self._sessions = self._load()
        self._lock = threading.Lock()

    def make_code(self) -> str:
        with self._lock:
            self._expire()
            code = secrets.token_urlsafe(16)
            self._codes[_digest(code)] = time.monotonic() + CODE_S, ""
            return code

    def exchange(self, code: str) -> str | None:
        """Return a session for a code. A code that is used twice was seen by somebody else, so its session ends."""
        with self._lock:
            self._expire()
            until, session = self._codes.get(_digest(code), (0.0, ""))
            if not until:
                return None
            if session:
                self._sessions.pop(session, None)
                self._save()
                return None
            secret = secrets.token_urlsafe(32)
            while len(self._sessions) >= SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[_digest(secret)] = time.time() + SESSION_S
            self._codes[_digest(code)] = until, _digest(secret)
            self._save()
            return secret

    def knows(self, secret: str) -> bool:
        return _is_valid(self._sessions.get(_digest(secret), 0.0), time.time())

    def _expire(self) -> None:
        now, clock = time.monotonic(), time.time()
        self._codes = {code: kept for code, kept in self._codes.items() if kept[0] > now}
        self._sessions = {each: until for each, until in self._sessions.items() if _is_valid(until, clock)}

    def _load(self) -> dict[str, float]:
        kept = read_object(self._path)
        sessions = kept.get("sessions")
        if kept.get("owner") != self._owner or not isinstance(sessions, dict):
            return {}
        now = time.time()
        return {each: until for each, until in sessions.items() if isinstance(until, float) and _is_valid(until, now)}

    def _save(self) -> None:
        with contextlib.suppress(OSError):  # without it, a restart ends the sessions
            write_private(self._path, json.dumps({"owner": self._owner, "sessions": self._sessions}).encode())


def _is_valid(until: float, now: float) -> bool:
    """Return whether a session goes on. It cannot end later than a new one, unless the clock was set back."""
    return now < until <= now + SESSION_S


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


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
