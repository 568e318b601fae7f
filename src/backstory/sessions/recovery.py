"""Goes on with a conversation whose transcript is gone or damaged: tells its messages again, as part of the prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backstory.agents.claude_code.resumable import Resumable
from backstory.sessions.session_file import Message
from backstory.text import cut, harmless, tokens

#: Tokens of the messages that are told again, at most.
MAX_TOKENS = 12_000
#: Characters of one message, at most.
MAX_TEXT = 8_000
#: Characters of the input of a tool, and of its result, at most.
MAX_TOOL = 600
#: Nothing inside is stored as memory again. The prompt follows at once, so that it is stored as it was written.
_OPENS = "<backstory-context>"
_CLOSES = "</backstory-context>"
_WHOLE = (
    "The conversation so far, oldest message first. Its transcript was lost, so a record of it is given here. Files "
    "may have changed since. Go on from where it ends."
)
_REST = (
    "The last messages of this conversation were lost. A record of them is given here, oldest first. Files may have "
    "changed since. Go on from where it ends."
)


@dataclass(frozen=True, slots=True)
class SessionRecovered:
    """A notice to the caller, before the first message: the transcript was gone or damaged.

    If `session_id` differs from `lost_session_id`, the conversation goes on in a new session.
    """

    session_id: str
    lost_session_id: str
    #: "deleted", "empty", "damaged" or "refused" by the agent; "rebuilt" if session.json was damaged instead
    reason: str
    messages: int  #: how many messages were told again; 0 if the transcript was restored


def compared(known: Resumable, messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Divide messages into those that the agent knows, and those that it does not know: the last ones, as after a
    crash, and follow-ups that it had not taken up.

    Prompts have no id, and neither have messages from before this session. They are known by their words, except
    commands such as `/compact`, which are written in another way.
    """
    told = [number for number, one in enumerate(messages) if one.uuid]
    held = known.held([messages[number].uuid or "" for number in told])
    answers = [number for number, one in enumerate(messages) if one.role == "assistant"]
    last = told[held - 1] if held else -1 if told else max(answers, default=-1)
    began = max((number for number in answers if not messages[number].uuid), default=-1)
    kept: list[Message] = []
    rest: list[Message] = []
    for number, one in enumerate(messages):
        is_told = number <= last and not (number > began and one.role == "user" and not one.uuid)
        is_known = is_told or (not one.uuid and _has(known, text_of(one)))
        if not is_known:
            rest.append(one)
        elif number <= last:
            kept.append(one)
    return kept, rest


def _has(known: Resumable, text: str) -> bool:
    return text.startswith("/") or known.has_prompt(text)


def continued_as(content_id: str) -> str:
    """Return the reason for which a lost session ends."""
    return f"continued as {content_id}"


def preamble(messages: Sequence[Message], *, is_whole: bool, limit: int = MAX_TOKENS) -> str:
    """Write messages as the beginning of a prompt, within a limit of tokens: the first one and the newest."""
    told = [text for text in _told(messages) if text]
    if not told:
        return ""
    first, rest = told[0], told[1:]
    left = limit - tokens(first)
    kept: list[str] = []
    while rest and (left := left - tokens(rest[-1]) - 2) >= 0:  # 2 line breaks
        kept.insert(0, rest.pop())
    gap = [f"[{len(rest)} messages are left out here]"] if rest else []
    return "\n\n".join([_OPENS, _WHOLE if is_whole else _REST, first, *gap, *kept, _CLOSES])


def _told(messages: Sequence[Message]) -> list[str]:
    """Write each message as text. A tool use is told only with its result, and a result only from the last round.

    A tool use without a result was cut off, and may not have happened. Older results may no longer be true.
    """
    results = {result.get("tool_use_id"): result for one in messages for result in _of(one, "tool_result")}
    last = max((number for number, one in enumerate(messages) if one.role == "user" and text_of(one)), default=0)
    return [_written(one, results, is_last=number >= last) for number, one in enumerate(messages)]


def _written(message: Message, results: Mapping[Any, Mapping[str, Any]], is_last: bool) -> str:
    lines = [text_of(message)] if text_of(message) else []
    for use in _of(message, "tool_use"):
        if result := results.get(use.get("id")):
            given = cut(json.dumps(use.get("input"), ensure_ascii=False), MAX_TOOL)
            answer = f": {cut(_content(result), MAX_TOOL)}" if is_last else ""
            lines.append(f"[used {use.get('name')} {given}{answer}]")
    if not lines:
        return ""
    return harmless(f"{message.role.capitalize()}: " + cut("\n".join(lines), MAX_TEXT))


def text_of(message: Message) -> str:
    """Return the text of a message, without tools."""
    texts = [block.get("text") for block in message.content if block.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


def _of(message: Message, kind: str) -> list[Mapping[str, Any]]:
    found = [block.get(kind) for block in message.content if block.get("type") == kind]
    return [value for value in found if isinstance(value, dict)]


def _content(result: Mapping[str, Any]) -> str:
    content = result.get("content")
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
