"""Pauses after failures of a model: how long it is not asked, and which rounds wait."""

from __future__ import annotations

from collections.abc import Callable

from backstory import ids
from backstory.observe.providers import FailureKind, ProviderFailure
from backstory.text import local

#: Tries of a round with the model. After that the rules observe it.
MAX_TRIES = 5
#: Failures in a row, of any rounds, after which the model is paused.
MAX_FAILURES = 5
#: The pause after that many failures.
FAILURES_PAUSE_MS = 5 * 60_000
#: The pause after a failure that somebody must fix: a key, an account, a package. Then the model is tried once.
ACTION_PAUSE_MS = 3_600_000
#: The longest time that a round waits for pauses to end. After that the rules observe it.
MAX_WAIT_MS = 120_000
#: The pause if an endpoint asks for one without saying how long, and the longest that a pause grows to by itself.
RATE_LIMIT_PAUSE_MS = 30_000
#: The shortest pause after `Retry-After: 0`.
MIN_PAUSE_MS = 50
#: The most rounds that are remembered.
MAX_ROUNDS = 10_000
#: Failures that stay until somebody fixes the cause.
NEED_ACTION: frozenset[FailureKind] = frozenset({"quota", "auth", "setup"})


class Pauses:
    """The recent failures of a model, and the pause that follows from them. A round is known by its first event."""

    def __init__(self, retry_s: float, clock: Callable[[], int] = ids.now_ms) -> None:
        self._retry_s, self._now_ms = retry_s, clock
        self.reset()

    def reset(self) -> None:
        """Forget all failures, so that everything is tried again."""
        self._until_ms, self._kind, self._message = 0, "", ""
        self._failures = 0
        self._tries: dict[int, int] = {}
        self._rate_limits = 0  #: pauses that the endpoint asked for since the last answer
        self._first_limit_ms = 0  #: when it asked for the first of them
        self._waiting_ms: dict[int, int] = {}  #: first event of a round -> since when it waits

    def is_paused(self) -> bool:
        """Whether the model must not be asked now."""
        return self._now_ms() < self._until_ms

    def wait_s(self, first_event: int) -> float | None:
        """How many seconds a round waits, or None if it does not. It waits only for a pause that the endpoint asked for
        and that ends within the longest wait, counted from the endpoint's first request for a pause."""
        now = self._now_ms()
        left = self._until_ms - now
        if self._kind != "rate_limit" or left <= 0:
            return None
        if len(self._waiting_ms) > MAX_ROUNDS:
            self._waiting_ms.clear()
        waiting_since = min(self._waiting_ms.setdefault(first_event, now), self._first_limit_ms)
        if now + left <= waiting_since + MAX_WAIT_MS:
            return left / 1000
        del self._waiting_ms[first_event]
        return None

    def message(self) -> str:
        """What is wrong, as people read it. It stays until the model answers again."""
        if not self._message:
            return ""
        if not self.is_paused():
            return self._message
        until = local(ids.from_ms(self._until_ms))[11:]
        return f"{self._message} The model is not asked until {until}; the rules observe meanwhile."

    @property
    def needs_action(self) -> bool:
        """Whether somebody must fix something before the model can answer."""
        return self._kind in NEED_ACTION

    def record_answer(self, first_event: int) -> None:
        self._failures = self._rate_limits = self._first_limit_ms = 0
        self._waiting_ms.pop(first_event, None)
        if not self.is_paused():  # else a later failure started a pause
            self._message, self._kind = "", ""
        self._tries.pop(first_event, None)

    def record_failure(self, failure: ProviderFailure, first_event: int) -> float | None:
        """Returns in how many seconds a round is tried again, or None if the rules observe it now."""
        self._message, self._kind = str(failure), failure.kind
        if failure.kind in NEED_ACTION:
            self._until_ms = self._now_ms() + ACTION_PAUSE_MS
            return None
        if failure.kind == "rate_limit":
            return self._rate_limited(failure.retry_after_s, first_event)
        self._failures += 1
        if self._failures >= MAX_FAILURES:
            self._until_ms = self._now_ms() + FAILURES_PAUSE_MS
            return None
        if failure.kind == "poison":
            return None
        tries = self._tries.get(first_event, 0) + (2 if failure.kind == "hang" else 1)
        if tries >= MAX_TRIES or len(self._tries) > MAX_ROUNDS:
            self._tries.pop(first_event, None)
            return None
        self._tries[first_event] = tries
        return float(self._retry_s * 4 ** (tries - 1))

    def _rate_limited(self, retry_after_s: float | None, first_event: int) -> float | None:
        """Pause as the endpoint asks. Each pause in a row is at least twice as long as the one before, because some
        endpoints ask for 0 seconds again and again."""
        now = self._now_ms()
        self._rate_limits += now >= self._until_ms  # else the model was asked before this pause began
        shortest = min(
            max(self._retry_s * 1000, MIN_PAUSE_MS) * 2 ** min(self._rate_limits - 1, 20), RATE_LIMIT_PAUSE_MS
        )
        pause = RATE_LIMIT_PAUSE_MS if retry_after_s is None else max(retry_after_s * 1000, shortest)
        self._first_limit_ms = self._first_limit_ms or now
        self._until_ms = max(self._until_ms, now + int(pause))
        return self.wait_s(first_event)
