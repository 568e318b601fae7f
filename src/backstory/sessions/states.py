"""A session's states and the moves between them: a table, and one function that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from backstory.model import SessionStatus as Status


class SessionKind(StrEnum):
    """Who drives a session."""

    HOOK = "hook"  #: a person in front of an agent, whose hooks report it. It pauses and never expires.
    AGENT = "agent"  #: a program, through the Python API. It has a row in `agent_sessions`.


@dataclass(frozen=True, slots=True)
class Move:
    """What a cause does. In a state that is in neither set, the cause is impossible."""

    to: Status
    sources: frozenset[Status]  #: the states from which it moves
    unchanged: frozenset[Status] = frozenset()  #: the states in which it came late or twice, and changes nothing
    kinds: frozenset[SessionKind] = frozenset(SessionKind)


def _states(*names: str) -> frozenset[Status]:
    return frozenset(map(Status, names))


_AGENT = frozenset({SessionKind.AGENT})

#: cause -> what it does
MOVES: dict[str, Move] = {
    # A session starts or is opened again, without a prompt so far.
    "start": Move(Status.CREATED, _states(), frozenset(Status)),
    # A prompt, which may resume a session or try again after a failure. An expired session must be restored first.
    "prompt": Move(Status.ACTIVE, _states("created", "paused", "completed", "failed"), _states("active")),
    # A message of the conversation.
    "message": Move(Status.ACTIVE, _states("created", "paused"), _states("active", "completed", "failed"), _AGENT),
    # A tool use, the end of a round or a compaction, as a hook reports them. It may come late, and is always stored.
    "work": Move(Status.ACTIVE, _states("created", "paused"), _states("active", "completed", "expired", "failed")),
    # Nothing has happened for a while.
    "idle": Move(Status.PAUSED, _states("active")),
    "timeout": Move(Status.EXPIRED, _states("paused"), kinds=_AGENT),
    # The model has ended its turn.
    "end_turn": Move(Status.COMPLETED, _states("active", "paused"), _states("completed"), _AGENT),
    "fail": Move(Status.FAILED, _states("created", "active", "paused"), _states("failed"), _AGENT),
    # The end of a session, from any open state.
    "end": Move(Status.COMPLETED, _states("created", "active", "paused", "failed"), _states("completed")),
    # Only this opens an expired session.
    "restore": Move(Status.ACTIVE, _states("expired"), frozenset(Status) - _states("expired"), _AGENT),
}


def after(status: Status | None, cause: str, kind: SessionKind = SessionKind.HOOK) -> Status | None:
    """Return the state that follows a cause, or None if the cause is impossible in this state.

    A session that does not exist yet has the state None. It starts, and nothing else can happen to it.
    """
    move = MOVES[cause]
    if status is None:
        return move.to if cause == "start" else None
    if kind not in move.kinds:
        return None
    if status in move.sources:
        return move.to
    return status if status in move.unchanged else None
