"""What an event holds, as it is stored and as it is read: large ones packed, and without their output in time."""

from __future__ import annotations

import json
import zlib
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
    return zlib.decompress(stored).decode() if isinstance(stored, bytes) else stored


def drop_output(tx: Tx, before: str, after: int) -> int | None:
    """Take what tools answered out of the next few observed events that were kept before a moment; what they were
    asked stays. The last event that was looked at; None if there was none."""
    rows = tx.all("events_with_output", before=before, after=after, limit=PAGE)
    for row in rows:
        payload = json.loads(row["payload"])
        if isinstance(payload, dict) and any(name in payload for name in _OUTPUT):
            kept = {name: value for name, value in payload.items() if name not in _OUTPUT}
            tx.run("event_put_payload", id=row["id"], payload=json.dumps(kept, ensure_ascii=False))
            tx.run("observations_drop_output", id=row["id"])
    return int(rows[-1]["id"]) if rows else None


def decode(row: Row) -> Event:
    """A stored report."""
    return Event(
        id=row["id"],
        session_id=row["session_id"],
        prompt_number=row["prompt_number"],
        kind=row["kind"],
        occurred_at=row["occurred_at"],
        tool_name=row["tool_name"],
        tool_use_id=row["tool_use_id"],
        payload=json.loads(row["payload"]) if row["payload"] else {},
        attempts=row["attempts"],
    )
