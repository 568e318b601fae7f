"""Truncates large payloads: each field that is too long keeps its head and its tail."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    #: Returns a text without its secrets; None if that would take too long.
    Redact = Callable[[str], str | None]

#: Maximum number of characters stored of one payload field, such as a tool's output.
MAX_FIELD_CHARS = 256 * 1024
#: Characters of a string below which truncating it does not help any more.
SHORTEST = 64
#: Characters before and after a cut in which a secret is searched.
MARGIN = 8192


def shorten(payload: dict[str, Any] | Any, limit: int = MAX_FIELD_CHARS, redact: Redact | None = None) -> Any:
    """Truncate each field of a payload to `limit` characters. With `redact`, no cut goes through a secret."""
    if not isinstance(payload, dict):
        return fit(payload, limit, redact)
    return {name: fit(value, limit, redact) for name, value in payload.items()}


def fit(value: Any, limit: int = MAX_FIELD_CHARS, redact: Redact | None = None) -> Any:
    """Cut the middle out of the longest strings of a value until its JSON fits into `limit` characters. A value that
    is too large for the number of its items becomes text."""
    if isinstance(value, int | float | None) or written_size(value) <= limit:
        return value
    present, longest = longest_string(value), limit
    while longest >= SHORTEST:
        longest //= 2
        if longest < present:  # else nothing would be cut
            value = _truncate_strings(value, longest, redact)
            if written_size(value) <= limit:
                return value
    import json  # not at the top: an import delays the hook

    return _cut_middle(json.dumps(value, ensure_ascii=False), limit, redact)


def longest_string(value: Any) -> int:
    """Return the length of the longest string of a value, keys aside."""
    if isinstance(value, str):
        return len(value)
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max(map(longest_string, items), default=0)


def written_size(value: Any) -> int:
    """Estimate the length of a value as JSON without serialising it."""
    if isinstance(value, str):
        return len(value) + 3
    if isinstance(value, list):
        return 2 + sum(map(written_size, value))
    if isinstance(value, dict):
        return 2 + sum(len(key) + 3 + written_size(item) for key, item in value.items())
    if isinstance(value, int) and value.bit_length() > 64:
        return int(value.bit_length() * 0.30103) + 2  # writing a long number takes quadratic time
    return len(str(value)) + 1


def _truncate_strings(value: Any, longest: int, redact: Redact | None) -> Any:
    if isinstance(value, str):
        return _cut_middle(value, longest, redact)
    if isinstance(value, list):
        return [_truncate_strings(item, longest, redact) for item in value]
    if isinstance(value, dict):
        return {key: _truncate_strings(item, longest, redact) for key, item in value.items()}
    return value


def _cut_middle(text: str, limit: int, redact: Redact | None) -> str:
    """Keep head and tail of a text. Cuts at whitespace: half of a secret would not be recognised as one."""
    if len(text) <= limit:
        return text
    head = text[: limit * 2 // 3]
    tail = text[len(text) - max(limit - len(head) - 60, 0) :]
    reach = min(limit // 4, 2000)
    head = head[: _last_space(head, reach)]
    tail = tail[next((at for at, char in enumerate(tail[:reach]) if char.isspace()), 0) :]
    if redact:
        before, _ = _around_secret(text, len(head), redact)
        _, after = _around_secret(text, len(text) - len(tail), redact)
        head, tail = text[:before], text[after:]
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters cut …]\n{tail}"


def _around_secret(text: str, at: int, redact: Redact) -> tuple[int, int]:
    """Return where a head may end and where a tail may start if the cut is at a position: there, or outside of the
    secret that is there. A secret may be known only by its name, which stands before it."""
    start, end = max(0, at - MARGIN), min(len(text), at + MARGIN)
    left, right = text[start:at], text[at:end]
    whole = left + right
    clean = redact(whole)
    if clean == whole:
        return at, at
    clean_left, clean_right = redact(left), redact(right)
    if clean is None or clean_left is None or clean_right is None:
        return 0, len(text)
    if clean == clean_left + clean_right:
        return at, at
    same = next((n for n, (old, new) in enumerate(zip(whole, clean, strict=False)) if old != new), len(clean))
    pairs = zip(reversed(whole), reversed(clean), strict=False)
    same_behind = next((n for n, (old, new) in enumerate(pairs) if old != new), len(clean))
    return min(at, start + same), max(at, end - same_behind)


def _last_space(text: str, reach: int) -> int:
    return next(
        (position for position in range(len(text), max(len(text) - reach, 0), -1) if text[position - 1].isspace()),
        len(text),
    )
