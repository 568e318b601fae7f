"""The Python API of groups: sends messages to their agents, over the worker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backstory import settings
from backstory.client import Client
from backstory.errors import BackstoryError, WorkerAway
from backstory.groups.model_env import CREDENTIALS, model_variables
from backstory.groups.names import route

#: Seconds without a sign of life of the worker after which a run is given up.
ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """What the agent of a group has answered."""

    text: str
    session_id: str | None
    is_error: bool = False
    notices: tuple[str, ...] = ()  #: what the user should know, such as that a transcript was lost
    ended: str = "done"  #: why the run ended: done, closed, idle, timeout, failed or stopped


def run(group: str, message: str, *, env: Mapping[str, str] | None = None) -> GroupAnswer:
    """Send a message to the agent of a group, and wait for its answer.

    The agent gets the variables of `env` that it needs to reach its model; by default those of this process. Raises
    BackstoryError if it cannot be started.
    """
    text, session_id, is_error, ended = "", None, False, ""
    notices: list[str] = []
    for name, data in events(group, message, env=env):
        if name == "result":
            text, session_id, is_error = data["text"], data["session_id"], data["is_error"]
        elif name == "recovered":
            notices.append(data["text"])
        elif name == "error":
            raise BackstoryError(data["error"], data["hint"])
        elif name == "ended":
            ended = data["reason"]
    if not ended:
        raise WorkerAway
    return GroupAnswer(text, session_id, is_error, tuple(notices), ended)


def events(
    group: str, message: str, *, env: Mapping[str, str] | None = None, client: Client | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Send a message to the agent of a group, and yield what it does: the name of each event, and what it says."""
    given = model_variables(settings.environment() if env is None else env)
    body: dict[str, Any] = {"message": message}
    if env is not None or any(name in given for name in CREDENTIALS):
        body["env"] = given  # else the worker has them, perhaps
    return (client or _client()).events(route(group, "run"), body)


def send(group: str, message: str) -> bool:
    """Leave a message for the agent of a group. Return whether it runs; if not, its next run begins with it."""
    return bool(_client().post(route(group, "messages"), {"message": message})["is_running"])


def close(group: str, *, now: bool = False) -> bool:
    """End the agent of a group when it has answered, or at once. Return whether it ran."""
    return bool(_client().post(route(group, "close"), {"now": now})["is_running"])


def _client() -> Client:
    """Return a client of the worker. Starts the worker if it does not run."""
    client = Client(settings.load().paths.socket, ANSWER_S)
    try:
        client.get("/api/health")
    except WorkerAway:
        start = [sys.executable, "-P", "-m", "backstory", "start"]
        subprocess.run(start, check=False, cwd=Path.home(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return client
