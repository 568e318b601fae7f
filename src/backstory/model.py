"""The types of backstory: one frozen dataclass for each noun of the product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal, NewType

from backstory import gate

# The two session ids are different types, so that mypy finds one in place of the other.
ContentId = NewType("ContentId", str)  # the agent's own id of its conversation
MemoryId = NewType("MemoryId", str)  # the observer's id of its own conversation about a session

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
    "reply",  # a message of the assistant, from a transcript; stored as a turn, not as an event
    "title",  # the title of the session in the agent, from a transcript; not stored as an event
    "usage",  # tokens that models used in a part of a session, from a transcript; not stored as an event
]
#: Prefix of the event id of a report that comes from a line of a transcript.
FROM_LINE = "transcript-"
#: The agent of the sessions `manual:{project}`, which hold what people add by hand.
OURSELVES = "backstory"
#: Kinds of reports that are no events. They are not counted.
NO_EVENTS: frozenset[str] = frozenset({"reply", "title", "usage"})
#: Kinds of events that the observer reads. The others are done when they are stored.
OBSERVED: frozenset[str] = frozenset({"tool", "tool_failure", "stop", "subagent_stop"})

TYPES = ("bugfix", "feature", "refactor", "change", "discovery", "decision")
CONCEPTS = ("how-it-works", "why-it-exists", "what-changed", "problem-solution", "gotcha", "pattern", "trade-off")
#: The text fields of a report besides its payload.
_NAMES = (
    *("agent", "content_id", "event_id", "cwd", "git_branch", "tool_name", "tool_use_id", "prompt_id"),
    "transcript_path",
)


@dataclass(frozen=True, slots=True)
class Report:
    """What an agent reported, in our own form. The agent's package makes it, and the store keeps it.

    The constructor removes private text and secrets.
    """

    agent: str
    kind: Kind
    content_id: ContentId
    event_id: str  #: made by the sender; sending it twice has no effect
    occurred_at: str
    cwd: str = ""
    git_branch: str | None = None  #: set if the report is late; else it is looked up
    tool_name: str | None = None
    tool_use_id: str | None = None
    prompt_id: str | None = None  #: the agent's own id of the prompt, if it has one
    transcript_path: str | None = None
    is_notification: bool = False  #: a prompt that the agent wrote itself; it has no number
    #: the fields of its kind: tool_input, tool_response, error, prompt, source, reason, last_assistant_message …
    payload: Mapping[str, Any] = field(default_factory=dict)
    gap_since: str | None = None  #: its prompt may stand in a part of the transcript that begins here and is unreadable

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
    memory_session_id: MemoryId | None  #: None until the observer has answered
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
    hidden_at: str | None  #: its items are in no context and no search result
    root: str  #: the top directory of the working tree; files are named from there; empty if it is not known
    is_new: bool = False  #: not a column: the report at hand created the session


@dataclass(frozen=True, slots=True)
class Prompt:
    """A message of the user. The fields are the columns of `user_prompts`."""

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
    speaker: str | None  #: a name, if the conversation has names
    text: str | None  #: None if it is private or was forgotten
    at: str
    mark: str | None  #: the agent's own id of the message


@dataclass(frozen=True, slots=True)
class Event:
    """A stored report. It is never edited."""

    id: int
    session_id: int
    prompt_number: int
    kind: Kind
    occurred_at: str
    tool_name: str | None
    tool_use_id: str | None
    payload: Mapping[str, Any]
    attempts: int = 0


class ClaimMark(StrEnum):
    """Why a title or a fact need not hold. It is a field beside the text, and printed by `labels`."""

    NONE = ""
    USER = "user"  #: the user said it
    PROPOSED = "proposed"  #: an agent only proposed it
    EARLIER = "earlier"  #: work went on after an agent said it


def with_marks(facts: Sequence[str], marks: Sequence[ClaimMark]) -> Sequence[tuple[ClaimMark, str]]:
    """Return each fact after its mark. Without marks, no fact has one."""
    return tuple(zip(marks or (ClaimMark.NONE,) * len(facts), facts, strict=True))


@dataclass(frozen=True, slots=True)
class Noted:
    """An observation of the session that stands, as the observer is shown it."""

    id: int
    prompt_number: int
    title: str
    facts: tuple[str, ...] = ()
    importance: int = 50
    mark: ClaimMark = ClaimMark.NONE
    fact_marks: tuple[ClaimMark, ...] = ()  #: of each fact; empty if none has one


@dataclass(frozen=True, slots=True)
class Round:
    """A prompt and the events that followed it. The observer reads them together."""

    session_id: int
    content_id: ContentId
    memory_id: MemoryId | None
    agent: str
    project: str
    cwd: str
    prompt_number: int
    prompt: str  #: empty if it is private or unknown
    events: tuple[Event, ...]  #: the events to observe, oldest first
    earlier: tuple[Event, ...] = ()  #: events of this round that were observed before; they are context only
    turns: tuple[Turn, ...] = ()  #: what was said in the session up to the end of this round
    tools: tuple[tuple[int, str], ...] = ()  #: the tools of each round of the session so far, by its prompt number
    noted: tuple[Noted, ...] = ()  #: what stands of the rules' earlier observations of this session
    notes_before: str = ""  #: the notes of the rules' summary of the round before
    resume: MemoryId | None = None  #: the observer's conversation to resume; None starts a new one
    root: str = ""  #: the top directory of the working tree

    @property
    def home(self) -> str:
        """The directory from which files are named."""
        return self.root or self.cwd

    @property
    def stop(self) -> Event | None:
        """The end of the round, if it is among the events. Then a summary is due."""
        return next((e for e in reversed(self.events) if e.kind == "stop"), None)


@dataclass(frozen=True, slots=True)
class Observation:
    """What one event or several meant. The constructor removes private text and secrets."""

    type: str
    title: str
    subtitle: str = ""
    narrative: str = ""
    facts: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    event_ids: tuple[int, ...] = ()  #: the ids of the events it came from
    replaces: tuple[int, ...] = ()  #: ids of earlier observations that no longer hold
    continues: int | None = None  #: id of what was noted of its round so far; that becomes this one
    importance: int = 50  #: how likely a later session needs it, in percent
    mark: ClaimMark = ClaimMark.NONE  #: of the title
    fact_marks: tuple[ClaimMark, ...] = ()  #: of each fact; empty if none has one

    def __post_init__(self) -> None:
        texts = ("title", "subtitle", "narrative")
        lists = ("facts", "concepts", "files_read", "files_modified")
        values = {name: getattr(self, name) for name in texts} | {name: [*getattr(self, name)] for name in lists}
        clean = gate.document(values)
        if self.fact_marks:
            pairs = zip(clean["facts"], self.fact_marks, strict=True)
            object.__setattr__(self, "fact_marks", tuple(mark for fact, mark in pairs if fact))
        if clean is not values:
            for name, value in clean.items():
                object.__setattr__(self, name, value if name in texts else tuple(filter(None, value)))
        object.__setattr__(self, "type", gate.text(self.type))

    @property
    def marked_facts(self) -> Sequence[tuple[ClaimMark, str]]:
        return with_marks(self.facts, self.fact_marks)


#: How the notes of a summary name files with uncommitted changes.
NOT_COMMITTED = "Not committed: "
#: How a summary begins to say what is open in a round that has not ended.
NO_REPLY_YET = "No closing reply so far"


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a round. The constructor removes private text and secrets."""

    request: str = ""
    investigated: str = ""
    learned: str = ""
    completed: str = ""
    next_steps: str = ""
    notes: str = ""

    def __post_init__(self) -> None:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, value in gate.document(values).items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model. `input_tokens` includes `cached_tokens`, which cost less."""

    provider: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_micros: int | None = None  #: millionths of a dollar; None if the price is not known


@dataclass(frozen=True, slots=True)
class Reply:
    """What a provider returns for a round."""

    observations: tuple[Observation, ...] = ()
    summary: Summary | None = None
    memory_id: MemoryId | None = None  #: the provider's conversation, if it keeps one
    provider: str = ""  #: the provider that made it, if it is not the observer's default
    instead_of: str = ""  #: the provider in whose place the rules observed
    calls: tuple[ModelCall, ...] = ()  #: the model calls that it took
    revised: tuple[Noted, ...] = ()  #: earlier observations as they are now: other facts, another importance
    withdrawn: tuple[str, ...] = ()  #: sentences of earlier summaries that no longer hold
    carries: tuple[str, ...] = ()  #: fields of earlier summaries that this summary repeats where they still hold
    grown: bool = False  #: the conversation has become long, so the next round starts a new one
