"""Cuts what is too large: each field of a payload to its head and its tail."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Characters of a tool's answer, or of any other field, that are stored at the most.
STORED = 256 * 1024


def shorten(payload: dict[str, Any] | Any, limit: int = STORED) -> Any:
    """A payload with each field that is too large cut."""
    if not isinstance(payload, dict):
        return fit(payload, limit)
    return {name: fit(value, limit) for name, value in payload.items()}


def fit(value: Any, limit: int = STORED) -> Any:
    """A value with its longest texts cut in the middle, until it fits."""
    if isinstance(value, int | float | None):
        return value
    longest = limit
    while written_size(value) > limit:
        if longest < 64:
            import json  # in the hook an import is felt

            return _middle(json.dumps(value, ensure_ascii=False), limit)
        longest //= 2
        value = _cut_texts(value, longest)
    return value


def written_size(value: Any) -> int:
    """About how many characters a value takes when it is written as JSON, without writing it."""
    if isinstance(value, str):
        return len(value) + 3
    if isinstance(value, list):
        return 2 + sum(map(written_size, value))
    if isinstance(value, dict):
        return 2 + sum(len(key) + 3 + written_size(item) for key, item in value.items())
    return len(str(value)) + 1


def _cut_texts(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return _middle(value, longest)
    if isinstance(value, list):
        return [_cut_texts(item, longest) for item in value]
    if isinstance(value, dict):
        return {key: _cut_texts(item, longest) for key, item in value.items()}
    return value


def _middle(text: str, limit: int) -> str:
    """Head and tail, cut between words: half a key would be stored as no key is recognised."""
    if len(text) <= limit:
        return text
    head = text[: limit * 2 // 3]
    tail = text[len(text) - max(limit - len(head) - 60, 0) :]
    reach = min(limit // 4, 2000)
    head = head[: _last_gap(head, reach)]
    tail = tail[_first_gap(tail, reach) :]
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters cut …]\n{tail}"


def _last_gap(text: str, reach: int) -> int:
    return next((at for at in range(len(text), max(len(text) - reach, 0), -1) if text[at - 1].isspace()), len(text))


def _first_gap(text: str, reach: int) -> int:
    return next((at for at in range(min(reach, len(text))) if text[at].isspace()), 0)
