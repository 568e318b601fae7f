"""Finds rounds that the rules observed in place of a model, and replaces their observations by the model's."""

from __future__ import annotations

from dataclasses import dataclass

from backstory import ids
from backstory.model import Reply, Round
from backstory.store import events, forget, ledger, observations, payloads, sessions
from backstory.store.db import Tx
from backstory.store.events import Claim
from backstory.store.index import indexing


@dataclass(frozen=True, slots=True)
class Waiting:
    """The number of rounds and events to observe again."""

    rounds: int
    events: int


def waiting(tx: Tx, project: str, since: str) -> Waiting:
    row = tx.one("reobserve_count", project=project, since=since)
    return Waiting(row["rounds"], row["events"] or 0) if row else Waiting(0, 0)


def claim(tx: Tx, project: str, since: str, after: int, lease_ms: int) -> Claim | None:
    """Find and lease the next round. Rounds that another worker has leased are skipped."""
    while round := find(tx, project, since, after):
        sessions.hold(tx, round.session_id)
        now, numbers = ids.now_ms(), {event.id for event in round.events}
        about = {"session_id": round.session_id, "prompt_number": round.prompt_number}
        rows = [row for row in tx.all("reobserve_events", first=0, **about) if row["id"] in numbers]
        if len(rows) == len(numbers) and all((row["lease_until"] or 0) <= now for row in rows):
            owner = ids.new_event_id()
            for number in numbers:
                tx.run("reobserve_lease", id=number, lease_until=now + lease_ms, owner=owner)
            return Claim(round, owner)
        after = round.events[-1].id
    return None


def release(tx: Tx, claim: Claim) -> None:
    """Release the lease of a round that was not finished."""
    tx.run("reobserve_release", session_id=claim.round.session_id, owner=claim.owner)


def find(tx: Tx, project: str, since: str, after: int) -> Round | None:
    """Return the next round, or a part of one, whose first event comes after the event `after`."""
    while head := tx.one("reobserve_next", project=project, since=since, after=after):
        about = {"session_id": head["session_id"], "prompt_number": head["prompt_number"]}
        rows = tx.all("reobserve_events", first=head["id"], **about)[: events.MAX_EVENTS]
        sound, _ = payloads.decode_sound(rows)
        if sound:
            return events.round_of(tx, sessions.get(tx, head["session_id"]), sound)
        after = rows[-1]["id"]
    return None


def put(tx: Tx, round: Round, reply: Reply) -> observations.StoredRows | None:
    """Replace the observations of the rules by those of the model, except for those that were pinned or edited by hand.
    Return None if the events have changed meanwhile."""
    sessions.hold(tx, round.session_id)
    ledger.add(tx, round.session_id, reply.calls)
    rows = tx.all("reobserve_events", session_id=round.session_id, prompt_number=round.prompt_number, first=0)
    if not {event.id for event in round.events} <= {row["id"] for row in rows}:
        return None
    for event in round.events:
        for row in tx.all("reobserve_observations", event_id=event.id):
            forget.keep_out_version(tx, row)
            observations.remove(tx, row["id"])
        tx.run("reobserve_done", id=event.id)
    if round.stop and reply.summary is None:  # the model made no summary
        for row in tx.all("reobserve_summaries", session_id=round.session_id, prompt_number=round.prompt_number):
            indexing.remove_words(tx, "summary", row["id"])
            tx.run("summary_remove", id=row["id"])
    return observations.store(tx, round, observations.Stored(reply, reply.provider))
