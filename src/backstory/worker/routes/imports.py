"""Routes that import what happened before the installation: reports in our own format, many per request."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec

from backstory import gate
from backstory.agents import DEFAULT_AGENT
from backstory.capture import bodies
from backstory.capture.backfill import MAX_REPORTS, Backfill
from backstory.model import ContentId, Kind, Report
from backstory.store import transcripts
from backstory.store.db import Store
from backstory.worker.endpoints import Call, Endpoint, needs_capture, to_body
from backstory.worker.routes.hooks import Id, Name, parse_time
from backstory.worker.routes.hooks import Path as PathText

#: The name under which imported files are recorded.
READER = "import"
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Happened(msgspec.Struct):
    """One event in our own format."""

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
    gap_since: Annotated[str, msgspec.Meta(max_length=40)] | None = None
    payload: dict[str, Any] = {}


class ReadFile(msgspec.Struct):
    """The identity of a file at the time when it was read."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    inode: Count
    size: Count
    changed_ns: Count


class Batch(msgspec.Struct):
    """Events, oldest first. `done` names a file that ends with this batch."""

    reports: Annotated[list[Happened], msgspec.Meta(max_length=MAX_REPORTS)]
    project: PathText = ""
    done: ReadFile | None = None


class CleanBatch(msgspec.Struct):
    """A batch that was read: its events are reports."""

    reports: list[Report]
    project: str
    done: ReadFile | None


class ImportedReports(msgspec.Struct):
    """How many events were new, were known, and are private or not wanted; and how many replies were new."""

    added: int = 0
    known: int = 0
    skipped: int = 0
    turns: int = 0


class FileQuery(msgspec.Struct):
    path: Annotated[str, msgspec.Meta(max_length=4096)] = ""


class Known(msgspec.Struct):
    """A file at the time of its last import; null if it was never imported."""

    file: ReadFile | None = None


class Imports:
    """The routes that import reports."""

    def __init__(self, store: Store, backfill: Backfill) -> None:
        self._store, self._backfill = store, backfill

    def table(self) -> list[Endpoint]:
        route = "/api/import/reports"
        return [
            needs_capture("POST", route, self.take, ImportedReports, Batch, read=_read),
            needs_capture("GET", route, self.known, Known, query=FileQuery),
        ]

    async def take(self, call: Call) -> ImportedReports:
        """Store earlier events."""
        batch: CleanBatch = call.body
        counts = await self._backfill.take(batch.reports, batch.project)
        if (file := batch.done) is not None:
            path = gate.text(file.path)
            read = transcripts.ReadTranscript(READER, path, file.inode, file.size, file.changed_ns, file.size)
            await asyncio.wrap_future(self._store.submit(lambda tx: transcripts.put(tx, read)))
        return ImportedReports(counts["added"], counts["known"], counts["skipped"], counts["turns"])

    async def known(self, call: Call) -> Known:
        """Show whether a file was imported."""
        path = gate.text(call.query.path)
        read = await asyncio.to_thread(self._store.read, lambda tx: transcripts.find(tx, READER, path))
        return Known(ReadFile(read.path, read.inode, read.size, read.changed_ns) if read else None)


def _read(raw: bytes) -> CleanBatch:
    """Read a body. Each event is stripped separately, when it becomes a report."""
    batch = to_body(bodies.whole(raw), Batch)
    return CleanBatch([_to_report(each) for each in batch.reports], batch.project, batch.done)


def _to_report(event: Happened) -> Report:
    fields = msgspec.structs.asdict(event)
    fields["content_id"] = ContentId(fields.pop("session_id"))
    fields["occurred_at"] = parse_time(event.occurred_at, "occurred_at")
    fields["gap_since"] = parse_time(event.gap_since, "gap_since") if event.gap_since else None
    return Report(**fields)
