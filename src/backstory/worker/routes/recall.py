"""Where memory is asked for: search, lists, single rows, and the context of a new session."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec
from starlette.responses import PlainTextResponse

from backstory import ids, project
from backstory.errors import BadInput, NotFound
from backstory.model import Session
from backstory.recall import changed_files, context, worktree
from backstory.recall.relevance import SessionStart
from backstory.recall.search import FAMILIES, Query
from backstory.recall.search import MemorySearch as Finding
from backstory.settings import Settings
from backstory.store import memories, observations, projects, prompts, sessions, turns
from backstory.store.db import LAST, Row, Store, Tx
from backstory.store.index.hits import Filter
from backstory.worker.endpoints import Call, Endpoint, needs_read

T = TypeVar("T")
Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]
#: The beginning of a time as it is stored.
_PART = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d(:\d\d(:\d\d(\.\d{3})?)?)?)?)?)?", re.ASCII)


class Page(msgspec.Struct):
    """A part of a list, and where the next begins."""

    items: list[dict[str, Any]]
    next: str | None = None


class Part(msgspec.Struct):
    limit: Limit = 20
    cursor: str = ""


class Listing(msgspec.Struct):
    project: str = ""
    limit: Limit = 20
    cursor: str = ""


class Observations(Listing):
    type: str = ""
    session: Annotated[int, msgspec.Meta(ge=0, le=LAST)] = 0


class OfSession(Listing):
    session: Annotated[int, msgspec.Meta(ge=0, le=LAST)] = 0


class Sessions(Listing):
    agent: str = ""
    status: str = ""


class Search(Listing):
    """What is looked for, and of what: each filter that is not empty must hold."""

    query: str = ""
    kind: str = ""
    type: str = ""
    concept: str = ""
    file: str = ""
    session: str = ""
    agent: str = ""
    since: Annotated[str, msgspec.Meta(max_length=40)] = ""
    until: Annotated[str, msgspec.Meta(max_length=40)] = ""
    explain: bool = False


class ContextOf(msgspec.Struct):
    project: str = ""
    cwd: str = ""


class Ids(msgspec.Struct):
    ids: Annotated[list[int], msgspec.Meta(max_length=200)]


class Recall:
    """The routes by which things go out."""

    def __init__(self, settings: Settings, store: Store, search: Finding) -> None:
        self._settings, self._store, self._search = settings, store, search

    def table(self) -> list[Endpoint]:
        return [
            needs_read(
                "GET",
                "/api/context/inject",
                self.context,
                "What a new session is told, as markdown.",
                query=ContextOf,
                media="text/markdown",
                bare=True,
            ),
            needs_read(
                "GET",
                "/api/search",
                self.search,
                "What is remembered, by words and by meaning, best first. `kind` may be turns, sessions or all, too.",
                Page,
                query=Search,
            ),
            needs_read(
                "POST", "/api/search", self.search, "The same, for a query too long for an address.", Page, Search
            ),
            needs_read(
                "GET", "/api/observations", self.observations, "Observations, newest first.", Page, query=Observations
            ),
            needs_read("GET", "/api/observations/{id:int}", self.observation, "One observation, whole."),
            needs_read(
                "POST",
                "/api/observations/batch",
                self.batch,
                "A few observations, whole, in the order asked for.",
                Page,
                Ids,
            ),
            needs_read("GET", "/api/summaries", self.summaries, "Summaries, newest first.", Page, query=OfSession),
            needs_read("GET", "/api/prompts", self.prompts, "Prompts, newest first.", Page, query=OfSession),
            needs_read("GET", "/api/sessions", self.sessions, "Sessions, newest first.", Page, query=Sessions),
            needs_read(
                "GET",
                "/api/sessions/{id}",
                self.session,
                "One session with its prompts, summaries and observations; by our id, the agent's, or its beginning.",
            ),
            needs_read(
                "GET",
                "/api/sessions/{id}/turns",
                self.turns,
                "What was said in a session, in its order; a private or forgotten turn has no text.",
                Page,
                query=Part,
            ),
            needs_read("GET", "/api/projects", self.projects, "Projects, the one last worked in first.", Page),
        ]

    async def read(self, work: Callable[[Tx], T]) -> T:
        return await asyncio.to_thread(self._store.read, work)

    async def context(self, call: Call) -> PlainTextResponse:
        asked: ContextOf = call.query
        here = await asyncio.to_thread(project.find, asked.cwd) if asked.cwd else None
        scene = SessionStart(here.branch, await worktree.changed_files(asked.cwd)) if here else SessionStart()
        wanted = asked.project or (here.key if here else "")

        def work(tx: Tx) -> str:
            known = projects.find(tx, wanted)
            key = known.key if known else wanted
            name = known.name if known else wanted.rstrip("/").rpartition("/")[2]
            budget, command = self._settings.context_tokens, self._settings.paths.called
            return context.for_start(tx, name, key, budget, command, scene)

        return PlainTextResponse(await self.read(work), media_type="text/markdown")

    async def search(self, call: Call) -> Page:
        asked: Search = call.query or call.body
        kind, since, until = _kind(asked.kind), _moment(asked.since), _moment(asked.until)
        skip = min(row_after(asked.cursor, 0), 10_000)
        number = 0
        if asked.session:
            session = await self.read(lambda tx: self._known(tx, asked.session))
            if session is None:
                return Page([])
            number = session.id
        where = Filter(asked.project, number, asked.agent, asked.type, asked.concept, asked.file, since, until)
        wanted = Query(asked.query, kind, where, skip + asked.limit + 1, asked.explain)
        found = await asyncio.to_thread(self._search.find, wanted)
        if not found and not (asked.kind or asked.type or asked.concept or asked.file):
            # Nothing was made of it, but it may have been said: what is imported is not observed.
            found = await asyncio.to_thread(self._search.find, replace(wanted, kind="all"))
        rows = found[skip:]
        more = len(rows) > asked.limit
        return Page(rows[: asked.limit], str(skip + asked.limit) if more else None)

    async def observations(self, call: Call) -> Page:
        asked: Observations = call.query
        return await self._page(asked, partial(memories.listed_observations, type=asked.type, session_id=asked.session))

    async def observation(self, call: Call) -> Row:
        return await self.read(lambda tx: self._whole(tx, call.number("id")))

    def _whole(self, tx: Tx, number: int) -> Row:
        shown = memories.shown_observation(tx, number)
        return shown | {"changed": list(changed_files.changed(tx, [number]).get(number, ()))}

    async def batch(self, call: Call) -> Page:
        def work(tx: Tx) -> list[Row]:
            wanted = [number for number in call.body.ids if abs(number) < LAST]
            return [self._whole(tx, number) for number in wanted if observations.by_id(tx, number)]

        return Page(await self.read(work))

    async def summaries(self, call: Call) -> Page:
        return await self._page(call.query, partial(memories.listed_summaries, session_id=call.query.session))

    async def prompts(self, call: Call) -> Page:
        return await self._page(call.query, partial(prompts.listed, session_id=call.query.session))

    async def sessions(self, call: Call) -> Page:
        asked: Sessions = call.query
        status = "created" if asked.status == "initialized" else asked.status
        return await self._page(asked, partial(sessions.listed, agent=asked.agent, status=status))

    async def session(self, call: Call) -> Row:
        return await self.read(lambda tx: self._session(tx, call.request.path_params["id"]))

    async def turns(self, call: Call) -> Page:
        asked: Part = call.query
        after = row_after(asked.cursor, -1)

        def work(tx: Tx) -> list[Row]:
            session = self._found(tx, call.request.path_params["id"])
            return [asdict(turn) for turn in turns.of_session(tx, session.id, after, asked.limit + 1)]

        return page_of(await self.read(work), asked.limit, "number")

    def _known(self, tx: Tx, name: str) -> Session | None:
        number = ids.number(name)
        return (None if number is None else sessions.by_id(tx, number)) or sessions.by_prefix(tx, name)

    def _found(self, tx: Tx, name: str) -> Session:
        session = self._known(tx, name)
        if session is None:
            raise NotFound(f"There is no session {name[:80]}.", "`backstory sessions` lists them.")
        return session

    def _session(self, tx: Tx, name: str) -> Row:
        session = self._found(tx, name)
        number = session.id
        return sessions.shown(session) | {
            "prompts": prompts.of_session(tx, number),
            "moves": sessions.moves(tx, number),
            "summaries": memories.listed_summaries(tx, "", LAST, 200, session_id=number),
            "observations": memories.listed_observations(tx, "", LAST, 200, session_id=number),
        }

    async def projects(self, call: Call) -> Page:
        return Page(await self.read(lambda tx: projects.listed(tx, 500)))

    async def _page(self, asked: Listing, listed: Callable[[Tx, str, int, int], list[Row]]) -> Page:
        """A page of a list: `listed` gets the project, the id that its rows come before, and their number."""
        before = row_after(asked.cursor, LAST)
        rows = await self.read(lambda tx: listed(tx, asked.project, before, asked.limit + 1))
        return page_of(rows, asked.limit)


def _kind(name: str) -> str:
    """What is asked for by a name, in the singular or the plural; what was made of the work, if by none."""
    kind = "summary" if name == "summaries" else name.removesuffix("s") if name else "memory"
    if kind not in FAMILIES:
        raise BadInput(
            "There is no such kind.", "It is observations, summaries, prompts, turns, sessions or all, or left out."
        )
    return kind


def _moment(text: str) -> str:
    """A time as it is stored, or the beginning of one: a year, a month or a day stands for all of it."""
    told = text.strip().replace(" ", "T")
    short = told.removesuffix("Z")
    try:
        if _PART.fullmatch(short):
            datetime.fromisoformat(short + "2000-01-01T00:00:00.000"[len(short) :])  # there is such a day
            return short
        return ids.from_ms(ids.at_ms(told)) if told else ""
    except (ValueError, OverflowError):
        raise BadInput("That is not a time.", "It looks like 2026-02-21 or 2026-02-21T03:39:07Z.") from None


def page_of(rows: list[Row], limit: int, key: str = "id") -> Page:
    """The first rows as a page. A row more than the limit tells that there is a next page, by the key of the last."""
    return Page(rows[:limit], str(rows[limit - 1][key]) if len(rows) > limit else None)


def row_after(cursor: str, default: int) -> int:
    """The row that a page goes on from; the default where it is the first."""
    if not cursor:
        return default
    if (number := ids.number(cursor)) is None:
        raise BadInput("The cursor is not one of ours.", "Send the `next` of the page before.")
    return number
