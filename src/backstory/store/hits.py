"""What search is asked for and what it answers: the same for words, vectors and both together."""

from __future__ import annotations

from dataclasses import dataclass

#: What can be found: an item is known by its kind and its id.
KINDS = ("observation", "summary", "prompt", "turn", "chunk")


@dataclass(frozen=True, slots=True)
class Where:
    """Only what is of these; what is left empty asks for nothing."""

    project: str = ""  #: its name or its key
    session_id: int = 0  #: ours
    agent: str = ""
    type: str = ""  #: of an observation
    concept: str = ""  #: of an observation
    file: str = ""  #: that an observation read or changed: its path, or the end of it
    since: str = ""  #: a time, or the beginning of one
    until: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """An item that was found."""

    kind: str
    item_id: int
    session_id: int
    score: float  #: more is better
    at: str
