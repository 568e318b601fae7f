"""What to do next, for people whose memory is empty or who name a project that it does not have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.client import Client
from backstory.errors import BackstoryError

if TYPE_CHECKING:
    from backstory.agents import Agent


def empty(client: Client) -> str:
    """Say that memory is empty and how it gets filled; "" if it is not."""
    if client.get("/api/sessions", limit=1)["items"] or client.get("/api/observations", limit=1)["items"]:
        return ""
    return f"Memory is empty. {first_steps()}"


def first_steps() -> str:
    """Say how memory gets filled."""
    from backstory import settings
    from backstory.agents import AGENTS, DEFAULT_AGENT
    from backstory.cli.agents import installed

    agent = AGENTS[DEFAULT_AGENT]
    is_installed = bool(installed(settings.load()))
    next_one = (
        f"The next session of {agent.title} fills it." if is_installed else "`backstory install` starts filling it."
    )
    return f"{next_one}\n{earlier(agent)}"


def earlier(agent: Agent) -> str:
    """Say how to import the sessions before the installation."""
    return f"Earlier sessions: `backstory import {agent.name} {agent.transcripts.roots(Path('~'), {})[0]}`."


def check_project(get: Callable[[str], Any], name: str) -> None:
    """Raise an error that names near ones, if memory has no project of this name or key. `get` asks the worker."""
    rows = get("/api/projects")["items"] if name else []
    if rows and not any(name in (row["name"], row["key"]) for row in rows):
        from backstory.settings import near

        names = list(dict.fromkeys(str(row["name"]) for row in rows))
        raise BackstoryError(
            f"There is no project `{name}`.", near(name, names) or f"Memory has {', '.join(names[:5])}."
        )
