"""Removes text between plainly written private tags from raw JSON, without parsing it.

The hook tries this first: importing `json` and `re` takes longer than the rest of it. Anything unusual is left to
`privacy`: a tag in another spelling, nested, unclosed, in a key, or closed in another string.
"""

from __future__ import annotations

try:
    from .prefilter import tagged
except ImportError:  # the hook has only this directory on its path
    from prefilter import tagged  # type: ignore[no-redef,import-not-found]

MOST_PAIRS = 20  # pairs of tags
MOST_QUOTES = 5000  # escaped quotes between a tag and the end of its string
OPENING = b"<private>"
CLOSING = b"</private>"


def remove(data: bytes) -> bytes | None:
    """Return data without what is between plain tags. None if that takes a parser. The result may have other tags."""
    kept: list[bytes] = []
    position = 0
    for _ in range(MOST_PAIRS):
        start = data.find(OPENING, position)
        if start < 0:
            return b"".join((*kept, data[position:])) if kept else None
        end = data.find(CLOSING, start)
        hidden = data[start + len(OPENING) : end]
        if end < 0 or data[max(0, start - 1) : start] == b"\\" or _has_quote(hidden) or tagged(hidden):
            return None
        kept.append(data[position:start])
        position = end + len(CLOSING)
        if _is_key(data, position):
            return None
    return None


def _has_quote(text: bytes) -> bool:
    """Whether a string ends in this part of it."""
    return b'"' in text.replace(b"\\\\", b"").replace(b'\\"', b"") or text.endswith(b"\\")


def _is_key(data: bytes, position: int) -> bool:
    """Whether the string around a position is a key of an object. True also if its end is not found soon."""
    for _ in range(MOST_QUOTES):
        end = data.find(b'"', position)
        if end < 0:
            break
        if not _is_escaped(data, end):
            return data[end + 1 : end + 64].lstrip(b" \t\r\n")[:1] in (b":", b"")
        position = end + 1
    return True


def _is_escaped(data: bytes, position: int) -> bool:
    """Whether an odd number of backslashes stands before a position."""
    before = position
    while before and data[before - 1] == ord("\\"):
        before -= 1
    return bool((position - before) % 2)
