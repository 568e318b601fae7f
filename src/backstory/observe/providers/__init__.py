"""The providers of models. Each is one async function from `Ask` to `Answer`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from backstory.errors import BackstoryError
from backstory.model import MemoryId, ModelCall
from backstory.observe.own_transcripts import OwnTranscripts
from backstory.text import tokens

#: Why a model did not answer. transient: try again. hang: it took too long. rate_limit: try again after the pause that
#: it asks for. quota, auth, setup: somebody must fix something first. poison: this question fails. stale: the
#: conversation to resume is gone.
FailureKind = Literal["transient", "hang", "rate_limit", "quota", "auth", "setup", "poison", "stale"]
#: Larger token counts of an endpoint are not believed.
MAX_REPORTED_TOKENS = 20_000_000


@dataclass(frozen=True, slots=True)
class Ask:
    """What a model is sent about a round."""

    system: str  #: the task, the same for every round
    prompt: str  #: the round, sent as it is
    resume: MemoryId | None = None  #: the conversation to resume; None starts a new one


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered, and what the call took."""

    text: str
    call: ModelCall
    memory_id: MemoryId | None = None  #: the conversation, if the provider keeps one
    grown: bool = False  #: the conversation has become long, so the next round should start a new one
    is_cut: bool = False  #: the answer was cut off at the model's token limit


def token_count(reported: Any, estimate: int = 0) -> int:
    """The number of tokens that an endpoint reports, or our estimate if that is not a possible number."""
    is_number = isinstance(reported, int | float) and not isinstance(reported, bool)
    return int(reported) if is_number and 0 <= reported <= MAX_REPORTED_TOKENS else estimate


def model_call(choice: Choice, ask: Ask, text: str, usage: Sequence[Any]) -> ModelCall:
    """A call with the reported usage: input tokens, output tokens and, of the input, cached tokens."""
    input_tokens = token_count(usage[0], tokens(ask.system) + tokens(ask.prompt))
    output_tokens, cached = token_count(usage[1], tokens(text)), token_count(usage[2])
    return ModelCall(choice.provider, choice.model, input_tokens, output_tokens, min(cached, input_tokens))


class ProviderFailure(BackstoryError):
    """The model could not be asked."""

    def __init__(self, kind: FailureKind, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)  # must not quote the question
        self.kind, self.retry_after_s = kind, retry_after_s


Model = Callable[[Ask], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Choice:
    """The model that the user chose, and how to reach it."""

    provider: str
    model: str = ""
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    call_s: float = 60.0  #: the timeout of a call
    home: Path = Path()  #: the observer's own working directory, for a provider that runs a program
    program: str = ""  #: the program that such a provider runs; empty: it looks for one
    conversations: OwnTranscripts = field(default_factory=OwnTranscripts)  #: for a provider that keeps conversations


#: The module of each provider, imported when it is chosen. Its `connect(choice)` returns a Model, which may have a
#: method `close()`, or raises a ProviderFailure. It runs in a thread.
PROVIDERS = {
    "claude": "backstory.observe.providers.claude",
    "anthropic": "backstory.observe.providers.anthropic",
    "openai": "backstory.observe.providers.openai",
}
#: The model of each provider if none is set: a small one, because there are many rounds.
DEFAULT_MODELS = {"claude": "haiku", "anthropic": "claude-haiku-5-5", "openai": "gpt-5-mini"}


def connect(choice: Choice) -> Model:
    """Connect the model that was chosen."""
    model: Model = import_module(PROVIDERS[choice.provider]).connect(choice)
    return model
