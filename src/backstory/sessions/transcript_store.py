"""TranscriptStore: keeps the transcripts of the Claude Agent SDK in backstory, by repository."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from backstory import project, settings
from backstory.agents import AGENTS, DEFAULT_AGENT
from backstory.batches import batches
from backstory.client import Client
from backstory.errors import BackstoryError
from backstory.sessions import kept

if TYPE_CHECKING:
    from claude_agent_sdk import SessionStore
else:
    SessionStore = object  # the SDK asks for the methods alone, and its package is large

T = TypeVar("T")
#: Maximum entries in one request.
MAX_ENTRIES = 500
#: Maximum bytes of entries in one request. A larger entry is alone in its request.
MAX_BYTES = 4 << 20


class TranscriptStore(SessionStore):
    """A `SessionStore` of the SDK, over the worker.

        options = ClaudeAgentOptions(cwd=cwd, resume=session_id, session_store=TranscriptStore(cwd))

    The SDK names a project after its directory. Here, the transcripts of `cwd` have the key of its repository, so that
    they are found from its worktrees, and from other machines that use the same database. Other keys stay as they are.
    Private text and secrets are removed. `list_session_summaries` is left to the SDK, which reads the transcripts.
    """

    def __init__(self, cwd: str | Path = ".", client: Client | None = None) -> None:
        self._cwd = str(Path(cwd).resolve())
        self._client = client or Client(settings.load().paths.socket)
        self._key = project.find(self._cwd).key

    async def append(self, key: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> None:
        body = self._named(key)
        if body["project_key"] == self._key:
            body["cwd"] = self._cwd

        def send() -> None:
            for batch in batches(entries, kept.size_of, MAX_ENTRIES, MAX_BYTES):
                self._client.post(kept.ENTRIES, {**body, "entries": batch})

        await _in_thread(send)

    async def load(self, key: Mapping[str, Any]) -> list[Any] | None:
        def read() -> list[Any] | None:
            try:
                return list(kept.entries(self._client, self._named(key)))
            except BackstoryError as error:
                if error.status == 404:
                    return None
                raise

        return await _in_thread(read)

    async def list_sessions(self, project_key: str) -> list[Any]:
        about = {"project_key": self._project_key(project_key), "whole": "true", "agent": DEFAULT_AGENT}
        rows = await _in_thread(lambda: list(kept.listed(self._client, **about)))
        return [{"session_id": row["content_session_id"], "mtime": row["changed_ms"]} for row in rows]

    async def list_subkeys(self, key: Mapping[str, Any]) -> list[str]:
        about = {**self._named(key)}
        about.pop("subpath")
        rows = await _in_thread(lambda: list(kept.listed(self._client, **about)))
        return [row["subpath"] for row in rows if row["subpath"]]

    if TYPE_CHECKING:  # the SDK's type asks for it, and the SDK does not

        async def list_session_summaries(self, project_key: str) -> list[Any]: ...

    async def delete(self, key: Mapping[str, Any]) -> None:
        about = self._named(key)
        await _in_thread(lambda: self._client.delete(kept.TRANSCRIPTS, **about))

    def _named(self, key: Mapping[str, Any]) -> dict[str, Any]:
        """Return a key of the SDK as the worker's routes name it."""
        return {
            "agent": DEFAULT_AGENT,
            "project_key": self._project_key(key["project_key"]),
            "session_id": key["session_id"],
            "subpath": key.get("subpath") or "",
        }

    def _project_key(self, name: str) -> str:
        keeping = AGENTS[DEFAULT_AGENT].transcripts.keeping
        return self._key if keeping and keeping.is_folder_of(name, self._cwd) else name


async def _in_thread(work: Callable[[], T]) -> T:
    """Run a function in a thread. The SDK runs on asyncio or trio, and brings anyio along."""
    from anyio.to_thread import run_sync

    return await run_sync(work)
