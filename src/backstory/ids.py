"""Ids and timestamps in the forms that are stored. Both sort by time."""

from __future__ import annotations

import os
from datetime import UTC, datetime


def now() -> str:
    """Return the current time in UTC in the stored format: 2026-02-21T03:39:07.123Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def today() -> str:
    """Return today's date in local time."""
    return datetime.now().astimezone().strftime("%Y-%m-%d")


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def at_ms(stamp: str) -> int:
    """Convert a stored timestamp to milliseconds since 1970."""
    return int(datetime.fromisoformat(stamp).timestamp() * 1000)


def stored_ms(stamp: str) -> int:
    """The same for a row that may have been edited by hand. Returns 0 if it is not a timestamp."""
    try:
        return at_ms(stamp)
    except (ValueError, OverflowError):
        return 0


def from_ms(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_event_id() -> str:
    """Return a new id. It starts with the time, so that ids sort by it. `hook.py` builds the same form."""
    return f"{now_ms():013x}-{os.urandom(8).hex()}"


def event_time(event_id: str) -> str | None:
    """Return the time in an id that `new_event_id` made; None for any other id."""
    head, dash, tail = event_id.partition("-")
    if not dash or len(head) != 13 or len(tail) != 16:
        return None
    try:
        return from_ms(int(head, 16))
    except (ValueError, OverflowError, OSError):
        return None


def number(text: str) -> int | None:
    """Parse a row number from a request: up to 18 ASCII digits, which fit a 64-bit column; else None."""
    # `int` alone also accepts signs, spaces, underscores and non-ASCII digits, and fails on thousands of digits.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def session_number(text: str) -> int | None:
    """Parse the id of a session as search prints it: `S12` or `s12`; else None."""
    return number(text[1:]) if text[:1] in ("S", "s") else None
