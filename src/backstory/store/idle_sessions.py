"""Idle sessions: finds them, and moves them to paused or expired. A session at work is not idle."""

from __future__ import annotations

from backstory import ids
from backstory.model import Session, SessionStatus
from backstory.store import agent_sessions, sessions
from backstory.store.db import Tx

#: Milliseconds for which a prompt or a tool use without the end of its round counts as work. Then the agent is gone.
WORK_MS = 4 * 3_600_000


def active(tx: Tx, since: str, after: int, limit: int) -> list[Session]:
    """Return active sessions without an event since a moment, in the order of their ids."""
    return [sessions.from_row(row) for row in tx.all("sessions_idle", since=since, after=after, limit=limit)]


def paused_agents(tx: Tx, since: str, after: int, limit: int) -> list[Session]:
    """Return paused sessions of the Python API without an event since a moment, in the order of their ids."""
    return [sessions.from_row(row) for row in tx.all("agent_sessions_paused", since=since, after=after, limit=limit)]


def move(tx: Tx, number: int, cause: str, since: str, now_ms: int, is_locked: bool = False) -> SessionStatus | None:
    """Apply `idle` or `timeout` to a session without an event since a moment. Return its new state; None if it stays.

    `is_locked`: the caller holds the lock of the session, so nobody is at work in it.
    """
    session = sessions.hold(tx, number)  # it may have moved since it was found
    if session.last_event_at >= since or (not is_locked and _is_at_work(tx, session, now_ms)):
        return None
    kind = agent_sessions.kind_of(tx, number)
    status = sessions.move(tx, session, cause, at=ids.from_ms(now_ms), kind=kind)
    return status if status != session.status else None


def _is_at_work(tx: Tx, session: Session, now_ms: int) -> bool:
    """Tell whether a round has begun and not ended, or events wait for the observer."""
    if tx.one("session_waiting_event", id=session.id):
        return True
    last = tx.one("session_last_step", id=session.id, prompt_number=session.prompt_counter)
    return last is not None and last["kind"] != "stop" and last["occurred_at"] >= ids.from_ms(now_ms - WORK_MS)
