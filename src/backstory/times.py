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
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?"
#: Dates in a sentence or a log: `2026-01-22 14:05`, `22 January 2026`, `May 3rd, 2026`, `Jan 22 20:47:47 2026 +0100`.
_MENTIONED = (
    re.compile(
        r"(?<![\w./-])\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?: ?(?:Z|[+-]\d\d:?\d\d))?)?(?![\w-])"
    ),
    re.compile(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH},? (?P<year>\d{{4}})\b", re.I | re.ASCII),
    re.compile(
        rf"\b{_MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?(?: (?P<time>\d\d:\d\d:\d\d))? "
        rf"(?P<year>\d{{4}})\b(?P<zone> [+-]\d{{4}})?",
        re.I | re.ASCII,
    ),
)
#: The precision of stored times.
_MOMENT = timedelta(milliseconds=1)


def since(text: str) -> str:
    """Return the stored form of the moment at which a time begins; "" for no time."""
    return _moments(text)[0] if text.strip() else ""


def until(text: str) -> str:
    """Return the stored form of the last moment of a time; "" for no time."""
    return _moments(text)[1] if text.strip() else ""


def mentioned(text: str) -> tuple[str, str] | None:
    """Return the first and the last moment of a date that a text mentions, in the stored form."""
    for pattern in _MENTIONED:
        if match := pattern.search(text):
            found, written = match.groupdict(), match[0].replace(" +", "+").replace(" -", "-").replace(" Z", "Z")
            if found:
                month = 1 + _MONTHS.index(found["month"].lower())
                written = f"{found['year']}-{month:02}-{int(found['day']):02}"
                written += f"T{found['time']}{(found['zone'] or '').strip()}" if found.get("time") else ""
            try:
                return _moments(written)
            except BadInput:
                return None
    return None


def _moments(text: str) -> tuple[str, str]:
    """Return the first and the last moment of a time in the stored form."""
    written = " ".join(text.lower().split())
    try:
        start, end = _day_or_ago(written) or _date(written) or _exact(text.strip())
        return stored(start), stored(end - _MOMENT)
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


def stored(moment: datetime) -> str:
    """Return a time in the stored form. One without a zone is local time."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
