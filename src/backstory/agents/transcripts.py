"""The transcripts of an agent, whatever it keeps them in: what a reader provides, and how far it has read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from backstory.agents.install import Place
from backstory.model import Report


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a transcript from which the next pass goes on."""

    offset: int = 0  #: in the reader's own unit: bytes of a file, or the number of a row in a database
    prompt: str = ""  #: the prompt that is being answered there, in the reader's own form


@dataclass(frozen=True, slots=True)
class TranscriptState:
    """What tells whether a transcript has changed since it was read."""

    inode: int
    size: int  #: in the unit of `Mark.offset`
    changed_ns: int


def file_state(path: Path) -> TranscriptState:
    """The state of a transcript that is one file."""
    stat = path.stat()
    return TranscriptState(stat.st_ino, stat.st_size, stat.st_mtime_ns)


class TranscriptReader(Protocol):
    """One pass over a transcript. Iterate to get its reports, oldest first."""

    mark: Mark  #: after the pass: where the next one begins

    @property
    def place(self) -> Mark:
        """The last entry that was read."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no round is left open."""
        ...

    def __iter__(self) -> Iterator[Report]: ...


@dataclass(frozen=True, slots=True)
class Retention:
    """How long an agent keeps its transcripts."""

    days: float
    longer: str  #: a sentence: how to have it keep them longer


@dataclass(frozen=True, slots=True)
class Transcripts:
    """Where an agent records its conversations, and how they are read."""

    #: (home, environment) -> the folders that hold them; nothing outside of these is opened
    roots: Callable[[Path, Mapping[str, str]], tuple[Path, ...]]
    #: how their names end; the first is that of a live one, the others are taken by an import only
    suffixes: tuple[str, ...]
    #: a root -> the transcripts under it, without those of subagents
    find: Callable[[Path], Iterable[Path]]
    #: (transcript, where to begin, whether nothing more is coming) -> one pass over it
    read: Callable[[Path, Mark, bool], TranscriptReader]
    #: a transcript -> those of its session's subagents
    beside: Callable[[Path], list[Path]]
    #: (transcript, roots) -> the assistant's last message, where a payload does not bring it
    last_message: Callable[[str, tuple[Path, ...]], str]
    state: Callable[[Path], TranscriptState] = file_state
    #: None where the agent deletes none
    retention: Callable[[Place], Retention | None] = lambda place: None
