"""Payloads of events: reads them, and removes the output of tools after some time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from backstory.model import Event
from backstory.store.db import Row, Tx

#: Events that are read in one transaction, so that other writers do not wait long.
PAGE = 50
_OUTPUT = ("tool_response", "error")
_COLUMNS = tuple(each.name for each in fields(Event) if each.name != "payload")


class DamagedPayload(ValueError):
    """A stored payload is not a JSON object. The message does not quote it."""


def read(stored: Any) -> dict[str, Any]:
    """Parse a payload. Raises `DamagedPayload`."""
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
    """Parse a payload; empty if it is damaged."""
    try:
        return read(stored)
    except DamagedPayload:
        return {}


def drop_output(tx: Tx, before: str, after: int) -> int | None:
    """Remove the output of tools, not their input, from the next observed events that were stored before a moment.
    Return the id of the last event that was read; None if there are no more."""
    rows = tx.all("events_with_output", before=before, after=after, limit=PAGE)
    for row in rows:
        payload = read_or_nothing(row["payload"])
        if any(name in payload for name in _OUTPUT):
            kept = {name: value for name, value in payload.items() if name not in _OUTPUT}
            tx.run("event_put_payload", id=row["id"], payload=json.dumps(kept, ensure_ascii=False))
            tx.run("observations_drop_output", id=row["id"])
    return int(rows[-1]["id"]) if rows else None


def decode(row: Row) -> Event:
    """Return an event from its row. Raises `DamagedPayload`."""
    return Event(**{name: row[name] for name in _COLUMNS}, payload=read(row["payload"]))


def decode_sound(rows: Iterable[Row]) -> tuple[tuple[Event, ...], list[int]]:
    """Return events from their rows, and the ids of those whose payload is damaged."""
    sound, damaged = [], []
    for row in rows:
        try:
            sound.append(decode(row))
        except DamagedPayload:
            damaged.append(row["id"])
    return tuple(sound), damaged
