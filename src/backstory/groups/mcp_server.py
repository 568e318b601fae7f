"""The MCP server inside a sandbox: an agent clears, lists, resumes and searches the conversations of its group.

It knows no host, only files. A request goes to `tasks/ID.json`, its answer comes as `responses/ID.json`, and the list
of sessions is `session_history.json`. Run it with `python -I -S mcp_server.py IPC_DIRECTORY`. It is bound into the
sandbox as one file, so it uses the standard library only. It prints nothing but responses.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Seconds to wait for the host. Archiving a long conversation takes a while.
ANSWER_S = 60.0
#: Seconds between two looks for an answer.
LOOK_S = 0.05
#: Sessions that are listed. A client refuses answers that are too long.
LISTED = 100
#: Versions of the protocol in which tools are alike. The first is offered to a client that asks for another one.
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
PARSE_ERROR = -32700

_ENDS = "You end when this succeeds: tell the user everything BEFORE you call it, and nothing afterwards."
_NAME = {"type": "string", "maxLength": 200}
#: name -> description, properties and required properties of a tool
TOOLS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "clear_session": (
        "Archive this conversation and let the next message start a new one. It keeps its memory and can be resumed "
        f"later. `name` is what the user will know it by; without one, a title is made from what was said. {_ENDS}",
        {"name": _NAME},
        [],
    ),
    "list_sessions": (
        "List the archived conversations of this group, newest first: id, name, when each began and was archived, and "
        "whether its transcript is still there. The main group lists those of all groups. Use the id with "
        "resume_session.",
        {},
        [],
    ),
    "resume_session": (
        "Switch to an archived conversation. `session_id` is its number in list_sessions or search_sessions. This "
        "conversation is archived first, as `save_current_as` if given. The next message continues there. In the main "
        f"group, a conversation of another group is resumed in that group, and this one goes on. Otherwise: {_ENDS}",
        {"session_id": {"type": "integer"}, "save_current_as": _NAME},
        ["session_id"],
    ),
    "search_sessions": (
        "Search what was said in the conversations of this group; the main group searches those of all groups. Returns "
        "the best matches with the id for resume_session, name and an excerpt. One without an id is an active "
        "conversation. Use this when the user asks for the conversation about something.",
        {"query": {"type": "string", "minLength": 1, "maxLength": 1000}},
        ["query"],
    ),
}


class Failed(Exception):
    """A tool could not do what was asked. The message is for the agent."""


def main(ipc: Path) -> None:
    """Answer messages, one per line, until standard input ends."""
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        if (response := respond(line, ipc)) is not None:
            sys.stdout.buffer.write(json.dumps(response).encode() + b"\n")
            sys.stdout.buffer.flush()


def respond(line: bytes, ipc: Path) -> dict[str, Any] | None:
    """Return the response to a message; None for a notification."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {"jsonrpc": "2.0", "id": None, "error": {"code": PARSE_ERROR, "message": "This is not JSON."}}
    if not isinstance(message, dict) or "id" not in message or "method" not in message:
        return None
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    parameters = message.get("params")
    method = METHODS.get(message["method"]) if isinstance(message["method"], str) else None
    if method is None:
        return answer | {"error": {"code": METHOD_NOT_FOUND, "message": "There is no such method."}}
    try:
        return answer | {"result": method(parameters if isinstance(parameters, dict) else {}, ipc)}
    except KeyError:
        return answer | {"error": {"code": INVALID_PARAMS, "message": "There is no such tool."}}


def _initialize(parameters: dict[str, Any], _: Path) -> dict[str, Any]:
    asked = parameters.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "backstory-groups", "version": "1"},
    }


def _list_tools(_: dict[str, Any], __: Path) -> dict[str, Any]:
    return {
        "tools": [
            {
                "name": name,
                "description": description,
                "inputSchema": {"type": "object", "properties": properties, "required": required},
                "annotations": {"readOnlyHint": name in ("list_sessions", "search_sessions"), "openWorldHint": False},
            }
            for name, (description, properties, required) in TOOLS.items()
        ]
    }


def _call_tool(parameters: dict[str, Any], ipc: Path) -> dict[str, Any]:
    name, arguments = str(parameters["name"]), parameters.get("arguments") or {}
    _, properties, required = TOOLS[name]
    try:
        if not isinstance(arguments, dict) or not set(required) <= arguments.keys() <= properties.keys():
            raise Failed(f"{name} takes {', '.join(properties) or 'no arguments'}.")
        text = _history(ipc) if name == "list_sessions" else ask(ipc, {"type": name} | arguments)
    except (Failed, OSError) as error:
        said = (
            str(error) if isinstance(error, Failed) else f"The directory of requests cannot be used: {error.strerror}."
        )
        return {"content": [{"type": "text", "text": said}], "isError": True}
    return {"content": [{"type": "text", "text": text}]}


def _history(ipc: Path) -> str:
    """One line of JSON for each session. The agent's own id of a session is left out: it is not what tools take."""
    try:
        entries = json.loads((ipc / "session_history.json").read_bytes())
    except (OSError, ValueError):
        raise Failed("The list of sessions cannot be read.") from None
    shown = [{name: entry[name] for name in entry if name != "session_id"} for entry in entries[:LISTED]]
    lines = [json.dumps(entry, ensure_ascii=False) for entry in shown]
    if len(entries) > LISTED:
        lines.append(f"{len(entries) - LISTED} older ones are not listed; search_sessions finds them.")
    return "\n".join(lines) or "No conversation is archived yet."


def ask(ipc: Path, request: dict[str, Any]) -> str:
    """Put a request before the host and wait for its answer."""
    request_id = f"{time.time_ns()}-{os.urandom(8).hex()}"  # the host takes requests in the order of their names
    task = ipc / "tasks" / f"{request_id}.json"
    temporary = task.with_name(f".{request_id}.tmp")
    temporary.write_text(json.dumps(request))
    temporary.rename(task)
    response, deadline = ipc / "responses" / f"{request_id}.json", time.monotonic() + ANSWER_S
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError):
            answer = json.loads(response.read_bytes())
            response.unlink()
            if "error" in answer:
                raise Failed(str(answer["error"]))
            return str(answer["text"])
        time.sleep(LOOK_S)
    try:
        task.unlink()
    except FileNotFoundError:  # the host has taken it
        raise Failed("The host did not answer in time. Call list_sessions to see what has changed.") from None
    raise Failed("The host does not answer. Nothing was changed.")


METHODS: dict[str, Callable[[dict[str, Any], Path], dict[str, Any]]] = {
    "initialize": _initialize,
    "ping": lambda _, __: {},
    "tools/list": _list_tools,
    "tools/call": _call_tool,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
