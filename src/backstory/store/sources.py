"""What an observation rests on: its events, what was said in its round, and what it replaced."""

from __future__ import annotations

from collections.abc import Iterator

from backstory.store import observations
from backstory.store.db import Row, Tx
from backstory.store.payloads import read_or_nothing
from backstory.truncate import fit

#: Events, turns and replaced observations that are read, at most.
MAX_EVENTS = 100
MAX_TURNS = 100
MAX_REPLACED = 200
#: Characters that are shown of the input or the output of a tool, and of a turn.
MAX_PAYLOAD = 8_000
MAX_TURN = 8_000


def of_observation(tx: Tx, number: int) -> Row:
    """Return the sources of an observation as the API shows them."""
    row = observations.get(tx, number)
    round = {"session_id": row["session_id"], "number": row["prompt_number"]}
    prompt = tx.one("prompt_by_number", **round)
    turns = tx.all("turns_of_prompt", session_id=round["session_id"], prompt_number=round["number"], limit=MAX_TURNS)
    repeats = list(_repeated(tx, row))
    known = {each["id"] for each in repeats}
    replaced = tx.all("observations_replaced", observation_id=number, limit=MAX_REPLACED)
    return {
        "events": [
            _event(each) for each in tx.all("observation_events_shown", observation_id=number, limit=MAX_EVENTS)
        ],
        "turns": [_turn(turn) for turn in turns],
        "prompt": _prompt(prompt) if prompt else None,
        "replaces": [each for each in replaced if each["id"] not in known],
        "replaced_by": tx.one("observation_short", id=row["superseded_by"]) if row["superseded_by"] else None,
        "repeats": repeats,
    }


def _repeated(tx: Tx, row: Row) -> Iterator[Row]:
    """Yield the observations of earlier sessions that say the same, the latest first."""
    seen = {row["id"]}
    while row["repeats"] and row["repeats"] not in seen and len(seen) < MAX_REPLACED:
        seen.add(row["repeats"])
        found = tx.one("observation_short", id=row["repeats"])
        if found is None:
            return
        row = found
        yield row


def _event(row: Row) -> Row:
    payload = read_or_nothing(row["payload"])
    shown = {name: row[name] for name in ("id", "kind", "tool_name", "occurred_at", "status")}
    response = payload.get("tool_response", payload.get("error"))
    rest = {name: value for name, value in payload.items() if name not in ("tool_input", "tool_response", "error")}
    return shown | {
        "tool_input": fit(payload.get("tool_input"), MAX_PAYLOAD),
        "tool_response": fit(response, MAX_PAYLOAD),
        "text": fit(_text(row["kind"], rest), MAX_PAYLOAD),
    }


def _text(kind: str, payload: Row) -> str:
    """Return what an event says that is no tool use: the reply at its end, or a text to remember."""
    name = "text" if kind == "memory" else "last_assistant_message"
    return str(payload.get(name) or "")


def _turn(row: Row) -> Row:
    shown = {name: row[name] for name in ("number", "role", "speaker", "at")}
    return shown | {"text": fit(row["text"], MAX_TURN)}


def _prompt(row: Row) -> Row:
    shown = {name: row[name] for name in ("id", "prompt_number", "created_at")}
    is_private = bool(row["is_private"])
    return shown | {"is_private": is_private, "prompt": None if is_private else fit(row["prompt"], MAX_TURN)}
