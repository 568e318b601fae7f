"""The route of search, which says why nothing was found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Annotated, TypeVar

import msgspec

from backstory import project, times
from backstory.agents import AGENTS
from backstory.errors import BadInput, BadSetting, Forbidden
from backstory.live_settings import LiveSettings
from backstory.model import CONCEPTS, TYPES
from backstory.observe import modes
from backstory.recall import worktree
from backstory.recall.fuse import query_style
from backstory.recall.search import FAMILIES, MemorySearch, Query
from backstory.recall.signals import WorkPlace
from backstory.settings import Settings, near
from backstory.store import projects
from backstory.store.db import Store, Tx
from backstory.store.index.hits import named
from backstory.worker.endpoints import Call, Endpoint, needs_read
from backstory.worker.routes.recall import ListQuery, Page, find_session, parse_cursor, project_asked

T = TypeVar("T")
#: Results in other projects that are counted, if there are none in this one.
ELSEWHERE = 20
#: Projects that are named, if the one that was asked for does not exist.
NAMED = 5


class Search(ListQuery):
    """A query and its filters. Every filter that is not empty must match. Without a query, the newest items are found.

    `kind` is observations, summaries, prompts, turns, sessions or all. Without it the first three are searched.
    Without a `project`, the project of the directory `cwd` is searched, if memory has it. A `file` may be a path from
    there. What was done on `branch` comes sooner; a query that does not say what it is about, such as `fix the tests`,
    takes the branch and the changed files of `cwd`. With `ended`, a prompt that is being answered is left out, for the
    agent that answers it. With `explain`, each result has `reasons` as sentences, `terms` (its words that match) and
    `why` (its score).
    """

    query: str = ""
    kind: str = ""
    type: str = ""
    concept: str = ""
    file: str = ""
    session: str = ""
    agent: str = ""
    since: Annotated[str, msgspec.Meta(max_length=40)] = ""
    until: Annotated[str, msgspec.Meta(max_length=40)] = ""
    cwd: str = ""
    branch: Annotated[str, msgspec.Meta(max_length=512)] = ""
    ended: bool = False
    explain: bool = False


class Found(Page):
    """What was found. If it is nothing, `note` names a filter that matches nothing at all, and `elsewhere` counts the
    results in other projects."""

    project: str = ""  #: name of the project that was searched; empty if all were
    note: str = ""
    elsewhere: int = 0


class SearchRoute:
    """The route of search."""

    def __init__(self, settings: Settings, store: Store, search: MemorySearch) -> None:
        self._settings, self._store, self._search = LiveSettings(settings), store, search

    def table(self) -> list[Endpoint]:
        return [
            needs_read("GET", "/api/search", self.search, Found, query=Search),
            needs_read("POST", "/api/search", self.search, Found, Search),
        ]

    async def search(self, call: Call) -> Found:
        """Search memory by words and meaning, best match first. POST takes a query that is too long for a URL."""
        search: Search = call.query or call.body
        since, until = times.since(search.since), times.until(search.until)
        skip, kind = min(parse_cursor(search.cursor, 0), 10_000), _parse_kind(search.kind)
        asked = await project_asked(self._store, search)
        session_id = 0
        if search.session:
            session = await self._read(lambda tx: find_session(tx, search.session))
            if session is None:
                return Found([], note=f"There is no session {search.session[:80]}.")
            session_id = session.id
        file = await asyncio.to_thread(project.path_from_root, search.file, search.cwd) if search.cwd else search.file
        where = replace(
            named(asked.key, session_id),
            agent=search.agent,
            type=search.type,
            concept=search.concept,
            file=file,
            since=since,
            until=until,
            is_ended=search.ended,
        )
        place = await self._place(search)
        query = Query(search.query, kind, where, skip + search.limit + 1, search.explain, place)
        hits = await asyncio.to_thread(self._search.find, query)
        if not hits and not (search.kind or search.type or search.concept or search.file):
            # Imported conversations have turns, but no observations.
            hits = await asyncio.to_thread(self._search.find, replace(query, kind="all"))
        has_more = len(hits) > skip + search.limit
        page = Found(hits[skip : skip + search.limit], str(skip + search.limit) if has_more else None)
        page.project = asked.name
        if not hits:
            page.note = await self._unknown(search)
            if asked.key and not search.project and not page.note:
                outside = replace(where, project="", is_outside_groups=True)
                anywhere = replace(query, where=outside, limit=ELSEWHERE)
                page.elsewhere = len(await asyncio.to_thread(self._search.find, anywhere))
        return page

    async def _read(self, work: Callable[[Tx], T]) -> T:
        return await asyncio.to_thread(self._store.read, work)

    async def _place(self, search: Search) -> WorkPlace:
        """Return where the caller works: the branch that it names, else what the directory tells, if it is needed."""
        if search.branch or not search.cwd or not query_style(search.query).is_bare:
            return WorkPlace(search.branch)
        found = await asyncio.to_thread(project.find, search.cwd)
        return WorkPlace(found.branch or "", await worktree.changed_files(search.cwd) or frozenset())

    async def _unknown(self, search: Search) -> str:
        """Return a sentence about the first filter that names something unknown."""
        if search.project and not await self._read(lambda tx: projects.find(tx, search.project)):
            try:
                rows = await self._read(lambda tx: projects.listed(tx, 500))
            except Forbidden:
                return ""  # the caller is confined to a group, in which nothing happened yet
            if names := list(dict.fromkeys(str(row["name"]) for row in rows)):
                hint = near(search.project, names) or f"Memory has {', '.join(names[:NAMED])}."
                return f"There is no project `{search.project[:80]}`. {hint}"
        for noun, name, usual in (
            ("type", search.type, TYPES),
            ("concept", search.concept, CONCEPTS),
            ("agent", search.agent, AGENTS),
        ):
            if not name or name in usual:
                continue
            known = dict.fromkeys((*usual, *(await self._of_mode(noun))))
            if name not in known:
                hint = near(name, known) or f"There are {', '.join(known)}."
                return f"There is no {noun} `{name[:80]}`. {hint}"
        return ""

    async def _of_mode(self, noun: str) -> Iterable[str]:
        """Return the types or concepts of the current mode, which is a file."""
        try:
            chosen = self._settings()
            mode = await asyncio.to_thread(modes.load, chosen.mode, chosen.paths.modes)
        except BadSetting:
            return ()  # `status` says so
        return {"type": mode.types, "concept": mode.concepts}.get(noun, ())


def _parse_kind(name: str) -> str:
    """Return the kind that a singular or plural names. No name stands for observations, summaries and prompts."""
    kind = "summary" if name == "summaries" else name.removesuffix("s") if name else "memory"
    if kind not in FAMILIES:
        raise BadInput("There is no such kind.", "Use observations, summaries, prompts, turns, sessions or all.")
    return kind
