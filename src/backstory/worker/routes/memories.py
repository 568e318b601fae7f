"""What people and agents do to memory by hand: remember, edit, pin, supersede, forget."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from backstory import ids
from backstory.capture.intake import Intake
from backstory.capture.spool import Spool
from backstory.errors import BadInput, StoreUnavailable
from backstory.jobs import Job
from backstory.model import OURSELVES, ContentId, Event, Observation, Reply, Report, Round, Session
from backstory.observe.own_transcripts import OwnTranscripts
from backstory.project import Project
from backstory.store import events, forget, memories, observations, projects, sessions
from backstory.store.db import Row, Store, Tx
from backstory.store.forget import Forgotten
from backstory.text import cut, one_line
from backstory.worker.endpoints import Call, Endpoint, needs_write
from backstory.worker.jobs.embedding import EmbeddingJob
from backstory.worker.live import Live

log = logging.getLogger(__name__)
#: Until it is tried again to wipe what somebody still read.
AGAIN_S = 5.0
Text = Annotated[str, msgspec.Meta(max_length=100_000)]
Short = Annotated[str, msgspec.Meta(max_length=500)]
Path = Annotated[str, msgspec.Meta(max_length=4096)]
Number = Annotated[int, msgspec.Meta(ge=1, le=2**62)]


class Memory(msgspec.Struct):
    """Something to remember, in words."""

    text: Text
    title: Short = ""
    type: Literal["bugfix", "feature", "refactor", "change", "discovery", "decision"] = "decision"
    project: Path = ""
    cwd: Path = ""
    concepts: Annotated[list[Short], msgspec.Meta(max_length=20)] = []
    event_id: Short | None = None


class Edit(msgspec.Struct):
    """What an observation is to say instead, whether it is pinned, and which later one holds in its place (`null`:
    none); what is left out stays as it is."""

    type: Literal["bugfix", "feature", "refactor", "change", "discovery", "decision"] | UnsetType = UNSET
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=500)] | UnsetType = UNSET
    subtitle: Short | UnsetType = UNSET
    narrative: Text | UnsetType = UNSET
    facts: Annotated[list[Text], msgspec.Meta(max_length=50)] | UnsetType = UNSET
    concepts: Annotated[list[Short], msgspec.Meta(max_length=20)] | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    superseded_by: Number | UnsetType | None = UNSET


class Forget(msgspec.Struct):
    """What to forget: observations by id, a session, a project, or all that has some words. `dry_run` only looks."""

    ids: Annotated[list[Number], msgspec.Meta(max_length=1000)] = []
    session: Number | None = None
    project: Path = ""
    matching: Annotated[str, msgspec.Meta(max_length=500)] = ""
    dry_run: bool = False


class Gone(msgspec.Struct):
    """What went, or would go; `beside` are observations from the same events that stay."""

    observations: list[int]
    summaries: int
    prompts: int
    events: int
    turns: int
    sessions: int
    beside: list[int]
    wiped: bool  #: no file of ours holds it any more
    items: list[dict[str, Any]] = []


class _OnlyLooked(Exception):
    """A dry run ends here, and its transaction with it."""


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
        key: bytes,
    ) -> None:
        self._store, self._intake, self._spool, self._live = store, intake, spool, live
        self._embedding, self._own_transcripts = embedding, own_transcripts
        self._key = key
        self._wiping = asyncio.Lock()
        self.job = Job("wipe", self._finish)

    def table(self) -> list[Endpoint]:
        return [
            needs_write("POST", "/api/memories", self.remember, "Something is remembered as it is told.", None, Memory),
            needs_write(
                "POST", "/api/forget", self.forget, "What is named is forgotten, for good.", Gone, Forget, fails=(404,)
            ),
            needs_write(
                "PATCH",
                "/api/observations/{id:int}",
                self.edit,
                "An observation says something else, is pinned, or is replaced by a later one.",
                None,
                Edit,
            ),
            needs_write(
                "DELETE",
                "/api/observations/{id:int}",
                self.forget_one,
                "An observation is forgotten.",
                Gone,
                fails=(503,),
            ),
        ]

    async def edit(self, call: Call) -> Row:
        number = call.number("id")
        given = {name: getattr(call.body, name) for name in Edit.__struct_fields__}
        changes = {name: value for name, value in given.items() if value is not UNSET}
        pinned, by = changes.pop("pinned", UNSET), changes.pop("superseded_by", UNSET)

        def work(tx: Tx) -> Row:
            before = observations.get(tx, number)
            after = observations.edit(tx, number, changes) if changes else before
            if forget.digest_of(after) != forget.digest_of(before):
                forget.keep_out_version(tx, before)
            if by is not UNSET:
                observations.supersede(tx, number, by)
            if pinned is not UNSET:
                observations.pin(tx, number, pinned)
            return memories.shown_observation(tx, number)

        row = await self._intake.write(work)
        self._embedding.wake()
        return row

    async def _finish(self) -> None:
        """Go on with what could not be finished: by a worker before this one, or because somebody was reading."""
        while not await self._wipe():
            await asyncio.sleep(AGAIN_S)

    async def remember(self, call: Call) -> Row:
        asked: Memory = call.body
        text = asked.text.strip()
        if not text:
            raise BadInput("Nothing is left to remember once what is private is taken out.", "Send a text.")
        where = await self._where(asked)
        report = Report(
            agent=OURSELVES,
            kind="memory",
            content_id=ContentId(f"manual:{where.name}"),
            event_id=asked.event_id or ids.new_event_id(),
            occurred_at=ids.now(),
            cwd=asked.cwd,
            payload={"text": text, "title": asked.title, "type": asked.type, "concepts": asked.concepts},
        )
        if await self._intake.unwanted(report, where):
            raise BadInput("This project is excluded.", "See the setting `exclude_projects`.")
        row = await self._intake.write(lambda tx: _remember(tx, report, where))
        self._live.tell("new_observation", row)
        self._embedding.wake()
        return row

    async def _where(self, asked: Memory) -> Project:
        """The project by its name or key, else the directory's."""
        if not asked.project:
            return await self._intake.project(asked.cwd)
        known = await asyncio.to_thread(self._store.read, lambda tx: projects.find(tx, asked.project))
        return Project(known.name, known.key) if known else Project(asked.project, asked.project)

    async def forget_one(self, call: Call) -> Gone:
        number = call.number("id")
        return await self._forget(lambda tx, gone: forget.observation(tx, number, gone))

    async def forget(self, call: Call) -> Gone:
        asked: Forget = call.body
        if not (asked.ids or asked.session or asked.project or asked.matching.strip()):
            raise BadInput("Nothing is named to forget.", "Name `ids`, a `session`, a `project`, or `matching` words.")
        items: list[Row] = []

        def work(tx: Tx, gone: Forgotten) -> None:
            if asked.matching.strip():
                items.extend(forget.find(tx, asked.matching, asked.project).items)
                forget.matching(tx, asked.matching, asked.project, gone)
            elif asked.project:
                forget.project(tx, asked.project, gone)
            for number in asked.ids:
                forget.observation(tx, number, gone)
            if asked.session:
                forget.session(tx, asked.session, gone)

        if not asked.dry_run:
            return await self._forget(work)
        return _told(await self._look(work), False, items)

    async def _look(self, work: Callable[[Tx, Forgotten], None]) -> Forgotten:
        """What would go: it is done, and undone with its transaction."""
        gone = Forgotten(key=self._key)

        def only_look(tx: Tx) -> None:
            work(tx, gone)
            raise _OnlyLooked

        with contextlib.suppress(_OnlyLooked):
            await self._intake.write(only_look)
        return gone

    async def _forget(self, work: Callable[[Tx, Forgotten], None]) -> Gone:
        # What waits in the spool comes in first, so that it is forgotten with the rest.
        await self._spool.drain()
        gone = Forgotten(key=self._key)

        def whole(tx: Tx) -> None:
            work(tx, gone)
            forget.finish(tx, gone)
            sessions.force_init(tx)
            forget.request_erasure(tx)

        await self._intake.write(whole)
        self._live.forget()
        await self._embedding.forget()
        await asyncio.to_thread(self._spool.forget, gone.names)
        # The observer was told of it, and would be told again with each round that goes on.
        await asyncio.to_thread(self._own_transcripts.remove)
        if not (wiped := await self._wipe()):
            self.job.start()
        return _told(gone, wiped)

    async def _wipe(self) -> bool:
        """Take what was deleted out of the files, too; False if somebody stood in the way."""
        async with self._wiping:
            try:
                erasure = await asyncio.to_thread(self._store.read, forget.open_erasure)
                if erasure is None:
                    return True
                await asyncio.to_thread(self._store.scrub)
            except StoreUnavailable as error:
                log.warning("%s", error)
                return False
            await self._intake.write(lambda tx: forget.finish_erasures(tx, erasure))
            return True


def _told(gone: Forgotten, wiped: bool, items: list[Row] | None = None) -> Gone:
    return Gone(
        observations=sorted(gone.observations),
        summaries=gone.summaries,
        prompts=gone.prompts,
        events=gone.events,
        turns=gone.turns,
        sessions=gone.sessions,
        beside=sorted(gone.beside),
        wiped=wiped,
        items=items or [],
    )


def _remember(tx: Tx, report: Report, where: Project) -> Row:
    """An event as its source, and the observation, in one transaction."""
    known = sessions.by_content_id(tx, report.agent, report.content_id)
    if known and known.project_key not in ("", where.key):
        # Another project of this name was here first.
        report = replace(report, content_id=ContentId(f"manual:{where.key}"))
    session = sessions.get_or_create(tx, report, where)
    added = events.add(tx, session, report)
    if added.skipped == "duplicate":
        known_id = observations.of_event(tx, added.id)
        if known_id is None:
            raise BadInput("This was remembered once, and forgotten since.", "Send it under another `event_id`.")
        return memories.shown_observation(tx, known_id)
    sessions.move(tx, session, "work", at=report.occurred_at)
    number = _store(tx, session, report, added).observation_ids[0]
    return memories.shown_observation(tx, number)


def _store(tx: Tx, session: Session, report: Report, added: events.Added) -> observations.StoredRows:
    said = report.payload
    text: str = said["text"]
    concepts = tuple(dict.fromkeys(one_line(c) for c in said["concepts"] if one_line(c)))
    seen = Observation(
        type=said["type"],
        title=one_line(said["title"]) or cut(one_line(text), 120),
        narrative=text,
        concepts=concepts,
        event_ids=(added.id,),
    )
    source = Event(added.id, session.id, added.prompt_number, "memory", report.occurred_at, None, None, dict(said))
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
    return observations.store(tx, round, observations.Stored(Reply((seen,)), "manual"))
