"""When a model is left alone, what a refusal means, and what tokens cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from backstory.model import ModelCall
from backstory.observe import prices
from backstory.observe.pauses import ACTION_PAUSE_MS, MAX_FAILURES, MAX_WAIT_MS, RATE_LIMIT_PAUSE_MS, Pauses
from backstory.observe.providers import FailureKind, ProviderFailure
from backstory.observe.providers.failures import from_status, retry_after


def failure(kind: FailureKind, after_s: float | None = None) -> ProviderFailure:
    return ProviderFailure(kind, f"It is {kind}.", after_s)


@pytest.mark.parametrize("kind", ["auth", "quota", "setup"])
def test_what_somebody_must_mend_pauses_for_an_hour(kind: FailureKind) -> None:
    """The rules tell the round at once, nobody asks, and a change ends it."""
    pauses = Pauses(1)
    assert pauses.record_failure(failure(kind), 1) is None
    assert pauses.is_paused() and pauses.needs_action and pauses.wait_s(1) is None
    assert f"It is {kind}. The model is not asked until" in pauses.message()
    pauses.record_answer(1)  # one that was under way
    assert pauses.is_paused() and pauses.message()
    pauses.reset()
    assert not pauses.is_paused() and pauses.message() == ""
    assert ACTION_PAUSE_MS == 3_600_000


def test_a_pause_that_is_asked_for_is_kept() -> None:
    """A round waits for a short one; for a long one memory does not wait."""
    pauses = Pauses(1)
    assert 4 < (pauses.record_failure(failure("rate_limit", 5), 1) or 0) <= 5
    assert 4 < (pauses.wait_s(2) or 0) <= 5
    assert pauses.record_failure(failure("rate_limit", 3600), 1) is None
    assert pauses.is_paused() and pauses.wait_s(2) is None and not pauses.needs_action
    assert Pauses(1).record_failure(failure("rate_limit"), 1)


class Clock:
    """Milliseconds, as the test has them pass."""

    now = 1_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.mark.parametrize("retry_after", [0, 0.001, 3, None])
@pytest.mark.parametrize("retry_s", [0, 0.05, 1])
def test_a_pause_that_never_ends_is_waited_for_two_minutes_in_all(retry_after: float | None, retry_s: float) -> None:
    """A round whose every try is answered by 429: it is tried with growing pauses and told by the rules in time. What
    comes later need not wait again, but one of it asks after each pause; an answer ends that."""
    clock = Clock()
    pauses, begun, asked = Pauses(retry_s, clock), clock.now, 0
    while True:
        wait = pauses.wait_s(1)
        if wait is None:
            if pauses.is_paused():
                break
            asked += 1
            if (wait := pauses.record_failure(failure("rate_limit", retry_after), 1)) is None:
                break
        clock.now += max(int(wait * 1000), 1)
    assert 60_000 < clock.now - begun <= MAX_WAIT_MS
    assert asked <= 20
    assert pauses.is_paused() and pauses.wait_s(2) is None  # the rules tell the next one at once
    clock.now += RATE_LIMIT_PAUSE_MS
    assert not pauses.is_paused() and pauses.record_failure(failure("rate_limit", retry_after), 2) is None
    clock.now += RATE_LIMIT_PAUSE_MS
    pauses.record_answer(3)
    assert (pauses.record_failure(failure("rate_limit", 5), 4) or 0) >= 5


def test_rounds_that_are_limited_at_the_same_time_do_not_lengthen_the_pause() -> None:
    """Four questions under way, four times `Retry-After: 2`: the pause is of two seconds."""
    clock = Clock()
    pauses = Pauses(1, clock)
    assert [pauses.record_failure(failure("rate_limit", 2), number) for number in range(4)] == [2, 2, 2, 2]


def test_what_passes_is_tried_again_with_growing_pauses() -> None:
    """A round four times, then the rules tell it; a hang counts twice; what others manage goes on."""
    pauses, waits = Pauses(1), []
    for _ in range(5):
        waits.append(pauses.record_failure(failure("transient"), 7))
        pauses.record_answer(8)
    assert waits == [1, 4, 16, 64, None]
    assert not pauses.is_paused() and pauses.message() == ""
    assert [pauses.record_failure(failure("hang"), 9) for _ in range(3)] == [4, 64, None]


def test_nobody_asks_for_a_while_after_a_row_of_failures() -> None:
    """Of whichever rounds; an answer in between begins the row anew."""
    pauses = Pauses(1)
    for number in range(MAX_FAILURES - 1):
        pauses.record_failure(failure("poison"), number)
        assert not pauses.is_paused()
    pauses.record_answer(0)
    for number in range(MAX_FAILURES):
        assert not pauses.is_paused()
        pauses.record_failure(failure("transient"), number)
    assert pauses.is_paused() and not pauses.needs_action


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (400, "", "poison"),
        (400, "Your credit balance is too low", "quota"),
        (401, "", "auth"),
        (402, "", "quota"),
        (403, "", "auth"),
        (404, "", "setup"),
        (408, "", "transient"),
        (413, "", "poison"),
        (429, "", "rate_limit"),
        (429, "{'code': 'insufficient_quota'}", "quota"),
        (500, "", "transient"),
        (529, "overloaded", "transient"),
    ],
)
def test_a_refusal_is_of_a_kind(status: int, said: str, kind: str) -> None:
    """By its status, and by what some say under it; what was said is not passed on."""
    found = from_status("It", status, said)
    assert found.kind == kind
    assert str(status) in str(found) and (not said or said not in str(found))


def test_retry_after_is_a_number_or_a_date() -> None:
    """Never negative, never longer than a day, and nonsense is none."""
    assert retry_after({"retry-after": "7"}) == 7
    assert retry_after({"retry-after": "-1"}) == 0
    assert retry_after({"retry-after": "1e12"}) == 86_400
    soon = retry_after({"retry-after": format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)})
    assert soon and 50 < soon <= 60
    assert retry_after({}) is retry_after({"retry-after": "soon"}) is retry_after({"retry-after": "nan"}) is None


def test_a_price_is_known_by_a_name_however_it_is_written() -> None:
    """A maker before it, a date after it; what is cached costs less; what is unknown has no price."""
    million = 1_000_000
    for name in ("claude-haiku-4-5", "claude-haiku-4-5-20251001", "anthropic/claude-haiku-4.5"):
        assert prices.cost_micros(ModelCall("x", name, million, million)) == 6_000_000
    assert prices.cost_micros(ModelCall("x", "claude-haiku-4-5", million, 0, million)) == 100_000
    assert prices.cost_micros(ModelCall("x", "gpt-5-mini-2025-08-07", million, million)) == 2_250_000
    assert prices.cost_micros(ModelCall("x", "qwen3:8b", million, million)) is None
