"""Decodes JSON bodies of requests, and strips private text and secrets from them."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import msgspec

from backstory import gate, prefilter, privacy
from backstory.agents import AGENTS
from backstory.errors import BadInput, TooLarge
from backstory.model import Report
from backstory.private_tags import KEEP
from backstory.truncate import MAX_FIELD_CHARS, fit, written_size

#: Maximum bytes of a body.
MAX_BYTES = 16 << 20
#: Bytes from which a body is truncated. No field of a smaller one can be too long.
LARGE = MAX_FIELD_CHARS
#: Maximum depth of nested objects and lists.
MAX_DEPTH = 64
#: Maximum fields of a large body. Those that identify an event are kept, wherever they are.
MAX_FIELDS = 100
#: Maximum characters of all long fields of a large body. No agent sends more than three.
MAX_CHARS = 4 * MAX_FIELD_CHARS
#: Characters of a short field. A longer one that identifies an event is refused.
SHORT = 5000
#: The text of a prompt that the hook could not strip in time, if the agent writes no transcript.
NOT_KEPT = "[This prompt was too large to be searched for secrets in time. It was not stored.]"
#: Maximum values in a body that is not truncated.
MAX_ITEMS = 1_000_000
#: Bytes of a body that is read at once, whatever it contains.
SMALL = 32 << 10
#: A body with less than one item in so many bytes is mostly text.
DENSE = 16
_NESTING = (list, dict)


def is_slow(raw: bytes) -> bool:
    """Whether it may take more than some hundredths of a second to read a body."""
    if not SMALL < len(raw) <= LARGE:
        return len(raw) > LARGE
    return sum(map(raw.count, (b",", b"[", b"{"))) > len(raw) // DENSE or prefilter.suspicious(raw)


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
        return _bounded(privacy.cut(_with_few_fields(value))) if len(raw) > LARGE else value
    except (ValueError, RecursionError):
        raise _too_deep() from None


def report(raw: bytes, agent: str, event: str, event_id: str, occurred_at: str) -> tuple[Report | None, bool]:
    """Return the payload of an agent's hook as a report, None for an event that is not recorded, and whether the hook
    has dropped its contents."""
    payload = strip_tags(raw)
    if not isinstance(payload, dict):
        raise BadInput("The payload is not a JSON object.", "Send the payload that the agent passes to its hooks.")
    is_dropped = payload.get(privacy.CONTENTS_DROPPED) is True
    if is_dropped:
        payload = {"prompt": NOT_KEPT, **payload}
    return AGENTS[agent].read(event, payload, event_id, occurred_at), is_dropped


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
    if isinstance(value, _NESTING) and raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        _count_items(value)
    return gate.storable(value) if is_odd else value


def whole(raw: bytes) -> Any:
    """Decode a body whose parts are cleaned one by one, and refuse one with too many parts."""
    value = decode(raw)
    if len(raw) > LARGE and _count_items(value) > MAX_ITEMS:
        raise TooLarge(f"The JSON has more than {MAX_ITEMS:,} values.", "Send it in several requests.")
    return value


def entries(raw: bytes) -> Any:
    """Decode a body whose `entries` keep every character, and are cleaned one by one."""
    try:
        body = json.loads(raw.decode())
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise BadInput("The body is not a JSON object.", "Send a JSON object in UTF-8.")
    if len(raw) > LARGE and _count_items(body, None) > MAX_ITEMS:
        raise TooLarge(f"The JSON has more than {MAX_ITEMS:,} values.", "Send it in several requests.")
    key = decode(json.dumps({name: value for name, value in body.items() if name != "entries"}).encode())
    return key | {"entries": body["entries"]} if "entries" in body else key


def message(raw: bytes) -> bytes:
    """Return a message of the Model Context Protocol with clean arguments, and without what JSON cannot hold."""
    value = decode(raw)
    if not isinstance(value, dict):
        return msgspec.json.encode(fit(value))
    params = value.get("params")
    if isinstance(params, dict):
        given = params.get("arguments")
        clean = {"arguments": strip(msgspec.json.encode(given))} if isinstance(given, dict) else {}
        value["params"] = {name: fit(item) for name, item in _with_few_fields(params).items()} | clean
    return msgspec.json.encode(
        {name: item if name == "params" else fit(item) for name, item in _with_few_fields(value).items()}
    )


def _count_items(value: Any, deepest: int | None = MAX_DEPTH) -> int:
    """Return how many values a value contains. One that is nested too deeply raises an error. It goes level by level:
    recursion would take several times as long."""
    level, depth, items = [value], 0, 0
    while level:
        if deepest is not None and depth > deepest:
            raise _too_deep()
        items += sum(map(len, level))
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [item for each in inner for item in each if isinstance(item, _NESTING)]
        depth += 1
    return items


def _too_deep() -> BadInput:
    return BadInput(f"The JSON is nested deeper than {MAX_DEPTH}.", "Send flatter data.")


def _with_few_fields(value: Any) -> Any:
    """Return a body with its first fields, and with those that identify an event."""
    if not isinstance(value, dict) or len(value) <= MAX_FIELDS:
        return value
    first = set(islice(value, MAX_FIELDS))
    return {name: item for name, item in value.items() if name in first or name in KEEP}


def _bounded(value: Any) -> Any:
    """Leave out the long fields of a truncated body that come after its first MAX_CHARS."""
    if not isinstance(value, dict):
        return value
    bounded, left = {}, MAX_CHARS
    for name, item in value.items():
        size = len(name) + written_size(item)
        left -= size
        if left >= 0 or size <= SHORT:
            bounded[name] = item
    return bounded
