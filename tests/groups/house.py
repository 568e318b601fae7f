"""Groups on a machine, with the host's side of them: real store, real transcripts, real files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from transcripts import Script

from backstory.groups.archive import Archives
from backstory.groups.ipc import Requests
from backstory.groups.ipc_files import IpcFiles
from backstory.groups.names import WORKSPACE, GroupPaths, fold
from backstory.groups.pointers import Pointers
from backstory.store import groups
from backstory.store.db import Store


@dataclass
class House:
    """Groups on a machine, with the host's side of them."""

    data: Path
    store: Store
    pointers: Pointers = field(init=False)

    def __post_init__(self) -> None:
        self.pointers = Pointers(self.store, self.data, Archives(self.store, self.data, "Claude"))

    def group(self, name: str) -> GroupPaths:
        self.store.write(lambda tx: groups.ensure(tx, name, fold(name)))
        paths = GroupPaths(self.data, name)
        IpcFiles(paths).prepare()
        return paths

    async def talk(self, paths: GroupPaths, words: str) -> str:
        """A session of the group in which something is said."""
        script = Script(str(uuid4()), WORKSPACE)
        script.prompt(words)
        script.says(f"About {words}.")
        path = paths.transcript(script.session)
        script.write(path.parent, path.name)
        now = await self.pointers.get(paths.group)
        assert await self.pointers.set(paths.group, script.session, now.generation)
        return script.session

    async def search(self, group: str, query: str) -> list[dict[str, Any]]:
        return [{"id": e.id, "name": e.name} for e in await self.pointers.history(group) if query in e.name]

    def requests(self, paths: GroupPaths, generation: int | None = None) -> Requests:
        return Requests(IpcFiles(paths), self.pointers, self.search, generation)

    async def ask(self, paths: GroupPaths, request: object, generation: int | None = None) -> dict[str, Any]:
        """Place a request as a sandbox does; return the answer."""
        name = f"{uuid4().hex}.json"
        (paths.tasks / name).write_text(request if isinstance(request, str) else json.dumps(request))
        await self.requests(paths, generation).carry_out()
        answer: dict[str, Any] = json.loads((paths.responses / name).read_text())
        return answer

    async def state(self, group: str) -> tuple[str | None, dict[int, str]]:
        """The active session and the history."""
        history = {entry.id: entry.session_id for entry in await self.pointers.history(group)}
        return (await self.pointers.get(group)).session_id, history
