"""Times as people write them, in local time: 2026-11-01, yesterday, 3d. A day stands for the whole of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from backstory.errors import BadInput

_AGO = re.compile(r"(\d{1,5}) ?(m|h|d|w|min|minute|hour|day|week)s?( ago)?", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DATE = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?", re.ASCII)
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d(?P<m>:\d\d(?P<s>:\d\d(?P<f>\.\d+)?)?)?(?P<zone>Z|[+-]\d\d:?\d\d)?", re.ASCII
)
#: The precision of stored times.
_MOMENT = timedelta(milliseconds=1)


def since(text: str) -> str:
    """Return the stored form of the moment at which a time begins; "" for no time."""
    return _moments(text)[0] if text.strip() else ""


def until(text: str) -> str:
    """Return the stored form of the last moment of a time; "" for no time."""
    return _moments(text)[1] if text.strip() else ""


def _moments(text: str) -> tuple[str, str]:
    """Return the first and the last moment of a time in the stored form."""
    written = " ".join(text.lower().split())
    try:
        start, end = _day_or_ago(written) or _date(written) or _exact(text.strip())
        return _stored(start), _stored(end - _MOMENT)
    except (ValueError, OverflowError):
        raise BadInput(
            f"`{text[:40]}` is not a time.", "Write it as yesterday, 3d, 2026-11-01 or 2026-11-01T14:30."
        ) from None


def _day_or_ago(text: str) -> tuple[datetime, datetime] | None:
    now = datetime.now()
    if text in ("today", "yesterday"):
        day = (now - timedelta(days=text == "yesterday")).replace(hour=0, minute=0, second=0, microsecond=0)
        return day, day + timedelta(days=1)
    if text == "now":
        return now, now + _MOMENT
    if match := _AGO.fullmatch(text):
        ago = timedelta(**{_UNITS[match[2][0]]: int(match[1])})
        moment = datetime.now(UTC) - ago  # 24h ago is 24 hours, also if the clocks changed
        return moment, moment + _MOMENT
    return None


def _date(text: str) -> tuple[datetime, datetime] | None:
    """Return the span of a year, a month or a day."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(part) if part else None for part in match.groups())
    assert year is not None  # noqa: S101 - the first group always matches
    start = datetime(year, month or 1, day or 1)
    if day:
        return start, start + timedelta(days=1)
    if month and month < 12:
        return start, start.replace(month=month + 1)
    return start, start.replace(year=year + 1, month=1)


def _exact(text: str) -> tuple[datetime, datetime]:
    """Return the span of an hour, a minute, a second or less."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError
    start = datetime.fromisoformat(text)
    length = (
        _MOMENT if match["f"] else timedelta(**{"seconds" if match["s"] else "minutes" if match["m"] else "hours": 1})
    )
    return start, start + length


def _stored(moment: datetime) -> str:
    """Return a time in the stored form. One without a zone is local time."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
