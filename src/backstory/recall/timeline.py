"""The timeline around an item: prompts, observations and summaries in the order of time."""

from __future__ import annotations

from backstory.store import timeline
from backstory.store.db import Row, Tx
from backstory.store.timeline import TimelineAnchor, TimelineRow
from backstory.text import cut, one_line

#: Characters of a title.
TITLE = 160
#: The order of items with the same time.
_ORDER = {"prompt": 0, "observation": 1, "summary": 2}


def around(tx: Tx, anchor: TimelineAnchor, before: int, after: int) -> list[Row]:
    """Return up to `before` items before the anchor, the anchor, and up to `after` items after it, oldest first."""
    key, at = anchor.project_key, anchor.created_at
    # Many rows may have the anchor's time. Enough are read to find the anchor among them.
    rows = timeline.rows(tx, timeline.BEFORE, key, at, before + after + 50)
    rows += timeline.rows(tx, timeline.AFTER, key, at, after + 1)
    rows.sort(key=lambda row: (row.created_at, _ORDER[row.kind], row.id))
    place = next((i for i, row in enumerate(rows) if (row.kind, row.id) == (anchor.kind, anchor.id)), None)
    if place is None:
        return []
    first = max(place - before, 0)
    return [_item(row, number == place) for number, row in enumerate(rows[first : place + after + 1], first)]


def _item(row: TimelineRow, is_anchor: bool) -> Row:
    names = ("kind", "id", "session_id", "prompt_number", "created_at", "type", "mark")
    title = cut(one_line(row.text), TITLE)
    return {name: getattr(row, name) for name in names} | {"title": title, "is_anchor": is_anchor}
