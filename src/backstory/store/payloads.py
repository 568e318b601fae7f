"""What an event holds, as it is stored and as it is read."""

from __future__ import annotations

import json

from backstory.model import Event
from backstory.store.db import Row


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
