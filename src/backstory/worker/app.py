"""Builds the worker from its settings: the parts, the background jobs, the routes and the ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from backstory.agents import AGENTS, DEFAULT_AGENT
from backstory.capture.backfill import Backfill
from backstory.capture.intake import Intake
from backstory.capture.kept import KeptTranscripts
from backstory.capture.processes import processes
from backstory.capture.reconcile import Reconcile
from backstory.capture.spool import Spool
from backstory.errors import BackstoryError, NotFound, StoreUnavailable
from backstory.groups.archive import Archives
from backstory.groups.forgotten_archives import ForgottenArchives
from backstory.groups.pointers import Pointers
from backstory.groups.runs import GroupRuns, Surroundings
from backstory.jobs import Job, place_of
from backstory.model import Round
from backstory.observe.model_observer import ModelObserver, ProviderState
from backstory.observe.observer import Observer, Pace, Provider
from backstory.observe.own_transcripts import OwnTranscripts
from backstory.recall import embed
from backstory.recall.search import MemorySearch
from backstory.recall.vectors import Vectors
from backstory.settings import Settings, environment
from backstory.store import events, feed, forgotten, memories, observations, open_store, sessions
from backstory.store.confined import ConfinedStore
from backstory.store.db import Tx
from backstory.store.observations import StoredRows
from backstory.worker import endpoints, guard
from backstory.worker.context_replies import ContextReplies
from backstory.worker.endpoints import Endpoint
from backstory.worker.forgetting import Forgetting
from backstory.worker.forgotten_files import ForgottenFiles
from backstory.worker.group_memory import GroupMemory
from backstory.worker.jobs.embedding import EmbeddingJob
from backstory.worker.jobs.maintenance import Maintenance
from backstory.worker.jobs.queue_counts import QueueCounts
from backstory.worker.jobs.reindex import Reindex
from backstory.worker.jobs.sweep import Sweep
from backstory.worker.live import Live
from backstory.worker.mcp.server import Mcp
from backstory.worker.routes.admin import Admin, document
from backstory.worker.routes.agent_sessions import AgentSessions
from backstory.worker.routes.conversations import Conversations
from backstory.worker.routes.curate import Curation
from backstory.worker.routes.entries import EntryRoutes
from backstory.worker.routes.exchange import Exchange
from backstory.worker.routes.feed import FeedRoutes
from backstory.worker.routes.group_runs import GroupRunRoutes
from backstory.worker.routes.groups import GroupParts, GroupRoutes
from backstory.worker.routes.hooks import Reporting
from backstory.worker.routes.imports import Imports
from backstory.worker.routes.memories import Memories
from backstory.worker.routes.overview import Overview
from backstory.worker.routes.recall import Recall
from backstory.worker.routes.reobserve import Reobserve
from backstory.worker.routes.search import SearchRoute
from backstory.worker.routes.sessions import SessionRoutes
from backstory.worker.routes.settings import SettingRoutes
from backstory.worker.routes.stats import StatRoutes
from backstory.worker.routes.transcripts import KeptTranscriptRoutes
from backstory.worker.routes.turns import TurnImports
from backstory.worker.routes.viewer import ViewerRoutes
from backstory.worker.viewer.browsers import Browsers

log = logging.getLogger(__name__)
#: Milliseconds to wait for the end of a round that a model observes, so that it is asked once.
MODEL_ROUND_MS = 30 * 60_000


class App:
    """The parts of the worker. They live as long as it does."""

    def __init__(self, settings: Settings, provider: Provider | None = None) -> None:
        guard.check_binding(settings)
        settings.paths.prepare()
        self.settings = settings
        self.store = open_store(settings)
        self.token = guard.make_token(settings.paths.token)
        newest = self.store.read(feed.newest)
        self.live = Live(newest, lambda since, limit: self.store.read(lambda tx: feed.stored_since(tx, since, limit)))
        self._announcing: set[asyncio.Task[None]] = set()
        self._build(settings, provider)
        self.jobs = self._jobs()
        self.table = self._table()
        routes, handlers = endpoints.routes(self.table), {HTTPException: _http_error}
        starlette = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)
        self.asgi: ASGIApp = guard.Guard(starlette, settings, self.token, self.browsers)

    def _build(self, settings: Settings, provider: Provider | None) -> None:
        """Create the parts."""
        store, env = self.store, environment()
        roots = {name: agent.transcripts.roots(Path.home(), env) for name, agent in AGENTS.items()}
        # Each data directory has its own name, which a restart does not change. It does not reveal the token.
        worker = hashlib.sha256(self.token.encode()).hexdigest()[:16] + "."
        store.write(lambda tx: events.recover(tx, worker))
        self.vectors = Vectors(store, embed.name_of(settings.embedder, settings.embed_model, settings.embed_url))
        self.embedding = EmbeddingJob(store, self.vectors)
        self.own_transcripts = OwnTranscripts(tuple(chain(*roots.values())), settings.paths.observing)
        roots[DEFAULT_AGENT] = (*roots[DEFAULT_AGENT], settings.paths.data / "sessions")  # those of groups
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
        self.intake = Intake(settings, store, self.live.publish, self.wake, roots, self.forgotten_key)
        self.backfill = Backfill(self.intake, self.forgotten_key)
        spool_looked, caught_up = asyncio.Event(), asyncio.Event()
        self.kept = KeptTranscripts(store, self.intake, roots, self.forgotten_key, spool_looked)
        after = (spool_looked, self.kept, caught_up)
        self.reconcile = Reconcile(settings, store, self.backfill, roots, self.wake, *after)
        self.observer.after = caught_up
        # Hooks are answered by words alone, without vectors, because an agent waits.
        replies = ContextReplies(settings, store, self.intake, self.model)
        self.reporting = Reporting(store, self.intake, self.live, replies, self.reconcile)
        self.spool = Spool(settings.paths, self.reporting.deliver, spool_looked)
        self.reporting.wait_turn = self.spool.wait_turn
        self.queue_counts = QueueCounts(store, self.live)
        self.maintenance = Maintenance(settings, store)
        self.reindex = Reindex(store)
        self.archives = Archives(store, settings.paths.data, settings.assistant_name, self.forgotten_key)
        self.pointers = Pointers(store, settings.paths.data, self.archives)
        self.sweep = Sweep(settings, store, self.archives, self.live.publish)
        archives = ForgottenArchives(store, settings.paths.data, self.archives, self.pointers.forget)
        files = ForgottenFiles(settings.paths, store, self.forgotten_key, archives, self.sweep.session_archives)
        beside = (self.live, self.embedding, self.own_transcripts, files)
        self.forgetting = Forgetting(store, self.intake, self.spool, *beside, self.forgotten_key)
        self.intake.wipe = self.forgetting.job.start
        self.group_memory = GroupMemory(settings, store, self.vectors, self.pointers)
        memory = self.group_memory
        # An agent is not told of the prompt that it answers.
        told = (partial(memory.search, is_ended=True), memory.context, memory.names, memory.said)
        around = Surroundings(self.pointers, self.archives, *told)
        self.group_runs = GroupRuns(settings, around)
        self.browsers = Browsers(settings.paths.browsers, self.token)

    def _jobs(self) -> list[Job]:
        """Return the background jobs in the order of their start."""
        return [
            self.observer.job,
            self.spool.job,
            self.reconcile.job,
            self.kept.job,
            self.maintenance.job,
            self.sweep.job,
            self.forgetting.job,
            self.reindex.job,
            self.embedding.job,
            self.queue_counts.job,
        ]

    def _table(self) -> list[Endpoint]:
        """Return the route table."""
        settings, store = self.settings, self.store
        confined = ConfinedStore(store)
        search = MemorySearch(confined, self.vectors)
        parts = GroupParts(
            self.pointers, self.archives, self.group_memory, self.group_runs, self.forgetting.forget_project
        )
        table = [
            *Admin(settings, store, self.live, self.wake, self._state).table(),
            *ViewerRoutes(self.browsers).table(),
            *SettingRoutes(settings, store, self.model).table(),
            *self.reporting.table(),
            *SessionRoutes(confined, self.intake, search, self.live.publish).table(),
            *endpoints.confinable(Recall(settings, confined).table()),
            *endpoints.confinable(FeedRoutes(settings, confined).table()),
            *endpoints.confinable(EntryRoutes(confined).table()),
            *endpoints.confinable(Conversations(confined).table()),
            *endpoints.confinable(SearchRoute(settings, confined, search).table()),
            *Imports(store, self.backfill).table(),
            *TurnImports(self.intake, self.embedding.wake, self.forgotten_key).table(),
            *AgentSessions(store, self.intake).table(),
            *KeptTranscriptRoutes(store, self.kept).table(),
            *self.embedding.table(),
            *Memories(store, self.intake, self.live, self.embedding, self.forgetting).table(),
            *Curation(store, self.intake, self.live, self.embedding).table(),
            *endpoints.confinable(Overview(settings, confined, search).table()),
            *StatRoutes(store).table(),
            *Exchange(store, self.wake, self.forgotten_key).table(),
            *self.reindex.table(),
            *Reobserve(store, self.model, self.wake).table(),
            *GroupRunRoutes(self.group_runs).table(),
            *GroupRoutes(settings, store, parts).table(),
        ]
        self.mcp = Mcp(table)
        table += self.mcp.table()
        table.append(document(table))
        return table

    async def _state(self) -> tuple[ProviderState, list[str]]:
        """Return the state of the provider, and the background jobs that failed recently."""
        return await self.model.state(), [trouble for job in self.jobs if (trouble := job.trouble)]

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(_log_failure)
        await asyncio.to_thread(self.own_transcripts.remove)  # those of the previous worker are not continued
        await self.forgetting.resume()
        for job in self.jobs:
            job.start()
        with contextlib.suppress(StoreUnavailable):
            await self.archives.write_all_requested()
        try:
            yield
        finally:
            await self.group_runs.stop()
            await self.mcp.stop()
            for job in reversed(self.jobs):
                await job.stop()
            await asyncio.to_thread(self.own_transcripts.remove)
            await self.model.close()
            await asyncio.to_thread(processes.stop)
            await asyncio.gather(*self._announcing, return_exceptions=True)
            self.store.close()

    def close_streams(self) -> None:
        """End every stream, so that none delays a stop."""
        self.live.close()
        self.group_runs.close_streams()

    def _pace(self) -> Pace:
        chosen = self.model.settings
        long_ms = events.LONG_MS if chosen.provider == "offline" else MODEL_ROUND_MS
        return Pace(chosen.round_seconds, long_ms, chosen.provider)

    def wake(self, due_ms: int = 0) -> None:
        """Wake the observer and the embedding, because something was stored. It is observed at `due_ms`."""
        self.observer.wake(due_ms)
        self.embedding.wake()
        self.queue_counts.wake()

    def _observed(self, round: Round, stored: StoredRows) -> None:
        """Publish the observations and the summary of a round."""
        self.embedding.wake()
        self.queue_counts.wake()

        def rows(tx: Tx) -> list[tuple[str, dict[str, Any]]]:
            if sessions.get(tx, round.session_id).hidden_at:
                return []
            messages = [
                ("new_observation", feed.told("observation", row))
                for number in stored.observation_ids
                if (row := observations.by_id(tx, number)) and not row["hidden_at"]
            ]
            if stored.summary_id and (row := memories.shown_summary(tx, stored.summary_id)):
                messages.append(("new_summary", feed.told("summary", row)))
            return messages

        async def announce() -> None:
            # In a thread, because a database server may be slow, and hooks wait for this loop.
            with contextlib.suppress(StoreUnavailable):
                for name, data in await asyncio.to_thread(self.store.read, rows):
                    self.live.publish(name, data)

        task = asyncio.create_task(announce())
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)


def _log_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of a task by type and place. The default handler logs its text, which may quote a payload."""
    error = context.get("exception")
    log.error("%s: %s", context.get("message"), place_of(error) if error else "no exception")


async def _http_error(request: Request, error: Exception) -> Response:
    """Return an error of Starlette in the same form as other errors."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    problem: BackstoryError = NotFound("There is no such route.", "See /openapi.json for all routes.")
    if status == 405:
        problem = BackstoryError("This route does not have this method.", "See /openapi.json for its methods.")
    problem.status = status
    return endpoints.error_response(problem)
