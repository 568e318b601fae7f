"""Routes that read memory: lists, single rows, and the context of a new session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
from starlette.responses import PlainTextResponse

from backstory import ids, project, times
from backstory.errors import BadInput, NotFound
from backstory.live_settings import LiveSettings
from backstory.model import Session
from backstory.recall import around, changed_files, context, session_rows, turn_pages, worktree
from backstory.recall.context import SessionContext
from backstory.recall.relevance import SessionStart
from backstory.settings import Settings
from backstory.store import (
    contexts,
    counts,
    feed,
    memories,
    observations,
    projects,
    prompts,
    segments,
    sessions,
    turns,
)
from backstory.store.db import LAST, Row, Store, Tx
from backstory.store.projects import KnownProject
from backstory.text import tokens
from backstory.worker import session_usage
from backstory.worker.endpoints import Call, Endpoint, needs_read

T = TypeVar("T")
#: Directories of a project that are looked into for a branch, and branches that are listed.
MAX_DIRECTORIES = 5
MAX_BRANCHES = 200
Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]


class Page(msgspec.Struct):
    """A part of a list, and the cursor of the next part."""

    items: list[dict[str, Any]]
    next: str | None = None


class PageQuery(msgspec.Struct):
    limit: Limit = 20
    cursor: str = ""


class TurnPageQuery(msgspec.Struct):
    """A page of a conversation. Segment 0 is all of it, page -1 the last one."""

    segment: Annotated[int, msgspec.Meta(ge=0, le=LAST)] = 0
    page: Annotated[int, msgspec.Meta(ge=-LAST, le=LAST)] = 1


class ListQuery(msgspec.Struct):
    project: str = ""
    limit: Limit = 20
    cursor: str = ""


class ObservationsQuery(ListQuery):
    type: str = ""
    session: Annotated[int, msgspec.Meta(ge=0, le=LAST)] = 0


class SessionRowsQuery(ListQuery):
    session: Annotated[int, msgspec.Meta(ge=0, le=LAST)] = 0


class SessionsQuery(ListQuery):
    """Filters. Without a `project`, the project of the directory `cwd` is listed, if memory has it."""

    agent: str = ""
    status: str = ""
    tag: str = ""
    branch: str = ""
    since: Annotated[str, msgspec.Meta(max_length=40)] = ""
    until: Annotated[str, msgspec.Meta(max_length=40)] = ""
    cwd: str = ""


class ContextLinesQuery(msgspec.Struct):
    """A project and a branch. Without a `branch`, the one that is checked out where the project was last used."""

    project: str = ""
    branch: str = ""
    cwd: str = ""


class ContextQuery(ContextLinesQuery):
    """A project and a branch. Without a `branch`, the one that is checked out in `cwd`."""

    why: bool = False


class ContextLines(msgspec.Struct):
    """The context of a new session, as the agent gets it and line by line.

    A line has `text`, `reason`, `part` (head, last, pinned, before or standing), `kind` (observation, summary, session,
    heading or text), `id` of the observation or summary, and `session_id`.
    """

    text: str
    tokens: int
    lines: list[dict[str, Any]]
    project: str
    project_key: str
    branch: str | None
    directory: str  #: whose uncommitted changes count; empty if none was found
    branches: list[str]


class Ids(msgspec.Struct):
    ids: Annotated[list[int], msgspec.Meta(max_length=200)]


class Recall:
    """The routes that read memory."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = LiveSettings(settings), store

    def table(self) -> list[Endpoint]:
        return [
            needs_read(
                "GET", "/api/context/inject", self.context, query=ContextQuery, media="text/markdown", bare=True
            ),
            needs_read("GET", "/api/context", self.context_lines, ContextLines, query=ContextLinesQuery),
            needs_read("GET", "/api/observations", self.observations, Page, query=ObservationsQuery),
            needs_read("GET", "/api/observations/{id:int}", self.observation),
            needs_read("POST", "/api/observations/batch", self.batch, Page, Ids),
            needs_read("GET", "/api/summaries", self.summaries, Page, query=SessionRowsQuery),
            needs_read("GET", "/api/prompts", self.prompts, Page, query=SessionRowsQuery),
            needs_read("GET", "/api/sessions", self.sessions, Page, query=SessionsQuery),
            needs_read("GET", "/api/sessions/{id}", self.session),
            needs_read("GET", "/api/sessions/{id}/turns", self.turns, Page, query=PageQuery),
            needs_read("GET", "/api/sessions/{id}/turns/text", self.turns_text, query=TurnPageQuery, fails=(404,)),
            needs_read("GET", "/api/projects", self.projects, Page),
        ]

    async def read(self, work: Callable[[Tx], T]) -> T:
        return await asyncio.to_thread(self._store.read, work)

    async def context(self, call: Call) -> PlainTextResponse:
        """Render the context of a new session as Markdown. With `why`, each line has its reason."""
        query: ContextQuery = call.query
        name_or_key, _, start = await self._place(call, is_looked_for=bool(query.branch))
        rendered = await self.read(lambda tx: self._rendered(tx, _known(tx, name_or_key), start))
        text = rendered.explained() if query.why else str(rendered)
        return PlainTextResponse(text, media_type="text/markdown")

    async def context_lines(self, call: Call) -> ContextLines:
        """Show the context of a new session of a project on a branch, line by line, with the reason for each."""
        name_or_key, directory, start = await self._place(call)

        def work(tx: Tx) -> ContextLines:
            known = _known(tx, name_or_key)
            rendered = self._rendered(tx, known, start)
            text, names = str(rendered), feed.branches(tx, known.key, MAX_BRANCHES)
            lines = list(rendered.rows())
            return ContextLines(text, tokens(text), lines, known.name, known.key, start.branch, directory, names)

        return await self.read(work)

    async def _place(self, call: Call, is_looked_for: bool = True) -> tuple[str, str, SessionStart]:
        """Return the project of a new session, its directory and how it starts there: in `cwd`, else where the project
        was last used on the branch, if that is looked for."""
        query: ContextLinesQuery = call.query
        directories = [query.cwd] if query.cwd else []
        if is_looked_for and not query.cwd and not call.principal.confined_to:  # a group does not see directories
            directories = await self.read(lambda tx: _directories(tx, query.project))
        name_or_key, branch = query.project, query.branch or None
        for each in directories:
            found = await asyncio.to_thread(project.find, each)
            name_or_key = name_or_key or found.key
            if found.root and branch in (None, found.branch):
                return name_or_key, each, SessionStart(found.branch, await worktree.changed_files(each))
        return name_or_key, "", SessionStart(branch)

    def _rendered(self, tx: Tx, known: KnownProject, start: SessionStart) -> SessionContext:
        budget, command = self._settings().context_tokens, self._settings().paths.called
        return context.for_start(tx, known.name, known.key, budget, command, start)

    async def observations(self, call: Call) -> Page:
        """List observations, newest first."""
        query: ObservationsQuery = call.query
        return await self._page(query, partial(memories.listed_observations, type=query.type, session_id=query.session))

    async def observation(self, call: Call) -> Row:
        """Show one observation in full."""
        return await self.read(lambda tx: _full_observation(tx, call.number("id")))

    async def batch(self, call: Call) -> Page:
        """Show several observations in full, in the requested order."""

        def work(tx: Tx) -> list[Row]:
            numbers = [number for number in call.body.ids if abs(number) < LAST]
            return [_full_observation(tx, number) for number in numbers if observations.by_id(tx, number)]

        return Page(await self.read(work))

    async def summaries(self, call: Call) -> Page:
        """List summaries, newest first."""
        return await self._page(call.query, partial(memories.listed_summaries, session_id=call.query.session))

    async def prompts(self, call: Call) -> Page:
        """List prompts, newest first."""
        return await self._page(call.query, partial(prompts.listed, session_id=call.query.session))

    async def sessions(self, call: Call) -> Page:
        """List sessions, the last used first."""
        query: SessionsQuery = call.query
        status = "created" if query.status == "initialized" else query.status
        about = {"agent": query.agent, "status": status, "tag": query.tag, "branch": query.branch}
        about |= {"since": times.since(query.since), "until": times.until(query.until)}

        def listed(tx: Tx, project: str, before: int, limit: int) -> list[Row]:
            return session_rows.with_titles(tx, sessions.listed(tx, project, before, limit, **about))

        asked = await project_asked(self._store, query)
        return await self._page(msgspec.structs.replace(query, project=asked.key), listed)

    async def session(self, call: Call) -> Row:
        """Show a session with its prompts, summaries and observations, by our id, the agent's id or its beginning."""

        return await self.read(lambda tx: whole_session(tx, get_session(tx, call.request.path_params["id"])))

    async def turns(self, call: Call) -> Page:
        """List the turns of a session in order. A private or forgotten turn has no text."""
        query: PageQuery = call.query
        after = parse_cursor(query.cursor, -1)

        def work(tx: Tx) -> list[Row]:
            session = get_session(tx, call.request.path_params["id"])
            return [asdict(turn) for turn in turns.of_session(tx, session.id, after, query.limit + 1)]

        return page_of(await self.read(work), query.limit, "number")

    async def turns_text(self, call: Call) -> Row:
        """Show what was said in a session as text, in pages, with a line for each tool use."""
        query: TurnPageQuery = call.query

        def work(tx: Tx) -> turn_pages.TurnPage:
            session = get_session(tx, call.request.path_params["id"])
            return turn_pages.read(tx, session, query.segment, query.page)

        return asdict(await self.read(work))

    async def projects(self, call: Call) -> Page:
        """List projects, most recently used first."""
        return Page(await self.read(lambda tx: projects.listed(tx, 500)))

    async def _page(self, query: ListQuery, listed: Callable[[Tx, str, int, int], list[Row]]) -> Page:
        """Return a page of a list. `listed` takes the project, the id below which rows are listed, and a limit."""
        before = parse_cursor(query.cursor, LAST)
        rows = await self.read(lambda tx: listed(tx, query.project, before, query.limit + 1))
        return page_of(rows, query.limit)


def _known(tx: Tx, name_or_key: str) -> KnownProject:
    name = name_or_key.rstrip("/").rpartition("/")[2]
    return projects.find(tx, name_or_key) or KnownProject(name, name_or_key)


def _directories(tx: Tx, name_or_key: str) -> list[str]:
    """Return the directories in which a project was last used."""
    known = projects.find(tx, name_or_key) if name_or_key else None
    if known is None or project.group_of(known.key):
        return []  # what a group may write is not read
    return sessions.directories(tx, known.key, MAX_DIRECTORIES)


def _full_observation(tx: Tx, number: int) -> Row:
    changed = changed_files.changed(tx, [number]).get(number, ())
    row = memories.shown_observation(tx, number)
    said = {"asked": around.asked(tx, row), "answered": around.answered(tx, row)}
    return row | {"branch": row["git_branch"], "changed": list(changed)} | said


def find_session(tx: Tx, name: str) -> Session | None:
    """Find a session by our id (12 or S12), the agent's id or its beginning."""
    number = ids.number(name) or ids.session_number(name)
    return (None if number is None else sessions.by_id(tx, number)) or sessions.by_prefix(tx, name)


def get_session(tx: Tx, name: str) -> Session:
    """Return the session that a path names."""
    session = find_session(tx, name)
    if session is None:
        raise NotFound(f"There is no session {name[:80]}.", "`backstory sessions` lists them.")
    return session


def whole_session(tx: Tx, session: Session) -> Row:
    """Return a session with its prompts, summaries and observations."""
    (row,) = session_rows.with_titles(tx, [sessions.shown(session)])
    used = session_usage.of_session(tx, session.id)
    return row | {
        "usage": asdict(used) if used else None,
        "told": contexts.of_session(tx, session.id),
        "counts": asdict(counts.session(tx, session.id)),
        "links": session_rows.links(tx, session),
        "directories": sessions.directories(tx, session.project_key, 20),
        "prompts": prompts.of_session(tx, session.id),
        "moves": sessions.moves(tx, session.id),
        "segments": [asdict(segment) for segment in segments.of_session(tx, session.id)],
        "summaries": memories.listed_summaries(tx, "", LAST, 200, session_id=session.id),
        "observations": memories.standing_observations(tx, session.id),
    }


class Places(Protocol):
    """A query that names a project or a directory."""

    project: str
    cwd: str


async def project_asked(store: Store, query: Places) -> KnownProject:
    """Return the project that a query names, else that of its directory. If memory does not have that, both name and
    key are empty, which stands for all projects."""
    if query.project or not query.cwd:
        return KnownProject(query.project, query.project)
    key = (await asyncio.to_thread(project.find, query.cwd)).key
    return await asyncio.to_thread(store.read, lambda tx: projects.find(tx, key)) or KnownProject("", "")


def page_of(rows: list[Row], limit: int, key: str = "id") -> Page:
    """Return the first rows as a page. If there are more than the limit, `key` of the last one is the next cursor."""
    return Page(rows[:limit], str(rows[limit - 1][key]) if len(rows) > limit else None)


def parse_cursor(cursor: str, default: int) -> int:
    """Return the row after which a page begins, or the default for the first page."""
    if not cursor:
        return default
    if (number := ids.number(cursor)) is None:
        raise BadInput("The cursor is not valid.", "Send the `next` of the previous page.")
    return number
