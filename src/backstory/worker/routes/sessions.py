"""Routes for sessions: find one by what is remembered of it, name it and tag it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from backstory import times
from backstory.capture.intake import Announce, Intake
from backstory.errors import NotFound
from backstory.recall import find_sessions, session_rows
from backstory.recall.search import MemorySearch
from backstory.store import sessions, titles
from backstory.store.db import Row, Store, Tx
from backstory.store.index.hits import named
from backstory.worker.endpoints import Call, Endpoint, confinable, needs_read, needs_write
from backstory.worker.routes.recall import Page, get_session, project_asked

Title = Annotated[str, msgspec.Meta(max_length=titles.MAX_TITLE)]
Tag = Annotated[str, msgspec.Meta(min_length=1, max_length=50)]
Tags = Annotated[list[Tag], msgspec.Meta(max_length=50)]


class SessionSearch(msgspec.Struct):
    """What is remembered of a session, and filters. Every filter that is not empty must match. Without a `project`, the
    project of the directory `cwd` is searched, if memory has it. With `ended`, a session is not found by a prompt that
    is being answered."""

    words: Annotated[str, msgspec.Meta(max_length=20_000)] = ""
    project: str = ""
    agent: str = ""
    tag: str = ""
    since: Annotated[str, msgspec.Meta(max_length=40)] = ""
    until: Annotated[str, msgspec.Meta(max_length=40)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 5
    cwd: str = ""
    ended: bool = False


class SessionEdit(msgspec.Struct):
    """Changes to a session. Without `title` it stays as it is; an empty title removes the one that was given."""

    title: Title | UnsetType = UNSET
    add_tags: Tags = []
    remove_tags: Tags = []


class SessionRoutes:
    """The routes that find sessions and name them."""

    def __init__(self, store: Store, intake: Intake, search: MemorySearch, announce: Announce) -> None:
        self._store, self._intake, self._search, self._announce = store, intake, search, announce

    def table(self) -> list[Endpoint]:
        return [
            *confinable([needs_read("GET", "/api/sessions/search", self.search, Page, query=SessionSearch)]),
            needs_write("PATCH", "/api/sessions/{id}", self.edit, None, SessionEdit, fails=(404,)),
        ]

    async def search(self, call: Call) -> Page:
        """Find sessions by what is remembered of them, best match first."""
        query: SessionSearch = call.query
        since, until = times.since(query.since), times.until(query.until)
        asked = await project_asked(self._store, query)
        where = replace(named(asked.key), agent=query.agent, since=since, until=until, is_ended=query.ended)
        find = find_sessions.find
        return Page(
            await asyncio.to_thread(find, self._store, self._search, query.words, where, query.limit, query.tag)
        )

    async def edit(self, call: Call) -> Row:
        """Name a session, add tags to it or remove them."""
        body: SessionEdit = call.body

        def work(tx: Tx) -> Row:
            session = sessions.hold(tx, get_session(tx, call.request.path_params["id"]).id)
            if session.forgotten_at:
                raise NotFound("This session was deleted.", "`backstory sessions` lists the others.")
            if body.title is not UNSET:
                titles.rename(tx, session.id, body.title)
            titles.tag(tx, session.id, body.add_tags, body.remove_tags)
            (row,) = session_rows.with_titles(tx, [sessions.shown(sessions.get(tx, session.id))])
            return row

        row = await self._intake.write(work)
        self._announce("session", {name: row[name] for name in ("id", "project_key", "status")})
        return row
