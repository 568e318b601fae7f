"""Routes for groups: create, list, show, clear, resume, search, archive and delete them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import msgspec

from backstory import files
from backstory.errors import BackstoryError, BadInput, NotFound
from backstory.groups import names, state_dir
from backstory.groups.archive import Archives, read_file
from backstory.groups.ipc_files import IpcFiles
from backstory.groups.names import GroupPaths
from backstory.groups.pointers import Pointers
from backstory.groups.runs import GroupRuns
from backstory.settings import Settings
from backstory.store import groups
from backstory.store.db import Row, Store
from backstory.worker.endpoints import Call, Endpoint, confinable, needs_read, needs_write
from backstory.worker.group_memory import GroupMemory
from backstory.worker.routes.recall import Page

#: The main group as long as nobody has used it.
_NEW_MAIN: Row = {
    **{"name": names.MAIN, "generation": 0, "created_at": None, "session_id": None, "updated_at": None},
    **{"history": 0, "archives": 0},
}
SessionName = Annotated[str, msgspec.Meta(max_length=groups.MAX_NAME)]


class NewGroup(msgspec.Struct):
    """A group to create."""

    name: str


class ClearGroup(msgspec.Struct):
    """How the active session is named in the history. With `generation`, nothing is done if the pointer has moved."""

    name: SessionName = ""
    generation: int | None = None


class ResumeInGroup(msgspec.Struct):
    """The session of the history to go on with, by its number, and how the active one is named there."""

    id: Annotated[int, msgspec.Meta(ge=1, le=2**62)]
    save_current_as: SessionName = ""
    generation: int | None = None


class ArchiveNow(msgspec.Struct):
    """The title of the archive."""

    title: SessionName = ""


class GroupSearch(msgspec.Struct):
    query: Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]


class ShownHistoryEntry(msgspec.Struct):
    """A session that a group had."""

    id: int
    session_id: str
    name: str
    created_at: str
    archived_at: str
    transcript_available: bool
    group: str


class ShownPointer(msgspec.Struct):
    """The active session of a group. A clear and a resume start a new generation."""

    group: str
    session_id: str | None
    generation: int


class ShownArchive(msgspec.Struct):
    """The file that was written; None if there was nothing new."""

    file: str | None


class ArchiveText(msgspec.Struct):
    """An archive: its row, and the text of its file."""

    id: int
    file: str
    title: str
    session_id: str
    cause: str
    archived_at: str
    text: str


class DeletedGroup(msgspec.Struct):
    """What was deleted with a group."""

    name: str
    sessions: int


@dataclass(frozen=True, slots=True)
class GroupParts:
    """The parts of the worker that groups need."""

    pointers: Pointers
    archives: Archives
    memory: GroupMemory
    runs: GroupRuns
    #: forgets all sessions of a project, and returns how many
    forget: Callable[[str], Awaitable[int]]


class GroupRoutes:
    """The routes of groups. A caller that is confined to a group may use those of its own."""

    def __init__(self, settings: Settings, store: Store, parts: GroupParts) -> None:
        self._settings, self._store, self._parts = settings, store, parts

    def table(self) -> list[Endpoint]:
        path = "/api/groups/{group}"
        return [
            needs_write("POST", "/api/groups", self.create, None, NewGroup, status=201),
            needs_write("DELETE", path, self.delete, DeletedGroup),
            *confinable(
                [
                    needs_read("GET", "/api/groups", self.listed, Page),
                    needs_read("GET", path, self.show),
                    needs_read("GET", f"{path}/history", self.history, Page),
                    needs_read("GET", f"{path}/archives/{{id:int}}", self.show_archive, ArchiveText),
                    needs_read("GET", f"{path}/search", self.search, Page, query=GroupSearch),
                    needs_write("POST", f"{path}/clear", self.clear, ShownHistoryEntry, ClearGroup, fails=(409,)),
                    needs_write("POST", f"{path}/resume", self.resume, ShownPointer, ResumeInGroup, fails=(409,)),
                    needs_write("POST", f"{path}/archive", self.archive, ShownArchive, ArchiveNow),
                ]
            ),
        ]

    async def create(self, call: Call) -> Row:
        """Create a group."""
        name = names.check(call.body.name)
        await asyncio.wrap_future(self._store.submit(lambda tx: groups.create(tx, name, names.fold(name))))
        self._parts.pointers.forget(name)
        await asyncio.to_thread(state_dir.prepare, self._paths(name), self._settings.paths.data / "skills")
        return await self._shown(name)

    async def listed(self, call: Call) -> Page:
        """List groups: main first, then by name."""
        rows = await asyncio.to_thread(self._store.read, groups.listed)
        if not rows or rows[0]["name"] != names.MAIN:
            rows = [_NEW_MAIN, *rows]
        own = call.principal.confined_to
        runs = self._parts.runs
        return Page([row | {"is_running": runs.is_running(row["name"])} for row in rows if own in (None, row["name"])])

    async def show(self, call: Call) -> Row:
        """Show a group: its active session, its history and its archives."""
        return await self._shown(_group(call))

    async def history(self, call: Call) -> Page:
        """List the sessions that a group had, the last one first."""
        group = _group(call)
        await self._parts.pointers.get(group)
        return Page([asdict(entry) for entry in await self._parts.pointers.history(group)])

    async def show_archive(self, call: Call) -> ArchiveText:
        """Show an archive of a group."""
        group, number = _group(call), call.number("id")
        archives = await asyncio.to_thread(self._store.read, lambda tx: groups.archives(tx, group))
        archive = next((each for each in archives if each.id == number and each.file), None)
        if archive is None:
            raise NotFound(f"The group {group} has no archive {number}.", "`backstory groups show` lists them.")
        try:
            text = await asyncio.to_thread(read_file, self._paths(group), str(archive.file))
        except (OSError, ValueError):
            hint = "The agent of the group may have removed it."
            raise NotFound(f"The file {archive.file} is gone.", hint) from None
        return ArchiveText(**_shown_archive(archive), text=text)

    async def search(self, call: Call) -> Page:
        """Find sessions of a group by what was said in them, best match first."""
        group = _group(call)
        await self._parts.pointers.get(group)
        return Page([dict(row) for row in await self._parts.memory.search(group, call.query.query)])

    async def clear(self, call: Call) -> ShownHistoryEntry:
        """Archive the active session of a group. Its next message starts a new one."""
        body: ClearGroup = call.body
        group = _group(call)
        # An agent that runs notices it, and ends: it is in a conversation that the group has left.
        return ShownHistoryEntry(**asdict(await self._parts.pointers.clear(group, body.name, body.generation)))

    async def resume(self, call: Call) -> ShownPointer:
        """Make a session of the history the active one again. The active one is archived before."""
        # The main group resumes those of all groups: each becomes the active one of its own group.
        body: ResumeInGroup = call.body
        group = await self._parts.pointers.owner(_group(call), body.id)
        seen = body.generation if group == _group(call) else None
        pointer = await self._parts.pointers.resume(group, body.id, body.save_current_as, seen)
        return ShownPointer(group, pointer.session_id, pointer.generation)

    async def archive(self, call: Call) -> ShownArchive:
        """Write what is new in the active session of a group as markdown. The session goes on."""
        group = _group(call)
        pointer = await self._parts.pointers.get(group)
        if pointer.session_id is None:
            raise NotFound(f"The group {group} has no active session.", "The next message starts one.")
        file = await self._parts.archives.write(group, pointer.session_id, call.body.title)
        return ShownArchive(str(file) if file else None)

    async def delete(self, call: Call) -> DeletedGroup:
        """Delete a group with its sessions, its archives, its files and its memory. This cannot be undone."""
        group = _group(call)
        if names.is_main(group):
            raise BadInput("The main group cannot be deleted.", "Clear it, or forget its sessions.")
        async with self._parts.runs.deleting(group):
            # The group goes last: if something fails on the way, it can be deleted again.
            sessions = await self._parts.forget(names.project_key(group))
            async with self._parts.archives.locks[group]:
                await asyncio.to_thread(self._remove_files, group)
                await asyncio.wrap_future(self._store.submit(lambda tx: groups.delete(tx, group)))
                self._parts.pointers.forget(group)
        return DeletedGroup(group, sessions)

    def _remove_files(self, group: str) -> None:
        paths = self._paths(group)
        try:
            for folder in (paths.folder, paths.state.parent, paths.ipc):
                with suppress(FileNotFoundError):
                    files.remove(folder)
            IpcFiles(paths).remove_errors()
        except OSError as error:
            message = f"The files of the group {group} could not be removed: {error.strerror}."
            raise BackstoryError(message, f"Look into {paths.folder}, and delete the group again.") from None

    def _paths(self, group: str) -> GroupPaths:
        return GroupPaths(self._settings.paths.data, group)

    async def _shown(self, group: str) -> Row:
        pointer = await self._parts.pointers.get(group)
        archives = await asyncio.to_thread(self._store.read, lambda tx: groups.archives(tx, group))
        about: Row = {"name": group, "folder": str(self._paths(group).folder), **asdict(pointer)}
        about["history"] = [asdict(entry) for entry in await self._parts.pointers.history(group)]
        about["is_running"] = self._parts.runs.is_running(group)
        about["archives"] = [_shown_archive(each) for each in archives if each.file]
        return about


def _group(call: Call) -> str:
    return names.check(str(call.request.path_params["group"]))


def _shown_archive(archive: groups.Archive) -> dict[str, Any]:
    return {name: getattr(archive, name) for name in ("id", "file", "title", "session_id", "cause", "archived_at")}
