"""When a model is left alone: for how long, why, and what becomes of the rounds meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from backstory import ids
from backstory.observe.providers import FailureKind, ProviderFailure
from backstory.text import local

#: A round is tried with the model so often, then the rules tell it.
TRIES = 5
#: So many failures in a row, of whichever rounds, and nobody asks for a while.
ROW = 5
ROW_MS = 5 * 60_000
#: Until somebody has done something: a key, an account, a package. Then it is tried once.
HOUR_MS = 3_600_000
#: A round waits so long for pauses to end, all together; then the rules tell it.
PATIENCE_MS = 120_000
#: A pause that an endpoint asks for without saying how long, and the longest that one grows to by itself.
RATE_MS = 30_000
#: The shortest pause that is made of `Retry-After: 0`, however short the first pause is.
LEAST_MS = 50
#: So many rounds are remembered at the most.
ROUNDS = 10_000
LASTING: frozenset[FailureKind] = frozenset({"quota", "auth", "setup"})


class Pauses:
    """What went wrong lately."""

    def __init__(self, retry_s: float, clock: Callable[[], int] = ids.now_ms) -> None:
        self._retry_s, self._now_ms = retry_s, clock
        self.forget()

    def forget(self) -> None:
        """Something was changed: all is tried again."""
        self._until_ms, self._kind, self._sentence = 0, "", ""
        self._row = 0
        self._tries: dict[int, int] = {}
        self._limits = 0  #: pauses in a row that were asked for since the last answer
        self._limited_ms = 0  #: when the first of them was
        self._waiting_ms: dict[int, int] = {}  #: first event of a round -> since when it waits

    def holds(self) -> bool:
        """Whether nobody may ask now."""
        return self._now_ms() < self._until_ms

    def waits(self, first_event: int) -> float | None:
        """For how many seconds a round is to wait: only where an endpoint asked for a pause that ends before the round
        has waited for too long. An endpoint that has asked for nothing but pauses for so long is waited for no more."""
        now = self._now_ms()
        left = self._until_ms - now
        if self._kind != "rate_limit" or left <= 0:
            return None
        if len(self._waiting_ms) > ROUNDS:
            self._waiting_ms.clear()
        since = min(self._waiting_ms.setdefault(first_event, now), self._limited_ms)
        if now + left <= since + PATIENCE_MS:
            return left / 1000
        del self._waiting_ms[first_event]
        return None

    def sentence(self) -> str:
        """What is wrong, for people; it stands until the model has answered again."""
        if not self._sentence:
            return ""
        if not self.holds():
            return self._sentence
        until = local(ids.from_ms(self._until_ms))[11:]
        return f"{self._sentence} It is left alone until {until}; the rules observe meanwhile."

    @property
    def lasts(self) -> bool:
        """Whether somebody has to do something about it."""
        return self._kind in LASTING

    def answered(self, first_event: int) -> None:
        self._row = self._limits = self._limited_ms = 0
        self._waiting_ms.pop(first_event, None)
        if not self.holds():  # or another round was told to wait, meanwhile
            self._sentence, self._kind = "", ""
        self._tries.pop(first_event, None)

    def failed(self, failure: ProviderFailure, first_event: int) -> float | None:
        """In how many seconds this round is to be tried again; None if the rules are to tell it now."""
        self._sentence, self._kind = str(failure), failure.kind
        if failure.kind in LASTING:
            self._until_ms = self._now_ms() + HOUR_MS
            return None
        if failure.kind == "rate_limit":
            return self._limited(failure.retry_after_s, first_event)
        self._row += 1
        if self._row >= ROW:
            self._until_ms = self._now_ms() + ROW_MS
            return None
        if failure.kind == "poison":
            return None
        tries = self._tries.get(first_event, 0) + (2 if failure.kind == "hang" else 1)
        if tries >= TRIES or len(self._tries) > ROUNDS:
            self._tries.pop(first_event, None)
            return None
        self._tries[first_event] = tries
        return float(self._retry_s * 4 ** (tries - 1))

    def _limited(self, retry_after_s: float | None, first_event: int) -> float | None:
        """A pause was asked for. Of several in a row each is at least twice as long as the one before, because some
        endpoints ask for no seconds at all, again and again."""
        now = self._now_ms()
        self._limits += now >= self._until_ms  # else it was asked before the pause that holds
        least = min(max(self._retry_s * 1000, LEAST_MS) * 2 ** min(self._limits - 1, 20), RATE_MS)
        asked = RATE_MS if retry_after_s is None else max(retry_after_s * 1000, least)
        self._limited_ms = self._limited_ms or now
        self._until_ms = max(self._until_ms, now + int(asked))
        return self.waits(first_event)
