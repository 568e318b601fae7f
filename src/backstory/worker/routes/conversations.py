"""Routes that show the conversation of a session: by rounds, a tool use in full, and all of it as a file."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Annotated, Literal

import msgspec
from starlette.responses import Response

from backstory.agents import AGENTS
from backstory.errors import NotFound
from backstory.exchange import session_markdown
from backstory.recall import conversation
from backstory.store import segments, turns
from backstory.store.db import Row, Store, Tx
from backstory.text import json_escaped
from backstory.worker.endpoints import Call, Endpoint, needs_read
from backstory.worker.routes.recall import Page, get_session, parse_cursor, whole_session


class RoundsQuery(msgspec.Struct):
    limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 20
    cursor: str = ""


class ExportQuery(msgspec.Struct):
    format: Literal["markdown", "json"] = "markdown"


class ShownToolUse(msgspec.Struct):
    """A tool use. Its input, its output and its error are text; a long one is cut."""

    id: int
    session_id: int
    prompt_number: int
    kind: str
    tool_name: str | None
    occurred_at: str
    tool_input: str | None
    tool_response: str | None
    error: str | None


class Conversations:
    """The routes of conversations."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def table(self) -> list[Endpoint]:
        path = "/api/sessions/{id}"
        return [
            needs_read("GET", f"{path}/rounds", self.rounds, Page, query=RoundsQuery),
            needs_read("GET", f"{path}/export", self.export, query=ExportQuery, media="text/markdown"),
            needs_read("GET", "/api/events/{id:int}", self.tool_use, ShownToolUse),
        ]

    async def rounds(self, call: Call) -> Page:
        """List the rounds of a session in order: what was said, and a line for each tool use."""
        query: RoundsQuery = call.query
        after = parse_cursor(query.cursor, -1)

        def work(tx: Tx) -> Page:
            session = get_session(tx, call.request.path_params["id"])
            last = after + query.limit
            found = conversation.rounds(tx, session, after, query.limit)
            return Page(found, str(last) if last < session.prompt_counter else None)

        return await asyncio.to_thread(self._store.read, work)

    async def tool_use(self, call: Call) -> ShownToolUse:
        """Show a tool use in full, by the id of its event."""
        number = call.number("id")
        event = await asyncio.to_thread(self._store.read, lambda tx: segments.tool_use(tx, number))
        if event is None:
            raise NotFound(f"There is no tool use {number}.", "It may be private, or it was forgotten.")
        return ShownToolUse(**conversation.tool_use(event))

    async def export(self, call: Call) -> Response:
        """Write the conversation of a session as Markdown, or as JSON with all that `/api/sessions/{id}` shows."""

        def work(tx: Tx) -> tuple[Row, list[Row]]:
            session = get_session(tx, call.request.path_params["id"])
            return whole_session(tx, session), [asdict(turn) for turn in turns.of_session(tx, session.id)]

        row, said = await asyncio.to_thread(self._store.read, work)
        if call.query.format == "json":
            whole = json.dumps(row | {"turns": said}, ensure_ascii=False, indent=2)
            return Response(json_escaped(whole) + "\n", media_type="application/json")
        agent = AGENTS.get(row["agent"])
        pieces = session_markdown.pieces(row, said, agent.title if agent else row["agent"])
        return Response("".join(pieces), media_type="text/markdown")
