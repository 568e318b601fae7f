"""Titles and tags of sessions: those that a user gives, and the titles that agents make."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Literal, get_args

from backstory import gate
from backstory.model import Session
from backstory.store.db import Row, Tx
from backstory.text import cut, one_line

#: Who gave a title: the user here, the user in the agent, or the agent by itself. The first one that there is counts.
Source = Literal["user", "custom", "agent"]
#: Characters of a title.
MAX_TITLE = 200
#: Titles that are compared with a query, at most.
MAX_COMPARED = 5000


def rename(tx: Tx, session_id: int, title: str) -> None:
    """Give a session a title of the user's. An empty one removes it."""
    _put(tx, session_id, "user", title)


def put_agents(tx: Tx, session: Session, title: str, source: Source) -> None:
    """Store a title that comes from the agent.

    An agent makes its title from all prompts. So it is not stored if one of them is private or was forgotten.
    """
    is_telling = source == "agent" and tx.one("session_unread_prompt", id=session.id)
    if not session.forgotten_at and not is_telling:
        _put(tx, session.id, source, title)


def _put(tx: Tx, session_id: int, source: Source, title: str) -> None:
    if text := cut(one_line(gate.text(title)), MAX_TITLE):
        tx.run("session_title_put", id=session_id, source=source, title=text)
    else:
        tx.run("session_title_remove", id=session_id, source=source)
    show(tx, session_id)


def show(tx: Tx, session_id: int) -> None:
    """Make the title that counts the title of the session."""
    tx.run("session_title_show", id=session_id)


def of_session(tx: Tx, session_id: int) -> list[Row]:
    """Return the titles of a session with their sources, the one that counts first."""
    return tx.all("session_titles", id=session_id)


def named(tx: Tx, title: str) -> list[int]:
    """Return the sessions with exactly this title, ignoring case, the one that was used last first."""
    return [row["id"] for row in tx.all("sessions_named", title=one_line(title))]


def given(tx: Tx) -> list[tuple[int, str]]:
    """Return the titles and tags that people gave, each with its session, those of the newest sessions first."""
    return [(row["session_id"], row["label"]) for row in tx.all("session_labels", limit=MAX_COMPARED)]


def tag(tx: Tx, session_id: int, add: Iterable[str], remove: Iterable[str]) -> None:
    """Add tags to a session and remove others."""
    for name in filter(None, (one_line(gate.text(each)) for each in add)):
        tx.run("session_tag_add", id=session_id, tag=name)
    for name in map(one_line, remove):
        tx.run("session_tag_remove", id=session_id, tag=name)


def tags(tx: Tx, session_ids: Iterable[int]) -> dict[int, list[str]]:
    """Return the tags of some sessions, in alphabetical order."""
    found: dict[int, list[str]] = defaultdict(list)
    for row in tx.all("session_tags", ids=json.dumps(list(session_ids))):
        found[row["session_id"]].append(row["tag"])
    return found


def remove_made(tx: Tx, session_id: int) -> list[str]:
    """Remove the title that the agent made, and return it."""
    return _remove(tx, session_id, ("agent",))


def remove_all(tx: Tx, session_id: int) -> list[str]:
    """Remove every title and tag of a session, and return the titles."""
    tx.run("session_tags_remove", id=session_id)
    return _remove(tx, session_id, get_args(Source))


def _remove(tx: Tx, session_id: int, sources: tuple[str, ...]) -> list[str]:
    removed = [row["title"] for row in of_session(tx, session_id) if row["source"] in sources]
    for source in sources:
        tx.run("session_title_remove", id=session_id, source=source)
    show(tx, session_id)
    return removed


def first_prompts(tx: Tx, session_ids: Iterable[int], prompts: int) -> list[tuple[int, str]]:
    """Return the beginnings of the first prompts of some sessions, each with its session, in their order."""
    rows = tx.all("session_first_prompts", ids=json.dumps(list(session_ids)), prompts=prompts)
    return [(row["session_id"], row["prompt"]) for row in rows]


def main_observations(tx: Tx, session_ids: Iterable[int]) -> dict[int, str]:
    """Return session -> the title of its most important observation."""
    rows = tx.all("session_main_observations", ids=json.dumps(list(session_ids)))
    return {row["session_id"]: row["title"] for row in rows}
