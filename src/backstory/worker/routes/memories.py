"""Routes that change memory: remember, edit, pin, supersede, forget."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import msgspec

from backstory import ids
from backstory.capture.intake import Intake
from backstory.capture.processes import processes
from backstory.errors import BadInput
from backstory.labels import without_commits
from backstory.model import OURSELVES, ContentId, Event, Observation, Reply, Report, Round, Session
from backstory.project import Project
from backstory.store import events, feed, forget, memories, observations, projects, sessions
from backstory.store.db import Row, Store, Tx
from backstory.store.forget_rows import Forgotten
from backstory.text import cut, one_line
from backstory.worker.endpoints import Call, Endpoint, needs_write
from backstory.worker.forgetting import Forgetting
from backstory.worker.jobs.embedding import EmbeddingJob
from backstory.worker.live import Live

Text = Annotated[str, msgspec.Meta(max_length=100_000)]
Short = Annotated[str, msgspec.Meta(max_length=500)]
Path = Annotated[str, msgspec.Meta(max_length=4096)]
Number = Annotated[int, msgspec.Meta(ge=1, le=2**62)]


class Memory(msgspec.Struct):
    """A text to remember."""

    text: Text
    title: Short = ""
    type: Literal["bugfix", "feature", "refactor", "change", "discovery", "decision"] = "decision"
    project: Path = ""
    cwd: Path = ""
    concepts: Annotated[list[Short], msgspec.Meta(max_length=20)] = []
    event_id: Short | None = None


class Forget(msgspec.Struct):
    """What to forget: observations by id, sessions, a project, or all rows with some words. `dry_run` only lists."""

    ids: Annotated[list[Number], msgspec.Meta(max_length=1000)] = []
    sessions: Annotated[list[Number], msgspec.Meta(max_length=1000)] = []
    project: Path = ""
    matching: Annotated[str, msgspec.Meta(max_length=500)] = ""
    dry_run: bool = False


class Gone(msgspec.Struct):
    """What was forgotten, or would be. `beside` lists observations of the same events that stay."""

    observations: list[int]
    summaries: int
    prompts: int
    events: int
    turns: int
    sessions: int
    transcripts: int
    passages: int  #: sentences of prompts, replies and summaries, of which the rest stays
    beside: list[int]
    wiped: bool  #: no file in the data directory contains it any more
    items: list[dict[str, Any]] = []


class Memories:
    """The routes that change memory."""

    def __init__(
        self, store: Store, intake: Intake, live: Live, embedding: EmbeddingJob, forgetting: Forgetting
    ) -> None:
        self._store, self._intake, self._live, self._embedding = store, intake, live, embedding
        self._forgetting = forgetting

    def table(self) -> list[Endpoint]:
        return [
            needs_write("POST", "/api/memories", self.remember, None, Memory),
            needs_write("POST", "/api/forget", self.forget, Gone, Forget, fails=(404,)),
            needs_write("DELETE", "/api/observations/{id:int}", self.forget_one, Gone, fails=(503,)),
        ]

    async def remember(self, call: Call) -> Row:
        """Store a text as an observation."""
        body: Memory = call.body
        text = body.text.strip()
        if not text:
            raise BadInput("Nothing is left of the text without its private parts.", "Send a text that is not private.")
        where = await self._project(body)
        made = partial(
            Report,
            agent=OURSELVES,
            kind="memory",
            content_id=ContentId(f"manual:{where.name}"),
            event_id=body.event_id or ids.new_event_id(),
            occurred_at=ids.now(),
            cwd=body.cwd,
            payload={"text": text, "title": body.title, "type": body.type, "concepts": body.concepts},
        )
        report = await processes.run(made, size=len(text))
        if await self._intake.unwanted(report, where):
            raise BadInput("This project is excluded.", "See the setting `exclude_projects`.")
        row = await self._intake.write(lambda tx: _remember(tx, report, where))
        self._live.publish("new_observation", row | feed.entry_of("observation", row))
        self._embedding.wake()
        return row

    async def _project(self, body: Memory) -> Project:
        """Find the project by its name or key, or else by the directory."""
        if not body.project:
            return await self._intake.project(body.cwd)
        known = await asyncio.to_thread(self._store.read, lambda tx: projects.find(tx, body.project))
        return Project(known.name, known.key) if known else Project(body.project, body.project)

    async def forget_one(self, call: Call) -> Gone:
        """Forget an observation."""
        order = await self._forgetting.order([call.number("id")])
        return _to_gone(*await self._forgetting.forget(order))

    async def forget(self, call: Call) -> Gone:
        """Forget observations, a session, a project, or all rows with some words. This cannot be undone."""
        body: Forget = call.body
        matching = body.matching.strip()
        if not (body.ids or body.sessions or body.project or matching):
            raise BadInput("There is nothing to forget.", "Send `ids`, `sessions`, a `project`, or `matching` words.")
        order = await self._forgetting.order(body.ids, body.sessions, body.project, matching)
        if not body.dry_run:
            return _to_gone(*await self._forgetting.forget(order))
        find = partial(forget.find, words=matching, project_name=body.project)
        items = (await asyncio.to_thread(self._store.read, find)).items if matching else []
        gone = await self._forgetting.preview(order)
        return _to_gone(gone, False, items or list(_listed(gone)))


def _to_gone(gone: Forgotten, wiped: bool, items: list[Row] | None = None) -> Gone:
    return Gone(
        observations=sorted(gone.observations),
        summaries=gone.summaries,
        prompts=gone.prompts,
        events=gone.events,
        turns=gone.turns,
        sessions=gone.sessions,
        transcripts=gone.transcripts,
        passages=len(gone.passages),
        beside=sorted(gone.beside),
        wiped=wiped,
        items=items or [],
    )


def _listed(gone: Forgotten) -> Iterator[Row]:
    """Return what would be forgotten: the observations, then the sentences."""
    for row in gone.rows:
        names = ("id", "session_id", "project", "type", "mark", "title", "created_at")
        yield {"kind": "observation"} | {name: row[name] for name in names}
    for number, one in enumerate(gone.passages):
        about = {"session_id": one.session_id, "prompt_number": one.prompt_number}
        yield {"kind": one.kind, "id": number, "title": one.text} | about


def _remember(tx: Tx, report: Report, where: Project) -> Row:
    """Store an observation, and the event that it comes from."""
    known = sessions.by_content_id(tx, report.agent, report.content_id)
    if known and known.project_key not in ("", where.key):
        # Another project already uses the session of this name.
        report = replace(report, content_id=ContentId(f"manual:{where.key}"))
    session = sessions.get_or_create(tx, report, where)
    added = events.add(tx, session, report)
    if added.skipped == "duplicate":
        known_id = observations.of_event(tx, added.id)
        if known_id is None:
            raise BadInput("The memory with this `event_id` was forgotten.", "Send it with another `event_id`.")
        return memories.shown_observation(tx, known_id)
    sessions.move(tx, session, "end", at=report.occurred_at)  # nobody is at work in it
    number = _store(tx, session, report, added).observation_ids[0]
    return memories.shown_observation(tx, number)


def _store(tx: Tx, session: Session, report: Report, added: events.Added) -> observations.StoredRows:
    payload = report.payload
    text: str = payload["text"]
    observation = Observation(
        type=payload["type"],
        title=without_commits(one_line(payload["title"]) or cut(one_line(text), 120)),
        narrative=without_commits(text),
        concepts=tuple(dict.fromkeys(one_line(c) for c in payload["concepts"] if one_line(c))),
        event_ids=(added.id,),
    )
    source = Event(added.id, session.id, added.prompt_number, "memory", report.occurred_at, None, None, dict(payload))
    round = Round(
        session_id=session.id,
        content_id=report.content_id,
        memory_id=session.memory_session_id,
        agent=report.agent,
        project=session.project,
        cwd=session.cwd,
        prompt_number=added.prompt_number,
        prompt="",
        events=(source,),
    )
    return observations.store(tx, round, observations.Stored(Reply((observation,)), "manual"))
