"""The types of search: a filter, a result, and an item that is indexed."""

from __future__ import annotations

from dataclasses import dataclass

from backstory.model import Session

#: The kinds of items. An item is identified by its kind and its id.
KINDS = ("observation", "summary", "prompt", "turn", "chunk")


@dataclass(frozen=True, slots=True)
class Filter:
    """Restricts a search. An empty field restricts nothing."""

    project: str = ""  #: name or key
    session_id: int = 0  #: backstory's id
    agent: str = ""
    type: str = ""  #: of an observation
    concept: str = ""  #: of an observation
    file: str = ""  #: path, or end of the path, of a file that an observation read or changed
    since: str = ""  #: a time, or the beginning of one, such as 2026-02
    until: str = ""
    is_outside_groups: bool = False  #: leave out what belongs to a group
    is_in_groups: bool = False  #: leave out what belongs to none
    is_ended: bool = False  #: leave out prompts and turns of rounds that have not ended


ANYWHERE = Filter()


def named(project: str, session_id: int = 0) -> Filter:
    """Return a filter for what somebody names. What belongs to a group is found only by who names it."""
    return Filter(project, session_id, is_outside_groups=not project and not session_id)


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result."""

    kind: str
    item_id: int
    session_id: int
    score: float  #: more is better
    at: str
    #: Share of the words of the query that a text has, each by its rarity. 1 if it is not known.
    coverage: float = 1.0


@dataclass(frozen=True, slots=True)
class IndexedItem:
    """An item to index, and what it can be filtered by."""

    kind: str
    id: int
    session_id: int
    at: str
    project: str
    project_key: str
    agent: str
    type: str = ""
    concepts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    is_hidden: bool = False  #: it is not indexed


def item_of(kind: str, number: int, session: Session, at: str) -> IndexedItem:
    """Return an item of a session."""
    is_hidden = session.hidden_at is not None
    about = (session.id, at, session.project, session.project_key, session.agent)
    return IndexedItem(kind, number, *about, is_hidden=is_hidden)
