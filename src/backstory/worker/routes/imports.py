"""Where a past that was not heard comes in: reports in our own words, many at a time."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from starlette.requests import Request

from backstory import gate, ids
from backstory.agents import DEFAULT_AGENT
from backstory.capture.backfill import MAX_REPORTS, Backfill
from backstory.capture.bodies import decode
from backstory.errors import BadInput
from backstory.model import ContentId, Kind, Report
from backstory.store import transcripts
from backstory.store.db import Store
from backstory.worker.endpoints import Call, Endpoint, needs_capture, read_bytes
from backstory.worker.routes.hooks import Id, Name
from backstory.worker.routes.hooks import Path as PathText

READER = "import"
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Happened(msgspec.Struct):
    """One thing that happened, in our words."""

    kind: Kind
    session_id: Id
    event_id: Id
    occurred_at: Annotated[str, msgspec.Meta(max_length=40)]
    agent: Name = DEFAULT_AGENT
    cwd: PathText = ""
    git_branch: Annotated[str, msgspec.Meta(max_length=512)] | None = None
    tool_name: Annotated[str, msgspec.Meta(max_length=512)] | None = None
    tool_use_id: Id | None = None
    prompt_id: Id | None = None
    payload: dict[str, Any] = {}


class ReadFile(msgspec.Struct):
    """A file as it was when it was read."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    inode: Count
    size: Count
    changed_ns: Count


class Batch(msgspec.Struct):
    """What happened, oldest first. `done` names a file of which this was the last."""

    reports: Annotated[list[Happened], msgspec.Meta(max_length=MAX_REPORTS)]
    project: PathText = ""
    done: ReadFile | None = None


class ImportedReports(msgspec.Struct):
    """How many were new, were known already, and are not wanted or private; and how many replies were new."""

    added: int = 0
    known: int = 0
    skipped: int = 0
    turns: int = 0


class OfFile(msgspec.Struct):
    path: Annotated[str, msgspec.Meta(max_length=4096)] = ""


class Known(msgspec.Struct):
    """How a file was when it was last imported; nothing if it never was."""

    file: ReadFile | None = None


class Imports:
    """The routes of an import."""

    def __init__(self, store: Store, backfill: Backfill) -> None:
        self._store, self._backfill = store, backfill

    def table(self) -> list[Endpoint]:
        route = "/api/import/reports"
        return [
            needs_capture(
                "POST", route, self.take, "Store what happened earlier.", ImportedReports, Batch, read=_read_batch
            ),
            needs_capture("GET", route, self.known, "Whether a file was imported before.", Known, query=OfFile),
        ]

    async def take(self, call: Call) -> ImportedReports:
        batch: Batch = call.body
        counts = await self._backfill.take([_report(one) for one in batch.reports], batch.project)
        if (file := batch.done) is not None:
            path = gate.text(file.path)
            read = transcripts.ReadTranscript(READER, path, file.inode, file.size, file.changed_ns, file.size)
            await asyncio.wrap_future(self._store.submit(lambda tx: transcripts.put(tx, read)))
        return ImportedReports(counts["added"], counts["known"], counts["skipped"], counts["turns"])

    async def known(self, call: Call) -> Known:
        path = gate.text(call.query.path)
        read = await asyncio.to_thread(self._store.read, lambda tx: transcripts.find(tx, READER, path))
        return Known(ReadFile(read.path, read.inode, read.size, read.changed_ns) if read else None)


async def _read_batch(request: Request) -> Any:
    """Not one payload but many: each is stripped and cut by itself, where it becomes a report."""
    return decode(await read_bytes(request))


def _report(told: Happened) -> Report:
    try:
        at = ids.from_ms(ids.at_ms(told.occurred_at))
    except (ValueError, OverflowError, OSError):
        raise BadInput("`occurred_at` is not a time.", "Send it like 2026-02-21T03:39:07.123Z.") from None
    return Report(
        agent=told.agent,
        kind=told.kind,
        content_id=ContentId(told.session_id),
        event_id=told.event_id,
        occurred_at=at,
        cwd=told.cwd,
        git_branch=told.git_branch,
        tool_name=told.tool_name,
        tool_use_id=told.tool_use_id,
        prompt_id=told.prompt_id,
        payload=told.payload,
    )
