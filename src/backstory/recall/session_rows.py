"""Sessions as people see them: title, tags and links, what was asked, and how it ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from backstory.model import Session
from backstory.recall import hand_off, session_title
from backstory.store import memories, sessions, titles, turns
from backstory.store.db import Row, Tx
from backstory.text import cut, one_line

#: Prompts from which a title is made.
TITLE_PROMPTS = 6
#: Characters of the last reply, if there is no summary.
MAX_REPLY = 300
#: Turns at the end of a session in which its last reply is looked for.
LAST_TURNS = 10


def with_titles(tx: Tx, rows: Sequence[Row]) -> list[Row]:
    """Add titles and tags to sessions. A session without a title gets one that is made from its prompts."""
    numbers = [row["id"] for row in rows]
    made = _made(tx, (row["id"] for row in rows if not row["title"]))
    tags = titles.tags(tx, numbers) if numbers else {}
    return [
        row | {"title": row["title"] or made.get(row["id"]) or _nothing(row), "tags": tags.get(row["id"], [])}
        for row in rows
    ]


def _made(tx: Tx, session_ids: Iterable[int]) -> dict[int, str]:
    wanted = list(session_ids)
    if not wanted:
        return {}
    prompts: dict[int, list[str]] = defaultdict(list)
    for number, prompt in titles.first_prompts(tx, wanted, TITLE_PROMPTS):
        prompts[number].append(prompt)
    done = titles.main_observations(tx, wanted)
    return {number: session_title.make(prompts[number], done.get(number, "")) for number in wanted}


def _nothing(row: Row) -> str:
    return "(private)" if row["prompt_counter"] else "(no prompt)"


def links(tx: Tx, session: Session) -> list[Row]:
    """Return the sessions that a session comes from or led to, each with its relation and title."""
    found: list[tuple[str, int]] = []
    if session.parent_id is not None:
        found.append((_BEGAN.get(session.start_source or "", "continues"), session.parent_id))
    for child in sessions.children(tx, session.id):
        found.append((_LED.get(child["start_source"] or "", "continued in"), child["id"]))
    others = sessions.by_ids(tx, (number for _, number in found))
    named = {row["id"]: row for row in with_titles(tx, [sessions.shown(other) for other in others.values()])}
    return [
        {"relation": relation, "id": number, "title": named[number]["title"], "at": named[number]["last_event_at"]}
        for relation, number in found
        if number in named
    ]


#: How a session began -> its relation to its parent, and that of its parent to it.
_BEGAN = {"fork": "forked from", "clear": "cleared from"}
_LED = {"fork": "forked as", "clear": "cleared to"}


def described(tx: Tx, session: Session) -> Row:
    """Return what a person needs to recognise a session: what was asked, and how it ended."""
    notes = memories.notes_of(tx, session)
    asked = hand_off.telling(notes.prompts)
    ended: dict[str, Any] = {"done": "", "open": "", "note": ""}
    if summary := notes.summary:
        ended = {"done": summary.completed, "open": summary.next_steps, "note": summary.notes}
    if not any(ended.values()):
        ended["done"] = _last_reply(tx, session)
    return {"asked": asked[:1] + asked[1:][-1:], "ended": {name: one_line(text) for name, text in ended.items()}}


def _last_reply(tx: Tx, session: Session) -> str:
    last = turns.up_to_round(tx, session.id, session.prompt_counter, LAST_TURNS)
    replies = [turn.text for turn in last if turn.role == "assistant" and turn.text]
    return cut(one_line(replies[-1]), MAX_REPLY) if replies else ""
