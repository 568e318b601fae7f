"""The gate: what is stored, or sent to a model, comes through here and loses private text and secrets.

The types that carry text into the store (`Report`, `Project`, `Observation`, `Summary`, `Said`) call it when they are
made, so that no path can leave it out. Cleaning twice changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from backstory import privacy
from backstory.truncate import STORED, written_size

if TYPE_CHECKING:
    from backstory.model import Round

#: Characters. Shorter texts are names and ids, which come again.
SHORT = 512
#: Characters that no database takes: null, and half of a pair.
ODD = re.compile(r"[\x00\ud800-\udfff]")


Names = dict[str, str | None]
_IDS = frozenset({"content_id", "event_id", "tool_use_id", "prompt_id"})


class Clean(dict[str, Any]):
    """A payload that has passed, with the names that it passed with. Made by `report` and `payload` only."""

    names: Names


def report(names: Names, given: Mapping[str, Any]) -> tuple[Names, Clean]:
    """What a report is called by, and its payload: one look for both, because this is done for every event."""
    if isinstance(given, Clean):
        return (names if names == given.names else _names(names)), given
    try:
        names, clean = _stripped(names, _bounded(dict(given)))
    except (ValueError, RecursionError):
        # Nested beyond reason: kept as text, so that tags and secrets in it are still found.
        flat = {key: item if isinstance(item, str) else _flat(item) for key, item in given.items()}
        names, clean = _stripped(names, _bounded(flat))
    clean.names = names
    return names, clean


def _stripped(names: Names, value: dict[str, Any]) -> tuple[Names, Clean]:
    whole = {"": [*names.values()], **value}
    if privacy.strip_json(whole) == whole:
        return names, Clean(value)
    return _names(names), Clean(privacy.strip_json(value))


def payload(given: Mapping[str, Any]) -> Clean:
    """A payload: a tag hides all up to its end, in whichever field that is."""
    return report({}, given)[1]


def document(value: Any) -> Any:
    """A small JSON value; the same object where nothing is taken out."""
    return privacy.strip_json(value)


def text(value: str) -> str:
    """A text by itself."""
    return _short(value) if len(value) <= SHORT else privacy.strip_text(value)


def identifier(value: str) -> str:
    """An id. One that is changed gets a digest of what it was, so that two of them do not become one."""
    clean = text(value)
    if clean == value:
        return value
    from hashlib import sha256

    return f"{clean}#{sha256(value.encode(errors='surrogatepass')).hexdigest()[:12]}"


def asked_about(round: Round) -> Round:
    """A round on its way to a model. What this version stores is clean; an older one's may not be."""
    events, earlier = (
        tuple(replace(event, payload=payload(event.payload)) for event in some)
        for some in (round.events, round.earlier)
    )
    return replace(round, prompt=text(round.prompt), events=events, earlier=earlier)


@lru_cache(4096)
def _short(value: str) -> str:
    return privacy.strip_text(value)


def _names(names: Names) -> Names:
    written = {name: value and ODD.sub("\ufffd", value) for name, value in names.items()}
    return {name: value and (identifier if name in _IDS else text)(value) for name, value in written.items()}


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    """A payload that is not too large and can be written."""
    if any(map(_is_odd, privacy.texts(value))):
        value = _written(value)
    if all(written_size(item) <= STORED for item in value.values()):
        return value
    cut: dict[str, Any] = privacy.cut(privacy.strip_json(value, secrets=False))
    return cut


def _is_odd(text: str) -> bool:
    """Whether it holds a character that no database takes. Ten times as fast as the pattern."""
    try:
        return b"\0" in text.encode()
    except UnicodeEncodeError:
        return True


def _written(value: Any) -> Any:
    """The value with a replacement sign for each character that no database takes."""
    if isinstance(value, str):
        return ODD.sub("\ufffd", value)
    if isinstance(value, list):
        return [_written(item) for item in value]
    return {_written(key): _written(item) for key, item in value.items()} if isinstance(value, dict) else value


def _flat(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""
