"""Carries out what the agent in a sandbox asks for by files: to clear, resume and search the sessions of its group.

The group is the directory in which a request was found. Nothing that a request says can change that.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from backstory import gate
from backstory.errors import BackstoryError, BadInput, Broken
from backstory.groups import snapshots
from backstory.groups.archive import is_available
from backstory.groups.ipc_files import CLOSE, IpcFiles, TakenFile
from backstory.groups.pointers import Pointers
from backstory.jobs import place_of
from backstory.store.groups import MAX_NAME

log = logging.getLogger(__name__)
#: Seconds between two looks for requests, while an agent runs.
LOOK_S = 0.1
#: Seconds that a request to clear or resume waits for the session and the transcript of its agent.
BEGUN_S = 5.0
#: Characters of a query.
MAX_QUERY = 1000
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

#: Searches the sessions of a group for what was said. Each result is shown to the agent as a line of JSON.
Search = Callable[[str, str], Awaitable[Sequence[Mapping[str, Any]]]]


@asynccontextmanager
async def serving(
    files: IpcFiles, pointers: Pointers, search: Search, generation: int | None = None
) -> AsyncGenerator[None]:
    """Carry out the requests of a group's agent while it runs, and those that it left.

    `generation` is that of the pointer when the agent was started: one whose session was cleared clears no other.
    """
    ended = asyncio.Event()
    watch = asyncio.create_task(Requests(files, pointers, search, generation).watch(ended))
    try:
        yield
    finally:
        ended.set()
        await watch


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of one group."""

    files: IpcFiles
    pointers: Pointers
    search: Search
    generation: int | None = None

    async def watch(self, ended: asyncio.Event) -> None:
        """Look for requests until the agent has ended, and once more."""
        is_last, last_failure = False, ""
        while not is_last:
            is_last = ended.is_set()
            try:
                await self.carry_out()
            except Exception as error:  # an agent can take the permissions from its own directories
                if (failure := place_of(error)) != last_failure:
                    log.warning("Requests of the group %s cannot be carried out: %s", self.files.group, failure)
                last_failure = failure
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await ended.wait()

    async def carry_out(self) -> None:
        """Carry out the requests that are there, in their order."""
        taken = await asyncio.to_thread(self.files.take, "tasks")
        for file in taken:
            await self._answer(file)

    async def _answer(self, file: TakenFile) -> None:
        """Carry out one request. What cannot be read is kept in `ipc/errors`."""
        request_id, ends, has_moved = file.name.removesuffix(".json"), False, False
        try:
            try:
                request = _read(request_id, file.data)
            except BadInput:
                await asyncio.to_thread(self.files.set_aside, file.name, file.data)
                raise
            text, ends = await self._perform(request)
            has_moved = isinstance(request, Clear | Resume)
            answer = {"text": text}
        except BackstoryError as error:
            answer = {"error": f"{error} {error.hint}".strip()}
        except Exception as error:
            log.error("A request of the group %s failed: %s", self.files.group, place_of(error))
            answer = {"error": str(Broken())}
        if _REQUEST_ID.fullmatch(request_id):
            data = json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")
            try:
                await asyncio.to_thread(self.files.put, "responses", f"{request_id}.json", data)
            except OSError as error:  # the next requests are carried out all the same
                log.warning("A request of the group %s was not answered: %s", self.files.group, place_of(error))
        if ends:
            await asyncio.to_thread(self.files.put, "input", CLOSE, b"")
        if has_moved:
            history = await self.pointers.resumable(self.files.group)
            await asyncio.to_thread(snapshots.write_history, self.files, history)

    async def _perform(self, request: Request) -> tuple[str, bool]:
        """Return what the agent is told, and whether its run ends."""
        group = self.files.group
        if isinstance(request, Resume) and (owner := await self.pointers.owner(group, request.session_id)) != group:
            await self.pointers.resume(owner, request.session_id, request.save_current_as)
            return f"The next message to the group {owner} continues the session that you chose.", False
        if isinstance(request, Clear | Resume) and self.generation is not None:
            await self._until_begun(self.generation)
        if isinstance(request, Clear):
            entry = await self.pointers.clear(group, request.name, self.generation)
            return f"Archived as number {entry.id}, {_quoted(entry.name)}. The next message starts a new session.", True
        if isinstance(request, Resume):
            number, name = request.session_id, request.save_current_as
            await self.pointers.resume(group, number, name, self.generation)
            return "The next message continues the session that you chose.", True
        found = await self.search(group, request.query)
        lines = [json.dumps(dict(one), ensure_ascii=False, default=str) for one in found]
        return "\n".join(lines) or "Nothing was found.", False

    async def _until_begun(self, generation: int) -> None:
        """Wait until the agent's session is known and has a transcript. Both can come after its first request."""
        with suppress(TimeoutError):
            async with asyncio.timeout(BEGUN_S):
                while not await self._has_begun(generation):
                    await asyncio.sleep(LOOK_S)

    async def _has_begun(self, generation: int) -> bool:
        pointer = await self.pointers.get(self.files.group)
        if pointer.generation != generation:
            return True  # it was cleared meanwhile, which the caller is told
        session_id = pointer.session_id
        return session_id is not None and await asyncio.to_thread(is_available, self.files.paths, session_id)


@dataclass(frozen=True, slots=True)
class Clear:
    """Archive the session and start a new one."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with an archived session."""

    session_id: int
    save_current_as: str | None = None


@dataclass(frozen=True, slots=True)
class SearchSessions:
    """Search what was said."""

    query: str


Request = Clear | Resume | SearchSessions


def _read(request_id: str, data: bytes) -> Request:
    """Return what a file asks for. Fields that a tool does not have are ignored, whatever they claim."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise BadInput("The request is not JSON.") from None
    if not isinstance(value, dict) or not _REQUEST_ID.fullmatch(request_id):
        raise BadInput("The request could not be read.")
    kind = value.get("type")
    if kind == "clear_session":
        return Clear(_name(value, "name"))
    if kind == "resume_session":
        number = value.get("session_id")
        if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 1 << 63:
            raise BadInput("`session_id` is not a number of list_sessions.")
        return Resume(number, _name(value, "save_current_as"))
    if kind == "search_sessions":
        query = value.get("query")
        if not isinstance(query, str) or not query.strip() or len(query) > MAX_QUERY:
            raise BadInput(f"`query` is not a text of 1 to {MAX_QUERY} characters.")
        return SearchSessions(gate.ODD.sub(" ", query))
    raise BadInput("There is no such request.")


def _name(value: Mapping[str, Any], field: str) -> str | None:
    name = value.get(field)
    if name is None:
        return None
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise BadInput(f"`{field}` is not a text of at most {MAX_NAME} characters.")
    return " ".join(name.split()) or None


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
