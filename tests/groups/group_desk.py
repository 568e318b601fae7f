"""A group with its store and its directories, and conversations as an agent leaves them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from transcripts import Script

from backstory.groups import names
from backstory.groups.archive import Archives
from backstory.groups.names import GroupPaths
from backstory.groups.pointers import Pointers
from backstory.store import groups
from backstory.store.db import Store

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def session_id(number: int) -> str:
    return f"{number:08d}-0000-4000-8000-000000000000"


@dataclass
class Desk:
    """The parts that a worker would have."""

    store: Store
    data: Path

    def __post_init__(self) -> None:
        self.archives = Archives(self.store, self.data, "Claude")
        self.pointers = Pointers(self.store, self.data, self.archives)

    def create(self, group: str) -> None:
        self.store.write(lambda tx: groups.create(tx, group, names.fold(group)))

    def paths(self, group: str) -> GroupPaths:
        return GroupPaths(self.data, group)

    def talk(self, group: str, number: int, *said: str) -> Script:
        """Write a transcript: the user and the assistant take turns."""
        script = Script(session_id(number), names.WORKSPACE)
        self.go_on(group, script, *said or (f"Question {number}", f"Answer {number}"))
        return script

    def go_on(self, group: str, script: Script, *said: str) -> None:
        for place, text in enumerate(said):
            script.says(text) if place % 2 else script.prompt(text)
        script.write(self.paths(group).transcript(script.session).parent)

    def archived(self, group: str) -> dict[str, str]:
        """Return the archives by name."""
        folder = self.paths(group).conversations
        return {file.name: file.read_text() for file in sorted(folder.iterdir())} if folder.exists() else {}
