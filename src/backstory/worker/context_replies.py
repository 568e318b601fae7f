"""What a session is told: at its start, and with a prompt that clearly concerns something known."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable

from backstory import ids
from backstory.capture.intake import Intake, Receipt
from backstory.errors import StoreUnavailable
from backstory.model import Report
from backstory.observe.model_observer import State
from backstory.recall import context, worktree
from backstory.recall.prompt_context import PromptQuestion, for_prompt
from backstory.recall.relevance import SessionStart
from backstory.recall.search import MemorySearch
from backstory.settings import Settings
from backstory.store.db import Store, Tx

#: An agent waits with its prompt: what takes longer is not told.
PROMPT_S = 0.25
#: What comes out of the spool as late as this has nobody who waits for the answer.
LATE_MS = 10_000
#: So many sessions are known by what they were told; the others may be told again.
SESSIONS = 500
_NAMED = re.compile(r"^#(\d+) ", re.MULTILINE)


class ContextReplies:
    """Puts together what goes back to an agent. It writes nothing."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        intake: Intake,
        search: MemorySearch,
        state: Callable[[], Awaitable[State]],
    ) -> None:
        self._settings, self._store, self._intake, self._search = settings, store, intake, search
        self._state = state  #: how it goes with the provider
        self._told: dict[int, frozenset[int]] = {}  #: which observations a session was told of

    async def at_start(self, report: Report, taken: Receipt) -> str:
        """What this start of a session is told: one that goes on has most of it already."""
        where, session = await self._intake.project(report.cwd), taken.session
        budget, command = self._settings.context_tokens, self._settings.paths.called
        shorter = {"compact": context.for_compact, "resume": context.for_resume, "fork": context.for_resume}
        goes_on = shorter.get(str(report.payload.get("source"))) if session else None
        # An agent waits: the working tree is looked at only where the answer counts.
        scene = SessionStart() if goes_on else SessionStart(where.branch, await worktree.changed_files(report.cwd))

        def render(tx: Tx) -> str:
            if session and goes_on:
                return goes_on(tx, session, budget, command)
            return context.for_start(tx, where.name, where.key, budget, command, scene)

        try:
            told = await asyncio.to_thread(self._store.read, render)
        except StoreUnavailable:
            return ""
        if session:
            self._remember(session.id, map(int, _NAMED.findall(told)))
        return context.noted(told, (await self._state()).trouble)

    async def at_prompt(self, report: Report, taken: Receipt) -> str:
        """What is clearly about the same as this prompt, and was not told yet."""
        budget, session, text = self._settings.prompt_tokens, taken.session, report.payload.get("prompt")
        if not budget or session is None or taken.is_private or taken.skipped or report.is_notification:
            return ""
        if not isinstance(text, str) or ids.at_ms(report.occurred_at) < ids.now_ms() - LATE_MS:
            return ""
        known = self._told.get(session.id, frozenset())
        prompt = PromptQuestion(text, session.project_key, session.id, known)
        command = self._settings.paths.called
        try:
            async with asyncio.timeout(PROMPT_S):
                told, named = await asyncio.to_thread(for_prompt, self._store, self._search, prompt, budget, command)
        except (TimeoutError, StoreUnavailable):
            return ""
        self._remember(session.id, named)
        return told

    def _remember(self, session_id: int, numbers: Iterable[int]) -> None:
        self._told[session_id] = self._told.pop(session_id, frozenset()).union(numbers)
        if len(self._told) > SESSIONS:
            del self._told[next(iter(self._told))]
