"""Finds out how to open a session again in its agent: the command, the directory and the transcript."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backstory import project, settings
from backstory.agents import AGENTS
from backstory.agents.agent import Agent
from backstory.client import Client
from backstory.errors import BackstoryError
from backstory.sessions import kept

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Opening:
    """How a session is opened."""

    agent: str  #: the title of the agent
    command: tuple[str, ...]
    directory: str
    transcript: Path | None  #: None if the agent has deleted it, and backstory has kept it
    note: str = ""  #: what the user should know before

    @property
    def shell_line(self) -> str:
        return f"cd {shlex.quote(self.directory)} && {shlex.join(self.command)}"


def roots_of(agent: Agent) -> tuple[Path, ...]:
    return agent.transcripts.roots(Path.home(), settings.environment())


def transcript_of(row: Row) -> Path | None:
    """Return the agent's own transcript of a session; None if there is none on this machine."""
    agent = AGENTS.get(row["agent"])
    if agent is None or agent.resuming is None:
        return None
    files = (agent.resuming.transcript(root, row["content_session_id"]) for root in roots_of(agent))
    return next(filter(None, files), None)


def find(client: Client, row: Row, here: str = "") -> Opening:
    """Return how to open a session. `row` is a session as the API shows it, with `directories` of its project.

    `here` is the directory to open it in, whatever its own is. Raises BackstoryError if the session cannot be opened.
    """
    number, name = f"S{row['id']}", row["content_session_id"]
    agent = AGENTS.get(row["agent"])
    hint = f"`backstory sessions show {number} --turns` prints the conversation."
    if agent is None or agent.resuming is None:
        raise BackstoryError(f"Session {number} is of {row['agent']}, which cannot open it again.", hint)
    command = agent.resuming.command(name)
    if not command:
        raise BackstoryError(f"{agent.title} has no session with the id of session {number}.", hint)
    transcript = transcript_of(row)
    if transcript is None and not any(kept.listed(client, agent=row["agent"], session_id=name)):
        raise _gone(agent.title, row)
    directory, note = _directory(row, agent.resuming.moved_to(transcript) if transcript else "", here)
    if transcript is None:
        note = f"{note} Its transcript was gone. It is restored from the database.".strip()
    return Opening(agent.title, command, directory, transcript, note)


def _gone(agent: str, row: Row) -> BackstoryError:
    hint = f"`backstory sessions show S{row['id']} --turns` prints the conversation."
    hint += "\n`backstory sessions keep` keeps others, so that they can always be opened."
    return BackstoryError(f"{agent} cannot open session S{row['id']}: its transcript is gone.", hint)


def _directory(row: Row, moved_to: str, here: str) -> tuple[str, str]:
    """Return the directory to open a session in, and a note if it is not that of the session."""
    own = [path for path in (moved_to, row["cwd"]) if path]
    was = own[0] if own else "an unknown directory"
    directory = here or next((path for path in own if Path(path).is_dir()), "") or _of_same_project(row)
    if not directory:
        hint = f"Run `backstory resume S{row['id']} --here` where the project is now."
        raise BackstoryError(f"The directory of session S{row['id']} is gone: {was}.", hint)
    return directory, "" if directory in own else f"The session was in {was}."


def _of_same_project(row: Row) -> str:
    """Return another directory of the project of a session, such as its main working tree. This one comes first."""
    for path in (Path.cwd(), Path(row["project_key"]), *map(Path, row["directories"])):
        if path.is_absolute() and path.is_dir() and project.find(str(path)).key == row["project_key"]:
            return str(path)
    return ""


def place_transcript(client: Client, row: Row, opening: Opening) -> None:
    """Let the agent find the transcript in the directory in which it is started.

    A client that was started elsewhere looks only there. A link shows it the same file, so nothing is there twice.
    """
    agent, transcript = AGENTS[row["agent"]], opening.transcript
    if transcript is None:
        if kept.restore_transcript(row["id"], cwd=opening.directory, client=client) is None:
            raise _gone(opening.agent, row)
        return
    if agent.resuming is None:
        return
    wanted = agent.resuming.place(transcript.parent.parent, opening.directory, row["content_session_id"])
    if wanted == transcript or wanted.exists():
        return
    with contextlib.suppress(OSError):  # newer clients find it anyway
        wanted.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            os.link(transcript, wanted)
        except OSError:
            shutil.copy2(transcript, wanted)


def run(opening: Opening) -> None:
    """Replace this process by the agent."""
    os.chdir(opening.directory)
    os.execvp(opening.command[0], opening.command)  # noqa: S606 - the agent's own command, from its row
