"""The row of an agent: how to read its payloads, how to reply, and where its files are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backstory.agents.install import InstalledPart, Place
from backstory.agents.resuming import Resuming
from backstory.agents.transcripts import Transcripts
from backstory.model import Report


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent that backstory listens to."""

    name: str  #: in routes, commands and rows
    title: str  #: in sentences
    #: (event, payload, event_id, occurred_at) -> the report, or None for an event that is not recorded
    read: Callable[[str, Mapping[str, Any], str, str], Report | None]
    #: (event, context) -> the bytes that the agent expects on the hook's standard output
    reply: Callable[[str, str], bytes]
    transcripts: Transcripts
    #: what `install` puts into its files: the hooks first, then the MCP server and the skill
    parts: Callable[[Place], tuple[InstalledPart, ...]]
    #: what calls our hooks in a session in this directory: "user", "project", "plugin" or others
    callers: Callable[[Place], list[str]]
    #: a message if the agent runs no hooks, because they are switched off or not trusted
    muted: Callable[[Place], str] = lambda place: ""
    #: a shell command for the hook at the start of a session, which tells the user something; None if there is no way
    say: Callable[[str], str] | None = None
    #: whether our plugin is switched on for the user, and the command that removes it
    plugin_enabled: Callable[[Place], bool] = lambda place: False
    remove_plugin: str = ""
    #: how a session is opened again; None if the agent cannot do that
    resuming: Resuming | None = None
