"""The gate: removes private text and secrets from everything that is stored or sent to a model.

The types that carry text into the store (`Report`, `Project`, `Observation`, `Summary`, `Said`) call it in their
constructors, so that no code path can skip it. Cleaning is idempotent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

from backstory import privacy
from backstory.truncate import MAX_FIELD_CHARS, written_size

if TYPE_CHECKING:
    from backstory.model import Round

#: Maximum characters of a text whose result is cached. Such texts are names and ids, which repeat.
CACHED_CHARS = 512
#: Characters that a database rejects: null and lone surrogates.
ODD = re.compile(r"[\x00\ud800-\udfff]")
_cached_text = lru_cache(4096)(privacy.strip_text)
Names = dict[str, str | None]
_IDS = frozenset({"content_id", "event_id", "tool_use_id", "prompt_id"})


class Clean(dict[str, Any]):
    """A clean payload, with the clean names of its report. Only `report` and `payload` create it."""

    names: Names


def report(names: Names, given: Mapping[str, Any]) -> tuple[Names, Clean]:
    """Clean the names and the payload of a report. Checks both at once, because this runs for every event."""
    if isinstance(given, Clean):
        return (names if names == given.names else _names(names)), given
    try:
        names, clean = _stripped(names, _bounded(dict(given)))
    except (ValueError, RecursionError):
        # Nested too deeply: kept as text, so that tags and secrets in it are still recognised.
        flat = {key: item if isinstance(item, str) else _as_text(item) for key, item in given.items()}
        names, clean = _stripped(names, _bounded(flat))
    clean.names = names
    return names, clean


def _stripped(names: Names, value: dict[str, Any]) -> tuple[Names, Clean]:
    # The names come first, so that no tag of the payload hides them, under a key that the payload does not have.
    first = next(key for key in map("-".__mul__, count()) if key not in value)
    whole = {first: [*names.values()], **value}
    clean = privacy.strip_json(whole)
    if clean == whole:
        return names, Clean(value)
    if clean.pop(first, None) == whole[first]:
        return names, Clean(clean)
    return _names(names), Clean(privacy.strip_json(value))


def payload(given: Mapping[str, Any]) -> Clean:
    """Clean a payload. A tag hides everything up to its closing tag, across fields."""
    return report({}, given)[1]


def document(value: Any) -> Any:
    """Clean a small JSON value. Returns the same object if there is nothing to remove."""
    return privacy.strip_json(value)


def text(value: str) -> str:
    """Clean a text."""
    return _cached_text(value) if len(value) <= CACHED_CHARS else privacy.strip_text(value)


def identifier(value: str) -> str:
    """Clean an id. If it changes, a digest of the original is appended, so that different ids stay different."""
    clean = text(value)
    if clean == value:
        return value
    from hashlib import sha256

    return f"{clean}#{sha256(value.encode(errors='surrogatepass')).hexdigest()[:12]}"


def clean_round(round: Round) -> Round:
    """Clean a round before it is sent to a model. Rows that an older version stored may not be clean."""
    events, earlier = (
        tuple(replace(event, payload=payload(event.payload)) for event in some)
        for some in (round.events, round.earlier)
    )
    turns = tuple(replace(turn, text=turn.text and text(turn.text)) for turn in round.turns)
    return replace(round, prompt=text(round.prompt), events=events, earlier=earlier, turns=turns)


def _names(names: Names) -> Names:
    storable = {name: value and ODD.sub("\ufffd", value) for name, value in names.items()}
    return {name: value and (identifier if name in _IDS else text)(value) for name, value in storable.items()}


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    """Truncate a payload and replace characters that a database rejects."""
    if any(map(_is_odd, privacy.texts(value))):
        value = storable(value)
    if all(written_size(item) <= MAX_FIELD_CHARS for item in value.values()):
        return value
    cut: dict[str, Any] = privacy.cut(privacy.strip_json(value, secrets=False))
    return cut


def _is_odd(text: str) -> bool:
    """Whether a text contains a character that a database rejects. Ten times as fast as the pattern."""
    try:
        return b"\0" in text.encode()
    except UnicodeEncodeError:
        return True


def storable(value: Any) -> Any:
    """Replace each character that a database rejects by U+FFFD."""
    if isinstance(value, str):
        return ODD.sub("\ufffd", value)
    if isinstance(value, list):
        return [storable(item) for item in value]
    return {storable(key): storable(item) for key, item in value.items()} if isinstance(value, dict) else value


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""
