"""An agent as a row: how to understand it, how to answer it, where its files are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backstory.agents.install import Hook
from backstory.agents.transcripts import Transcripts
from backstory.model import Report


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent that backstory listens to."""

    name: str  #: in routes, commands and rows
    title: str  #: in sentences
    #: (event, payload, event_id, occurred_at) -> what it means, or None if it means nothing to us
    read: Callable[[str, Mapping[str, Any], str, str], Report | None]
    #: (event, context) -> the bytes the agent expects on the hook's standard output
    reply: Callable[[str, str], bytes]
    transcripts: Transcripts
    #: (scope, home, cwd, environment) -> the settings file
    settings: Callable[[str, Path, Path, Mapping[str, str]], Path]
    #: how a shell calls the shim -> the entries to write there
    hooks: Callable[[str], Mapping[str, Hook]]
    #: (scope, home, cwd, environment) -> its file of MCP servers, and where its skills lie
    servers: Callable[[str, Path, Path, Mapping[str, str]], Path]
    skill: Callable[[str, Path, Path, Mapping[str, str]], Path]
    #: content of its settings -> a sentence if it is told to run no hooks
    muted: Callable[[bytes], str]
    #: is this command of a hook ours, of whatever version
    ours: Callable[[str], bool]
