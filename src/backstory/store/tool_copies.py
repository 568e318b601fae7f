"""What an observation repeats of the tool use that it came from. Its event has the whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from backstory.model import Event
from backstory.truncate import fit

#: Characters of a tool's input, and of its response, that an observation repeats.
MAX_CHARS = 200


def columns(sources: list[Event]) -> Mapping[str, Any]:
    """Return the columns that describe the single event that an observation came from; empty if there are several."""
    if len(sources) != 1:
        return {"tool_name": None, "tool_input_json": None, "tool_response_text": None}
    event = sources[0]
    response = event.payload.get("tool_response", event.payload.get("error"))
    return {
        "tool_name": event.tool_name,
        "tool_input_json": json.dumps(fit(event.payload.get("tool_input"), MAX_CHARS), ensure_ascii=False),
        "tool_response_text": shorten_response(
            response if isinstance(response, str | None) else json.dumps(response, ensure_ascii=False)
        ),
    }


def shorten_response(text: str | None) -> str | None:
    """Return head and tail of a tool's response."""
    return None if text is None else str(fit(text, MAX_CHARS))


def shorten_input(text: str | None) -> str | None:
    """Return the JSON of a tool's input with its long texts cut."""
    if text is None or len(text) <= MAX_CHARS:
        return text
    try:
        return json.dumps(fit(json.loads(text), MAX_CHARS), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
