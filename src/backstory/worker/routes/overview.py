"""Routes that show memory as a whole: the timeline around a row, and statistics."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from backstory import ids
from backstory.errors import BadInput, NotFound, StoreUnavailable
from backstory.live_settings import LiveSettings
from backstory.recall import stats, timeline
from backstory.recall.search import MemorySearch, Query
from backstory.settings import Settings
from backstory.store import counts
from backstory.store.db import Row, Store, Tx
from backstory.store.index.hits import named
from backstory.store.timeline import TimelineAnchor, find_anchor
from backstory.worker.endpoints import Call, Endpoint, needs_read
from backstory.worker.routes.recall import project_asked

#: Seconds for the sizes of tables. SQLite reads all of its pages to find them.
SIZES_S = 2.0
Span = Annotated[int, msgspec.Meta(ge=0, le=200)]


class TimelineQuery(msgspec.Struct):
    """The entry in the middle: its id as `anchor` and its `kind`, or the best match of `query`: in a `project`, else in
    that of the directory `cwd`, if memory has it."""

    anchor: str = ""
    kind: Literal["observation", "summary", "prompt"] = "observation"
    query: str = ""
    before: Span = 10
    after: Span = 10
    project: str = ""
    cwd: str = ""


class Timeline(msgspec.Struct):
    """Prompts, observations and summaries around one of them, oldest first."""

    anchor: dict[str, Any] | None
    items: list[dict[str, Any]]
    next: str | None = None


class StatsQuery(msgspec.Struct):
    project: str = ""


class Stats(msgspec.Struct):
    """How much is stored. Numbers named estimates are not exact."""

    counts: dict[str, Any]
    sizes: dict[str, int]  #: bytes
    room: dict[str, int]  #: bytes by purpose; empty if the engine does not know or takes too long
    tables: dict[str, int]  #: bytes; empty if the engine does not know or takes too long
    projects: list[dict[str, Any]]
    models: dict[str, Any]  #: use of models: recent days by project, provider and model, and totals


class Overview:
    """The routes of timeline and stats."""

    def __init__(self, settings: Settings, store: Store, search: MemorySearch) -> None:
        self._settings, self._store, self._search = LiveSettings(settings), store, search

    def table(self) -> list[Endpoint]:
        return [
            needs_read("GET", "/api/timeline", self.timeline, Timeline, query=TimelineQuery, fails=(404,)),
            needs_read("GET", "/api/stats", self.stats, Stats, query=StatsQuery),
        ]

    async def timeline(self, call: Call) -> Timeline:
        """Show what happened around an observation, a summary or a prompt, or around the best match of `query`."""
        query: TimelineQuery = call.query
        best: list[Row] = []
        if not query.anchor:
            if not query.query.strip():
                raise BadInput("The anchor is missing.", "Send the id of an observation as `anchor`, or a `query`.")
            asked = await project_asked(self._store, query)
            search = Query(query.query, where=named(asked.key), limit=1)
            best = await asyncio.to_thread(self._search.find, search)

        def work(tx: Tx) -> tuple[TimelineAnchor | None, list[Row]]:
            anchor = _find_anchor(tx, query, best)
            return anchor, timeline.around(tx, anchor, query.before, query.after) if anchor else []

        anchor, items = await asyncio.to_thread(self._store.read, work)
        names = ("kind", "id", "session_id", "project", "created_at")
        return Timeline({name: getattr(anchor, name) for name in names} if anchor else None, items)

    async def stats(self, call: Call) -> Stats:
        """Show how much is stored, and its size."""
        project: str = call.query.project
        budget = self._settings().context_tokens
        rows, projects, models = await asyncio.to_thread(
            self._store.read,
            lambda tx: (counts.rows(tx, project), stats.projects(tx, project, budget), stats.models(tx, project)),
        )
        sizes, tables = await asyncio.to_thread(self._sizes)
        return Stats(rows, sizes, stats.bytes_by_purpose(tables) if tables else {}, tables, projects, models)

    def _sizes(self) -> tuple[dict[str, int], dict[str, int]]:
        paths = self._settings().paths
        tables: dict[str, int] = {}
        with contextlib.suppress(StoreUnavailable):  # not every SQLite has these numbers
            tables = self._store.read(counts.table_sizes, SIZES_S)
        log = sum(_file_size(file) for file in paths.data.glob(f"{paths.log.name}*"))
        spool = sum(_file_size(file) for file in paths.spool.rglob("*"))
        return {"database": self._store.size(), "spool": spool, "log": log}, tables


def _find_anchor(tx: Tx, query: TimelineQuery, best: list[Row]) -> TimelineAnchor | None:
    if not query.anchor:
        return find_anchor(tx, best[0]["kind"], best[0]["id"]) if best else None
    number = ids.number(query.anchor.removeprefix("#"))
    if number is None:
        raise BadInput("The anchor is not an id.", "Ids are numbers. Search shows them.")
    anchor = find_anchor(tx, query.kind, number)
    if anchor is None or query.project not in ("", anchor.project, anchor.project_key):
        raise NotFound(f"There is no {query.kind} {number}.", "Search shows the ids.")
    return anchor


def _file_size(file: Path) -> int:
    with contextlib.suppress(OSError):
        return file.stat().st_size if file.is_file() else 0
    return 0
