"""Events, and the queue that they form: adds, claims and finishes them, and retries those that failed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields

import msgspec

from backstory import ids
from backstory.errors import LeaseLost
from backstory.jobs import place_of
from backstory.model import FROM_LINE, OBSERVED, Event, ModelCall, Report, Round, Session
from backstory.store import ledger, noted, observations, prompts, sessions, turns
from backstory.store.db import Row, Tx
from backstory.store.payloads import decode_sound, read_or_nothing

log = logging.getLogger(__name__)

#: Errors that a damaged row may cause.
DAMAGE_ERRORS = (TypeError, ValueError, LookupError, AttributeError)
#: The stored error of an event whose payload cannot be read.
DAMAGED = "Damaged"
#: Kinds that carry the agent's id of their prompt. The id of a compaction means something else.
WITH_PROMPT_ID = OBSERVED | {"prompt"}
#: Attempts after which an event is set aside.
MAX_ATTEMPTS = 5
#: Attempts of a whole round that ended without a known error. After that its events are tried one by one.
WHOLE_ATTEMPTS = 3
#: Events that are observed at once, at most. It bounds the size of a request to a model.
MAX_EVENTS = 400
#: Maximum number of the last turns of a session that the observer reads.
MAX_TURNS = 600
#: Milliseconds. Newer events are observed before older ones, such as those of an import.
RECENT_MS = 3_600_000
#: Milliseconds in which the last round of a session that ended is normally observed.
ENDED_MS = 10_000
#: Milliseconds after which a round is observed although it has not ended.
LONG_MS = 120_000


@dataclass(frozen=True, slots=True)
class Added:
    """The event that a report became, or why it was skipped."""

    id: int
    event_id: str
    session_id: int
    prompt_number: int
    skipped: str | None = None  #: tool, project, private, untold, duplicate or own


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it is stored, with the columns that tell its round and its state."""

    id: int
    event_id: str
    session_id: int
    prompt_number: int
    prompt_id: str | None
    kind: str
    status: str
    reason: str | None  #: why it is a tombstone
    lease_owner: str | None
    occurred_at: str
    payload: str | None  #: JSON; None if its content was removed or held back


_COLUMNS = tuple(each.name for each in fields(StoredEvent))


@dataclass(frozen=True, slots=True)
class Claim:
    """The events of a round, leased to an owner."""

    round: Round
    owner: str


def add(
    tx: Tx, session: Session, report: Report, settle_ms: int = 0, skipped: str | None = None, hold_ms: int = 0
) -> Added:
    """Store a report once. A repeated report, by event id or tool use id, changes nothing."""
    if known := same(tx, session, report):
        return Added(known.id, known.event_id, known.session_id, known.prompt_number, "duplicate")
    prompt = _round(tx, session, report)
    if twin := _twin(tx, session, report, prompt.number):
        return Added(*twin, session.id, prompt.number, "duplicate")
    if report.kind in OBSERVED and prompt.is_private:
        skipped = skipped or "private"
    forgotten = _is_forgotten(tx, session, report, prompt.number)
    if forgotten:
        skipped = "private"  # callers need not know that it was forgotten
    waits = report.kind in OBSERVED and not skipped
    payload = None if skipped else msgspec.json.encode(report.payload).decode()
    status = "tombstone" if skipped else "queued" if waits else "done"
    row = _insert(tx, session, report, prompt.number, payload, status, "forgotten" if forgotten else skipped)
    assert row is not None  # noqa: S101 - `same` has checked for a duplicate in this transaction
    if waits:
        # A round is observed when it has ended, or when no event has come for a while.
        settles = ids.now_ms() + settle_ms
        if report.kind == "stop":
            settles = ids.now_ms() + hold_ms if hold_ms else 0
        tx.run("session_settle", id=session.id, settles_at=settles)
    return Added(row["id"], report.event_id, session.id, prompt.number, skipped)


def _round(tx: Tx, session: Session, report: Report) -> prompts.PromptPlace:
    """Return the round of a report. If its prompt is not known yet, reserve a number for the prompt."""
    if report.kind in OBSERVED and report.prompt_id:
        return sessions.place_of_prompt_id(tx, session, report.prompt_id) or sessions.reserve(tx, session)
    return sessions.prompt_for(tx, session, report.prompt_id, report.occurred_at)


def add_prompt_report(tx: Tx, session: Session, report: Report, number: int) -> None:
    """Store another report of a known prompt. Its prompt id refers to that prompt from now on."""
    _insert(tx, session, report, number, "{}", "done")


def _insert(
    tx: Tx, session: Session, report: Report, number: int, payload: str | None, status: str, reason: str | None = None
) -> Row | None:
    return tx.one(
        "event_add",
        event_id=report.event_id,
        session_id=session.id,
        prompt_number=number,
        prompt_id=report.prompt_id if report.kind in WITH_PROMPT_ID else None,
        kind=report.kind,
        tool_name=report.tool_name,
        tool_use_id=report.tool_use_id,
        payload=payload,
        occurred_at=report.occurred_at,
        at=ids.now(),
        status=status,
        reason=reason,
    )


def _is_forgotten(tx: Tx, session: Session, report: Report, number: int) -> bool:
    """Tell whether a report belongs to a forgotten session, or ends a round whose end was forgotten."""
    if session.forgotten_at:
        return True
    if report.kind not in ("stop", "subagent_stop", "post_compact"):
        return False
    about = {"session_id": session.id, "prompt_number": number, "kind": report.kind}
    return tx.one("event_forgotten_in_round", **about) is not None or turns.is_closed(tx, session.id, number)


def from_row(row: Row) -> StoredEvent:
    return StoredEvent(**{name: row[name] for name in _COLUMNS})


def by_event_id(tx: Tx, session_id: int, event_id: str) -> StoredEvent | None:
    row = tx.one("event_by_event_id", session_id=session_id, event_id=event_id)
    return from_row(row) if row else None


def by_tool_use(tx: Tx, session_id: int, tool_use_id: str) -> StoredEvent | None:
    row = tx.one("event_by_tool_use", session_id=session_id, tool_use_id=tool_use_id)
    return from_row(row) if row else None


def same(tx: Tx, session: Session, report: Report) -> StoredEvent | None:
    """Return the stored event with the same event id or tool use id."""
    event = by_event_id(tx, session.id, report.event_id)
    if event is None and report.tool_use_id:
        event = by_tool_use(tx, session.id, report.tool_use_id)
    return event


def _twin(tx: Tx, session: Session, report: Report, number: int) -> tuple[int, str] | None:
    """Return the ids of the same event if the transcript, or another hook, has reported it: hooks may be in the
    settings and in the plugin. The agent's id of the prompt tells a repeated report from an event that happened twice.
    The start of a session has no such id."""
    for stop in stops_of_round(tx, session, number) if report.kind == "stop" else ():
        is_line = stop.event_id.startswith(FROM_LINE)
        if is_same_stop(stop, report) and (is_line or _is_reported_twice(tx, stop, report)):
            return stop.id, stop.event_id
    if report.tool_use_id or not (report.prompt_id or report.kind == "session_start"):
        return None
    at = ids.at_ms(report.occurred_at)
    row = tx.one(
        "event_twin",
        session_id=session.id,
        prompt_number=number,
        kind=report.kind,
        payload=msgspec.json.encode(report.payload).decode(),
        since=ids.from_ms(at - sessions.TWIN_MS),
        until=ids.from_ms(at + sessions.TWIN_MS),
    )
    return (row["id"], row["event_id"]) if row else None


def _is_reported_twice(tx: Tx, stop: StoredEvent, report: Report) -> bool:
    """Tell whether a second hook reports a stop with the same words. On a busy machine it may come late."""
    is_near = abs(ids.at_ms(stop.occurred_at) - ids.at_ms(report.occurred_at)) <= sessions.LATE_TWIN_MS
    about = {"session_id": stop.session_id, "prompt_number": stop.prompt_number, "id": stop.id}
    has_words = isinstance(report.payload.get("last_assistant_message"), str)
    return bool(report.prompt_id) and has_words and is_near and not tx.one("event_after", **about)


def is_same_stop(stop: StoredEvent, report: Report) -> bool:
    """Tell whether a report is of the same end of a round: by its last message, else by the time."""
    one, other = (p.get("last_assistant_message") for p in (report.payload, read_or_nothing(stop.payload)))
    if isinstance(one, str) and isinstance(other, str):
        return turns.is_same(one, other)
    return abs(ids.at_ms(stop.occurred_at) - ids.at_ms(report.occurred_at)) <= sessions.HOOK_AFTER_MS


def stops_of_round(tx: Tx, session: Session, number: int) -> list[StoredEvent]:
    """Return the ends of a round, as hooks and the transcript reported them."""
    return [from_row(row) for row in tx.all("stops_of_round", session_id=session.id, prompt_number=number)]


def has_near(tx: Tx, session: Session, report: Report, within_ms: int) -> bool:
    """Tell whether hooks reported an event of the same kind at about the same moment."""
    at = ids.at_ms(report.occurred_at)
    around = {"since": ids.from_ms(at - within_ms), "until": ids.from_ms(at + within_ms)}
    return tx.one("event_near", session_id=session.id, kind=report.kind, **around) is not None


def is_in_other_session(tx: Tx, report: Report) -> bool:
    """Tell whether another session of the agent has the same event. A fork repeats the original conversation."""
    names = {"event_id": report.event_id, "tool_use_id": report.tool_use_id}
    about = {"agent": report.agent, "content_id": report.content_id}
    return tx.one("event_in_other_session", **names, **about) is not None


def forgotten_tool_uses(tx: Tx, session_id: int) -> set[str]:
    """Return the agent's ids of the tool uses of a session that were forgotten."""
    return {row["tool_use_id"] for row in tx.all("forgotten_tool_uses", session_id=session_id)}


def close_round(tx: Tx, session_id: int, hold_ms: int = 0) -> None:
    """Let a round be observed now, or after its transcript was read, because no more events will come."""
    tx.run("session_settle", id=session_id, settles_at=ids.now_ms() + hold_ms if hold_ms else 0)


def is_settling(tx: Tx, project_key: str) -> bool:
    """Tell whether a session of a project ended just now and its last round is not observed yet."""
    now = ids.now_ms()
    since = ids.from_ms(now - ENDED_MS)
    return tx.one("session_settling", project_key=project_key, now=now, since=since) is not None


def is_reading(tx: Tx, session_id: int) -> bool:
    """Tell whether the transcript of a session is being read, or something of it is not observed yet."""
    return tx.one("session_reading", id=session_id, now=ids.now_ms()) is not None


def claim(tx: Tx, lease_ms: int, worker: str = "", long_ms: int = LONG_MS, provider: str = "") -> Claim | None:
    """Lease the oldest round that is ready, in order within its session, to `worker`, which finds its leases after a
    restart, and to the `provider` that will observe it. After a failure, lease one event at a time. Events that cannot
    be read are set aside."""
    now = ids.now_ms()
    ready = {"now": now, "long_ago": ids.from_ms(now - long_ms), "recent": ids.from_ms(now - RECENT_MS)}
    while head := tx.one("queue_head", **ready):
        try:
            round, damaged = _round_from(tx, head, provider)
        except DAMAGE_ERRORS as error:
            log.error("event %s was set aside: %s", head["id"], place_of(error))
            round, damaged = None, [head["id"]]
        for number in damaged:
            tx.run("event_set_aside", id=number, error=DAMAGED)
        if round is None:
            continue
        owner = worker + ids.new_event_id()
        tx.run(
            "round_lease",
            session_id=round.session_id,
            prompt_number=round.prompt_number,
            first=round.events[0].id,
            last=round.events[-1].id,
            lease_until=now + lease_ms,
            owner=owner,
        )
        return Claim(round, owner)
    return None


def _round_from(tx: Tx, head: Row, provider: str) -> tuple[Round | None, list[int]]:
    """Return the round that begins with an event, and the ids of its damaged events."""
    rows = tx.all(
        "queue_round",
        session_id=head["session_id"],
        prompt_number=head["prompt_number"],
        head=head["id"],
        alone=int(head["attempts"] >= WHOLE_ATTEMPTS or (head["attempts"] > 0 and head["last_error"] is not None)),
        limit=MAX_EVENTS,
    )
    sound, damaged = decode_sound(rows)
    return (round_of(tx, sessions.get(tx, head["session_id"]), sound, provider) if sound else None), damaged


def round_of(tx: Tx, session: Session, waiting: tuple[Event, ...], provider: str = "") -> Round:
    """Return the round of these events."""
    number, first = waiting[0].prompt_number, waiting[0].id
    prompt = prompts.by_number(tx, session.id, number)
    earlier = tx.all("events_of_round", session_id=session.id, prompt_number=number, before=first, limit=MAX_EVENTS)
    used = tx.all("tools_used", session_id=session.id, prompt_number=number)
    return Round(
        session_id=session.id,
        content_id=session.content_session_id,
        memory_id=session.memory_session_id,
        agent=session.agent,
        project=session.project,
        cwd=session.cwd,
        root=session.root,
        prompt_number=number,
        prompt=(prompt.prompt if prompt else None) or "",
        events=waiting,
        earlier=decode_sound(reversed(earlier))[0],
        turns=tuple(turns.up_to_round(tx, session.id, number, MAX_TURNS)),
        tools=tuple((row["prompt_number"], row["tool_name"]) for row in used),
        noted=tuple(noted.of_session(tx, session.id)),
        notes_before=noted.notes_before(tx, session.id, number),
        resume=sessions.resume(
            session.memory_session_id,
            session.prompt_counter,
            session.force_init,
            issued_by=session.memory_provider,
            provider=provider,
        ),
    )


def finish(tx: Tx, claim: Claim, stored: observations.Stored) -> observations.StoredRows:
    """Store the observations of a round and mark its events as done, in one transaction."""
    rows = observations.store(tx, claim.round, stored)
    number, instead_of = claim.round.session_id, stored.reply.instead_of or None
    ledger.add(tx, number, stored.reply.calls)
    done = tx.run("round_finish", session_id=number, owner=claim.owner, at=ids.now(), instead_of=instead_of)
    if done != len(claim.round.events):
        raise LeaseLost
    return rows


def fail(tx: Tx, claim: Claim, error: str, retry_ms: int) -> list[int]:
    """Queue a round again after a growing pause. Set events aside that failed too often, and return their ids."""
    dead = []
    for event in claim.round.events:
        attempts = event.attempts + 1
        # Only an event that failed alone is set aside. In a group, another event may be the cause.
        is_dead = attempts >= MAX_ATTEMPTS and len(claim.round.events) == 1
        pause = retry_ms * 2 ** min(attempts - 1, 10)
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


def postpone(tx: Tx, claim: Claim, wait_ms: int, calls: Sequence[ModelCall] = ()) -> None:
    """Queue a round again for later, without counting the attempt."""
    ledger.add(tx, claim.round.session_id, calls)
    tx.run("round_postpone", session_id=claim.round.session_id, owner=claim.owner, available_at=ids.now_ms() + wait_ms)


def next_due(tx: Tx) -> int | None:
    """Return when the next round is ready, in milliseconds."""
    row = tx.one("queue_next_due")
    return row["due"] if row and isinstance(row["due"], int) else None  # SQLite allows text in a column of numbers


def recover(tx: Tx, worker: str = "") -> None:
    """Release the leases of a worker that starts again, and let the observer begin new conversations."""
    tx.run("queue_release", worker=worker, now=ids.now_ms())
    sessions.force_init(tx)


def queued(tx: Tx, status: str, after: int, limit: int) -> list[Row]:
    """Return the events that wait, are being observed or were set aside, or those of one status, oldest first."""
    return tx.all("queue_list", status=status, after=after, limit=limit)


def retry(tx: Tx, number: int) -> int:
    """Queue an event again that was set aside, or all of them for 0. Return how many."""
    return tx.run("queue_retry", id=number)


def drop(tx: Tx, number: int) -> int:
    """Drop an event that waits or was set aside, or all that were set aside for 0. Return how many."""
    return tx.run("queue_drop", id=number)


def counts(tx: Tx) -> dict[str, int]:
    by_status = {row["status"]: row["count"] for row in tx.all("queue_counts")}
    return {name: by_status.get(name, 0) for name in ("queued", "leased", "dead")}
