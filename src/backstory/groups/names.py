"""Names of groups, and every path that belongs to one. A name that `check` accepts cannot lead out of its directory."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from backstory import project
from backstory.errors import BadInput

#: The group that sees all others.
MAIN = "main"
#: The directory of the memory that all groups share.
GLOBAL = "global"
#: The directory of IPC files that could not be read.
ERRORS = "errors"
#: The longest name, in characters.
LONGEST = 64
#: The working directory of an agent in its sandbox, and the folder that Claude Code names after it.
WORKSPACE = "/workspace/group"
WORKSPACE_FOLDER = "-workspace-group"
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{LONGEST - 1}}}")
_SESSION_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")
_RULE = f"Use up to {LONGEST} letters, digits, `-` and `_`, the first of them a letter or a digit."


def check(name: str) -> str:
    """Return the name of a group. Raise BadInput if it cannot be one."""
    if not _NAME.fullmatch(name):
        raise BadInput("This is not the name of a group.", _RULE)
    if fold(name) in (GLOBAL, ERRORS):
        raise BadInput(f"The name `{fold(name)}` is reserved.", "Choose another name for the group.")
    if is_main(name) and name != MAIN:
        raise BadInput("The main group is called `main`, in lower case.", "Use `main`.")
    return name


def fold(name: str) -> str:
    """Return what two names have in common if they differ only by case. Only one group can have them."""
    return name.casefold()


def is_main(name: str) -> bool:
    return fold(name) == MAIN


def check_session_id(session_id: str) -> str:
    """Return the id of an agent's session. Raise BadInput if it could not be the name of a file."""
    if not _SESSION_ID.fullmatch(session_id):
        raise BadInput("This is not the id of a session.", "Use the id that the agent gave the session.")
    return session_id


def project_key(group: str) -> str:
    """Return the key of the project that a group's sessions belong to."""
    return project.of_group(check(group)).key


def route(group: str, *more: str) -> str:
    """Return the route of a group, or one below it."""
    return "/".join(("/api/groups", check(group), *more))


def of_path(data: Path, path: str) -> str | None:
    """Return the group that a file or a directory belongs to: its own directory, or the state of its agent."""
    base = next((base for base in _bases(data) if path.startswith(base)), None)
    parts = path.removeprefix(base).split("/", 2) if base else [""]
    if parts[0] not in ("groups", "sessions") or ".." in path.split("/"):
        return None
    with contextlib.suppress(BadInput, IndexError):
        return check(parts[1])
    return None


@lru_cache(8)
def _bases(data: Path) -> tuple[str, ...]:
    """Return how the paths of files in the data directory begin. It may be a link, which some paths have resolved."""
    return f"{data}/", f"{data.resolve()}/"


@dataclass(frozen=True, slots=True)
class GroupPaths:
    """The files and directories of a group. A sandbox writes to most of them: open them without following links."""

    data: Path  #: the data directory
    group: str

    def __post_init__(self) -> None:
        check(self.group)

    @property
    def folder(self) -> Path:
        """What the agent sees as `/workspace/group`."""
        return self.data / "groups" / self.group

    @property
    def conversations(self) -> Path:
        """The archives."""
        return self.folder / "conversations"

    @property
    def shared(self) -> Path:
        """The directory with the memory that all groups share, `/workspace/global`."""
        return self.data / "groups" / GLOBAL

    @property
    def state(self) -> Path:
        """The agent's own state, `/home/node/.claude`."""
        return self.data / "sessions" / self.group / ".claude"

    @property
    def ipc(self) -> Path:
        """What the agent sees as `/workspace/ipc`."""
        return self.data / "ipc" / self.group

    @property
    def input(self) -> Path:
        """Messages to the running agent, and `_close`."""
        return self.ipc / "input"

    @property
    def tasks(self) -> Path:
        """Requests of the agent."""
        return self.ipc / "tasks"

    @property
    def responses(self) -> Path:
        """Answers to its requests."""
        return self.ipc / "responses"

    @property
    def errors(self) -> Path:
        """IPC files of all groups that could not be read. No sandbox sees it."""
        return self.data / "ipc" / ERRORS

    def transcript(self, session_id: str) -> Path:
        """Return the file that Claude Code writes a session of this group to."""
        return self.state / "projects" / WORKSPACE_FOLDER / f"{check_session_id(session_id)}.jsonl"
