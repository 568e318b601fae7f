"""The interface to an agent's transcripts: where they are, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from backstory.agents.install import Place
from backstory.model import Report

#: Maximum bytes of a transcript. A larger one is damaged, or was made to keep its readers busy.
MAX_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class Mark:
    """A position in a transcript, from which the next pass continues."""

    offset: int = 0  #: in the reader's unit, such as bytes of a file or rows of a database
    prompt: str = ""  #: the prompt of the round at this position, in the reader's own form


@dataclass(frozen=True, slots=True)
class TranscriptState:
    """The state of a transcript, to detect whether it has changed since."""

    inode: int
    size: int  #: in the unit of `Mark.offset`
    changed_ns: int


def file_state(path: Path) -> TranscriptState:
    """The state of a transcript that is one file."""
    stat = path.stat()
    return TranscriptState(stat.st_ino, stat.st_size, stat.st_mtime_ns)


class TranscriptReader(Protocol):
    """One pass over a transcript. Iterate to get its reports, oldest first."""

    mark: Mark  #: after the pass: where the next one starts

    @property
    def place(self) -> Mark:
        """The position of the last entry that was read."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the last round has ended."""
        ...

    def __iter__(self) -> Iterator[Report]: ...


@dataclass(frozen=True, slots=True)
class Retention:
    """How long an agent keeps its transcripts."""

    days: float
    longer: str  #: how to make it keep them longer, as a sentence


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """One line of a transcript."""

    end: int  #: the offset after it
    entry: dict[str, Any] | None  #: None if it is damaged


@dataclass(frozen=True, slots=True)
class Keeping:
    """How transcripts of an agent are kept in the database, and written back to where the agent looks for them."""

    #: transcript -> the agent's id of its session
    session_of: Callable[[Path], str]
    #: (transcript, one of it or of its subagents) -> its name within the session; empty for the transcript itself
    subpath: Callable[[Path, Path], str]
    #: (file, offset) -> its complete lines from there on
    lines: Callable[[Path, int], Iterator[TranscriptLine]]
    #: file -> an entry that describes it, from another file beside it; None if there is none
    about: Callable[[Path], dict[str, Any] | None]
    #: (entry, is its round private so far, ids of private prompts) -> the clean entry, and whether its round is private
    clean: Callable[[Mapping[str, Any], bool, frozenset[str]], tuple[dict[str, Any], bool]]
    #: (transcript, subpath) -> the transcript of a subagent; raises ValueError if the name is not valid
    part: Callable[[Path, str], Path]
    #: (name, working directory) -> whether the agent names a folder of transcripts so
    is_folder_of: Callable[[str, str], bool]
    #: (file, entries as JSON) -> writes the file, unless it exists
    write: Callable[[Path, Iterable[str]], None]


@dataclass(frozen=True, slots=True)
class Transcripts:
    """Where an agent keeps its transcripts, and how to read them."""

    #: (home, environment) -> the folders that hold them; no file outside is opened
    roots: Callable[[Path, Mapping[str, str]], tuple[Path, ...]]
    #: suffixes of their names; the first is that of live ones, the others are only imported
    suffixes: tuple[str, ...]
    #: root -> the transcripts in it, without those of subagents
    find: Callable[[Path], Iterable[Path]]
    #: (transcript, start, whether it is complete) -> one pass over it
    read: Callable[[Path, Mark, bool], TranscriptReader]
    #: transcript -> those of the subagents of its session
    beside: Callable[[Path], list[Path]]
    #: (transcript, roots) -> the assistant's last message, for payloads that lack it
    last_message: Callable[[str, tuple[Path, ...]], str]
    state: Callable[[Path], TranscriptState] = file_state
    #: None if the agent deletes none
    retention: Callable[[Place], Retention | None] = lambda place: None
    #: None if they cannot be kept
    keeping: Keeping | None = None
