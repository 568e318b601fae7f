"""session.json: a session of the Python API with its messages, as `DATA/agent-sessions/{content id}/session.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True, slots=True)
class Message:
    """A message with its blocks. The constructor removes private text and secrets.

    A block is `{"type": "text", "text": …}`, `{"type": "tool_use", "tool_use": {id, name, input}}` or
    `{"type": "tool_result", "tool_result": {tool_use_id, content, is_error}}`.
    """

    role: str  #: "user" or "assistant"
    content: tuple[Mapping[str, Any], ...]
    timestamp: str

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
    messages: tuple[Message, ...] = field(default=())


def folder_of(paths: Paths, content_id: str) -> Path:
    """Return the directory of a session. Raises BadInput for an id that cannot be the name of one."""
    if not _ID.fullmatch(content_id):
        raise BadInput("The session id is not valid.", "Use letters, digits, `-` and `_`, at most 128 of them.")
    return paths.agent_sessions / content_id


def make_folder(paths: Paths, content_id: str) -> Path:
    """Create the directory of a session, accessible only to its owner."""
    folder = folder_of(paths, content_id)
    paths.prepare()
    paths.agent_sessions.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def read(paths: Paths, content_id: str) -> SessionFile | None:
    """Read the file of a session. Returns None if there is none."""
    path = folder_of(paths, content_id) / "session.json"
    try:
        value = json.loads(files.read_regular(path, MAX_BYTES))
        return _from_json(value)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SessionUnreadable(f"{path} could not be read ({type(error).__name__}).") from None


def write(paths: Paths, session: SessionFile) -> None:
    """Write the file of a session atomically. The caller holds the lock. A forgotten session is not written again."""
    path = make_folder(paths, session.id) / "session.json"
    text = json.dumps(_to_json(session), ensure_ascii=False, indent=2)
    write_private(path, text.encode(errors="replace"))
    if path.with_name("forgotten").exists():  # looked up afterwards, because `forget` does not wait for the lock
        path.unlink(missing_ok=True)


def set_status(paths: Paths, content_id: str, status: SessionStatus) -> None:
    """Change the status in the file of a session, if there is a file. The caller holds the lock."""
    if session := read(paths, content_id):
        write(paths, replace(session, metadata=replace(session.metadata, status=status)))


def forget(paths: Paths, content_id: str) -> None:
    """Delete the file of a session, and keep a caller who is using the session from writing it again."""
    if _ID.fullmatch(content_id) and (folder := folder_of(paths, content_id)).is_dir():
        (folder / "forgotten").touch(0o600)
        for file in (folder / "session.json", *folder.glob(".session.json.*.tmp")):
            file.unlink(missing_ok=True)


def _to_json(session: SessionFile) -> dict[str, Any]:
    metadata = {name: getattr(session.metadata, own) for own, name in _NAMES.items()}
    messages = [{"role": one.role, "content": one.content, "timestamp": one.timestamp} for one in session.messages]
    return {"id": session.id, "metadata": metadata, "messages": messages}


def _from_json(value: dict[str, Any]) -> SessionFile:
    given = {own: value["metadata"][name] for own, name in _NAMES.items() if name in value["metadata"]}
    given["status"] = SessionStatus(given.get("status", SessionStatus.CREATED))
    messages = (Message(one["role"], tuple(one["content"]), one.get("timestamp") or "") for one in value["messages"])
    return SessionFile(ContentId(value["id"]), Metadata(**given), tuple(messages))
