"""Times as people write them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from backstory import times
from backstory.errors import BadInput


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Four or five hours behind UTC."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("2026-02-21", "2026-02-21T05:00:00.000Z", "2026-02-22T04:59:59.999Z"),
        ("2026-11-01", "2026-11-01T04:00:00.000Z", "2026-11-02T04:59:59.999Z"),  # the clocks change
        ("2026-02", "2026-02-01T05:00:00.000Z", "2026-03-01T04:59:59.999Z"),
        ("2026-12", "2026-12-01T05:00:00.000Z", "2027-01-01T04:59:59.999Z"),
        ("2026", "2026-01-01T05:00:00.000Z", "2027-01-01T04:59:59.999Z"),
        ("2026-02-21T03", "2026-02-21T08:00:00.000Z", "2026-02-21T08:59:59.999Z"),
        (" 2026-02-21 03:39 ", "2026-02-21T08:39:00.000Z", "2026-02-21T08:39:59.999Z"),
        ("2026-02-21T03:39:07Z", "2026-02-21T03:39:07.000Z", "2026-02-21T03:39:07.999Z"),
        ("2026-02-21T03:39:07.123Z", "2026-02-21T03:39:07.123Z", "2026-02-21T03:39:07.123Z"),
        ("2026-02-21T03:39+01:00", "2026-02-21T02:39:00.000Z", "2026-02-21T02:39:59.999Z"),
        ("", "", ""),
    ],
)
@pytest.mark.usefixtures("new_york")
def test_a_time_is_local_and_stands_for_the_whole_of_it(text: str, since: str, until: str) -> None:
    """Unless it names a zone."""
    assert (times.since(text), times.until(text)) == (since, until)


@pytest.mark.parametrize(("text", "hours"), [("3d", 72), ("90m", 1.5), ("2 hours ago", 2), ("1w", 168), ("now", 0)])
@pytest.mark.usefixtures("new_york")
def test_a_while_ago(text: str, hours: float) -> None:
    """Counted back from now."""
    ago = datetime.now(UTC) - datetime.fromisoformat(times.since(text))
    assert abs(ago - timedelta(hours=hours)) < timedelta(seconds=100)


@pytest.mark.usefixtures("new_york")
def test_yesterday_is_a_day_here() -> None:
    """It ends where today begins."""
    last = datetime.fromisoformat(times.until("yesterday"))
    assert last + timedelta(milliseconds=1) == datetime.fromisoformat(times.since("today"))
    assert datetime.fromisoformat(times.since("yesterday")).astimezone().hour == 0


@pytest.mark.parametrize("text", ["x", "2026-02-30", "2026-13", "3y", "yesterda", "9999", "0001-01-01", "2" * 50, "٣d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """In a sentence that names it."""
    with pytest.raises(BadInput, match="is not a time"):
        times.until(text)


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("fixed on 2026-02-21, I think", "2026-02-21T05:00:00.000Z"),
        ("Date:   Sat Feb 21 03:39:07 2026 +0100", "2026-02-21T02:39:07.000Z"),
        ("2026-02-21 03:39:07 +0100 fix it", "2026-02-21T02:39:07.000Z"),
        ("what was done on 21 February, 2026?", "2026-02-21T05:00:00.000Z"),
        ("on Feb. 21st 2026", "2026-02-21T05:00:00.000Z"),
        ("session 2026-02-21-abc123", None),
        ("2026-02-41", None),
        ("nothing in 2026", None),
    ],
)
@pytest.mark.usefixtures("new_york")
def test_a_date_in_a_text_is_found(text: str, since: str | None) -> None:
    found = times.mentioned(text)
    assert (found and found[0]) == since
