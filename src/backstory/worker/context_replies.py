"""Answers hooks with context: at the start of a session, and with prompts that clearly concern known observations."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from starlette.background import BackgroundTask

from backstory import ids
from backstory.capture.intake import Intake, Receipt
from backstory.errors import StoreUnavailable
from backstory.live_settings import LiveSettings
from backstory.model import Report
from backstory.observe.model_observer import ModelObserver
from backstory.recall import context, worktree
from backstory.recall.prompt_context import PromptQuestion, for_prompt
from backstory.recall.relevance import SessionStart
from backstory.settings import Settings
from backstory.store import contexts, events, sessions
from backstory.store.contexts import DeliveredContext
from backstory.store.db import Store, Tx
from backstory.text import tokens

log = logging.getLogger(__name__)

#: Seconds to wait until the session before is observed, and between two looks. The agent waits for this, too.
SETTLE_S = 0.7
LOOK_S = 0.03
#: Milliseconds after which a report comes from the spool, and nobody waits for the answer.
LATE_MS = 10_000
#: Sessions whose given observations are remembered, at most.
SESSIONS = 500
#: How a session can start. An agent may name it in another way.
_SOURCES = ("startup", "resume", "clear", "compact", "fork")
#: How a session continues -> what renders its context.
_SHORTER = {"compact": context.for_compact, "resume": context.for_resume, "fork": context.for_resume}


@dataclass(frozen=True, slots=True)
class ContextReply:
    """A context for a session. Without a text the agent is told nothing."""

    text: str = ""
    session_id: int | None = None
    cause: str = ""  #: how the session started, or `prompt`
    observation_ids: tuple[int, ...] = ()


class ContextReplies:
    """Renders the context that goes back to an agent, and keeps what was really given. Rendering writes nothing."""

    def __init__(self, settings: Settings, store: Store, intake: Intake, model: ModelObserver) -> None:
        self._settings, self._store, self._intake = LiveSettings(settings), store, intake
        self._model = model
        self._common: set[str] = set()  #: words that are too common to find observations by
        self._given: dict[int, frozenset[int]] = {}  #: session -> the observations that it was given

    async def at_start(self, report: Report, taken: Receipt) -> ContextReply:
        """Return the context for the start of a session. A session that continues has most of it and gets less."""
        where, session = await self._intake.project_of(report), taken.session
        budget, command = self._settings().context_tokens, self._settings().paths.called
        source = str(report.payload.get("source"))
        for_continued = _SHORTER.get(source) if session else None
        if not for_continued:
            await self._settled(lambda tx: events.is_settling(tx, where.key))
        elif session and for_continued is context.for_compact:
            await self._settled(lambda tx: events.is_reading(tx, session.id))
        # The agent waits, so the working tree is read only if it is used.
        changed = None if for_continued else await worktree.changed_files(report.cwd)

        def render(tx: Tx) -> context.SessionContext:
            if session and for_continued:
                # It is read again: its transcript may have brought a prompt in the meantime.
                return for_continued(tx, sessions.get(tx, session.id), budget, command)
            return context.for_start(tx, where.name, where.key, budget, command, SessionStart(where.branch, changed))

        try:
            rendered = await asyncio.to_thread(self._store.read, render)
        except StoreUnavailable:
            return ContextReply()
        text = str(rendered.with_trouble((await self._model.state()).trouble))
        cause = source if source in _SOURCES else "startup"
        return ContextReply(text, session.id if session else None, cause, tuple(rendered.observation_ids))

    async def _settled(self, is_settling: Callable[[Tx], bool]) -> None:
        """Wait for the memory of a session that ended just now, because a new one often follows at once, or of one that
        is being compacted. A model takes longer, and is not waited for."""
        deadline = time.monotonic() + SETTLE_S if self._model.settings.provider == "offline" else 0
        with contextlib.suppress(StoreUnavailable):
            while time.monotonic() < deadline:
                if not await asyncio.to_thread(self._store.read, is_settling):
                    return
                await asyncio.sleep(LOOK_S)

    async def at_prompt(self, report: Report, taken: Receipt) -> ContextReply:
        """Return observations that clearly concern a prompt and that the session was not given yet."""
        budget, session, text = self._settings().prompt_tokens, taken.session, report.payload.get("prompt")
        if not budget or session is None or taken.is_private or taken.skipped or report.is_notification:
            return ContextReply()
        if not isinstance(text, str) or ids.at_ms(report.occurred_at) < ids.now_ms() - LATE_MS:
            return ContextReply()
        known = self._given.get(session.id, frozenset())
        question = PromptQuestion(text, session.project_key, session.id, known)
        command, limit = self._settings().paths.called, self._settings().tuning.prompt_seconds

        def render(tx: Tx) -> tuple[str, list[int]]:
            return for_prompt(tx, question, budget, command, self._common)

        try:
            # The work is small at any size of the memory. The limits are for a machine or a server that is too busy.
            async with asyncio.timeout(limit):
                rendered, named = await asyncio.to_thread(self._store.read, render, limit)
        except (TimeoutError, StoreUnavailable):
            return ContextReply()
        return ContextReply(rendered, session.id, "prompt", tuple(named))

    def delivered(self, given: ContextReply) -> BackgroundTask | None:
        """Remember what a session was told. Return the task that stores it, which its agent need not wait for."""
        if given.session_id is None:
            return None
        self._remember(given.session_id, given.observation_ids)
        return BackgroundTask(self._keep, given, given.session_id)

    async def _keep(self, given: ContextReply, session_id: int) -> None:
        delivered = DeliveredContext(session_id, given.cause, tokens(given.text), given.observation_ids)
        try:
            await asyncio.wrap_future(self._store.submit(lambda tx: contexts.add(tx, delivered)))
        except StoreUnavailable:
            log.warning("what a session was told was not stored")

    def _remember(self, session_id: int, numbers: Iterable[int]) -> None:
        self._given[session_id] = self._given.pop(session_id, frozenset()).union(numbers)
        if len(self._given) > SESSIONS:
            del self._given[next(iter(self._given))]
