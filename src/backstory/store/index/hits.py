"""What search is asked for and what it answers: the same for words, vectors and both together."""

from __future__ import annotations

from dataclasses import dataclass

from backstory.model import Session

#: What can be found: an item is known by its kind and its id.
KINDS = ("observation", "summary", "prompt", "turn", "chunk")


@dataclass(frozen=True, slots=True)
class Filter:
    """Only what is of these; what is left empty asks for nothing."""

    project: str = ""  #: its name or its key
    session_id: int = 0  #: ours
    agent: str = ""
    type: str = ""  #: of an observation
    concept: str = ""  #: of an observation
    file: str = ""  #: that an observation read or changed: its path, or the end of it
    since: str = ""  #: a time, or the beginning of one
    until: str = ""


ANYWHERE = Filter()


@dataclass(frozen=True, slots=True)
class Hit:
    """An item that was found."""

    kind: str
    item_id: int
    session_id: int
    score: float  #: more is better
    at: str


@dataclass(frozen=True, slots=True)
class IndexedItem:
    """Something that is indexed, and what it can be asked for by."""

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


def item_of(kind: str, number: int, session: Session, at: str) -> IndexedItem:
    """Return an item of a session."""
    return IndexedItem(kind, number, session.id, at, session.project, session.project_key, session.agent)
