"""Bodies: bytes of JSON as they came from an agent, decoded and stripped of what is private."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from backstory import gate, prefilter, privacy
from backstory.errors import BadInput
from backstory.truncate import MAX_FIELD_CHARS

#: Bytes of a body.
LARGEST = 16 << 20
#: Bytes of a body that is cut: no field of a smaller one can be too large.
LARGE = MAX_FIELD_CHARS
#: Containers inside one another.
DEEPEST = 64


def strip(raw: bytes) -> Any:
    """Bytes as JSON without what is private. Tags are looked for in the whole; secrets in what will be kept of it."""
    value = strip_tags(raw)
    return privacy.strip_json(value) if len(raw) > LARGE or prefilter.suspicious(raw) else value


def strip_tags(raw: bytes) -> Any:
    """Bytes as JSON without what is between private tags, cut to what will be kept of it."""
    value = decode(raw)
    try:
        if prefilter.tagged(raw):
            value = privacy.strip_json(value, secrets=False)
        return privacy.cut(value) if len(raw) > LARGE else value
    except (ValueError, RecursionError):
        raise BadInput(f"The JSON is nested deeper than {DEEPEST}.", "Send flatter data.") from None


def decode(raw: bytes) -> Any:
    """JSON, forgiving only where a real client errs: half an emoji or a null byte becomes a replacement sign."""
    try:
        value = msgspec.json.decode(raw)
        odd = b"\\u0000" in raw
    except (msgspec.MsgspecError, ValueError, RecursionError):
        try:
            # Of bytes it would guess the encoding, and UTF-16 is not looked through for tags.
            value = json.loads(raw.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            raise BadInput("The body is not JSON.", "Send a JSON object in UTF-8.") from None
        odd = True
    return _tame(value, odd, 0)


def _tame(value: Any, odd: bool, depth: int) -> Any:
    if depth > DEEPEST:
        raise BadInput(f"The JSON is nested deeper than {DEEPEST}.", "Send flatter data.")
    if isinstance(value, str):
        return gate.ODD.sub("\ufffd", value) if odd else value
    if isinstance(value, list):
        if odd or any(isinstance(item, list | dict) for item in value):
            return [_tame(item, odd, depth + 1) for item in value]
        return value
    if isinstance(value, dict):
        return {_tame(key, odd, depth): _tame(item, odd, depth + 1) for key, item in value.items()}
    return value
