"""The table of moves between the states of a session."""

from __future__ import annotations

from itertools import product

import pytest

from backstory.model import SessionStatus as Status
from backstory.sessions.states import MOVES, SessionKind, after

HOOK, AGENT = SessionKind.HOOK, SessionKind.AGENT
BOTH = (HOOK, AGENT)

#: Every move that is possible: cause, kinds, the states it moves from, the state it moves to.
POSSIBLE = [
    ("prompt", BOTH, "created paused completed failed", "active"),
    ("work", BOTH, "created paused", "active"),
    ("message", (AGENT,), "created paused", "active"),
    ("idle", BOTH, "active", "paused"),
    ("timeout", (AGENT,), "paused", "expired"),
    ("end_turn", (AGENT,), "active paused", "completed"),
    ("fail", (AGENT,), "created active paused", "failed"),
    ("end", BOTH, "created active paused failed", "completed"),
    ("restore", (AGENT,), "expired", "active"),
]
#: What comes late or twice, and changes nothing.
NOTHING = [
    ("start", BOTH, "created active paused completed expired failed"),
    ("prompt", BOTH, "active"),
    ("work", BOTH, "active completed expired failed"),
    ("message", (AGENT,), "active completed failed"),
    ("end_turn", (AGENT,), "completed"),
    ("fail", (AGENT,), "failed"),
    ("end", BOTH, "completed"),
    ("restore", (AGENT,), "created active paused completed failed"),
]
EXPECTED = {
    (kind, cause, Status(source)): Status(target)
    for cause, kinds, sources, target in POSSIBLE
    for kind, source in product(kinds, sources.split())
} | {
    (kind, cause, Status(state)): Status(state)
    for cause, kinds, states in NOTHING
    for kind, state in product(kinds, states.split())
}


@pytest.mark.parametrize(
    ("before", "then", "cause"),
    [
        (None, "created", "start"),  # a query without a session id
        ("created", "active", "message"),  # the first message
        ("active", "active", "message"),  # further messages
        ("active", "paused", "idle"),  # no activity for a while
        ("paused", "active", "prompt"),  # resumed with its id
        ("paused", "expired", "timeout"),  # the time is exceeded
        ("active", "completed", "end_turn"),  # the stop reason `end_turn`
    ],
)
def test_a_session_of_the_python_api_moves_as_described(before: str | None, then: str, cause: str) -> None:
    assert after(Status(before) if before else None, cause, AGENT) == then


@pytest.mark.parametrize(
    ("before", "then", "cause"),
    [
        (None, "created", "start"),  # SessionStart
        ("created", "active", "prompt"),  # the first prompt
        ("active", "active", "prompt"),  # further prompts
        ("active", "active", "work"),  # tool uses and the ends of rounds
        ("active", "completed", "end"),  # SessionEnd
    ],
)
def test_a_session_fed_by_hooks_moves_as_described(before: str | None, then: str, cause: str) -> None:
    assert after(Status(before) if before else None, cause) == then


@pytest.mark.parametrize("kind", SessionKind)
@pytest.mark.parametrize("cause", sorted(MOVES))
@pytest.mark.parametrize("status", Status)
def test_every_cause_in_every_state(status: Status, cause: str, kind: SessionKind) -> None:
    """What is not listed here is impossible."""
    assert after(status, cause, kind) == EXPECTED.get((kind, cause, status))


@pytest.mark.parametrize("kind", SessionKind)
@pytest.mark.parametrize("cause", sorted(set(MOVES) - {"start"}))
def test_nothing_happens_to_a_session_that_has_not_started(cause: str, kind: SessionKind) -> None:
    assert after(None, cause, kind) is None


@pytest.mark.parametrize("cause", sorted(MOVES))
def test_only_restore_leaves_expired(cause: str) -> None:
    for kind in SessionKind:
        left = after(Status.EXPIRED, cause, kind) not in (None, Status.EXPIRED)
        assert left == ((cause, kind) == ("restore", AGENT))


def test_a_session_fed_by_hooks_never_expires_or_completes_with_a_turn() -> None:
    for status in Status:
        assert after(status, "timeout", HOOK) is None
        assert after(status, "end_turn", HOOK) is None
