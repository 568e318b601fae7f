"""The worker about itself: health, queue, live stream, OpenAPI, and the way into the browser."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import msgspec
from starlette.responses import HTMLResponse, Response

from backstory import __version__
from backstory.errors import NotFound, Refused, StoreUnavailable
from backstory.observe.model_observer import ProviderState
from backstory.settings import Settings
from backstory.store import backups, check, events
from backstory.store.db import Store, Tx
from backstory.worker.endpoints import Call, Endpoint, Json, needs_admin, needs_public, needs_read, openapi
from backstory.worker.live import Live
from backstory.worker.routes.recall import Limit, Page, page_of, row_after
from backstory.worker.viewer.browsers import SESSION_S, Browsers, is_of_another_user
from backstory.worker.viewer.page import HEADERS, page


class Queue(msgspec.Struct):
    queued: int = 0
    leased: int = 0
    dead: int = 0


class Health(msgspec.Struct):
    """Whether the worker is well; open to everybody, so it tells no more than this."""

    status: str
    version: str
    pid: int
    uptime_s: float
    queue: Queue
    provider: str
    store: str
    notice: str = ""  #: what people should know: the database was damaged and restored
    model: str = ""
    provider_trouble: str = ""  #: why the rules observe in the model's place
    provider_lasts: bool = False  #: somebody has to do something about it
    failing: list[str] = []  #: background jobs that failed lately: name, type and place of the error


class Checked(msgspec.Struct):
    """What is wrong with the database; nothing if it is sound."""

    problems: list[str]


class QueueOf(msgspec.Struct):
    status: str = ""
    limit: Limit = 50
    cursor: str = ""


class Which(msgspec.Struct):
    """An event of the queue; 0 means all that were set aside."""

    id: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0


class Changed(msgspec.Struct):
    changed: int


class Code(msgspec.Struct):
    code: Annotated[str, msgspec.Meta(max_length=100)] = ""


class BrowserSession(msgspec.Struct):
    """What a page sends as `Authorization: Backstory-Session …`, and for how many seconds."""

    session: str
    expires_in: int


class Admin:
    """The routes of the worker itself."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        live: Live,
        browsers: Browsers,
        wake: Callable[[int], None],
        state: Callable[[], Awaitable[tuple[ProviderState, list[str]]]],
    ) -> None:
        self._settings, self._store, self._live, self._browsers = settings, store, live, browsers
        self._wake, self._state = wake, state
        self._started = time.monotonic()

    def table(self) -> list[Endpoint]:
        return [
            needs_public("GET", "/api/health", self.health, "Whether the worker is well.", Health, bare=True),
            needs_admin("GET", "/api/check", self.check, "Reads the whole database, and says what is wrong.", Checked),
            needs_admin(
                "GET",
                "/api/queue",
                self.queue,
                "Events that wait, are being observed, or were set aside.",
                Page,
                query=QueueOf,
            ),
            needs_admin("POST", "/api/queue/retry", self.retry, "Try what was set aside again.", Changed, Which),
            needs_admin(
                "POST", "/api/queue/drop", self.drop, "Drop what was set aside, and its payload.", Changed, Which
            ),
            needs_read(
                "GET",
                "/api/stream",
                self.stream,
                "Server-sent events, from Last-Event-ID on.",
                media="text/event-stream",
                bare=True,
            ),
            needs_admin("POST", "/api/open", self.code, "A one-time code that lets a browser in.", Code),
            needs_public(
                "POST", "/open", self.open, "A session of a browser, for a one-time code.", BrowserSession, Code
            ),
            needs_read("GET", "/", self.page, "What is remembered, as a page.", media="text/html"),
        ]

    async def health(self, call: Call) -> Health:
        try:
            counts = await asyncio.to_thread(self._store.read, events.counts)
            asked, failing = await self._state()
            status = "degraded" if failing else "ok"
        except StoreUnavailable:
            counts, status, asked, failing = {}, "degraded", ProviderState(self._settings.provider), []
        return Health(
            status=status,
            version=__version__,
            pid=os.getpid(),
            uptime_s=round(time.monotonic() - self._started, 3),
            queue=Queue(**counts),
            provider=asked.provider,
            store=self._store.engine,
            notice=str(backups.restored(self._settings.paths) or ""),
            model=asked.model,
            provider_trouble=asked.trouble,
            provider_lasts=asked.needs_action,
            failing=failing,
        )

    async def check(self, call: Call) -> Checked:
        return Checked(await asyncio.to_thread(check, self._settings))

    async def queue(self, call: Call) -> Page:
        asked: QueueOf = call.query
        after = row_after(asked.cursor, 0)
        rows = await asyncio.to_thread(
            self._store.read, lambda tx: events.queued(tx, asked.status, after, asked.limit + 1)
        )
        return page_of(rows, asked.limit)

    async def retry(self, call: Call) -> Changed:
        return await self._change(events.retry, call.body.id)

    async def drop(self, call: Call) -> Changed:
        return await self._change(events.drop, call.body.id)

    async def _change(self, work: Callable[[Tx, int], int], number: int) -> Changed:
        changed = await asyncio.wrap_future(self._store.submit(lambda tx: work(tx, number)))
        if number and not changed:
            raise NotFound(f"Event {number} does not wait there.", "`backstory queue` lists what does.")
        self._wake(0)
        return Changed(changed)

    async def stream(self, call: Call) -> Response:
        return self._live.stream(call.request.headers.get("last-event-id"))

    async def code(self, call: Call) -> Code:
        return Code(self._browsers.make_code())

    async def open(self, call: Call) -> Response:
        client = call.request.client
        if client is not None and await asyncio.to_thread(is_of_another_user, client.host, client.port):
            raise Refused("The request comes from another user of this machine.", "Use a browser of your own.")
        session = self._browsers.exchange(call.body.code)
        if session is None:
            raise Refused("This link was used already, or is too old.", "Run `backstory open` again.")
        return Json(BrowserSession(session, int(SESSION_S)), headers={"Cache-Control": "no-store"})

    async def page(self, call: Call) -> Response:
        return HTMLResponse(await asyncio.to_thread(self._store.read, page), headers=HEADERS)


def document(table: Sequence[Endpoint]) -> Endpoint:
    """The route of the document itself; it is in the document too. Written when it is first asked for."""
    written: dict[str, Any] = {}

    async def run(call: Call) -> dict[str, Any]:
        if not written:
            written.update(openapi(table, __version__))
        return written

    return needs_read("GET", "/openapi.json", run, "This document.")
