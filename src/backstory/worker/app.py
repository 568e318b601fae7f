"""Builds the worker: settings in, every part made once and handed on, an application out."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator
from itertools import chain
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from backstory.agents import AGENTS
from backstory.capture.backfill import Backfill
from backstory.capture.intake import Intake
from backstory.capture.reconcile import Reconcile
from backstory.capture.spool import Spool
from backstory.errors import BackstoryError, NotFound, StoreUnavailable
from backstory.jobs import Job, place_of
from backstory.model import Round
from backstory.observe.model_observer import ModelObserver, ProviderState
from backstory.observe.observer import Observer, Pace, Provider
from backstory.observe.own_transcripts import OwnTranscripts
from backstory.recall import embed
from backstory.recall.search import MemorySearch
from backstory.recall.vectors import Vectors
from backstory.settings import Settings, environment
from backstory.store import events, forgotten, memories, observations, open_store
from backstory.store.db import Tx
from backstory.store.observations import StoredRows
from backstory.worker import endpoints, guard
from backstory.worker.context_replies import ContextReplies
from backstory.worker.endpoints import Endpoint
from backstory.worker.jobs.embedding import EmbeddingJob
from backstory.worker.jobs.maintenance import Maintenance
from backstory.worker.jobs.reindex import Reindex
from backstory.worker.live import Live
from backstory.worker.mcp.server import Mcp
from backstory.worker.routes.admin import Admin, document
from backstory.worker.routes.exchange import Exchange
from backstory.worker.routes.hooks import Reporting
from backstory.worker.routes.imports import Imports
from backstory.worker.routes.memories import Memories
from backstory.worker.routes.overview import Overview
from backstory.worker.routes.recall import Recall
from backstory.worker.routes.reobserve import Reobserve
from backstory.worker.routes.turns import TurnImports
from backstory.worker.viewer.browsers import Browsers

log = logging.getLogger(__name__)
#: A round that a model is asked about is waited for this long, so that it is one question.
PATIENCE_MS = 30 * 60_000


class App:
    """Everything that lives as long as the worker."""

    def __init__(self, settings: Settings, provider: Provider | None = None) -> None:
        guard.check_binding(settings)
        settings.paths.prepare()
        self.settings = settings
        self.store = open_store(settings)
        self.token = guard.make_token(settings.paths.token)
        self.live = Live()
        self._announcing: set[asyncio.Task[None]] = set()
        self._build(settings, provider)
        self.jobs = self._jobs()
        self.table = self._table()
        self.asgi: ASGIApp = guard.Guard(self._starlette(), settings, self.token, self.browsers)

    def _build(self, settings: Settings, provider: Provider | None) -> None:
        """Make the parts."""
        store, env = self.store, environment()
        roots = {name: agent.transcripts.roots(Path.home(), env) for name, agent in AGENTS.items()}
        # Of each data directory its own, and the same after a restart. It tells nothing of the token.
        worker = hashlib.sha256(self.token.encode()).hexdigest()[:16] + "."
        store.write(lambda tx: events.recover(tx, worker))
        self.vectors = Vectors(store, embed.name_of(settings.embedder, settings.embed_model, settings.embed_url))
        self.embedding = EmbeddingJob(store, self.vectors)
        self.own_transcripts = OwnTranscripts(tuple(chain(*roots.values())), settings.paths.observing)
        self.model = ModelObserver(settings, store, self.own_transcripts)
        self.observer = Observer(
            store,
            provider or self.model,
            settings.provider,
            worker=worker,
            parallel=settings.tuning.observers,
            pace=self._pace,
            retry_s=settings.tuning.retry_seconds,
            listener=self._observed,
        )
        self.forgotten_key = forgotten.key(settings.paths)
        self.intake = Intake(settings, store, self.live.tell, self.wake, roots)
        self.backfill = Backfill(settings, self.intake, self.forgotten_key)
        spool_looked = asyncio.Event()
        self.reconcile = Reconcile(settings, store, self.backfill, roots, self.wake, spool_looked)
        # By words alone: an agent waits, and what is clearly about the same shares its words.
        replies = ContextReplies(settings, store, self.intake, MemorySearch(store), self.model.state)
        self.reporting = Reporting(settings, store, self.intake, self.live, replies, self.reconcile)
        self.spool = Spool(settings.paths, self.reporting.deliver, spool_looked)
        self.maintenance = Maintenance(settings, store)
        self.reindex = Reindex(store)
        self.memories = Memories(
            store, self.intake, self.spool, self.live, self.embedding, self.own_transcripts, self.forgotten_key
        )
        self.intake.wipe = self.memories.job.start
        self.browsers = Browsers()

    def _jobs(self) -> list[Job]:
        """What runs in the background, in the order of their start."""
        return [
            self.observer.job,
            self.spool.job,
            self.reconcile.job,
            self.maintenance.job,
            self.memories.job,
            self.reindex.job,
            self.embedding.job,
        ]

    def _table(self) -> list[Endpoint]:
        """What is answered."""
        settings, store, search = self.settings, self.store, MemorySearch(self.store, self.vectors)
        table = [
            *Admin(settings, store, self.live, self.browsers, self.wake, self._state).table(),
            *self.reporting.table(),
            *Recall(settings, store, search).table(),
            *Imports(store, self.backfill).table(),
            *TurnImports(self.intake, self.embedding.wake, self.forgotten_key).table(),
            *self.embedding.table(),
            *self.memories.table(),
            *Overview(settings, store, search).table(),
            *Exchange(store, self.wake, self.forgotten_key).table(),
            *self.reindex.table(),
            *Reobserve(store, self.model, self.wake).table(),
        ]
        self.mcp = Mcp(table)
        table += self.mcp.table()
        table.append(document(table))
        return table

    async def _state(self) -> tuple[ProviderState, list[str]]:
        """How it goes with the provider, and what failed lately of all that runs in the background."""
        return await self.model.state(), [trouble for job in self.jobs if (trouble := job.trouble)]

    def _starlette(self) -> Starlette:
        return Starlette(
            routes=endpoints.routes(self.table),
            lifespan=self._lifespan,
            exception_handlers={HTTPException: _plain_failure},
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(_log_failure)
        await asyncio.to_thread(self.own_transcripts.remove)  # none of before is gone on with
        for job in self.jobs:
            job.start()
        try:
            yield
        finally:
            await self.mcp.stop()
            for job in reversed(self.jobs):
                await job.stop()
            await asyncio.to_thread(self.own_transcripts.remove)
            await self.model.close()
            await asyncio.gather(*self._announcing, return_exceptions=True)
            self.store.close()

    def _pace(self) -> Pace:
        chosen = self.model.settings
        long_ms = events.LONG_MS if chosen.provider == "offline" else PATIENCE_MS
        return Pace(chosen.round_seconds, long_ms, chosen.provider)

    def wake(self, due_ms: int = 0) -> None:
        """Something was stored: to be observed then, and to be found by its meaning soon."""
        self.observer.wake(due_ms)
        self.embedding.wake()

    def _observed(self, round: Round, told: StoredRows) -> None:
        """A round became memory: tell those who watch."""
        self.embedding.wake()

        def rows(tx: Tx) -> list[tuple[str, dict[str, Any]]]:
            news = [
                ("new_observation", observations.decode(row))
                for number in told.observation_ids
                if (row := observations.by_id(tx, number))
            ]
            if told.summary_id and (row := memories.shown_summary(tx, told.summary_id)):
                news.append(("new_summary", row))
            return news

        async def announce() -> None:
            # In a thread: a database may be far away, and hooks wait for this loop.
            with contextlib.suppress(StoreUnavailable):
                for name, data in await asyncio.to_thread(self.store.read, rows):
                    self.live.tell(name, data)

        task = asyncio.create_task(announce())
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)


def _log_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what nobody caught by its type and place: asyncio's own handler logs its text, which may quote a payload."""
    error = context.get("exception")
    log.error("%s: %s", context.get("message"), place_of(error) if error else "no exception")


async def _plain_failure(request: Request, error: Exception) -> Response:
    """The framework's own refusals, in our form."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    problem: BackstoryError = NotFound("There is no such route.", "See /openapi.json for the routes that there are.")
    if status == 405:
        problem = BackstoryError("This route does not take that method.", "See /openapi.json for what it takes.")
    problem.status = status
    return endpoints.failure(problem)
