"""What the rules noted of a session before: in earlier rounds, and in earlier pieces of a round that goes on."""

from __future__ import annotations

from backstory.model import Event, Noted, Observation, Round
from backstory.store import marked
from backstory.store.db import Row, Tx


def of_session(tx: Tx, session_id: int) -> list[Noted]:
    """Return what the rules noted of a session and still stands."""
    return [marked.noted_of(row) for row in tx.all("observations_noted", session_id=session_id)]


def notes_before(tx: Tx, session_id: int, prompt_number: int) -> str:
    """Return the notes of the rules' last summary of a session before a round."""
    row = tx.one("summary_notes_before", session_id=session_id, prompt_number=prompt_number)
    return row["notes"] if row and isinstance(row["notes"], str) else ""


def continued(tx: Tx, round: Round, seen: Observation) -> Row | None:
    """Return the observation of an earlier piece of the round that this one continues, unless somebody changed it."""
    row = tx.one("observation_by_id", id=seen.continues) if seen.continues else None
    if row is None or (row["session_id"], row["prompt_number"]) != (round.session_id, round.prompt_number):
        return None
    is_changed = any(row[name] for name in ("superseded_by", "repeats", "pinned_at", "edited_at", "hidden_at"))
    return None if is_changed or row["provider"] != marked.RULES else row


def unclaimed(tx: Tx, round: Round, seen: Observation) -> list[Event]:
    """Return sources that were read before the round ended, and of which nothing was told then."""
    named = [event for event in round.earlier if event.id in seen.event_ids]
    return [event for event in named if tx.one("observation_of_event", id=event.id) is None]
