"""The models that can be asked: each is one async function from what is asked to what is answered."""

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

#: Why a model could not answer. transient: try again. hang: it took too long. rate_limit: try again when it says.
#: quota, auth, setup: somebody must do something first. poison: this very question. stale: the conversation to go on
#: with is gone.
FailureKind = Literal["transient", "hang", "rate_limit", "quota", "auth", "setup", "poison", "stale"]


#: No call takes more tokens than this, whatever an endpoint says.
MOST_TOLD = 20_000_000


@dataclass(frozen=True, slots=True)
class Ask:
    """What a model is sent about a round."""

    system: str  #: the task, the same for every round
    prompt: str  #: what is new, verbatim
    resume: MemoryId | None = None  #: the model's own conversation to go on with; None begins a fresh one


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, and what that took."""

    text: str
    call: ModelCall
    memory_id: MemoryId | None = None  #: its conversation, where it keeps one
    grown: bool = False  #: that conversation has become long: the next round should begin a fresh one
    is_cut: bool = False  #: the model had more to say than its limit of tokens let it


def counted(told: Any, estimate: int = 0) -> int:
    """A number of tokens as an endpoint tells it; our own estimate where that can't be one."""
    is_number = isinstance(told, int | float) and not isinstance(told, bool)
    return int(told) if is_number and 0 <= told <= MOST_TOLD else estimate


def call_of(choice: Choice, ask: Ask, text: str, told: Sequence[Any]) -> ModelCall:
    """A call as its usage tells it: tokens read, written, and, of those read, taken from a cache."""
    read = counted(told[0], tokens(ask.system) + tokens(ask.prompt))
    return ModelCall(choice.provider, choice.model, read, counted(told[1], tokens(text)), min(counted(told[2]), read))


class ProviderFailure(BackstoryError):
    """The model could not be asked."""

    def __init__(self, kind: FailureKind, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)  # says nothing of what was asked
        self.kind, self.retry_after_s = kind, retry_after_s


Model = Callable[[Ask], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which model the user chose, and how it is reached."""

    provider: str
    model: str = ""
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    call_s: float = 60.0  #: a call that takes longer is cut off
    home: Path = Path()  #: the observer's own directory, for one that needs a place to work in
    program: str = ""  #: what to run, for one that runs something; empty for the one that is found
    conversations: OwnTranscripts = field(default_factory=OwnTranscripts)  #: for one that keeps them


#: Each provider's module; it has `connect(choice)`, which gives a Model (with `close()`, if there is something to
#: close) or raises a ProviderFailure. It is imported when it is chosen, in a thread.
PROVIDERS = {
    "claude": "backstory.observe.providers.claude",
    "anthropic": "backstory.observe.providers.anthropic",
    "openai": "backstory.observe.providers.openai",
}
#: The model of each where none is named: a small one, for there are many rounds.
DEFAULT_MODELS = {"claude": "haiku", "anthropic": "claude-haiku-5-5", "openai": "gpt-5-mini"}


def connect(choice: Choice) -> Model:
    """The model that was chosen."""
    model: Model = import_module(PROVIDERS[choice.provider]).connect(choice)
    return model
