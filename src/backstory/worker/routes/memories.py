"""Routes that change memory: remember, edit, pin, supersede, forget."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import msgspec

from backstory import ids
from backstory.capture.intake import Intake
from backstory.capture.processes import processes
from backstory.capture.spool import Spool
from backstory.errors import BadInput, NotFound, StoreUnavailable
from backstory.jobs import Job
from backstory.model import OURSELVES, ContentId, Event, Observation, Reply, Report, Round, Session
from backstory.observe.own_transcripts import OwnTranscripts
from backstory.project import Project
from backstory.store import events, feed, forget, memories, observations, projects, sessions
from backstory.store.db import Row, Store, Tx
from backstory.store.forget_rows import Forgotten
from backstory.text import cut, one_line
from backstory.worker.endpoints import Call, Endpoint, needs_write
from backstory.worker.forgotten_files import ForgottenFiles
from backstory.worker.jobs.embedding import EmbeddingJob
from backstory.worker.live import Live

log = logging.getLogger(__name__)
#: Seconds until an erasure that a reader held up is tried again.
RETRY_S = 5.0
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


class _DryRun(Exception):
    """Rolls the transaction of a dry run back."""


class Memories:
    """The routes that change memory."""

    def __init__(
        self,
        store: Store,
        intake: Intake,
        spool: Spool,
        live: Live,
        embedding: EmbeddingJob,
        own_transcripts: OwnTranscripts,
        files: ForgottenFiles,
        key: bytes,
    ) -> None:
        self._store, self._intake, self._spool, self._live = store, intake, spool, live
        self._embedding, self._own_transcripts, self._files = embedding, own_transcripts, files
        self._key = key
        self._wiping = asyncio.Lock()
        self.job = Job("wipe", self._wipe_until_done)

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
        number = call.number("id")
        return await self._forget(lambda tx, gone: forget.observation(tx, number, gone))

    async def forget(self, call: Call) -> Gone:
        """Forget observations, a session, a project, or all rows with some words. This cannot be undone."""
        body: Forget = call.body
        if not (body.ids or body.sessions or body.project or body.matching.strip()):
            raise BadInput("There is nothing to forget.", "Send `ids`, `sessions`, a `project`, or `matching` words.")
        items: list[Row] = []

        def work(tx: Tx, gone: Forgotten) -> None:
            if body.matching.strip():
                items.extend(forget.find(tx, body.matching, body.project).items)
                forget.matching(tx, body.matching, body.project, gone)
            elif body.project:
                forget.project(tx, body.project, gone)
            for number in body.ids:
                forget.observation(tx, number, gone)
            for number in body.sessions:
                forget.session(tx, number, gone)

        if not body.dry_run:
            return await self._forget(work)
        gone = await self._dry_run(work)
        return _to_gone(gone, False, items or list(_listed(gone)))

    async def forget_project(self, name: str) -> int:
        """Forget all sessions of a project. Return how many there were."""
        try:
            return (await self._forget(lambda tx, gone: forget.project(tx, name, gone))).sessions
        except NotFound:
            return 0

    async def _dry_run(self, work: Callable[[Tx, Forgotten], None]) -> Forgotten:
        """Delete in a transaction that is rolled back."""
        gone = Forgotten(key=self._key)

        def roll_back(tx: Tx) -> None:
            work(tx, gone)
            forget.unkeep(tx, gone)
            raise _DryRun

        with contextlib.suppress(_DryRun):
            await self._intake.write(roll_back)
        return gone

    async def _forget(self, work: Callable[[Tx, Forgotten], None]) -> Gone:
        # Entries of the spool are stored first, so that they are forgotten with the rest.
        await self._spool.drain()
        gone = Forgotten(key=self._key)

        def delete(tx: Tx) -> None:
            work(tx, gone)
            forget.finish(tx, gone)
            forget.request_erasure(tx)

        await self._intake.write(delete)
        self._live.clear()
        counts = {name: getattr(gone, name) for name in ("sessions", "summaries", "prompts")}
        self._live.publish("gone", {"observations": sorted(gone.observations)} | counts)
        if any(counts.values()):
            self._live.publish("reset", {})  # their ids are not known any more
        await self._embedding.forget()
        await asyncio.to_thread(self._spool.forget, gone.names)
        # The conversations of the observer quote it, and are sent again with each round that continues them.
        await asyncio.to_thread(self._own_transcripts.remove)
        if not (wiped := await self._wipe(gone)):
            self.job.start()
        return _to_gone(gone, wiped)

    async def _wipe_until_done(self) -> None:
        """Finish an erasure that the previous worker left, or that a reader held up."""
        while not await self._wipe():
            await asyncio.sleep(RETRY_S)

    async def _wipe(self, gone: Forgotten | None = None) -> bool:
        """Remove deleted text from the files. Return False if somebody uses them."""
        async with self._wiping:
            try:
                erasure = await asyncio.to_thread(self._store.read, forget.open_erasure)
                if erasure is None:
                    return await asyncio.to_thread(self._files.clean_marked)
                await asyncio.to_thread(self._files.clean, gone or Forgotten())
                await asyncio.to_thread(self._store.scrub)
            except StoreUnavailable as error:
                log.warning("%s", error)
                return False
            await self._intake.write(lambda tx: forget.finish_erasures(tx, erasure))
            return await asyncio.to_thread(self._files.clean_marked)


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
        title=one_line(payload["title"]) or cut(one_line(text), 120),
        narrative=text,
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
