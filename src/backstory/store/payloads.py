"""What an event holds, as it is stored and as it is read: large ones packed, and without their output in time."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any

from backstory.model import Event
from backstory.store.db import Row, Tx

#: From this length on a payload is packed. (PostgreSQL packs by itself.)
LARGE = 1000
#: Looked at in one transaction, so that nobody waits long behind it.
PAGE = 50
_OUTPUT = ("tool_response", "error")


def pack(text: str) -> str | bytes:
    """A payload as SQLite keeps it. Quick rather than small: it is on the way of every event."""
    return zlib.compress(text.encode(), 1) if len(text) >= LARGE else text


def unpack(stored: Any) -> Any:
    """A payload as text; an empty one, which no payload is, where its bytes are damaged."""
    if not isinstance(stored, bytes):
        return stored
    try:
        return zlib.decompress(stored).decode()
    except (zlib.error, ValueError):
        return ""


class DamagedPayload(ValueError):
    """A stored payload is no JSON object. Its text is not quoted."""


def read(stored: Any) -> dict[str, Any]:
    """What a payload holds; `Damaged` where somebody, or a disk, has changed it."""
    if stored is None:
        return {}
    try:
        value = json.loads(stored)
    except (ValueError, TypeError, RecursionError):
        raise DamagedPayload from None
    if not isinstance(value, dict):
        raise DamagedPayload
    return value


def read_or_nothing(stored: Any) -> dict[str, Any]:
    """The same for those who can do without it."""
    try:
        return read(stored)
    except DamagedPayload:
        return {}


def drop_output(tx: Tx, before: str, after: int) -> int | None:
    """Take what tools answered out of the next few observed events that were kept before a moment; what they were
    asked stays. The last event that was looked at; None if there was none."""
    rows = tx.all("events_with_output", before=before, after=after, limit=PAGE)
    for row in rows:
        payload = read_or_nothing(row["payload"])
        if any(name in payload for name in _OUTPUT):
            kept = {name: value for name, value in payload.items() if name not in _OUTPUT}
            tx.run("event_put_payload", id=row["id"], payload=json.dumps(kept, ensure_ascii=False))
            tx.run("observations_drop_output", id=row["id"])
    return int(rows[-1]["id"]) if rows else None


def decode(row: Row) -> Event:
    """A stored report; `Damaged` if its payload is."""
    return Event(
        id=row["id"],
        session_id=row["session_id"],
        prompt_number=row["prompt_number"],
        kind=row["kind"],
        occurred_at=row["occurred_at"],
        tool_name=row["tool_name"],
        tool_use_id=row["tool_use_id"],
        payload=read(row["payload"]),
        attempts=row["attempts"],
    )


def decode_sound(rows: Iterable[Row]) -> tuple[tuple[Event, ...], list[int]]:
    """Stored reports, and the ids of those whose payload is damaged."""
    sound, damaged = [], []
    for row in rows:
        try:
            sound.append(decode(row))
        except DamagedPayload:
            damaged.append(row["id"])
    return tuple(sound), damaged
