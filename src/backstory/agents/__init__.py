"""The agents we listen to: each is a row of data, in a dict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backstory.agents import claude_code, claude_transcript
from backstory.agents.claude_transcript import Mark, Transcript
from backstory.agents.install import Hook
from backstory.model import Report


@dataclass(frozen=True, slots=True)
class Agent:
    """How to understand an agent, how to answer it, and where its settings are."""

    name: str
    #: (event, payload, event_id, occurred_at) -> what it means, or None if it means nothing to us
    read: Callable[[str, Mapping[str, Any], str, str], Report | None]
    #: (event, context) -> the bytes the agent expects on the hook's standard output
    reply: Callable[[str, str], bytes]
    #: (transcript, roots) -> the assistant's last message, where a payload does not bring it
    last_message: Callable[[str, tuple[Path, ...]], str]
    #: (transcript, where to read on, whether nothing more is coming) -> what happened, report by report
    transcript: Callable[[Path, Mark, bool], Transcript]
    #: the transcripts of a session's subagents
    beside: Callable[[Path], list[Path]]
    #: (home, environment) -> the folders under which its transcripts lie
    roots: Callable[[Path, Mapping[str, str]], tuple[Path, ...]]
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


AGENTS: dict[str, Agent] = {
    claude_code.NAME: Agent(
        name=claude_code.NAME,
        read=claude_code.read,
        reply=claude_code.reply,
        last_message=claude_code.last_message,
        transcript=claude_transcript.Transcript,
        beside=claude_transcript.beside,
        roots=claude_code.roots,
        settings=claude_code.settings,
        hooks=claude_code.hooks,
        servers=claude_code.servers,
        skill=claude_code.skill,
        muted=claude_code.muted,
        ours=claude_code.ours,
    ),
}
