"""The interface to opening a session of an agent again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Resuming:
    """How an agent opens one of its sessions again."""

    #: session id -> program and arguments; empty if the agent has no such ids
    command: Callable[[str], tuple[str, ...]]
    #: (root of its transcripts, session id) -> the transcript, in whatever folder it is; None if it is gone
    transcript: Callable[[Path, str], Path | None]
    #: transcript -> the directory to which the session was moved inside the agent; empty if it was not
    moved_to: Callable[[Path], str]
    #: (root, directory, session id) -> where the agent looks for the transcript if it is started in that directory
    place: Callable[[Path, str, str], Path]
