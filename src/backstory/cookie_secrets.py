"""Finds the values of cookies that look like sessions: `Cookie: theme=dark; sessionid=…`, also after the first.

Uses string methods only and imports nothing, because the hook runs it.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_HEADER = 8192  # characters of a header that are searched
LONGEST_NAME = 60  # characters of a cookie's name
SHORTEST = 8  # minimum characters of a session

_DIGITS = "0123456789"
_IN_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
#: What `Set-Cookie` says about a cookie.
_ATTRIBUTES = frozenset(
    ["expires", "max-age", "domain", "path", "samesite", "secure", "httponly", "version", "priority", "partitioned"]
)


def find_spans(text: str, low: str) -> "Iterator[tuple[int, int]]":
    """Yield start and end of each value. `low` is the text in lower case."""
    at = low.find("cookie")
    while at >= 0:
        end = at + len("cookie")
        if start := _start(text, end):
            end = start
            for pair in _header(text[start : start + LONGEST_HEADER]).split(";"):
                if span := _value(pair, end):
                    yield span
                end += len(pair) + 1
        at = low.find("cookie", end)


def header_spans(header: str, start: int) -> "Iterator[tuple[int, int]]":
    """Yield the spans of a header without its name, such as the value of `curl -b`."""
    for pair in header.split(";"):
        if span := _value(pair, start):
            yield span
        start += len(pair) + 1


def _start(text: str, at: int) -> int:
    """Return the position after `:` and quotes that follow the name of the header; 0 if none does."""
    window = text[at : at + 30]
    rest = window.lstrip("\\\"'`")
    if rest[:1] not in (":", ",", "=", " ") or not rest:
        return 0
    rest = rest[1:].lstrip(" \t\\\"'`")
    return at + len(window) - len(rest)


def _header(window: str) -> str:
    for mark in ("\n", "\r", '"', "'", "`", "\\"):
        window = window.partition(mark)[0]
    return window


def _value(pair: str, start: int) -> "tuple[int, int] | None":
    name, sign, value = pair.partition("=")
    name = name.strip()
    shown = value.split(None, 1)[0] if value.split(None, 1) else ""
    if not sign or not 0 < len(name) <= LONGEST_NAME or name.strip(_IN_NAME) or name.lower() in _ATTRIBUTES:
        return None
    if (
        len(shown) < SHORTEST
        or not any(digit in shown for digit in _DIGITS)
        or shown.startswith(("[redacted:", "$", "<"))
    ):
        return None
    begin = start + len(pair) - len(value) + value.index(shown)
    return begin, begin + len(shown)
