"""A session's states and the moves between them: a table, and one function that reads it."""

from __future__ import annotations

#: cause -> (states it moves from, state it moves to). What is not listed changes nothing.
MOVES: dict[str, tuple[frozenset[str], str]] = {
    "prompt": (frozenset({"created", "paused", "completed", "failed"}), "active"),
    "work": (frozenset({"created", "paused"}), "active"),
    "end": (frozenset({"created", "active", "paused", "failed"}), "completed"),
}


def after(state: str, cause: str) -> str:
    """The state that follows."""
    sources, target = MOVES[cause]
    return target if state in sources else state
