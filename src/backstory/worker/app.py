"""Builds the worker: settings in, every part made once and handed on, an application out."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from backstory.agents import AGENTS
from backstory.capture.backfill import Past
from backstory.capture.intake import Intake
from backstory.capture.reconcile import Reconcile
from backstory.capture.spool import Spool
from backstory.errors import BackstoryError, NotFound, StoreUnavailable
from backstory.jobs import place_of
from backstory.model import Round
from backstory.observe.model_observer import Asking, State
from backstory.observe.observer import Observer, Pace, Provider
from backstory.observe.own_transcripts import Conversations
from backstory.recall import embed
from backstory.recall.search import Search
from backstory.recall.vectors import Vectors
from backstory.settings import Settings, environment
from backstory.store import events, forgotten, observations, open_store
from backstory.store.db import Tx
from backstory.store.observations import Told
from backstory.worker import endpoints, guard
from backstory.worker.context_replies import Telling
from backstory.worker.jobs.embedding import Meaning
from backstory.worker.jobs.maintenance import Care
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
from backstory.worker.routes.reobserve import Redo
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
        # Of each data directory its own, and the same after a restart. It tells nothing of the token.
        worker = hashlib.sha256(self.token.encode()).hexdigest()[:16] + "."
        self.store.write(lambda tx: events.recover(tx, worker))
        self.live = Live()
        chosen = (settings.embedder, settings.embed_model, settings.embed_url)
        self.vectors = Vectors(self.store, embed.name_of(*chosen))
        self.meaning = Meaning(self.store, self.vectors)
        self._telling: set[asyncio.Task[None]] = set()
        roots = {name: agent.roots(Path.home(), environment()) for name, agent in AGENTS.items()}
        self.conversations = Conversations(roots["claude-code"], settings.paths.observing)
        self.asking = Asking(settings, self.store, self.conversations)
        self.observer = Observer(
            self.store,
            provider or self.asking,
            settings.provider,
            worker=worker,
            parallel=settings.observers,
            pace=self._pace,
            retry_s=settings.retry_seconds,
            listener=self._observed,
        )
        self.intake = Intake(settings, self.store, self.live.tell, self.wake, roots)
        key = forgotten.key(settings.paths)
        past = Past(settings, self.intake, key)
        self.reconcile = Reconcile(settings, self.store, past, roots, self.wake)
        search = Search(self.store, self.vectors)
        # By words alone: an agent waits, and what is clearly about the same shares its words.
        telling = Telling(settings, self.store, self.intake, Search(self.store), self.asking.state)
        reporting = Reporting(settings, self.store, self.intake, self.live, telling, self.reconcile)
        self.spool = Spool(settings.paths, reporting.deliver)
        self.care = Care(settings, self.store)
        browsers = Browsers()
        admin = Admin(settings, self.store, self.live, browsers, self.wake, self._state)
        self.table = [*admin.table(), *reporting.table(), *Recall(settings, self.store, search).table()]
        self.table += [*Imports(self.store, past).table(), *TurnImports(self.intake, self.meaning.wake, key).table()]
        self.table += self.meaning.table()
        self.memories = Memories(self.store, self.intake, self.spool, self.live, self.meaning, self.conversations, key)
        self.intake.wipe = self.memories.start
        self.table += [*self.memories.table(), *Overview(settings, self.store, search).table()]
        self.table += Exchange(self.store, self.wake, key).table()
        self.reindex = Reindex(self.store)
        self.table += self.reindex.table()
        self.table += Redo(self.store, self.asking, self.wake).table()
        self.mcp = Mcp(self.table)
        self.table += self.mcp.table()
        self.table.append(document(self.table))
        self.asgi: ASGIApp = guard.Guard(self._starlette(), settings, self.token, browsers)

    async def _state(self) -> tuple[State, list[str]]:
        """How it goes with the provider, and what failed lately of all that runs in the background."""
        parts = (self.observer, self.spool, self.reconcile, self.care, self.memories, self.reindex, self.meaning)
        return await self.asking.state(), [trouble for part in parts if (trouble := part.job.trouble)]

    def _starlette(self) -> Starlette:
        return Starlette(
            routes=endpoints.routes(self.table),
            lifespan=self._lifespan,
            exception_handlers={HTTPException: _plain_failure},
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(_log_failure)
        await asyncio.to_thread(self.conversations.remove)  # none of before is gone on with
        self.observer.start()
        self.spool.start()
        self.reconcile.start(self.spool.looked)
        self.care.start()
        self.memories.start()
        self.reindex.start()
        self.meaning.start()
        try:
            yield
        finally:
            await self.meaning.stop()
            await self.reindex.stop()
            await self.mcp.stop()
            await self.memories.stop()
            await self.care.stop()
            await self.reconcile.stop()
            await self.spool.stop()
            await self.observer.stop()
            await asyncio.to_thread(self.conversations.remove)
            await self.asking.close()
            await asyncio.gather(*self._telling, return_exceptions=True)
            self.store.close()

    def _pace(self) -> Pace:
        chosen = self.asking.settings
        long_ms = events.LONG_MS if chosen.provider == "offline" else PATIENCE_MS
        return Pace(chosen.round_seconds, long_ms, chosen.provider)

    def wake(self, due_ms: int = 0) -> None:
        """Something was stored: to be observed then, and to be found by its meaning soon."""
        self.observer.wake(due_ms)
        self.meaning.wake()

    def _observed(self, round: Round, told: Told) -> None:
        """A round became memory: tell those who watch."""
        self.meaning.wake()

        def rows(tx: Tx) -> list[tuple[str, dict[str, Any]]]:
            found = [
                ("new_observation", observations.decode(row))
                for number in told.observation_ids
                if (row := tx.one("observation_by_id", id=number))
            ]
            if told.summary_id and (row := tx.one("summary_by_id", id=told.summary_id)):
                found.append(("new_summary", row))
            return found

        async def tell() -> None:
            # In a thread: a database may be far away, and hooks wait for this loop.
            with contextlib.suppress(StoreUnavailable):
                for name, data in await asyncio.to_thread(self.store.read, rows):
                    self.live.tell(name, data)

        task = asyncio.create_task(tell())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)


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
