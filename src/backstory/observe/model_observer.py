"""Asks the chosen model about a round and parses its answer. The offline rules observe what the model cannot."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from backstory import ids
from backstory.errors import BackstoryError, BadSetting, StoreUnavailable
from backstory.model import ModelCall, Observation, Reply, Round
from backstory.observe import modes, prices
from backstory.observe.budget import Budget, OverBudget
from backstory.observe.own_transcripts import OwnTranscripts
from backstory.observe.pauses import Pauses
from backstory.observe.providers import DEFAULT_MODELS, Answer, Ask, Choice, Model, ProviderFailure, connect
from backstory.settings import ConfigWatch, Settings
from backstory.store import memories, replaceable
from backstory.store.db import Store
from backstory.text import tokens

if TYPE_CHECKING:
    from backstory.observe.prompts import Question

log = logging.getLogger(__name__)
OFFLINE = "offline"


class AskLater(BackstoryError):
    """The model cannot be asked now. The round waits."""

    def __init__(self, wait_s: float, cause: str, calls: tuple[ModelCall, ...] = ()) -> None:
        super().__init__()
        self.wait_s, self.cause, self.calls = wait_s, cause, calls


class ReobserveFailed(BackstoryError):
    """The model could not be asked. Nothing was changed."""

    hint = "`backstory status` shows the state of the provider. Run this again to continue where it stopped."
    status = 409

    def __init__(self, message: str, calls: Sequence[ModelCall]) -> None:
        super().__init__(message)
        self.calls = tuple(calls)


@dataclass(frozen=True, slots=True)
class ProviderState:
    """The state of the provider, as people read it."""

    provider: str
    model: str = ""
    trouble: str = ""  #: what is wrong, as a sentence; empty if nothing is
    needs_action: bool = False  #: the trouble stays until somebody fixes it


@dataclass(frozen=True, slots=True)
class ProviderTest:
    """What came of asking the provider a question."""

    ok: bool
    provider: str
    model: str
    says: str
    seconds: float = 0.0
    calls: tuple[ModelCall, ...] = ()


#: The question of a test. It contains nothing of the memory.
TEST = Ask("Answer with one word.", "Are you there? Answer yes.")


class ModelObserver:
    """The provider that the observer calls. A change of the settings applies from the next round on."""

    def __init__(self, settings: Settings, store: Store, conversations: OwnTranscripts | None = None) -> None:
        self.settings, self._store, self._budget = settings, store, Budget(store)
        self._conversations = conversations or OwnTranscripts()
        self._config = ConfigWatch(settings.paths.config)
        self._model: Model | None = None
        self._connecting = asyncio.Lock()
        self._mode: modes.Mode | None = None
        self._mode_trouble = ""
        self._pauses = Pauses(settings.tuning.retry_seconds)

    @property
    def _model_name(self) -> str:
        """The model of the settings, else the default of the provider. A compatible endpoint has no default."""
        chosen = self.settings
        is_compatible = chosen.provider == "openai" and chosen.base_url
        return chosen.model or ("" if is_compatible else DEFAULT_MODELS.get(chosen.provider, ""))

    async def state(self) -> ProviderState:
        """The state that `status`, `doctor` and the context of a new session show."""
        await self._reload_settings()
        chosen = self.settings
        if chosen.provider == OFFLINE:
            return ProviderState(OFFLINE)
        model = self._model_name
        if trouble := self._pauses.message():
            return ProviderState(chosen.provider, model, trouble, self._pauses.needs_action)
        self._current_mode()
        if self._mode_trouble:
            return ProviderState(chosen.provider, model, self._mode_trouble, needs_action=True)
        return ProviderState(chosen.provider, model, await self._budget.refusal(chosen, model))

    async def __call__(self, round: Round) -> Reply:
        if await self._reload_settings():
            round = replace(round, resume=None)  # the conversation may belong to another provider
        name = self.settings.provider
        if name == OFFLINE:
            return replace(await _observe_offline(round), provider=OFFLINE)
        if self._is_too_old(round):
            return await self._observe_instead(round)
        if wait_s := self._pauses.wait_s(round.events[0].id):
            raise AskLater(wait_s, "rate_limit")
        if self._pauses.is_paused():
            return await self._observe_instead(round)
        calls: list[ModelCall] = []
        try:
            reply = await self._ask(round, calls)
        except OverBudget:
            return await self._observe_instead(round, tuple(calls))
        except StoreUnavailable:
            raise
        except Exception as error:
            # Any other error is a defect in our code or in a library that this question brings out.
            unknown = ProviderFailure("poison", f"The model could not be asked ({type(error).__name__}).")
            failure = error if isinstance(error, ProviderFailure) else unknown
            log.warning("%s (%s)", failure, failure.kind)
            wait = self._pauses.record_failure(failure, round.events[0].id)
            if wait is not None:
                raise AskLater(wait, failure.kind, tuple(calls)) from None
            return await self._observe_instead(round, tuple(calls))
        self._pauses.record_answer(round.events[0].id)
        return reply if reply.provider else replace(reply, provider=name)

    def _is_too_old(self, round: Round) -> bool:
        """Whether a round is too old to ask the model about it. Only `backstory reobserve` does."""
        days = self.settings.tuning.past_days
        return bool(days) and ids.now_ms() - ids.stored_ms(round.events[-1].occurred_at) > days * 86_400_000

    async def reobserve(self, round: Round) -> Reply:
        """Ask the model about a round that the rules observed. Raises an error if the model cannot be asked."""
        await self._reload_settings()
        if self.settings.provider == OFFLINE:
            raise BadSetting("No model is chosen.", "Choose one with `backstory config set provider NAME`.")
        calls: list[ModelCall] = []
        try:
            reply = await self._ask(round, calls)
        except (ProviderFailure, OverBudget) as failure:
            raise ReobserveFailed(str(failure), calls) from None
        self._pauses.reset()  # the model answers again
        return reply if reply.provider else replace(reply, provider=self.settings.provider)

    async def test(self) -> ProviderTest:
        """Ask the model a small question, to see whether it answers."""
        await self._reload_settings()
        name, model = self.settings.provider, self._model_name
        if name == OFFLINE:
            return ProviderTest(True, OFFLINE, "", "The rules observe. No model is asked.")
        calls: list[ModelCall] = []
        begun = time.monotonic()
        try:
            answer = await self._call(TEST, calls)
        except (ProviderFailure, OverBudget) as failure:
            return ProviderTest(False, name, model, str(failure), time.monotonic() - begun, tuple(calls))
        if answer.memory_id:
            await asyncio.to_thread(self._conversations.remove, only=answer.memory_id)
        self._pauses.reset()  # the model answers again
        return ProviderTest(True, name, model, "The model answered.", time.monotonic() - begun, tuple(calls))

    async def estimate(self, round: Round) -> int:
        """An estimate of the tokens that a model would read about a round."""
        question = await asyncio.to_thread(self._question, round)
        return tokens(question.ask.system) + tokens(question.ask.prompt)

    async def _ask(self, round: Round, calls: list[ModelCall], in_parts: bool = True) -> Reply:
        """Ask about a round. After two unreadable answers the rules observe it. If the answer was cut off, the model is
        asked about each half of the round."""
        from backstory.observe import replies

        mode = self._current_mode()
        # In a thread: a round may be large, and hooks wait for the event loop.
        question = await asyncio.to_thread(self._question, round)
        answer = Answer("", ModelCall("", ""))
        for is_retry in (False, True):
            ask = question.retry if is_retry else question.ask
            try:
                answer = await self._call(ask, calls)
            except ProviderFailure as failure:
                if failure.kind != "stale" or ask.resume is None:
                    raise
                # The conversation is gone. Ask the same in a new one.
                round = replace(round, resume=None)
                question = await asyncio.to_thread(self._question, round)
                answer = await self._call(question.ask, calls)
            if answer.is_cut:
                log.info("session %s: the answer was cut off at the model's token limit", round.session_id)
                break
            try:
                parsed = await asyncio.to_thread(
                    replies.parse_answer, answer.text, round, mode, question.mark, question.known
                )
            except replies.UnreadableAnswer as error:
                log.info("session %s: %s", round.session_id, error)
                continue
            summary = parsed.summary
            carries = ("next_steps",) if round.stop and summary else ()
            if round.stop and summary is None and not parsed.skips_summary:
                summary = (await _observe_offline(round)).summary  # every round that ended has a summary
            return Reply(
                parsed.observations,
                summary if round.stop else None,
                answer.memory_id,
                calls=tuple(calls),
                carries=carries,
                grown=answer.grown,
            )
        # Without one complete observation, a smaller question would not help.
        if answer.is_cut and in_parts and len(round.events) > 1 and replies.has_observation(answer.text):
            return await self._ask_in_parts(round, calls)
        reply = await self._observe_instead(round, tuple(calls))
        # Something in this conversation confuses the model, so the next round starts a new one.
        return replace(reply, memory_id=answer.memory_id, grown=answer.memory_id is not None)

    async def _ask_in_parts(self, round: Round, calls: list[ModelCall]) -> Reply:
        """Ask about the two halves of a round in turn. If the model fails at one, the rules observe the whole round."""
        middle = len(round.events) // 2
        first = replace(round, events=round.events[:middle], resume=None)
        second = replace(round, events=round.events[middle:], earlier=(*round.earlier, *first.events), resume=None)
        observations: list[Observation] = []
        for part in (first, second):
            reply = await self._ask(part, calls, in_parts=False)
            if reply.instead_of:
                return replace(await self._observe_instead(round, tuple(calls)), memory_id=reply.memory_id, grown=True)
            observations += reply.observations
        grown = reply.memory_id is not None
        return replace(reply, observations=tuple(observations), calls=tuple(calls), grown=grown)

    def _question(self, round: Round) -> Question:
        """The question about a round, with what was left open and the observations that the round may replace."""
        from backstory.observe import prompts

        topic, files = prompts.topic_of(round)
        known = self._store.read(lambda tx: replaceable.find(tx, round, topic, files))
        left_open = self._store.read(lambda tx: memories.left_open(tx, round.session_id, round.prompt_number))
        return prompts.question(round, self._current_mode(), self.settings.language, known, left_open)

    async def _call(self, ask: Ask, calls: list[ModelCall]) -> Answer:
        chosen, model = self.settings, await self._connect()
        name = self._model_name
        input_tokens = tokens(ask.system) + tokens(ask.prompt)
        async with self._budget.reserve(chosen, name, input_tokens, calls):
            try:
                async with asyncio.timeout(chosen.call_seconds):
                    answer = await model(ask)
            except TimeoutError:
                calls.append(_priced(ModelCall(chosen.provider, name, input_tokens)))  # it was sent and may be billed
                raise ProviderFailure("hang", f"No answer came within {chosen.call_seconds:g} s.") from None
            calls.append(_priced(answer.call))
        return answer

    async def _connect(self) -> Model:
        """The model. It is connected in a thread, because importing its library takes seconds."""
        async with self._connecting:
            if self._model is None:
                chosen = self.settings
                choice = Choice(
                    chosen.provider,
                    self._model_name,
                    chosen.base_url,
                    chosen.api_key,
                    chosen.call_seconds,
                    chosen.paths.observing,
                    chosen.claude_path,
                    self._conversations,
                )
                self._model = await asyncio.to_thread(connect, choice)
            return self._model

    async def _observe_instead(self, round: Round, calls: tuple[ModelCall, ...] = ()) -> Reply:
        """The reply of the rules instead of the model's. It is marked, so that `reobserve` can ask the model later."""
        reply = await _observe_offline(round)
        return replace(reply, provider=OFFLINE, instead_of=self.settings.provider, calls=calls)

    def _current_mode(self) -> modes.Mode:
        """The mode of the settings. If it cannot be used, that is reported and the default mode is used."""
        if self._mode is None:
            folder = self.settings.paths.modes
            try:
                self._mode, self._mode_trouble = modes.load(self.settings.mode, folder), ""
            except BadSetting as error:
                log.warning("%s", error)
                self._mode_trouble = str(error)
                self._mode = modes.load(modes.DEFAULT, folder / "none")
        return self._mode

    async def _reload_settings(self) -> bool:
        """Load config.toml again if it was changed. Returns whether it was loaded."""
        new = self._config.changed()
        if new is None:
            return False
        self.settings, self._mode = new, None
        self._pauses.reset()
        await self.close()
        return True

    async def close(self) -> None:
        """Disconnect the model and end what it runs."""
        model, self._model = self._model, None
        if closing := getattr(model, "close", None):
            await closing()


def _priced(call: ModelCall) -> ModelCall:
    return call if call.cost_micros is not None else replace(call, cost_micros=prices.cost_micros(call))


async def _observe_offline(round: Round) -> Reply:
    # Imported with the first round, because compiling its patterns delays the start of the worker.
    from backstory.observe import offline

    return await offline.observe(round)
