"""A session's states and the moves between them: a table, and one function that reads it."""

from __future__ import annotations

from backstory.model import SessionStatus as Status

#: cause -> (states it moves from, state it moves to). A cause changes nothing in a state that is not listed.
MOVES: dict[str, tuple[frozenset[Status], Status]] = {
    "prompt": (frozenset({Status.CREATED, Status.PAUSED, Status.COMPLETED, Status.FAILED}), Status.ACTIVE),
    "work": (frozenset({Status.CREATED, Status.PAUSED}), Status.ACTIVE),
    "end": (frozenset({Status.CREATED, Status.ACTIVE, Status.PAUSED, Status.FAILED}), Status.COMPLETED),
}


def after(status: Status, cause: str) -> Status:
    """Return the state that follows a cause."""
    sources, target = MOVES[cause]
    return target if status in sources else status
