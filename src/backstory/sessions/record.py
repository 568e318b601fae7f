"""What a run keeps of its session: the messages and totals of session.json, and the turns so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from backstory import ids
from backstory.model import ContentId, SessionStatus
from backstory.paths import Paths
from backstory.sessions import session_file
from backstory.sessions.session_file import Message, Metadata, SessionFile

if TYPE_CHECKING:
    from claude_agent_sdk import AssistantMessage, ResultMessage, UserMessage

#: The parts of a turn's input that the SDK counts.
_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
#: Class of the SDK -> the type of its block in session.json. Other blocks, such as thinking, are not kept.
_BLOCKS = {"TextBlock": "text", "ToolUseBlock": "tool_use", "ToolResultBlock": "tool_result"}


@dataclass(slots=True)
class TurnState:
    """The turns of a run. A turn is one message of the model, with the tools that it calls."""

    max_turns: int
    current_turn: int = 0  #: since the run began or went on
    tool_calls_this_turn: int = 0
    continuations: int = 0  #: how often the run went on after the turn limit

    @property
    def should_continue(self) -> bool:
        """Whether the turn limit allows another turn."""
        return self.current_turn < self.max_turns

    def go_on(self) -> None:
        """Begin to count again, because the run goes on after the turn limit."""
        self.current_turn = self.tool_calls_this_turn = 0
        self.continuations += 1


class Record:
    """The session.json of a session, as the run that holds its lock goes on writing it."""

    def __init__(self, paths: Paths, session: SessionFile, turns: TurnState) -> None:
        self._paths, self._session, self._turns = paths, session, turns
        self._message_id: str | None = None  #: the message whose blocks arrive one by one

    @classmethod
    def create(cls, paths: Paths, content_id: str, model: str, cwd: str, turns: TurnState) -> Record:
        now = ids.now()
        return cls(paths, SessionFile(ContentId(content_id), Metadata(model, cwd, now, now)), turns)

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def messages(self) -> tuple[Message, ...]:
        return self._session.messages

    @property
    def metadata(self) -> Metadata:
        return self._session.metadata

    def save(self) -> None:
        """Write session.json."""
        session_file.write(self._paths, self._session)

    def set_status(self, status: SessionStatus) -> None:
        self._update(status=status)

    def set_model(self, model: str) -> None:
        self._update(model=model)

    def begin_with(self, messages: Iterable[Message], parent_id: str | None = None) -> None:
        """Begin with messages that were said before: of another session, if there is a `parent_id`.

        Then they lose their ids, because the transcript of this session does not have them.
        """
        kept = tuple(replace(one, uuid=None) if parent_id else one for one in messages)
        self._session = replace(self._session, messages=kept)
        if kept and not parent_id:
            self._update(created_at=kept[0].timestamp or self.metadata.created_at)
        self._update(parent_id=parent_id, message_count=len(kept))

    def catch_up(self, messages: Iterable[Message]) -> None:
        """Take over what the transcript has and the file has not."""
        self._session = replace(self._session, messages=tuple(messages))
        self._update(message_count=len(self.messages))

    def add_prompt(self, text: str) -> None:
        self._add(Message("user", ({"type": "text", "text": text},), ids.now()))

    def add_reply(self, message: AssistantMessage) -> None:
        """Add a message of the model. Each of its blocks arrives by itself, under the same id."""
        if message.parent_tool_use_id or message.error:
            return  # of a subagent, or an error in the place of an answer
        blocks = _blocks(message.content)
        is_same = message.message_id is not None and message.message_id == self._message_id
        self._message_id = message.message_id
        if not is_same:
            self._turns.current_turn += 1
            self._turns.tool_calls_this_turn = 0
            self._update(turn_count=self.metadata.turn_count + 1)
        self._turns.tool_calls_this_turn += sum(block["type"] == "tool_use" for block in blocks)
        last = self.messages[-1] if self.messages else None
        if is_same and last and last.role == "assistant":
            grown = Message("assistant", (*last.content, *blocks), ids.now(), message.uuid)
            self._session = replace(self._session, messages=(*self.messages[:-1], grown))
            self._update(last_message_at=grown.timestamp)
        elif blocks:
            self._add(Message("assistant", blocks, ids.now(), message.uuid))

    def add_results(self, message: UserMessage) -> None:
        """Add results of tools. The rest of what the agent says in the user's name is not kept."""
        if isinstance(message.content, str) or message.parent_tool_use_id:
            return
        if results := tuple(block for block in _blocks(message.content) if block["type"] == "tool_result"):
            self._add(Message("user", results, ids.now(), message.uuid))

    def add_result(self, result: ResultMessage) -> None:
        """Add up the tokens of a round. The cost is the total of the session, also over resumes."""
        usage, now = result.usage or {}, self.metadata
        cost = result.total_cost_usd
        self._update(
            input_tokens=now.input_tokens + sum(int(usage.get(name) or 0) for name in _INPUT),
            output_tokens=now.output_tokens + int(usage.get("output_tokens") or 0),
            cost_micros=now.cost_micros if cost is None else round(cost * 1_000_000),
            last_stop_reason=result.stop_reason or result.subtype,
            last_message_at=ids.now(),
        )

    def totals(self) -> dict[str, Any]:
        """Return what the worker is told about the session."""
        names = ("message_count", "turn_count", "input_tokens", "output_tokens", "cost_micros", "last_stop_reason")
        return {name: getattr(self.metadata, name) for name in names}

    def _add(self, message: Message) -> None:
        self._session = replace(self._session, messages=(*self.messages, message))
        self._update(message_count=len(self.messages), last_message_at=message.timestamp)

    def _update(self, **values: Any) -> None:
        self._session = replace(self._session, metadata=replace(self.metadata, **values))


def _blocks(content: Iterable[object]) -> tuple[Mapping[str, Any], ...]:
    """Return the blocks of a message of the SDK in the form of session.json."""
    found: list[Mapping[str, Any]] = []
    for block in content:
        kind = _BLOCKS.get(type(block).__name__)
        if kind and is_dataclass(block) and not isinstance(block, type):
            value = {each.name: getattr(block, each.name) for each in fields(block)}
            found.append({"type": kind, kind: value["text"] if kind == "text" else value})
    return tuple(found)
