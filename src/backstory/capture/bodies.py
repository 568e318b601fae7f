"""Decodes JSON bodies of requests, and strips private text and secrets from them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from backstory import gate, prefilter, privacy
from backstory.errors import BadInput
from backstory.truncate import MAX_FIELD_CHARS

#: Maximum bytes of a body.
MAX_BYTES = 16 << 20
#: Bytes from which a body is truncated. No field of a smaller one can be too long.
LARGE = MAX_FIELD_CHARS
#: Maximum depth of nested objects and lists.
MAX_DEPTH = 64


def strip(raw: bytes) -> Any:
    """Decode a body, strip private text and redact secrets."""
    value = strip_tags(raw)
    return privacy.strip_json(value) if len(raw) > LARGE or prefilter.suspicious(raw) else value


def strip_tags(raw: bytes) -> Any:
    """Decode a body, strip private text and truncate it to the size that is stored."""
    value = decode(raw)
    try:
        if prefilter.tagged(raw):
            value = privacy.strip_json(value, secrets=False)
        return privacy.cut(value) if len(raw) > LARGE else value
    except (ValueError, RecursionError):
        raise BadInput(f"The JSON is nested deeper than {MAX_DEPTH}.", "Send flatter data.") from None


def decode(raw: bytes) -> Any:
    """Decode JSON. Lone surrogates and null bytes, which real clients send, become U+FFFD."""
    try:
        value = msgspec.json.decode(raw)
        is_odd = b"\\u0000" in raw
    except (msgspec.MsgspecError, ValueError, RecursionError):
        try:
            # Decoded first: json.loads would accept UTF-16, in which no tag would be recognised.
            value = json.loads(raw.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            raise BadInput("The body is not JSON.", "Send a JSON object in UTF-8.") from None
        is_odd = True
    return _checked(value, is_odd, 0)


def _checked(value: Any, is_odd: bool, depth: int) -> Any:
    """Check the depth of a value and, if it is odd, replace the characters that a database rejects."""
    if depth > MAX_DEPTH:
        raise BadInput(f"The JSON is nested deeper than {MAX_DEPTH}.", "Send flatter data.")
    if isinstance(value, str):
        return gate.ODD.sub("\ufffd", value) if is_odd else value
    if isinstance(value, list):
        if is_odd or any(isinstance(item, list | dict) for item in value):
            return [_checked(item, is_odd, depth + 1) for item in value]
        return value
    if isinstance(value, dict):
        return {_checked(key, is_odd, depth): _checked(item, is_odd, depth + 1) for key, item in value.items()}
    return value
