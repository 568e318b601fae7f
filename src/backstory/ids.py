"""Ids and times: sortable, and the same everywhere."""

from __future__ import annotations

import os
from datetime import UTC, datetime


def now() -> str:
    """This moment, in UTC, as it is stored everywhere: 2026-02-21T03:39:07.123Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def today() -> str:
    """The day on the user's own clock."""
    return datetime.now().astimezone().strftime("%Y-%m-%d")


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def at_ms(stamp: str) -> int:
    """A stored time as milliseconds."""
    return int(datetime.fromisoformat(stamp).timestamp() * 1000)


def stored_ms(stamp: str) -> int:
    """The same of a row that may have been edited by hand; 0 for what is no time."""
    try:
        return at_ms(stamp)
    except (ValueError, OverflowError):
        return 0


def from_ms(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_event_id() -> str:
    """Time first, so that a folder of them sorts as things happened. `hook.py` mints the same form by hand."""
    return f"{now_ms():013x}-{os.urandom(8).hex()}"


def event_time(event_id: str) -> str | None:
    """When an id of ours was minted; None for an id that somebody else made."""
    head, dash, tail = event_id.partition("-")
    if not dash or len(head) != 13 or len(tail) != 16:
        return None
    try:
        return from_ms(int(head, 16))
    except (ValueError, OverflowError, OSError):
        return None


def number(text: str) -> int | None:
    """A row's number as a request names it: up to 18 ASCII digits, so that both engines can hold it; else None.

    `int` alone also takes signs, spaces, underscores and the digits of other scripts, and fails on thousands of digits.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
