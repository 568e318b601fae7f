"""Where people look over memory: what lay around something, and how much there is."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated, Any

import msgspec

from backstory import ids
from backstory.errors import BadInput, NotFound, StoreUnavailable
from backstory.recall import stats, timeline
from backstory.recall.search import MemorySearch, Query
from backstory.settings import Settings
from backstory.store import counts
from backstory.store.db import Row, Store, Tx
from backstory.store.index.hits import Filter
from backstory.store.timeline import TimelineAnchor, find_anchor
from backstory.worker.endpoints import Call, Endpoint, needs_read

Span = Annotated[int, msgspec.Meta(ge=0, le=200)]


class TimelineOf(msgspec.Struct):
    anchor: str = ""
    query: str = ""
    before: Span = 10
    after: Span = 10
    project: str = ""


class Timeline(msgspec.Struct):
    """Prompts, observations and summaries in the order of time, around one of them."""

    anchor: dict[str, Any] | None
    items: list[dict[str, Any]]
    next: str | None = None


class StatsOf(msgspec.Struct):
    project: str = ""


class Stats(msgspec.Struct):
    """How much is remembered. What is called an estimate is one."""

    counts: dict[str, Any]
    sizes: dict[str, int]  #: bytes
    room: dict[str, int]  #: bytes by what they are for, where the engine can tell
    tables: dict[str, int]  #: bytes, where the engine can tell
    projects: list[dict[str, Any]]
    models: dict[str, Any]  #: what models took: the latest days by project, provider and model, and everything


class Overview:
    """The routes of timeline and stats."""

    def __init__(self, settings: Settings, store: Store, search: MemorySearch) -> None:
        self._settings, self._store, self._search = settings, store, search

    def table(self) -> list[Endpoint]:
        return [
            needs_read(
                "GET",
                "/api/timeline",
                self.timeline,
                "What lay around an observation (its id as `anchor`), or around the best match of `query`.",
                Timeline,
                query=TimelineOf,
                fails=(404,),
            ),
            needs_read(
                "GET", "/api/stats", self.stats, "How much is remembered, and how large it is.", Stats, query=StatsOf
            ),
        ]

    async def timeline(self, call: Call) -> Timeline:
        asked: TimelineOf = call.query
        if not asked.anchor and not asked.query.strip():
            raise BadInput(
                "Nothing is named to look around.", "Send the id of an observation as `anchor`, or a `query`."
            )

        best = await asyncio.to_thread(self._search.find, _best(asked)) if not asked.anchor else []

        def work(tx: Tx) -> tuple[TimelineAnchor | None, list[Row]]:
            anchor = self._anchor(tx, asked, best)
            return anchor, timeline.around(tx, anchor, asked.before, asked.after) if anchor else []

        anchor, items = await asyncio.to_thread(self._store.read, work)
        names = ("kind", "id", "session_id", "project", "created_at")
        return Timeline({name: getattr(anchor, name) for name in names} if anchor else None, items)

    def _anchor(self, tx: Tx, asked: TimelineOf, best: list[Row]) -> TimelineAnchor | None:
        if not asked.anchor:
            return find_anchor(tx, best[0]["kind"], best[0]["id"]) if best else None
        number = ids.number(asked.anchor.removeprefix("#"))
        if number is None:
            raise BadInput("The anchor is not an id.", "Ids are numbers, as search gives them.")
        anchor = find_anchor(tx, "observation", number)
        if anchor is None or asked.project not in ("", anchor.project, anchor.project_key):
            raise NotFound(f"There is no observation {number}.", "Search gives the ids that there are.")
        return anchor

    async def stats(self, call: Call) -> Stats:
        project: str = call.query.project
        budget = self._settings.context_tokens
        rows, projects, models = await asyncio.to_thread(
            self._store.read,
            lambda tx: (counts.rows(tx, project), stats.projects(tx, project, budget), stats.models(tx, project)),
        )
        sizes, tables = await asyncio.to_thread(self._sizes)
        return Stats(rows, sizes, stats.bytes_by_purpose(tables) if tables else {}, tables, projects, models)

    def _sizes(self) -> tuple[dict[str, int], dict[str, int]]:
        paths = self._settings.paths
        tables: dict[str, int] = {}
        with contextlib.suppress(StoreUnavailable):  # not every SQLite can tell
            tables = self._store.read(counts.table_sizes)
        log = sum(_size(file) for file in paths.data.glob(f"{paths.log.name}*"))
        spool = sum(_size(file) for file in paths.spool.rglob("*"))
        return {"database": self._store.size(), "spool": spool, "log": log}, tables


def _size(file: Path) -> int:
    with contextlib.suppress(OSError):
        return file.stat().st_size if file.is_file() else 0
    return 0


def _best(asked: TimelineOf) -> Query:
    return Query(asked.query, where=Filter(project=asked.project), limit=1)
