"""A machine on which agents are run through `backstory.sessions`, with a scripted model."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from box import Box, until
from claude import Claude
from endpoint import Endpoint, Script

from backstory import ids
from backstory.sessions import Metadata, Options, Run, SessionRecovered, execute, history, metadata
from backstory.settings import Settings
from backstory.store.sqlite import SqliteStore
from backstory.worker.jobs.sweep import Sweep


@dataclass
class Desk:
    """A user's machine, on which this process is the caller."""

    box: Box
    patch: pytest.MonkeyPatch

    def model(self, script: Script) -> Endpoint:
        endpoint = Endpoint(script)
        self.patch.setenv("ANTHROPIC_BASE_URL", endpoint.url)
        return endpoint

    def options(self, prompt: str, session_id: str | None = None, **more: Any) -> Options:
        if session_id:
            more = {"session_id": session_id, "conversation_history": history(session_id)} | more
        given: dict[str, Any] = {"cwd": self.box.project, "allowed_tools": ["Read", "Bash"]} | more
        return Options(prompt=prompt, **given)

    def run(self, prompt: str, session_id: str | None = None, **more: Any) -> Finished:
        """A whole run. It goes on if there is a session id."""
        return asyncio.run(finish(execute(self.options(prompt, session_id, **more))))

    def sweep(self, minutes: float) -> None:
        """What the sweep does so many minutes from now."""
        store = SqliteStore(self.box.data / "backstory.db")
        try:
            Sweep(Settings(data_dir=self.box.data), store).run(ids.now_ms() + int(minutes * 60_000))
        finally:
            store.close()

    def about(self, session_id: str) -> Metadata:
        found = metadata(session_id)
        assert found is not None
        return found

    def kept(self, session_id: str) -> dict[str, Any]:
        """What the worker knows about a session of the Python API."""
        found: dict[str, Any] = self.box.client.get(f"/api/agent-sessions/{session_id}")
        return found

    def moves(self, session_id: str) -> list[tuple[str, str]]:
        sql = "SELECT to_status, cause FROM session_moves m JOIN sdk_sessions s ON s.id = m.session_id"
        rows = self.box.rows(f"{sql} WHERE content_session_id = ? ORDER BY m.id", session_id)
        return [(row["to_status"], row["cause"]) for row in rows]

    def transcript(self, session_id: str) -> Path:
        (path,) = (self.box.home / ".claude" / "projects").glob(f"*/{session_id}.jsonl")
        return path

    def transcripts(self, session_id: str) -> str:
        """All that is written of a session so far."""
        found = (self.box.home / ".claude" / "projects").glob(f"*/{session_id}.jsonl")
        return "".join(path.read_text() for path in found)

    def leaves(self, session_id: str) -> int:
        """How many ends the conversation has in its transcript. One that forked has more than one."""
        lines = [json.loads(line) for line in self.transcript(session_id).read_text().splitlines()]
        chain = [line for line in lines if line.get("uuid")]
        parents = {line.get("parentUuid") for line in chain}
        return sum(line["uuid"] not in parents for line in chain)

    def texts(self, session_id: str) -> list[str]:
        """What was said, by both."""
        blocks = [block for message in history(session_id) for block in message.content]
        return [block["text"] for block in blocks if block["type"] == "text"]

    def start(self, code: str, *words: str) -> subprocess.Popen[str]:
        """A caller in a process of its own."""
        command = [sys.executable, "-c", code, *words]
        return subprocess.Popen(command, cwd=self.box.project, stdout=subprocess.PIPE, text=True)

    def agents(self) -> list[str]:
        """The command lines of the agents that run on this machine."""
        found, mark = [], f"HOME={self.box.home}\0".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if mark in (process / "environ").read_bytes() and "--output-format" in command:
                    found.append(command)
            except OSError:
                continue
        return found

    def until_no_agent_runs(self) -> None:
        until(lambda: not self.agents(), "every agent to end")


@dataclass
class Finished:
    """A run that has ended."""

    messages: list[Any]
    run: Run

    @property
    def id(self) -> str:
        assert self.run.session_id
        return self.run.session_id

    @property
    def names(self) -> list[str]:
        return [type(message).__name__ for message in self.messages]

    @property
    def notices(self) -> list[SessionRecovered]:
        return [message for message in self.messages if isinstance(message, SessionRecovered)]

    def of(self, name: str) -> list[Any]:
        return [message for message in self.messages if type(message).__name__ == name]

    @property
    def result(self) -> Any:
        return self.of("ResultMessage")[-1]


async def finish(run: Run) -> Finished:
    messages = []
    async with aclosing(run):
        async for message in run:
            messages.append(message)
    return Finished(messages, run)


def at(box: Box, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The SDK gives its child the environment of this process, so that is emptied first."""
    with Endpoint() as nowhere:
        environment = Claude(box.home, box.project, nowhere).environment() | box.env
    for name in [name for name in os.environ if name != "PYTEST_CURRENT_TEST"]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        if name != "IS_SANDBOX":
            monkeypatch.setenv(name, value)
    return Desk(box, monkeypatch)
