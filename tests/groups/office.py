"""A machine whose worker runs agents in groups, with a scripted model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from box import Box, until
from claude import binary
from endpoint import Endpoint, Script

from backstory.groups.names import GroupPaths, fold
from backstory.store import groups
from backstory.store.sqlite import SqliteStore

needs_sandbox = pytest.mark.skipif(
    binary() is None or shutil.which("bwrap") is None, reason="claude or bubblewrap is not here"
)
Event = tuple[str, dict[str, Any]]


@dataclass
class Office:
    """A user's machine with groups."""

    box: Box
    env: dict[str, str] = field(default_factory=dict)

    def model(self, script: Script) -> Endpoint:
        """A model for all agents of this machine."""
        endpoint = Endpoint(script)
        self.env = {
            "ANTHROPIC_API_KEY": "dummy",
            "ANTHROPIC_BASE_URL": endpoint.url,
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        return endpoint

    def create(self, *names: str) -> None:
        store = SqliteStore(self.box.data / "backstory.db")
        try:
            for name in names:
                store.write(lambda tx, name=name: groups.create(tx, name, fold(name)))  # type: ignore[misc]
        finally:
            store.close()

    def paths(self, group: str) -> GroupPaths:
        return GroupPaths(self.box.data, group)

    def start(self, group: str, message: str) -> Iterator[Event]:
        """The events of a run, as they come."""
        return self.box.client.events(f"/api/groups/{group}/run", {"message": message, "env": self.env})

    def run(self, group: str, message: str) -> Ran:
        """A whole run."""
        return Ran(list(self.start(group, message)))

    def post(self, group: str, action: str, **body: Any) -> Any:
        return self.box.client.post(f"/api/groups/{group}/{action}", body)

    def ask(self, group: str, request_id: str, **request: Any) -> None:
        """Ask the host for something, as the server in the sandbox does."""
        place = self.paths(group).tasks / f"{request_id}.json"
        place.with_suffix(".tmp").write_text(json.dumps(request))
        place.with_suffix(".tmp").rename(place)

    def active(self, group: str) -> str | None:
        rows = self.box.rows("SELECT session_id FROM sessions WHERE group_folder = ?", group)
        return rows[0]["session_id"] if rows else None

    def history(self, group: str) -> list[tuple[int, str, str]]:
        sql = "SELECT id, session_id, name FROM session_history WHERE group_folder = ? ORDER BY id"
        return [(row["id"], row["session_id"], row["name"]) for row in self.box.rows(sql, group)]

    def transcripts(self, group: str) -> str:
        """What the agent of a group has written of its sessions. It begins with the messages that it got."""
        return "".join(path.read_text() for path in self.paths(group).state.glob("projects/*/*.jsonl"))

    def agents(self) -> list[int]:
        """The processes of sandboxes on this machine. They see its directories."""
        found, mark = [], "/".join((self.box.data / "groups").parts[-4:])
        for process in Path("/proc").glob("[0-9]*"):
            try:
                is_agent = mark in (process / "mountinfo").read_text()
            except OSError:
                continue
            if is_agent:
                found.append(int(process.name))
        return found

    def until_no_agent_runs(self) -> None:
        until(lambda: not self.agents(), "every agent to end")
        runs = self.box.data / "agent-runs"
        until(lambda: not [*runs.glob("line-*")], "the pipes to be gone")


@dataclass
class Ran:
    """What a run has told."""

    events: list[Event]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [data for each, data in self.events if each == name]

    @property
    def ended(self) -> str:
        assert self.events[-1][0] == "ended"
        return str(self.events[-1][1]["reason"])

    @property
    def session_id(self) -> str:
        return str(self.of("started")[-1]["session_id"])

    @property
    def texts(self) -> list[str]:
        return [data["text"] for data in self.of("text")]


def take(events: Iterator[Event], name: str) -> dict[str, Any]:
    """Read events until one of this name."""
    for each, data in events:
        if each == name:
            return data
    raise AssertionError(f"there was no {name}")


@pytest.fixture
def office_fixture(box: Box) -> Iterator[Office]:
    """A machine whose agents have ended when the test has."""
    machine = Office(box)
    yield machine
    machine.until_no_agent_runs()
