"""Round in, reply out: asks the chosen model, reads its answer, and lets the rules stand in where it can't."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from backstory import ids
from backstory.errors import BackstoryError, BadSetting, StoreUnavailable
from backstory.model import ModelCall, Reply, Round
from backstory.observe import modes, prices
from backstory.observe.budget import Budget, OverBudget
from backstory.observe.own_transcripts import OwnTranscripts
from backstory.observe.pauses import Pauses
from backstory.observe.providers import DEFAULT_MODELS, Answer, Ask, Choice, Model, ProviderFailure, connect
from backstory.settings import Settings
from backstory.settings import load as settings_now
from backstory.store import replaceable
from backstory.store.db import Store
from backstory.text import tokens

if TYPE_CHECKING:
    from backstory.observe.prompts import Question

log = logging.getLogger(__name__)
OFFLINE = "offline"


class Later(BackstoryError):
    """The model can not be asked now; the round waits."""

    def __init__(self, wait_s: float, cause: str, calls: tuple[ModelCall, ...] = ()) -> None:
        super().__init__()
        self.wait_s, self.cause, self.calls = wait_s, cause, calls


class NotDone(BackstoryError):
    """The model could not be asked; nothing was changed."""

    hint = "`backstory status` says how it goes with the provider; run it again, and it goes on from here."
    status = 409

    def __init__(self, message: str, calls: Sequence[ModelCall]) -> None:
        super().__init__(message)
        self.calls = tuple(calls)


@dataclass(frozen=True, slots=True)
class State:
    """How it goes with the provider, for people."""

    provider: str
    model: str = ""
    trouble: str = ""  #: a sentence; empty if all is well
    lasts: bool = False  #: somebody has to do something about it


class ModelObserver:
    """The provider of the settings, as the observer calls it; it follows the settings while it runs."""

    def __init__(self, settings: Settings, store: Store, conversations: OwnTranscripts | None = None) -> None:
        self._settings, self._store, self._budget = settings, store, Budget(store)
        self._conversations = conversations or OwnTranscripts()
        self._config_seen = self._config_stamp()
        self._model: Model | None = None
        self._connecting = asyncio.Lock()
        self._mode: modes.Mode | None = None
        self._mode_trouble = ""
        self._pauses = Pauses(settings.tuning.retry_seconds)

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def _model_name(self) -> str:
        """The model that was named; else the provider's small one, which another's endpoint does not have."""
        chosen = self._settings
        elsewhere = chosen.provider == "openai" and chosen.base_url
        return chosen.model or ("" if elsewhere else DEFAULT_MODELS.get(chosen.provider, ""))

    async def state(self) -> State:
        """What `status`, `doctor` and a new session are told."""
        await self._follow_settings()
        chosen = self._settings
        if chosen.provider == OFFLINE:
            return State(OFFLINE)
        model = self._model_name
        if trouble := self._pauses.sentence():
            return State(chosen.provider, model, trouble, self._pauses.lasts)
        self._mode_now()
        if self._mode_trouble:
            return State(chosen.provider, model, self._mode_trouble, lasts=True)
        return State(chosen.provider, model, await self._budget.trouble(chosen, model))

    async def __call__(self, round: Round) -> Reply:
        if await self._follow_settings():
            round = replace(round, resume=None)  # what was gone on with may have been another's
        name = self._settings.provider
        if name == OFFLINE:
            return replace(await _rules(round), provider=OFFLINE)
        if self._is_past(round):
            return await self._stand_in(round)
        if wait_s := self._pauses.waits(round.events[0].id):
            raise Later(wait_s, "rate_limit")
        if self._pauses.holds():
            return await self._stand_in(round)
        calls: list[ModelCall] = []
        try:
            reply = await self._ask(round, calls)
        except OverBudget:
            return await self._stand_in(round, tuple(calls))
        except StoreUnavailable:
            raise
        except Exception as error:
            # What is no failure of a known kind is a mistake of ours, or of a library's, about this question.
            unknown = ProviderFailure("poison", f"The model could not be asked ({type(error).__name__}).")
            failure = error if isinstance(error, ProviderFailure) else unknown
            log.warning("%s (%s)", failure, failure.kind)
            wait = self._pauses.failed(failure, round.events[0].id)
            if wait is not None:
                raise Later(wait, failure.kind, tuple(calls)) from None
            return await self._stand_in(round, tuple(calls))
        self._pauses.answered(round.events[0].id)
        return reply if reply.provider else replace(reply, provider=name)

    def _is_past(self, round: Round) -> bool:
        """Whoever chose a model for today's work did not ask it to read years of it: `reobserve` does."""
        days = self._settings.past_days
        return bool(days) and ids.now_ms() - ids.stored_ms(round.events[-1].occurred_at) > days * 86_400_000

    async def redo(self, round: Round) -> Reply:
        """Ask the model once more about a round that the rules told; whatever stands in the way is raised."""
        await self._follow_settings()
        if self._settings.provider == OFFLINE:
            raise BadSetting("No model is chosen to observe with.", "`backstory config set provider NAME` chooses one.")
        calls: list[ModelCall] = []
        try:
            reply = await self._ask(round, calls)
        except (ProviderFailure, OverBudget) as failure:
            raise NotDone(str(failure), calls) from None
        self._pauses.forget()  # whatever was wrong, it answers
        return reply if reply.provider else replace(reply, provider=self._settings.provider)

    async def estimate(self, round: Round) -> int:
        """About how many tokens a model would read if it were asked about a round."""
        asked = await asyncio.to_thread(self._question, round)
        return tokens(asked.ask.system) + tokens(asked.ask.prompt)

    async def _ask(self, round: Round, calls: list[ModelCall], in_parts: bool = True) -> Reply:
        """What can't be read is asked for once more, then told by the rules. A round whose answer was cut is asked
        about in two parts."""
        from backstory.observe import replies

        mode = self._mode_now()
        # In a thread: a round may be large, and hooks wait for this loop.
        asked = await asyncio.to_thread(self._question, round)
        answer = Answer("", ModelCall("", ""))
        for again in (False, True):
            ask = asked.again if again else asked.ask
            try:
                answer = await self._call(ask, calls)
            except ProviderFailure as failure:
                if failure.kind != "stale" or ask.resume is None:
                    raise
                # Its conversation is gone: the same from the beginning, in a fresh one.
                round = replace(round, resume=None)
                asked = await asyncio.to_thread(self._question, round)
                answer = await self._call(asked.ask, calls)
            if answer.is_cut:
                log.info("session %s: the answer was cut by the model's limit of tokens", round.session_id)
                break
            try:
                found = await asyncio.to_thread(replies.read, answer.text, round, mode, asked.mark, asked.known)
            except replies.UnreadableAnswer as error:
                log.info("session %s: %s", round.session_id, error)
                continue
            summary = found.summary
            if round.stop and summary is None and not found.skips_summary:
                summary = (await _rules(round)).summary  # every round that ends leaves its hand-off
            return Reply(
                found.observations,
                summary if round.stop else None,
                answer.memory_id,
                calls=tuple(calls),
                grown=answer.grown,
            )
        # An answer without a whole observation was not cut because there was much to tell.
        if answer.is_cut and in_parts and len(round.events) > 1 and replies.has_observation(answer.text):
            return await self._ask_in_parts(round, calls)
        told = await self._stand_in(round, tuple(calls))
        # Whatever confused it is in that conversation, so the next begins anew.
        return replace(told, memory_id=answer.memory_id, grown=answer.memory_id is not None)

    async def _ask_in_parts(self, round: Round, calls: list[ModelCall]) -> Reply:
        """The two halves of a round, one after the other; all of it is told by the rules if the model can't."""
        middle = len(round.events) // 2
        first = replace(round, events=round.events[:middle], resume=None)
        second = replace(round, events=round.events[middle:], earlier=(*round.earlier, *first.events), resume=None)
        told = []
        for part in (first, second):
            told.append(await self._ask(part, calls, in_parts=False))
            if told[-1].instead_of:
                return replace(await self._stand_in(round, tuple(calls)), memory_id=told[-1].memory_id, grown=True)
        seen = (*told[0].observations, *told[1].observations)
        return replace(told[1], observations=seen, calls=tuple(calls), grown=told[1].memory_id is not None)

    def _question(self, round: Round) -> Question:
        """A round, with what is remembered that it may replace."""
        from backstory.observe import prompts

        about, files = prompts.about(round)
        known = self._store.read(lambda tx: replaceable.find(tx, round, about, files))
        return prompts.question(round, self._mode_now(), self._settings.language, known)

    async def _call(self, ask: Ask, calls: list[ModelCall]) -> Answer:
        chosen, model = self._settings, await self._connected()
        name = self._model_name
        sent = tokens(ask.system) + tokens(ask.prompt)
        async with self._budget.hold(chosen, name, sent, calls):
            try:
                async with asyncio.timeout(chosen.call_seconds):
                    answer = await model(ask)
            except TimeoutError:
                calls.append(_priced(ModelCall(chosen.provider, name, sent)))  # it was sent, so it may be on the bill
                raise ProviderFailure("hang", f"No answer came within {chosen.call_seconds:g} s.") from None
            calls.append(_priced(answer.call))
        return answer

    async def _connected(self) -> Model:
        """The model; in a thread, because its library takes seconds to be imported."""
        async with self._connecting:
            if self._model is None:
                self._model = await asyncio.to_thread(connect, self._choice())
            return self._model

    def _choice(self) -> Choice:
        chosen = self._settings
        return Choice(
            chosen.provider,
            self._model_name,
            chosen.base_url,
            chosen.api_key,
            chosen.call_seconds,
            chosen.paths.observing,
            chosen.claude_path,
            self._conversations,
        )

    async def _stand_in(self, round: Round, calls: tuple[ModelCall, ...] = ()) -> Reply:
        """The rules, in the model's place; marked, so that it can be done over."""
        told = await _rules(round)
        return replace(told, provider=OFFLINE, instead_of=self._settings.provider, calls=calls)

    def _mode_now(self) -> modes.Mode:
        """The mode of the settings; one that can't be used is told of, and the shipped one takes its place."""
        if self._mode is None:
            folder = self._settings.paths.modes
            try:
                self._mode, self._mode_trouble = modes.load(self._settings.mode, folder), ""
            except BadSetting as error:
                log.warning("%s", error)
                self._mode_trouble = str(error)
                self._mode = modes.load(modes.DEFAULT, folder / "none")
        return self._mode

    def _config_stamp(self) -> int:
        try:
            return self._settings.paths.config.stat().st_mtime_ns
        except OSError:
            return 0

    async def _follow_settings(self) -> bool:
        """A model that is chosen, or a key that is mended, is used from the next round on. Whether there was one."""
        stamp = self._config_stamp()
        if stamp == self._config_seen:
            return False
        self._config_seen = stamp
        try:
            self._settings = settings_now()
        except BadSetting as error:
            log.warning("config.toml was changed and can not be used: %s", error)
            return False
        self._mode = None
        self._pauses.forget()
        await self.close()
        return True

    async def close(self) -> None:
        """Let go of the model, and of whatever it runs."""
        model, self._model = self._model, None
        if closing := getattr(model, "close", None):
            await closing()


def _priced(call: ModelCall) -> ModelCall:
    return call if call.cost_micros is not None else replace(call, cost_micros=prices.cost_micros(call))


async def _rules(round: Round) -> Reply:
    # Imported with the first round: the worker is up sooner without its patterns.
    from backstory.observe import offline

    return await offline.observe(round)
