"""An agent as a row: how to understand it, how to answer it, where its files are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backstory.agents.install import InstalledPart, Place
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
    #: what is put into its files for a scope: the hooks first, then whatever lets it ask its memory
    parts: Callable[[Place], tuple[InstalledPart, ...]]
    #: who calls our hooks in a session in this directory: "user" and "project" for those scopes, "plugin", or others
    callers: Callable[[Place], list[str]]
    #: a sentence if the agent runs no hooks, because it is told so or has not been told to trust them
    muted: Callable[[Place], str] = lambda place: ""
    #: whether a plugin of ours is switched on for the user, and the command that removes it
    plugin_enabled: Callable[[Place], bool] = lambda place: False
    remove_plugin: str = ""
