"""What agents reported, and the queue in it: add, claim, finish, fail."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from backstory import ids
from backstory.errors import LeaseLost
from backstory.model import OBSERVED, ContentId, Event, MemoryId, Report, Round
from backstory.store import observations, sessions
from backstory.store.db import Row, Tx

#: A poison event is set aside after so many tries.
TRIES = 5
#: A round is observed in pieces of this many events, so that what is sent stays bounded.
PIECE = 200
#: A round that goes on for longer than this is observed while it goes on.
LONG_MS = 120_000


@dataclass(frozen=True, slots=True)
class Added:
    """What became of a report: its row, or why there is none."""

    id: int
    event_id: str
    session_id: int
    prompt_number: int
    skipped: str | None = None  #: tool, project, private, duplicate or own


@dataclass(frozen=True, slots=True)
class Claim:
    """A round's events, ours until the lease runs out."""

    round: Round
    owner: str
    provider: str | None  #: who issued the session's memory id
    force_init: bool


def add(tx: Tx, session: Row, report: Report, settle_ms: int = 0, skipped: str | None = None) -> Added:
    """Store a report once. A second sending, by event id or tool use id, changes nothing."""
    if known := _known(tx, session, report):
        return Added(known["id"], known["event_id"], known["session_id"], known["prompt_number"], "duplicate")
    prompt = sessions.prompt_for(tx, session, report.prompt_id, report.occurred_at)
    if report.kind in OBSERVED and prompt.is_private:
        skipped = skipped or "private"
    forgotten = _is_forgotten(tx, session, report, prompt.number)
    if forgotten:
        skipped = "private"  # to the outside the same: it was heard, and is not kept
    waits = report.kind in OBSERVED and not skipped
    row = tx.one(
        "event_add",
        event_id=report.event_id,
        session_id=session["id"],
        prompt_number=prompt.number,
        kind=report.kind,
        tool_name=report.tool_name,
        tool_use_id=report.tool_use_id,
        payload=None if skipped else json.dumps(report.payload, ensure_ascii=False),
        occurred_at=report.occurred_at,
        at=ids.now(),
        status="tombstone" if skipped else "queued" if waits else "done",
        reason="forgotten" if forgotten else skipped,
    )
    assert row is not None  # noqa: S101 - looked for above, in the same transaction
    if waits:
        # The end of a round lets it be observed at once; anything else lets it go on a little.
        settles = 0 if report.kind == "stop" else ids.now_ms() + settle_ms
        tx.run("session_settle", id=session["id"], settles_at=settles)
    return Added(row["id"], report.event_id, session["id"], prompt.number, skipped)


def _is_forgotten(tx: Tx, session: Row, report: Report, number: int) -> bool:
    """Of a session that was forgotten, or the end of a round whose end was: under a new id it tells the same again."""
    if session["forgotten_at"]:
        return True
    told_again = report.kind in ("stop", "subagent_stop", "post_compact")
    return told_again and bool(
        tx.one("event_forgotten_in_round", session_id=session["id"], prompt_number=number, kind=report.kind)
    )


def _known(tx: Tx, session: Row, report: Report) -> Row | None:
    row = tx.one("event_by_event_id", session_id=session["id"], event_id=report.event_id)
    if row is None and report.tool_use_id:
        row = tx.one("event_by_tool_use", session_id=session["id"], tool_use_id=report.tool_use_id)
    return row


def close_round(tx: Tx, session_id: int) -> None:
    """Nothing more is to come: what waits may be observed now."""
    tx.run("session_settle", id=session_id, settles_at=0)


def claim(tx: Tx, lease_ms: int) -> Claim | None:
    """Take the oldest round that is ready, in order within its session. After a failure, one event at a time."""
    now = ids.now_ms()
    head = tx.one("queue_head", now=now, long_ago=ids.from_ms(now - LONG_MS))
    if head is None:
        return None
    rows = tx.all(
        "queue_round",
        session_id=head["session_id"],
        prompt_number=head["prompt_number"],
        head=head["id"],
        alone=int(head["attempts"] > 0),
        limit=PIECE,
    )
    owner = ids.new_event_id()
    for row in rows:
        tx.run("event_lease", id=row["id"], lease_until=now + lease_ms, owner=owner)
    session = tx.one("session_by_id", id=head["session_id"])
    assert session is not None  # noqa: S101 - the foreign key holds it
    return Claim(_round(tx, session, rows), owner, session["memory_provider"], bool(session["force_init"]))


def _round(tx: Tx, session: Row, rows: Sequence[Row]) -> Round:
    number = rows[0]["prompt_number"]
    prompt = tx.one("prompt_by_number", session_id=session["id"], number=number)
    earlier = tx.all(
        "events_of_round", session_id=session["id"], prompt_number=number, before=rows[0]["id"], limit=PIECE
    )
    return Round(
        session_id=session["id"],
        content_id=ContentId(session["content_session_id"]),
        memory_id=session["memory_session_id"] and MemoryId(session["memory_session_id"]),
        agent=session["agent"],
        project=session["project"],
        cwd=session["cwd"],
        prompt_number=number,
        prompt=(prompt["prompt"] if prompt else None) or "",
        events=tuple(_event(row) for row in rows),
        earlier=tuple(_event(row) for row in reversed(earlier)),
    )


def _event(row: Row) -> Event:
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


def finish(tx: Tx, claim: Claim, stored: observations.Stored) -> observations.Told:
    """Store what a round meant and mark its events done: all of it, or nothing."""
    told = observations.store(tx, claim.round, stored)
    at = ids.now()
    for event in claim.round.events:
        if tx.run("event_finish", id=event.id, owner=claim.owner, at=at) != 1:
            raise LeaseLost
    return told


def fail(tx: Tx, claim: Claim, error: str, retry_ms: int) -> list[int]:
    """Put a round back with a growing pause; events that failed too often are set aside, and returned."""
    dead = []
    for event in claim.round.events:
        tries = event.attempts + 1
        # Several failed together: only one tried alone is blamed, so that a poison event takes no neighbour along.
        is_dead = tries >= TRIES and len(claim.round.events) == 1
        pause = retry_ms * 2 ** min(tries - 1, 10)
        tx.run(
            "event_fail",
            id=event.id,
            owner=claim.owner,
            status="dead" if is_dead else "queued",
            error=error[:500],
            available_at=ids.now_ms() + pause,
        )
        if is_dead:
            dead.append(event.id)
    return dead


def next_due(tx: Tx) -> int | None:
    """When the next round is ready, in milliseconds; None if nothing waits."""
    row = tx.one("queue_next_due")
    return row["due"] if row else None


def recover(tx: Tx) -> None:
    """At a worker's start: take over what the one before had leased, and trust none of its conversations."""
    tx.run("queue_release")
    tx.run("sessions_force_init")


def counts(tx: Tx) -> dict[str, int]:
    found = {row["status"]: row["count"] for row in tx.all("queue_counts")}
    return {name: found.get(name, 0) for name in ("queued", "leased", "dead")}
