"""Routes about the worker itself: health, queue, live stream and OpenAPI."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from backstory import __version__
from backstory.errors import Broken, NotFound, StoreUnavailable
from backstory.kill_switch import LAUNCH, KillSwitch
from backstory.observe.model_observer import ProviderState
from backstory.settings import Settings, environment
from backstory.store import backups, check, events
from backstory.store.db import Store, Tx
from backstory.worker import problems
from backstory.worker.endpoints import Call, Endpoint, needs_admin, needs_public, needs_read, openapi
from backstory.worker.live import Live
from backstory.worker.routes.recall import Limit, Page, page_of, parse_cursor

#: Seconds that `doctor` may take. It reads the whole database.
DOCTOR_S = 300.0


class Queue(msgspec.Struct):
    queued: int = 0
    leased: int = 0
    dead: int = 0


class Health(msgspec.Struct):
    """The state of the worker. A caller without a credential gets only the `status` ok: the worker is there."""

    status: str
    version: str | UnsetType = UNSET
    pid: int | UnsetType = UNSET
    uptime_s: float | UnsetType = UNSET
    queue: Queue | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    store: str | UnsetType = UNSET
    notice: str | UnsetType = UNSET  #: set if the database was damaged and restored
    model: str | UnsetType = UNSET
    provider_trouble: str | UnsetType = UNSET  #: why the rules observe instead of the model
    provider_lasts: bool | UnsetType = UNSET  #: the trouble does not pass until the user does something
    problems: list[str] | UnsetType = UNSET  #: what the worker knows of what `doctor` finds; `status` is ok without any
    failing: list[str] | UnsetType = UNSET  #: background jobs that failed recently: name, type and place of the error


class Checked(msgspec.Struct):
    """The problems of the database; empty if there are none."""

    problems: list[str]


class Findings(msgspec.Struct):
    """What `backstory doctor --json` prints. A finding has `name`, `level` (wrong or note), `says`, `do` and `mends`:
    whether `backstory repair` fixes it."""

    ok: bool
    findings: list[dict[str, Any]]


class QueueQuery(msgspec.Struct):
    status: str = ""
    limit: Limit = 50
    cursor: str = ""


class StreamQuery(msgspec.Struct):
    """With `groups`, also what belongs to groups is told."""

    groups: bool = False


class Which(msgspec.Struct):
    """An event of the queue by its id. 0 stands for all that are set aside."""

    id: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0


class Changed(msgspec.Struct):
    changed: int


class Admin:
    """The routes of the worker itself."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        live: Live,
        wake: Callable[[int], None],
        state: Callable[[], Awaitable[tuple[ProviderState, list[str]]]],
    ) -> None:
        self._settings, self._store, self._live = settings, store, live
        self._wake, self._state = wake, state
        self._started = time.monotonic()
        self._examining = asyncio.Lock()

    def table(self) -> list[Endpoint]:
        return [
            needs_public("GET", "/api/health", self.health, Health, bare=True),
            needs_admin("GET", "/api/check", self.check, Checked),
            needs_admin("GET", "/api/doctor", self.doctor, Findings, fails=(500,)),
            needs_admin("GET", "/api/queue", self.queue, Page, query=QueueQuery),
            needs_admin("POST", "/api/queue/retry", self.retry, Changed, Which),
            needs_admin("POST", "/api/queue/drop", self.drop, Changed, Which),
            needs_read("GET", "/api/stream", self.stream, query=StreamQuery, media="text/event-stream", bare=True),
        ]

    async def health(self, call: Call) -> Health:
        """Show whether the worker is healthy."""
        if not call.principal.is_owner:
            return Health("ok")
        try:
            counts = await asyncio.to_thread(self._store.read, events.counts)
            provider, failing = await self._state()
            dead = counts.get("dead", 0)
            known = await asyncio.to_thread(lambda: list(problems.found(self._settings, provider, failing, dead)))
        except StoreUnavailable:
            counts, provider, failing = {}, ProviderState(self._settings.provider), []
            known = ["database-unreadable"]
        return Health(
            status=problems.verdict(known),
            version=__version__,
            pid=os.getpid(),
            uptime_s=round(time.monotonic() - self._started, 3),
            queue=Queue(**counts),
            provider=provider.provider,
            store=self._store.engine,
            notice=str(backups.restored(self._settings.paths) or ""),
            model=provider.model,
            provider_trouble=provider.trouble,
            provider_lasts=provider.needs_action,
            problems=known,
            failing=failing,
        )

    async def check(self, call: Call) -> Checked:
        """Read the whole database and list its problems."""
        return Checked(await asyncio.to_thread(check, self._settings))

    async def doctor(self, call: Call) -> Findings:
        """Look for problems as `backstory doctor` does. Nothing is changed."""
        async with self._examining:
            output = await _doctor(self._settings)
        try:
            return msgspec.json.decode(output, type=Findings)
        except msgspec.MsgspecError:
            raise Broken("`backstory doctor` could not be run.", "Run it in a terminal to see why.") from None

    async def queue(self, call: Call) -> Page:
        """List the events that wait, are being observed, or are set aside."""
        query: QueueQuery = call.query
        after = parse_cursor(query.cursor, 0)
        rows = await asyncio.to_thread(
            self._store.read, lambda tx: events.queued(tx, query.status, after, query.limit + 1)
        )
        return page_of(rows, query.limit)

    async def retry(self, call: Call) -> Changed:
        """Put events that are set aside back into the queue."""
        return await self._change(events.retry, call.body.id)

    async def drop(self, call: Call) -> Changed:
        """Drop events that are set aside, and their payloads."""
        return await self._change(events.drop, call.body.id)

    async def _change(self, work: Callable[[Tx, int], int], event_id: int) -> Changed:
        changed = await asyncio.wrap_future(self._store.submit(lambda tx: work(tx, event_id)))
        if event_id and not changed:
            raise NotFound(f"Event {event_id} is not set aside.", "`backstory queue` lists the events that are.")
        self._wake(0)
        return Changed(changed)

    async def stream(self, call: Call) -> Response:
        """Send server-sent events, beginning after Last-Event-ID."""
        return self._live.stream(call.request.headers.get("last-event-id"), call.query.groups)


async def _doctor(settings: Settings) -> bytes:
    """Run `backstory doctor --json`. The checks belong to the command, which also works when the worker does not. It
    ends with the request, and with the worker."""
    folder = settings.paths.agent_runs
    env = {**environment(), "BACKSTORY_DATA_DIR": str(settings.data_dir)}
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        with closing(KillSwitch(folder)) as switch:
            # -P: nothing is imported from the directory that it runs in.
            command = (*LAUNCH, str(switch.path), sys.executable, "-P", "-m", "backstory", "doctor", "--json")
            process = await asyncio.create_subprocess_exec(
                *command, env=env, cwd=Path.home(), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
            )
            try:
                async with asyncio.timeout(DOCTOR_S):
                    return (await process.communicate())[0]
            finally:
                switch.close()
                await process.wait()
    except (OSError, TimeoutError):
        return b""


def document(table: Sequence[Endpoint]) -> Endpoint:
    """Return the route of the OpenAPI document, which is built with the first request."""
    made = functools.cache(lambda: openapi(table, __version__))

    async def run(call: Call) -> dict[str, Any]:
        """Show this document."""
        return made()

    return needs_read("GET", "/openapi.json", run)
