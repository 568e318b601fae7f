"""session.json: a session of the Python API with its messages, as `DATA/agent-sessions/{content id}/session.json`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from backstory import files, gate
from backstory.errors import BadInput, SessionUnreadable
from backstory.model import ContentId, SessionStatus
from backstory.paths import Paths, write_private

#: A content id that can be the name of a directory. It contains no dot and no slash, so it stays in its parent.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
#: Bytes of a session.json that are read, at most.
MAX_BYTES = 1 << 30
#: The name of a damaged file that was set aside. Further ones get a number.
_DAMAGED = "session.json.damaged"
#: The types of blocks in a message.
BLOCKS = ("text", "tool_use", "tool_result")
#: Field of `Metadata` -> its name in the file.
_NAMES = {
    "model": "model",
    "cwd": "cwd",
    "created_at": "createdAt",
    "last_message_at": "lastMessageAt",
    "message_count": "messageCount",
    "turn_count": "turnCount",
    "input_tokens": "totalInputTokens",
    "output_tokens": "totalOutputTokens",
    "cost_micros": "totalCostMicros",
    "status": "status",
    "last_stop_reason": "lastStopReason",
    "parent_id": "parentId",
}


@dataclass(frozen=True, slots=True)
class Metadata:
    """What is known about a session besides its messages."""

    model: str
    cwd: str
    created_at: str
    last_message_at: str
    message_count: int = 0
    turn_count: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0  #: millionths of a dollar
    status: SessionStatus = SessionStatus.CREATED
    last_stop_reason: str | None = None
    parent_id: str | None = None  #: the session that this one continues, if it was cleared, forked or lost


@dataclass(frozen=True, slots=True)
class Message:
    """A message with its blocks. The constructor removes private text and secrets.

    A block is `{"type": "text", "text": …}`, `{"type": "tool_use", "tool_use": {id, name, input}}` or
    `{"type": "tool_result", "tool_result": {tool_use_id, content, is_error}}`.
    """

    role: str  #: "user" or "assistant"
    content: tuple[Mapping[str, Any], ...]
    timestamp: str
    uuid: str | None = None  #: the agent's own id of the message; None if its transcript has none

    def __post_init__(self) -> None:
        # Cleaned together: a tag hides what follows it, also in the next block.
        clean = gate.payload({str(number): block for number, block in enumerate(self.content)})
        blocks = (block for block in clean.values() if isinstance(block, dict) and block.get("type") in BLOCKS)
        object.__setattr__(self, "content", tuple(blocks))


@dataclass(frozen=True, slots=True)
class SessionFile:
    """The content of a session.json."""

    id: ContentId
    metadata: Metadata
    messages: tuple[Message, ...] = ()


def check_id(content_id: str) -> None:
    """Raise BadInput for an id that cannot be the name of a directory."""
    if not _ID.fullmatch(content_id):
        raise BadInput("The session id is not valid.", "Use letters, digits, `-` and `_`, at most 128 of them.")


def folder_of(paths: Paths, content_id: str) -> Path:
    """Return the directory of a session. Raises BadInput for an id that cannot be the name of one."""
    check_id(content_id)
    return paths.agent_sessions / content_id


def has_folder(paths: Paths, content_id: str) -> bool:
    """Tell whether a session has a directory in this data directory."""
    return _ID.fullmatch(content_id) is not None and folder_of(paths, content_id).is_dir()


def make_folder(paths: Paths, content_id: str) -> Path:
    """Create the directory of a session, accessible only to its owner."""
    folder = folder_of(paths, content_id)
    paths.prepare()
    paths.agent_sessions.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def read(paths: Paths, content_id: str) -> SessionFile | None:
    """Read the file of a session. Returns None if there is none."""
    value = _load(paths, content_id)
    try:
        return None if value is None else _from_json(value)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(paths, content_id, error) from None


def read_metadata(paths: Paths, content_id: str) -> Metadata | None:
    """Read the file of a session without its messages. Returns None if there is none."""
    value = _load(paths, content_id)
    try:
        return None if value is None else _metadata(value)
    except (ValueError, TypeError) as error:
        raise _unreadable(paths, content_id, error) from None


def write(paths: Paths, session: SessionFile) -> None:
    """Write the file of a session atomically. The caller holds the lock. A forgotten session is not written again."""
    _write(paths, session.id, _to_json(session))


def set_status(paths: Paths, content_id: str, status: SessionStatus) -> None:
    """Change the status in the file of a session, if there is a file. The caller holds the lock."""
    if (value := _load(paths, content_id)) is not None:
        value["metadata"]["status"] = status
        _write(paths, content_id, value)


def change(paths: Paths, content_id: str, work: Callable[[list[Any]], list[Any]]) -> None:
    """Change the messages in the file of a session, as JSON, if there is a file. The caller holds the lock."""
    if (value := _load(paths, content_id)) is not None:
        messages = value["messages"]
        value["messages"] = work(messages)
        if value["messages"] != messages:
            _write(paths, content_id, value)


def archives_of(paths: Paths, content_id: str) -> Path:
    """Return the directory in which a session is archived when it expires."""
    return folder_of(paths, content_id) / "conversations"


def set_aside(paths: Paths, content_id: str) -> Path:
    """Give a damaged file another name, and return that. The caller holds the lock."""
    path = folder_of(paths, content_id) / "session.json"
    names = (path.with_name(f"{_DAMAGED}{number or ''}") for number in count())
    aside = next(name for name in names if not os.path.lexists(name))
    path.rename(aside)
    return aside


def remove_damaged(paths: Paths, content_id: str) -> None:
    """Delete the damaged files of a session that were set aside. They may hold text that was forgotten."""
    for path in folder_of(paths, content_id).glob(f"{_DAMAGED}*"):
        files.remove(path)


def names(paths: Paths) -> list[str]:
    """Return the content ids of the sessions that have a directory."""
    return sorted(path.name for path in paths.agent_sessions.glob("*") if has_folder(paths, path.name))


def mark(paths: Paths, content_id: str) -> None:
    """Mark a file that may hold forgotten text. A restart of the worker does not lose the mark."""
    (folder_of(paths, content_id) / "unclean").touch(0o600)


def unmark(paths: Paths, content_id: str) -> None:
    (folder_of(paths, content_id) / "unclean").unlink(missing_ok=True)


def marked(paths: Paths) -> list[str]:
    """Return the content ids of the sessions whose files are marked."""
    return sorted(path.parent.name for path in paths.agent_sessions.glob("*/unclean"))


def forget(paths: Paths, content_id: str) -> None:
    """Delete the file of a session, and keep a caller who is using the session from writing it again."""
    if has_folder(paths, content_id):
        folder = folder_of(paths, content_id)
        (folder / "forgotten").touch(0o600)
        for file in (folder / "session.json", folder / "unclean", *folder.glob(".session.json.*.tmp")):
            file.unlink(missing_ok=True)
        remove_damaged(paths, content_id)
        with suppress(FileNotFoundError):
            files.remove(archives_of(paths, content_id))


def _load(paths: Paths, content_id: str) -> dict[str, Any] | None:
    """Return the content of the file, with its parts checked; None if there is no file."""
    path = folder_of(paths, content_id) / "session.json"
    try:
        value: dict[str, Any] = json.loads(files.read_regular(path, MAX_BYTES))
        if not (isinstance(value["metadata"], dict) and isinstance(value["messages"], list)):
            raise TypeError
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _unreadable(paths, content_id, error) from None
    else:
        return value


def _unreadable(paths: Paths, content_id: str, error: Exception) -> SessionUnreadable:
    path = folder_of(paths, content_id) / "session.json"
    unreadable = SessionUnreadable(f"{path} could not be read ({type(error).__name__}).")
    # Without a number, an OSError says that this is no regular file.
    unreadable.is_damaged = not isinstance(error, OSError) or error.errno is None
    return unreadable


def _write(paths: Paths, content_id: str, value: dict[str, Any]) -> None:
    path = make_folder(paths, content_id) / "session.json"
    write_private(path, json.dumps(value, ensure_ascii=False, indent=2).encode(errors="replace"))
    if path.with_name("forgotten").exists():  # looked up afterwards, because `forget` does not wait for the lock
        path.unlink(missing_ok=True)


def _to_json(session: SessionFile) -> dict[str, Any]:
    metadata = {name: getattr(session.metadata, own) for own, name in _NAMES.items()}
    return {"id": session.id, "metadata": metadata, "messages": [_message(one) for one in session.messages]}


def _message(one: Message) -> dict[str, Any]:
    message = {"role": one.role, "content": one.content, "timestamp": one.timestamp}
    return message | {"uuid": one.uuid} if one.uuid else message


def _from_json(value: dict[str, Any]) -> SessionFile:
    messages = tuple(from_json(one) for one in value["messages"])
    return SessionFile(ContentId(value["id"]), _metadata(value), messages)


def _metadata(value: dict[str, Any]) -> Metadata:
    given = {own: value["metadata"][name] for own, name in _NAMES.items() if name in value["metadata"]}
    given["status"] = SessionStatus(given.get("status", SessionStatus.CREATED))
    return Metadata(**given)


def from_json(value: Mapping[str, Any]) -> Message:
    """Read a message in the form of the file."""
    return Message(value["role"], tuple(value["content"]), value.get("timestamp") or "", value.get("uuid"))
