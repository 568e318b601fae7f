"""Routes of kept transcripts: keep one, list them, add entries to one and read them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
from starlette.responses import Response

from backstory import gate, ids
from backstory.agents import DEFAULT_AGENT
from backstory.capture import bodies
from backstory.capture.kept import KeptTranscripts
from backstory.errors import BadInput, NotFound
from backstory.model import ContentId, Session
from backstory.store import kept, sessions
from backstory.store.db import Row, Store, Tx
from backstory.store.kept import TranscriptKey
from backstory.worker.endpoints import Call, Endpoint, needs_capture, needs_read, needs_write
from backstory.worker.routes.hooks import Id, Name
from backstory.worker.routes.hooks import Path as PathText
from backstory.worker.routes.recall import Page, page_of, parse_cursor

#: Entries in one request, at most.
MAX_ENTRIES = 1000
Subpath = Annotated[str, msgspec.Meta(max_length=1024)]
ProjectKey = Annotated[str, msgspec.Meta(max_length=4096)]


class TranscriptToKeep(msgspec.Struct):
    """A transcript to keep: the session's id (ours, or the agent's or its beginning), or the agent's file."""

    session: Annotated[str, msgspec.Meta(max_length=512)] = ""
    path: PathText = ""
    agent: Name = DEFAULT_AGENT


class KeptCount(msgspec.Struct):
    """A session whose transcript is kept, how many entries were added now, and how many lines were damaged."""

    id: int
    session_id: str
    project: str
    added: int = 0
    damaged: int = 0


class KeptQuery(msgspec.Struct):
    """Filters. With `whole`, transcripts of subagents are left out."""

    project_key: ProjectKey = ""
    session_id: Annotated[str, msgspec.Meta(max_length=512)] = ""
    agent: Annotated[str, msgspec.Meta(max_length=64)] = ""
    whole: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1000
    cursor: str = ""


class EntriesQuery(msgspec.Struct):
    """The key of a kept transcript."""

    project_key: ProjectKey
    session_id: Id
    subpath: Subpath = ""
    agent: Name = DEFAULT_AGENT
    cursor: str = ""


class NewEntries(msgspec.Struct):
    """Entries of a transcript in the agent's own form, in their order."""

    project_key: ProjectKey
    session_id: Id
    entries: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=MAX_ENTRIES)]
    subpath: Subpath = ""
    cwd: PathText = ""
    agent: Name = DEFAULT_AGENT


class AddedEntries(msgspec.Struct):
    """How many entries were new."""

    added: int


class RemovedTranscripts(msgspec.Struct):
    """How many transcripts were removed."""

    removed: int


class KeptTranscriptRoutes:
    """The routes of kept transcripts."""

    def __init__(self, store: Store, kept: KeptTranscripts) -> None:
        self._store, self._kept = store, kept

    def table(self) -> list[Endpoint]:
        route, entries = "/api/transcripts", "/api/transcripts/entries"
        return [
            needs_read("GET", route, self.list, Page, query=KeptQuery),
            needs_write("POST", route, self.keep, KeptCount, TranscriptToKeep, fails=(404,)),
            needs_write("DELETE", route, self.remove, RemovedTranscripts, query=EntriesQuery),
            needs_read("GET", entries, self.entries, Page, query=EntriesQuery, fails=(404,)),
            needs_capture("POST", entries, self.append, AddedEntries, NewEntries, read=bodies.entries),
        ]

    async def list(self, call: Call) -> Page:
        """List kept transcripts, the first that was kept first. `changed_ms` is when it was added to."""
        query: KeptQuery = call.query
        after = parse_cursor(query.cursor, 0)

        def work(tx: Tx) -> list[Row]:
            about = {"project_key": query.project_key, "agent": query.agent, "content_id": query.session_id}
            return kept.listed(tx, after, query.limit + 1, **about, is_whole=query.whole)

        rows = await asyncio.to_thread(self._store.read, work)
        return page_of([row | {"changed_ms": ids.stored_ms(row["changed_at"])} for row in rows], query.limit)

    async def keep(self, call: Call) -> KeptCount:
        """Keep a transcript. What the agent adds to it later is kept, too."""
        body: TranscriptToKeep = call.body
        if bool(body.session) == bool(body.path):
            raise BadInput("Which transcript?", "Send a `session` or a `path`.")
        if body.path:
            session, counts = await self._kept.keep(body.agent, Path(body.path))
        else:
            session, counts = await self._kept.keep_session(body.agent, body.session)
        return KeptCount(session.id, session.content_session_id, session.project, counts["added"], counts["damaged"])

    async def remove(self, call: Call) -> RemovedTranscripts:
        """Stop keeping a transcript, and remove its entries. That of a session goes with those of its subagents."""
        query: EntriesQuery = call.query

        def work(tx: Tx) -> int:
            session = _session(tx, query)
            return kept.remove(tx, _key(session, query)) if session else 0

        return RemovedTranscripts(await asyncio.wrap_future(self._store.submit(work)))

    async def entries(self, call: Call) -> Response:
        """Read the entries of a kept transcript in order, as they were added."""
        query: EntriesQuery = call.query
        after = parse_cursor(query.cursor, 0)

        def work(tx: Tx) -> tuple[list[str], int | None]:
            session = _session(tx, query)
            found = kept.find(tx, _key(session, query)) if session else None
            if found is None:
                raise NotFound("This transcript is not kept.", "Keep it with `backstory sessions keep`.")
            return kept.page(tx, found.id, after)

        items, last = await asyncio.to_thread(self._store.read, work)
        # They are JSON already. Parsing them would take longer than all the rest.
        body = f'{{"items":[{",".join(items)}],"next":{json.dumps(None if last is None else str(last))}}}'
        return Response(body.encode(), media_type="application/json")

    async def append(self, call: Call) -> AddedEntries:
        """Add entries to a kept transcript. An entry with a known `uuid` changes nothing."""
        body: NewEntries = call.body
        if not body.entries:
            return AddedEntries(0)
        session = await self._kept.session(body.agent, body.session_id, body.project_key, body.cwd)
        return AddedEntries(await self._kept.append(_key(session, body), body.entries))


def _session(tx: Tx, query: EntriesQuery) -> Session | None:
    return sessions.by_content_id(tx, query.agent, ContentId(gate.identifier(query.session_id)))


def _key(session: Session, given: EntriesQuery | NewEntries) -> TranscriptKey:
    return TranscriptKey(session, gate.identifier(given.project_key), gate.identifier(given.subpath))
