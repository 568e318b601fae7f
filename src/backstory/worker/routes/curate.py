"""Routes that correct memory: edit, pin, supersede, merge and hide."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from backstory.capture.intake import Intake
from backstory.errors import BadInput
from backstory.store import hidden, memories, merge, observations, sessions
from backstory.store.db import Row, Store, Tx
from backstory.worker.endpoints import Call, Endpoint, needs_read, needs_write
from backstory.worker.jobs.embedding import EmbeddingJob
from backstory.worker.live import Live
from backstory.worker.routes.memories import Number, Path, Short, Text

Title = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class Edit(msgspec.Struct):
    """Changes to an observation. Fields that are left out stay as they are. `superseded_by` names the observation that
    replaces it; `null` restores it."""

    type: Literal["bugfix", "feature", "refactor", "change", "discovery", "decision"] | UnsetType = UNSET
    title: Title | UnsetType = UNSET
    subtitle: Short | UnsetType = UNSET
    narrative: Text | UnsetType = UNSET
    facts: Annotated[list[Text], msgspec.Meta(max_length=50)] | UnsetType = UNSET
    concepts: Annotated[list[Short], msgspec.Meta(max_length=20)] | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    superseded_by: Number | UnsetType | None = UNSET


class Merge(msgspec.Struct):
    """Observations of one project. The first stands, with this title if one is given."""

    ids: Annotated[list[Number], msgspec.Meta(min_length=2, max_length=50)]
    title: Annotated[str, msgspec.Meta(max_length=500)] = ""


class Hide(msgspec.Struct):
    """Observations and sessions to hide from context and search, or to show again."""

    ids: Annotated[list[Number], msgspec.Meta(max_length=1000)] = []
    sessions: Annotated[list[Number], msgspec.Meta(max_length=1000)] = []
    undo: bool = False


class HiddenQuery(msgspec.Struct):
    project: Path = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50


class Hidden(msgspec.Struct):
    """Observations and sessions that are hidden, or that were hidden or shown by a request."""

    observations: list[dict[str, Any]]
    sessions: list[dict[str, Any]]


class Curation:
    """The routes that correct memory."""

    def __init__(self, store: Store, intake: Intake, live: Live, embedding: EmbeddingJob) -> None:
        self._store, self._intake, self._live, self._embedding = store, intake, live, embedding

    def table(self) -> list[Endpoint]:
        return [
            needs_write("POST", "/api/hide", self.hide, Hidden, Hide, fails=(404,)),
            needs_read("GET", "/api/hidden", self.hidden, Hidden, query=HiddenQuery),
            needs_write("PATCH", "/api/observations/{id:int}", self.edit, None, Edit),
            needs_write("POST", "/api/observations/merge", self.merge, None, Merge, fails=(404,)),
        ]

    async def edit(self, call: Call) -> Row:
        """Edit, pin or supersede an observation."""
        number = call.number("id")
        changes = {name: value for name, value in msgspec.structs.asdict(call.body).items() if value is not UNSET}
        pinned, by = changes.pop("pinned", UNSET), changes.pop("superseded_by", UNSET)

        def work(tx: Tx) -> Row:
            before = observations.get(tx, number)
            if changes:
                merge.change(tx, before, changes)
            if by is not UNSET:
                observations.supersede(tx, number, by)
            if pinned is not UNSET:
                observations.pin(tx, number, pinned)
            return memories.shown_observation(tx, number)

        row = await self._intake.write(work)
        self._embedding.wake()
        self._announce([row])
        return row

    async def merge(self, call: Call) -> Row:
        """Merge observations: the first stands with the facts of all, the others are replaced by it."""
        body: Merge = call.body

        def work(tx: Tx) -> tuple[Row, list[Row]]:
            number = merge.merge(tx, body.ids, body.title.strip())
            return memories.shown_observation(tx, number), [
                observations.get(tx, one) for one in dict.fromkeys(body.ids)
            ]

        row, changed = await self._intake.write(work)
        self._embedding.wake()
        self._announce(changed)
        return row

    async def hide(self, call: Call) -> Hidden:
        """Hide observations and sessions from context and search, or show them again."""
        body: Hide = call.body
        if not (body.ids or body.sessions):
            raise BadInput("There is nothing to hide.", "Send `ids` of observations or `sessions`.")
        observation = hidden.show_observation if body.undo else hidden.hide_observation
        session = hidden.show_session if body.undo else hidden.hide_session

        def work(tx: Tx) -> Hidden:
            rows = {row["id"]: row for number in body.ids for row in observation(tx, number)}
            held = [session(tx, number) for number in body.sessions]
            shown = [memories.shown_observation(tx, number) for number in rows]
            return Hidden(shown, [sessions.shown(sessions.get(tx, one.id)) for one in held])

        result = await self._intake.write(work)
        self._embedding.wake()
        self._announce(result.observations)
        self._announce(result.sessions, "session")
        return result

    async def hidden(self, call: Call) -> Hidden:
        """List what is hidden, the last hidden first."""
        query: HiddenQuery = call.query
        listed = await asyncio.to_thread(self._store.read, lambda tx: hidden.listed(tx, query.project, query.limit))
        return Hidden(listed[0], [sessions.shown(one) for one in listed[1]])

    def _announce(self, rows: Iterable[Row], kind: str = "observation") -> None:
        """Tell the live stream which rows have to be loaded anew."""
        for row in rows:
            self._live.publish("changed", {"kind": kind, "id": row["id"], "project_key": row["project_key"]})
