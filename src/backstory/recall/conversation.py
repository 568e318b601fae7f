"""The conversation of a session by rounds: what was said, and the tool uses in between, each as a line."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from backstory.model import Event, Session
from backstory.recall.turn_pages import error_of, used_for
from backstory.store import segments, turns
from backstory.store.db import Row, Tx
from backstory.text import cut

#: Tool uses of a page, at most.
MAX_TOOLS = 1000
#: Characters of the input, the output and the error of a tool use that are shown.
MAX_TEXT = 20_000


def rounds(tx: Tx, session: Session, after: int, limit: int) -> list[Row]:
    """Return the rounds after a number in their order. Round 0 is what happened before the first prompt."""
    first, last = after + 1, after + limit
    steps: dict[int, list[Row]] = defaultdict(list)
    for turn in turns.of_rounds(tx, session.id, first, last):
        about = {name: getattr(turn, name) for name in ("number", "role", "speaker", "text", "at")}
        steps[turn.prompt_number].append({"kind": "turn", **about})
    for use in segments.tools_of_rounds(tx, session.id, first, last, MAX_TOOLS):
        about = {"id": use.id, "tool_name": use.tool_name, "used_for": used_for(use, session.root or session.cwd)}
        about |= {"error": error_of(use), "at": use.occurred_at}
        steps[use.prompt_number].append({"kind": "tool", **about})
    found = [
        {"number": number, "steps": sorted(steps[number], key=lambda step: (str(step["at"]), step["kind"] == "turn"))}
        for number in range(first, min(last, session.prompt_counter) + 1)
    ]
    return [each for each in found if each["number"] or each["steps"]]


def tool_use(event: Event) -> Row:
    """Return a tool use as the API shows it. Long texts are cut."""
    names = ("id", "session_id", "prompt_number", "kind", "tool_name", "occurred_at")
    texts = {name: _text(event.payload.get(name)) for name in ("tool_input", "tool_response", "error")}
    return {name: getattr(event, name) for name in names} | texts


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value and cut(value, MAX_TEXT)
    return cut(json.dumps(value, ensure_ascii=False, indent=2), MAX_TEXT)
