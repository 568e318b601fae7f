"""When a model is left alone: for how long, why, and what becomes of the rounds meanwhile."""

from __future__ import annotations

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
#: A round waits for a pause that is short; for a longer one memory does not wait.
SHORT_MS = 120_000
#: A pause that an endpoint asks for without saying how long.
RATE_MS = 30_000
LASTING: frozenset[FailureKind] = frozenset({"quota", "auth", "setup"})


class Pauses:
    """What went wrong lately."""

    def __init__(self, retry_s: float) -> None:
        self._retry_s = retry_s
        self.forget()

    def forget(self) -> None:
        """Something was changed: all is tried again."""
        self._until_ms, self._kind, self._sentence = 0, "", ""
        self._row = 0
        self._tries: dict[int, int] = {}

    def holds(self) -> bool:
        """Whether nobody may ask now."""
        return ids.now_ms() < self._until_ms

    def waits(self) -> float | None:
        """For how many seconds a round is to wait: only where the pause is short and has an end that was promised."""
        left = self._until_ms - ids.now_ms()
        return left / 1000 if self._kind == "rate_limit" and 0 < left <= SHORT_MS else None

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
        self._row = 0
        if not self.holds():  # or another round was told to wait, meanwhile
            self._sentence, self._kind = "", ""
        self._tries.pop(first_event, None)

    def failed(self, failure: ProviderFailure, first_event: int) -> float | None:
        """In how many seconds this round is to be tried again; None if the rules are to tell it now."""
        self._sentence, self._kind = str(failure), failure.kind
        if failure.kind in LASTING:
            self._until_ms = ids.now_ms() + HOUR_MS
            return None
        if failure.kind == "rate_limit":
            asked = RATE_MS if failure.retry_after_s is None else int(failure.retry_after_s * 1000)
            self._until_ms = max(self._until_ms, ids.now_ms() + asked)
            return self.waits() if asked else self._retry_s
        self._row += 1
        if self._row >= ROW:
            self._until_ms = ids.now_ms() + ROW_MS
            return None
        if failure.kind == "poison":
            return None
        tries = self._tries.get(first_event, 0) + (2 if failure.kind == "hang" else 1)
        if tries >= TRIES or len(self._tries) > 10_000:
            self._tries.pop(first_event, None)
            return None
        self._tries[first_event] = tries
        return float(self._retry_s * 4 ** (tries - 1))
