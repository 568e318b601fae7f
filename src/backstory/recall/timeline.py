"""What lay around something that is remembered: prompts, observations and summaries, in the order of time."""

from __future__ import annotations

from typing import Any

from backstory.store.db import Row, Tx
from backstory.text import cut, one_line

TITLE = 160
#: In one moment: what was asked comes before what was seen, and that before how it ended.
_ORDER = {"prompt": 0, "observation": 1, "summary": 2}
_PLACE = {"observation": "observation_by_id", "summary": "summary_at", "prompt": "prompt_at_id"}


def anchor_by_id(tx: Tx, kind: str, number: int) -> Row | None:
    row = tx.one(_PLACE[kind], id=number)
    return None if row is None else {"kind": kind} | row


def around(tx: Tx, anchor: Row, before: int, after: int) -> list[Row]:
    """So many things before and after, oldest first, the anchor among them."""
    where: dict[str, Any] = {"project_key": anchor["project_key"], "at": anchor["created_at"]}
    # One moment may hold more than is asked for: enough is read on both sides to find the anchor in it.
    early = [_item(kind, row) for kind, row in _rows(tx, "before", where, before + after + 50)]
    late = [_item(kind, row) for kind, row in _rows(tx, "after", where, after + 1)]
    line = sorted([*early, *late], key=_when)
    at = next((i for i, item in enumerate(line) if (item["kind"], item["id"]) == (anchor["kind"], anchor["id"])), None)
    if at is None:
        return []
    return [item | {"is_anchor": i == at} for i, item in enumerate(line) if max(at - before, 0) <= i <= at + after]


def _rows(tx: Tx, side: str, where: dict[str, Any], limit: int) -> list[tuple[str, Row]]:
    queries = {
        "before": {
            "prompt": "timeline_prompts_before",
            "observation": "timeline_observations_before",
            "summary": "timeline_summaries_before",
        },
        "after": {
            "prompt": "timeline_prompts_after",
            "observation": "timeline_observations_after",
            "summary": "timeline_summaries_after",
        },
    }
    return [(kind, row) for kind, name in queries[side].items() for row in tx.all(name, **where, limit=limit)]


def _when(item: Row) -> tuple[str, int, int]:
    return item["created_at"], _ORDER[item["kind"]], item["id"]


def _item(kind: str, row: Row) -> Row:
    if kind == "prompt":
        text = "(private)" if row["is_private"] else row["prompt"] or "(forgotten)"
    elif kind == "summary":
        outcome = row["completed"] or row["learned"]
        text = f"{row['request']} → {outcome}" if outcome else row["request"]
    else:
        text = row["title"]
    kept = {name: row[name] for name in ("id", "session_id", "prompt_number", "created_at")}
    return {"kind": kind, **kept, "type": row.get("type"), "title": cut(one_line(text), TITLE)}
