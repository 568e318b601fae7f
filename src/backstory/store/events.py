"""What agents reported, and the queue in it: add, claim, finish, fail."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from backstory import ids
from backstory.errors import LeaseLost
from backstory.jobs import place_of
from backstory.model import FROM_LINE, OBSERVED, Event, ModelCall, Report, Round, Session
from backstory.store import ledger, observations, prompts, sessions, turns
from backstory.store.db import Row, Tx
from backstory.store.payloads import decode_sound, read_or_nothing

log = logging.getLogger(__name__)

#: What a row that was edited by hand, or damaged, leads to.
ODD = (TypeError, ValueError, LookupError, AttributeError)
#: The stored error of an event whose payload can not be read.
DAMAGED = "Damaged"
#: What carries the agent's id of the prompt that it was done for, or tells of. (A compaction has one of its own.)
NAMING = OBSERVED | {"prompt"}
#: A poison event is set aside after so many tries.
TRIES = 5
#: So often a round that nothing is known against is tried whole: a worker may be killed for reasons of its own.
ALONE = 3
#: A round is observed in pieces of this many events, so that what is sent stays bounded.
PIECE = 400
#: What happened within this time is observed before what is older, such as an import.
RECENT_MS = 3_600_000
#: A round that goes on for longer than this is observed while it goes on.
LONG_MS = 120_000


@dataclass(frozen=True, slots=True)
class Added:
    """What became of a report: its row, or why there is none."""

    id: int
    event_id: str
    session_id: int
    prompt_number: int
    skipped: str | None = None  #: tool, project, private, untold, duplicate or own


@dataclass(frozen=True, slots=True)
class Claim:
    """A round's events, ours until the lease runs out."""

    round: Round
    owner: str


def add(
    tx: Tx, session: Session, report: Report, settle_ms: int = 0, skipped: str | None = None, hold_ms: int = 0
) -> Added:
    """Store a report once. A second sending, by event id or tool use id, changes nothing."""
    if known := same(tx, session, report):
        return Added(known["id"], known["event_id"], known["session_id"], known["prompt_number"], "duplicate")
    prompt = _round(tx, session, report)
    if twin := _twin(tx, session, report, prompt.number):
        return Added(twin["id"], twin["event_id"], session.id, prompt.number, "duplicate")
    if report.kind in OBSERVED and prompt.is_private:
        skipped = skipped or "private"
    forgotten = _is_forgotten(tx, session, report, prompt.number)
    if forgotten:
        skipped = "private"  # to the outside the same: it was heard, and is not kept
    waits = report.kind in OBSERVED and not skipped
    row = tx.one(
        "event_add",
        event_id=report.event_id,
        session_id=session.id,
        prompt_number=prompt.number,
        prompt_id=report.prompt_id if report.kind in NAMING else None,
        kind=report.kind,
        tool_name=report.tool_name,
        tool_use_id=report.tool_use_id,
        payload=None if skipped else msgspec.json.encode(report.payload).decode(),
        occurred_at=report.occurred_at,
        at=ids.now(),
        status="tombstone" if skipped else "queued" if waits else "done",
        reason="forgotten" if forgotten else skipped,
    )
    assert row is not None  # noqa: S101 - looked for above, in the same transaction
    if waits:
        # The end of a round lets it be observed at once; anything else lets it go on a little.
        settles = ids.now_ms() + settle_ms
        if report.kind == "stop":
            settles = ids.now_ms() + hold_ms if hold_ms else 0
        tx.run("session_settle", id=session.id, settles_at=settles)
    return Added(row["id"], report.event_id, session.id, prompt.number, skipped)


def _round(tx: Tx, session: Session, report: Report) -> prompts.PromptPlace:
    """The round of a report. What names a prompt that nobody has told is not the previous round's: it gets a number,
    which waits for that prompt."""
    if report.kind in OBSERVED and report.prompt_id:
        return sessions.named(tx, session, report.prompt_id) or sessions.reserve(tx, session)
    return sessions.prompt_for(tx, session, report.prompt_id, report.occurred_at)


def add_telling(tx: Tx, session: Session, report: Report, number: int) -> None:
    """Note that a report told of a prompt that is known: its id names the prompt from now on."""
    tx.one(
        "event_add",
        event_id=report.event_id,
        session_id=session.id,
        prompt_number=number,
        prompt_id=report.prompt_id,
        kind="prompt",
        tool_name=None,
        tool_use_id=None,
        payload="{}",
        occurred_at=report.occurred_at,
        at=ids.now(),
        status="done",
        reason=None,
    )


def _is_forgotten(tx: Tx, session: Session, report: Report, number: int) -> bool:
    """Of a session that was forgotten, or the end of a round whose end was: under a new id it tells the same again."""
    if session.forgotten_at:
        return True
    told_again = report.kind in ("stop", "subagent_stop", "post_compact")
    return told_again and bool(
        tx.one("event_forgotten_in_round", session_id=session.id, prompt_number=number, kind=report.kind)
    )


def by_event_id(tx: Tx, session_id: int, event_id: str) -> Row | None:
    return tx.one("event_by_event_id", session_id=session_id, event_id=event_id)


def same(tx: Tx, session: Session, report: Report) -> Row | None:
    """Return the stored event with the same event id or tool use id."""
    row = by_event_id(tx, session.id, report.event_id)
    if row is None and report.tool_use_id:
        row = by_tool_use(tx, session.id, report.tool_use_id)
    return row


def _twin(tx: Tx, session: Session, report: Report, number: int) -> Row | None:
    """The same event, brought by another hook: they may stand in the settings and in the plugin at once. Told apart
    from a thing that happened twice by the agent's own id of the prompt; a start of a session has none."""
    if report.kind == "stop" and (told := _stop_told_by_transcript(tx, session, report, number)):
        return told
    if report.tool_use_id or not (report.prompt_id or report.kind == "session_start"):
        return None
    at = ids.at_ms(report.occurred_at)
    return tx.one(
        "event_twin",
        session_id=session.id,
        prompt_number=number,
        kind=report.kind,
        payload=msgspec.json.encode(report.payload).decode(),
        since=ids.from_ms(at - sessions.TWIN_MS),
        until=ids.from_ms(at + sessions.TWIN_MS),
    )


def _stop_told_by_transcript(tx: Tx, session: Session, report: Report, number: int) -> Row | None:
    """The end of a round that the transcript told before its hook did."""
    for row in stops_of_round(tx, session, number):
        if row["event_id"].startswith(FROM_LINE) and is_same_stop(row, report):
            return row
    return None


def is_same_stop(row: Row, report: Report) -> bool:
    """Whether a report tells an end of a round that is known: by its words, else by the time."""
    said, told = (p.get("last_assistant_message") for p in (report.payload, read_or_nothing(row["payload"])))
    if isinstance(said, str) and isinstance(told, str):
        return turns.is_same(said, told)
    return abs(ids.at_ms(row["occurred_at"]) - ids.at_ms(report.occurred_at)) <= sessions.HOOK_AFTER_MS


def stops_of_round(tx: Tx, session: Session, number: int) -> list[Row]:
    """Return the ends of a round, as hooks and the transcript reported them."""
    return tx.all("stops_of_round", session_id=session.id, prompt_number=number)


def near(tx: Tx, session: Session, report: Report, within_ms: int) -> Row | None:
    """Return an event of the same kind at about the same moment."""
    at = ids.at_ms(report.occurred_at)
    around = {"since": ids.from_ms(at - within_ms), "until": ids.from_ms(at + within_ms)}
    return tx.one("event_near", session_id=session.id, kind=report.kind, **around)


def is_in_other_session(tx: Tx, report: Report) -> bool:
    """Tell whether the same event stands in another session of the agent: a fork repeats what it came from."""
    names = {"event_id": report.event_id, "tool_use_id": report.tool_use_id}
    about = {"agent": report.agent, "content_id": report.content_id}
    return tx.one("event_elsewhere", **names, **about) is not None


def by_tool_use(tx: Tx, session_id: int, tool_use_id: str) -> Row | None:
    return tx.one("event_by_tool_use", session_id=session_id, tool_use_id=tool_use_id)


def close_round(tx: Tx, session_id: int, hold_ms: int = 0) -> None:
    """Nothing more is to come: what waits may be observed now, or when its transcript has been looked at."""
    tx.run("session_settle", id=session_id, settles_at=ids.now_ms() + hold_ms if hold_ms else 0)


def claim(tx: Tx, lease_ms: int, worker: str = "", long_ms: int = LONG_MS, provider: str = "") -> Claim | None:
    """Take the oldest round that is ready, in order within its session. After a failure, one event at a time.
    `worker` begins the owner's name, so that a worker finds what it had when it comes back. `provider` is asked.
    Events that can't be read are set aside: no later try could read them either."""
    now = ids.now_ms()
    ready = {"now": now, "long_ago": ids.from_ms(now - long_ms), "recent": ids.from_ms(now - RECENT_MS)}
    while head := tx.one("queue_head", **ready):
        try:
            round, damaged = _round_from(tx, head, provider)
        except ODD as error:
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
    """The round that an event begins, and the ids of its events that are damaged."""
    rows = tx.all(
        "queue_round",
        session_id=head["session_id"],
        prompt_number=head["prompt_number"],
        head=head["id"],
        alone=int(head["attempts"] >= ALONE or (head["attempts"] > 0 and head["last_error"] is not None)),
        limit=PIECE,
    )
    sound, damaged = decode_sound(rows)
    return (round_of(tx, sessions.get(tx, head["session_id"]), sound, provider) if sound else None), damaged


def round_of(tx: Tx, session: Session, waiting: tuple[Event, ...], provider: str = "") -> Round:
    """Return the round of these events."""
    number, first = waiting[0].prompt_number, waiting[0].id
    prompt = prompts.by_number(tx, session.id, number)
    earlier = tx.all("events_of_round", session_id=session.id, prompt_number=number, before=first, limit=PIECE)
    return Round(
        session_id=session.id,
        content_id=session.content_session_id,
        memory_id=session.memory_session_id,
        agent=session.agent,
        project=session.project,
        cwd=session.cwd,
        prompt_number=number,
        prompt=(prompt.prompt if prompt else None) or "",
        events=waiting,
        earlier=decode_sound(reversed(earlier))[0],
        resume=sessions.resume(
            session.memory_session_id,
            session.prompt_counter,
            session.force_init,
            issued_by=session.memory_provider,
            provider=provider,
        ),
    )


def finish(tx: Tx, claim: Claim, stored: observations.Stored) -> observations.StoredRows:
    """Store what a round meant and mark its events done: all of it, or nothing."""
    told = observations.store(tx, claim.round, stored)
    number, instead_of = claim.round.session_id, stored.reply.instead_of or None
    ledger.add(tx, number, stored.reply.calls)
    done = tx.run("round_finish", session_id=number, owner=claim.owner, at=ids.now(), instead_of=instead_of)
    if done != len(claim.round.events):
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


def postpone(tx: Tx, claim: Claim, wait_ms: int, calls: Sequence[ModelCall] = ()) -> None:
    """Put a round back as it was, for a while: nothing is wrong with its events, and the try is not counted."""
    ledger.add(tx, claim.round.session_id, calls)
    tx.run(
        "round_postpone",
        session_id=claim.round.session_id,
        owner=claim.owner,
        available_at=ids.now_ms() + wait_ms,
    )


def next_due(tx: Tx) -> int | None:
    """When the next round is ready, in milliseconds; None if nothing waits."""
    row = tx.one("queue_next_due")
    return row["due"] if row and isinstance(row["due"], int) else None  # SQLite keeps texts among numbers, too


def recover(tx: Tx, worker: str = "") -> None:
    """At a worker's start: take over what it had leased before, and trust no conversation of before."""
    tx.run("queue_release", worker=worker, now=ids.now_ms())
    sessions.force_init(tx)


def queued(tx: Tx, status: str, after: int, limit: int) -> list[Row]:
    """The events that wait, are being observed or were set aside, or those of one status, oldest first."""
    return tx.all("queue_list", status=status, after=after, limit=limit)


def retry(tx: Tx, number: int) -> int:
    """Queue an event again that was set aside, or all of them for 0; how many there were."""
    return tx.run("queue_retry", id=number)


def drop(tx: Tx, number: int) -> int:
    """Drop an event that waits or was set aside, or all that were set aside for 0; how many there were."""
    return tx.run("queue_drop", id=number)


def counts(tx: Tx) -> dict[str, int]:
    found = {row["status"]: row["count"] for row in tx.all("queue_counts")}
    return {name: found.get(name, 0) for name in ("queued", "leased", "dead")}
