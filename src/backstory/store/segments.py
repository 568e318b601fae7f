"""Segments: the parts into which compactions divide a conversation.

A segment is a span of time between two compactions, which are events. Its turns and tool uses are found by their time,
so nothing is stored twice, and what arrives late is in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from backstory import ids
from backstory.model import Event, Turn
from backstory.store import turns
from backstory.store.db import LAST, Tx
from backstory.store.payloads import decode_sound, read_or_nothing

#: A time after all others.
END = "9999"
#: Milliseconds in which hooks and the transcript report the end of the same compaction.
NEAR_MS = 120_000
#: Tool uses that are read at once. Each may hold a whole file.
PAGE = 50


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a conversation."""

    number: int  #: from 1; 0 stands for the whole conversation
    since: str = ""  #: when the segment before it was compacted; empty for the first one
    until: str = END  #: when it was compacted; `END` for the last one, which is not


WHOLE = Segment(0)


def of_session(tx: Tx, session_id: int) -> list[Segment]:
    """Return the segments of a session, in their order. A session that was never compacted has one."""
    ends = ["", *_compactions(tx, session_id), END]
    return [Segment(number, since, until) for number, (since, until) in enumerate(pairwise(ends), 1)]


def _compactions(tx: Tx, session_id: int) -> Iterator[str]:
    """Yield when each compaction began, or when it ended if its beginning was not reported.

    A compaction that begins and does not end was cancelled, or it failed. After each, the session starts once.
    """
    begun, ended_ms, is_started = "", 0, False
    for row in tx.all("compactions_of_session", session_id=session_id):
        at, kind = row["occurred_at"], row["kind"]
        if kind == "pre_compact":
            begun = at
        elif kind == "session_start" and read_or_nothing(row["payload"]).get("source") != "compact":
            continue
        elif begun or ids.stored_ms(at) > ended_ms + NEAR_MS or (kind == "session_start" and is_started):
            yield begun or at
            begun, ended_ms, is_started = "", ids.stored_ms(at), kind == "session_start"
        else:
            is_started = is_started or kind == "session_start"


def turns_of(tx: Tx, session_id: int, segment: Segment) -> list[Turn]:
    """Return the turns of a segment in the order in which they were said."""
    span = {"since": segment.since, "until": segment.until}
    return [turns.from_row(row) for row in tx.all("turns_between", session_id=session_id, **span)]


def tools_of(tx: Tx, session_id: int, segment: Segment) -> Iterator[Event]:
    """Yield the tool uses of a segment in their order, without those of subagents."""
    at, number = segment.since, LAST
    while rows := tx.all("tools_since", session_id=session_id, at=at, after=number, limit=PAGE):
        for event in decode_sound(rows)[0]:
            if event.occurred_at > segment.until:
                return
            if not event.payload.get("agent_id"):
                yield event
        at, number = rows[-1]["occurred_at"], rows[-1]["id"]


def last_tools(tx: Tx, session_id: int, prompt_number: int, limit: int) -> list[Event]:
    """Return the last tool uses of a round in their order, without those of subagents."""
    rows = tx.all("tools_last", session_id=session_id, limit=PAGE)
    events = decode_sound(reversed(rows))[0]
    ours = [one for one in events if one.prompt_number == prompt_number and not one.payload.get("agent_id")]
    return ours[-limit:]


def tools_of_rounds(tx: Tx, session_id: int, first: int, last: int, limit: int) -> list[Event]:
    """Return the tool uses of several rounds in their order, without those of subagents."""
    rows = tx.all("tools_of_rounds", session_id=session_id, first=first, last=last, limit=limit)
    return [event for event in decode_sound(rows)[0] if not event.payload.get("agent_id")]


def tool_use(tx: Tx, number: int) -> Event | None:
    """Return a tool use by the id of its event."""
    row = tx.one("tool_by_id", id=number)
    return next(iter(decode_sound([row])[0]), None) if row else None
