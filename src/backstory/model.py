"""The things backstory talks about: one frozen type for each word of the product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal, NewType

from backstory import gate

# The two session ids are different types, so that the checker refuses one where the other is meant.
ContentId = NewType("ContentId", str)  # the agent's own id of its conversation
MemoryId = NewType("MemoryId", str)  # the observer's id of its conversation about it

Kind = Literal[
    "session_start",
    "prompt",
    "tool",
    "tool_failure",
    "stop",
    "subagent_stop",
    "pre_compact",
    "post_compact",
    "session_end",
    "memory",
    "reply",  # what the assistant said, from a transcript: a turn of the conversation, and no event
]
#: The event id of a report from a line of a transcript begins with this.
FROM_LINE = "transcript-"
#: The agent of the sessions `manual:{project}`, which hold what people add without a conversation.
OURSELVES = "backstory"
#: Kinds that wait for the observer; the others are finished when they are stored.
OBSERVED: frozenset[str] = frozenset({"tool", "tool_failure", "stop", "subagent_stop"})

TYPES = ("bugfix", "feature", "refactor", "change", "discovery", "decision")
CONCEPTS = (
    "how-it-works",
    "why-it-exists",
    "what-changed",
    "problem-solution",
    "gotcha",
    "pattern",
    "trade-off",
)


#: What a report is called by; its payload is the rest of its text.
_NAMES = (
    *("agent", "content_id", "event_id", "cwd", "git_branch", "tool_name", "tool_use_id", "prompt_id"),
    "transcript_path",
)


@dataclass(frozen=True, slots=True)
class Report:
    """What an agent told us, in our words: an agent's reader makes it, the store takes it.

    It holds no private text and no secrets: they are removed when it is made.
    """

    agent: str
    kind: Kind
    content_id: ContentId
    event_id: str  #: minted by the sender; a second sending is a no-op
    occurred_at: str
    cwd: str = ""
    git_branch: str | None = None  #: where a report of the past names it; the present one's is looked up
    tool_name: str | None = None
    tool_use_id: str | None = None
    prompt_id: str | None = None  #: the agent's own id of the prompt, where it has one
    transcript_path: str | None = None
    is_notification: bool = False  #: a prompt that the agent wrote itself; it gets no number
    #: what the kind brings: tool_input, tool_response, error, prompt, source, reason, last_assistant_message …
    payload: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names, payload = gate.report({name: getattr(self, name) for name in _NAMES}, self.payload)
        for name, value in {**names, "payload": payload}.items():
            object.__setattr__(self, name, value)


class SessionStatus(StrEnum):
    """The state of a session, as it is stored. `sessions/states` has the moves between them."""

    CREATED = "created"
    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    EXPIRED = "expired"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation of an agent. The fields are the columns of `sdk_sessions`, in their order."""

    id: int
    agent: str
    content_session_id: ContentId
    memory_session_id: MemoryId | None  #: None until an observer has answered
    memory_provider: str | None  #: the provider that issued the memory id; None if backstory made it up
    project: str
    project_key: str
    cwd: str
    git_branch: str | None
    transcript_path: str | None
    title: str | None
    first_user_prompt: str | None
    prompt_counter: int  #: the number of the last prompt
    status: SessionStatus
    parent_id: int | None  #: the session that was cleared or forked
    start_source: str | None
    end_reason: str | None
    force_init: bool  #: the observer must begin a new conversation
    settles_at: int  #: milliseconds; the current round is not observed before this moment
    created_at: str
    last_event_at: str
    completed_at: str | None
    forgotten_at: str | None
    is_new: bool = False  #: not a column: the report at hand created the session


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a user asked. The fields are the columns of `user_prompts`."""

    id: int
    session_id: int
    prompt_number: int
    prompt: str | None  #: None if it is private or was forgotten
    is_private: bool
    prompt_id: str | None  #: the agent's own id of it
    created_at: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of a conversation. The fields are the columns of `turns`, in their order."""

    id: int
    session_id: int
    number: int  #: from 0, in the order of arrival
    prompt_number: int
    role: str  #: "user" or "assistant"
    speaker: str | None  #: a name, where the conversation has names
    text: str | None  #: None if it is private or was forgotten
    at: str
    mark: str | None  #: the agent's own id of the message


@dataclass(frozen=True, slots=True)
class Event:
    """One stored report: stripped, never edited."""

    id: int
    session_id: int
    prompt_number: int
    kind: Kind
    occurred_at: str
    tool_name: str | None
    tool_use_id: str | None
    payload: Mapping[str, Any]
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Round:
    """A prompt, what was done for it, and how it ended: what the observer reads at once."""

    session_id: int
    content_id: ContentId
    memory_id: MemoryId | None
    agent: str
    project: str
    cwd: str
    prompt_number: int
    prompt: str  #: empty if private or unknown
    events: tuple[Event, ...]  #: to be observed now, oldest first
    earlier: tuple[Event, ...] = ()  #: of the same round, observed before: to understand by, not to tell again
    resume: MemoryId | None = None  #: the observer's own conversation to go on with; None begins a fresh one

    @property
    def stop(self) -> Event | None:
        """The round's end, if it is among the events: then a summary is due."""
        return next((e for e in reversed(self.events) if e.kind == "stop"), None)


@dataclass(frozen=True, slots=True)
class Observation:
    """What an event, or a few, meant. Private text and secrets are removed when it is made."""

    type: str
    title: str
    subtitle: str = ""
    narrative: str = ""
    facts: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    event_ids: tuple[int, ...] = ()  #: Event.id of each event it came from
    replaces: tuple[int, ...] = ()  #: earlier observations that hold no longer, now that this one does

    def __post_init__(self) -> None:
        texts = ("title", "subtitle", "narrative")
        lists = ("facts", "concepts", "files_read", "files_modified")
        told = {name: getattr(self, name) for name in texts} | {name: [*getattr(self, name)] for name in lists}
        clean = gate.document(told)
        if clean is not told:
            for name, value in clean.items():
                object.__setattr__(self, name, value if name in texts else tuple(filter(None, value)))
        object.__setattr__(self, "type", gate.text(self.type))


@dataclass(frozen=True, slots=True)
class Summary:
    """One round, told: what was asked, found, learned, done, and what is next. Cleaned like an observation."""

    request: str = ""
    investigated: str = ""
    learned: str = ""
    completed: str = ""
    next_steps: str = ""
    notes: str = ""

    def __post_init__(self) -> None:
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, value in gate.document(told).items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model, as its bill counts it: input is all that was read, cached the part that cost less."""

    provider: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_micros: int | None = None  #: millionths of a dollar, where the price is known


@dataclass(frozen=True, slots=True)
class Reply:
    """What a provider made of a round."""

    observations: tuple[Observation, ...] = ()
    summary: Summary | None = None
    memory_id: MemoryId | None = None  #: the provider's own conversation, if it has one
    provider: str = ""  #: who made it, where it is not the one that the observer was built with
    instead_of: str = ""  #: the provider that the rules stood in for
    calls: tuple[ModelCall, ...] = ()  #: what it took
    grown: bool = False  #: the conversation has become long: the next round begins a fresh one
