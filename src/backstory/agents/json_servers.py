"""Installs our MCP server in an agent's JSON file of servers, and leaves every other character alone.

Unlike a settings file, this one is not copied into the record, because it may hold keys of other services. Uninstall
cuts our entry out; the record holds only what the text does not tell.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from backstory.agents.install import (
    SHARED,
    FileChange,
    InstalledPart,
    carry_out,
    missing_dirs,
    remove_empty,
    swap,
    write_whole,
)
from backstory.agents.json_text import DECODER, add, cut, items, members, replace, skip, text_of, value_of
from backstory.errors import SettingsUnreadable

KEY = "mcpServers"
NAME = "backstory"
#: The tools that only read. They need no permission.
READING_TOOLS = (
    "search",
    "timeline",
    "get_observations",
    "get_session",
    "get_turns",
    "find_sessions",
    "session_context",
)
#: The first answer of a server without tools.
_EMPTY = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "serverInfo": {"name": NAME, "version": "0"},
    "instructions": "The program of backstory is missing. Install it: pipx install backstory",
}
#: Starts the bridge of whatever installation there is. Without one it is a server without tools: Claude Code does not
#: try a plugin's server that failed again for a quarter of an hour, even if the program is there by then.
ANYWHERE = (
    'b="${BACKSTORY_DATA_DIR:-$HOME/.backstory}/bin/backstory-mcp"; [ -x "$b" ] && exec "$b"; '
    'PATH="$PATH:$HOME/.local/bin"; command -v backstory >/dev/null && exec backstory mcp; '
    """sed -n 's/.*"id": *\\([0-9]*\\).*/{"jsonrpc":"2.0","id":\\1,"result":"""
    f"{json.dumps(_EMPTY, separators=(',', ':'))}}}/p;q'; cat >/dev/null"
)


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """What was there before the install."""

    made_file: bool = False
    made_dirs: tuple[str, ...] = ()
    blank: str | None = None  #: the whole file, if it held no settings
    inside: str | None = None  #: the white space between the brackets of "mcpServers", if that was empty

    @classmethod
    def load(cls, path: Path) -> ServerRecord | None:
        try:
            kept = json.loads(path.read_bytes())
            return cls(bool(kept["made_file"]), tuple(map(str, kept["made_dirs"])), kept["blank"], kept["inside"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def part(path: Path, entry: dict[str, Any], record: Path, mode: int = SHARED) -> InstalledPart:
    """Return our MCP server as a part of an installation."""
    installed = partial(install, path, entry, record, mode=mode)
    return InstalledPart("MCP server is", path, record, installed, partial(uninstall, path, record))


def server(shim: str = "") -> dict[str, Any]:
    """Return an entry as the agent's own command writes it. Without a shim it starts whatever installation there is, as
    in the plugin and in a project's file. Of two equal entries, Claude Code starts one."""
    words = [shim] if shim else ["sh", "-c", ANYWHERE]
    return {"type": "stdio", "command": words[0], "args": words[1:], "env": {}}


def is_ours(value: Any) -> bool:
    """Whether an entry starts our bridge, in whatever data directory."""
    if not isinstance(value, dict):
        return False
    args = value.get("args")
    words = [value.get("command"), *(args if isinstance(args, list) else ())]
    return isinstance(words[-1], str) and re.search(r'/bin/backstory-mcp"?(;|$)', words[-1]) is not None


def install(path: Path, entry: dict[str, Any], record: Path, dry_run: bool = False, mode: int = SHARED) -> FileChange:
    """Put our server into the file. A server of the same name that is not ours stays as it is."""

    def attempt(target: Path, before: bytes | None) -> FileChange | None:
        text, old = text_of(path, before), ServerRecord.load(record)
        _check(path, text)
        after = _with(text, entry).encode()
        held = _places(text) != []
        change = FileChange(path, before, after, "unchanged" if after == before else "updated" if held else "installed")
        if dry_run or after == before:
            return change
        if not held or old is None:
            blank = before.decode() if before is not None and value_of(before.decode()) == {} else None
            kept = ServerRecord(before is None, tuple(missing_dirs(target)), blank, _inside(text))
            record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(record, json.dumps(asdict(kept)).encode(), 0o600)
        return change if swap(target, before, after, mode) else None

    return carry_out(path, attempt)


def uninstall(path: Path, record: Path, dry_run: bool = False) -> FileChange:
    """Take our server out of the file."""

    def attempt(target: Path, before: bytes | None) -> FileChange | None:
        old = ServerRecord.load(record) or ServerRecord()
        after = before if before is None else _without(text_of(path, before), before, old)
        change = FileChange(path, before, after, "absent" if after == before else "removed")
        if dry_run:
            return change
        if not swap(target, before, after):
            return None
        if after is None:
            remove_empty(old.made_dirs)
        record.unlink(missing_ok=True)
        return change

    return carry_out(path, attempt)


def _check(path: Path, text: str) -> None:
    value = value_of(text)
    if not isinstance(value, dict) or not isinstance(value.get(KEY, {}), dict):
        raise SettingsUnreadable(f'{path} has no object where "{KEY}" belongs, so nothing was changed.')


def _places(text: str) -> list[tuple[int, int, int, int]]:
    """Return where our entries are: the root, the index of "mcpServers" in it, its place, our index in that."""
    root = skip(text, 0)
    return [
        (root, r, servers.at, s)
        for r, servers, _ in members(text, root, KEY)
        for s, item, _ in members(text, servers.at, NAME)
        if is_ours(item.value)
    ]


def _with(text: str, entry: dict[str, Any]) -> str:
    root = skip(text, 0)
    live = [item for _, item, is_live in members(text, root, KEY) if is_live]
    if not live:
        return add(text, root, {NAME: entry}, KEY)
    there = [item for _, item, is_live in members(text, live[0].at, NAME) if is_live]
    if not there:
        return add(text, live[0].at, entry, NAME)
    same = there[0].value == DECODER.decode(json.dumps(entry))
    return text if same or not is_ours(there[0].value) else replace(text, there[0], entry)


def _inside(text: str) -> str | None:
    for _, item, live in members(text, skip(text, 0), KEY):
        if live and not items(text, item.at, "{"):
            return text[item.at + 1 : item.end - 1]
    return None


def _without(text: str, before: bytes, old: ServerRecord) -> bytes | None:
    """Return the file without our server; None for no file."""
    is_there = False
    while places := _places(text):
        is_there = True
        root, outer, at, inner = places[0]
        text = cut(text, at, inner)
        if not items(text, at, "{"):
            text = cut(text, root, outer) if old.inside is None else text[: at + 1] + old.inside + text[at + 1 :]
    if not is_there:
        return before
    if value_of(text) == {}:
        if old.made_file:
            return None
        if old.blank is not None:
            return old.blank.encode()
    return text.encode()
