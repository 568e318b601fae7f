"""The directories of a group: made before each start of its agent, which can write to most of them."""

from __future__ import annotations

import errno
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from backstory import files
from backstory.errors import BackstoryError
from backstory.groups.ipc_files import IpcFiles
from backstory.groups.names import GLOBAL, GroupPaths
from backstory.paths import locked

#: Settings of Claude Code in a new group. Its own default deletes transcripts after 30 days.
SETTINGS: dict[str, Any] = {
    "env": {
        "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1",
        "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "0",
    },
    "cleanupPeriodDays": 36500,
}
#: The instructions of a new group. The agent and its users may change them.
INSTRUCTIONS = """\
# {group}

The `conversations/` folder contains searchable history of past conversations. Use this to recall context from \
previous sessions.

When the user asks for an earlier conversation, find it with the tool `search_sessions`, or search \
`conversations/*.md` and match the file to a name of `list_sessions`. Then switch to it with `resume_session`.
"""
#: Bytes of the shared memory that the agents are told. An argument of a program cannot be longer than 128 KiB.
MAX_SHARED = 100_000


def prepare(paths: GroupPaths, skills: Path) -> None:
    """Make the directories of a group, its settings and its instructions, and bring its skills up to date.

    The settings and the instructions are written once. Nothing is written through a link.
    """
    group, data = paths.group, paths.data
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        _write_once(data, ("groups", GLOBAL), "CLAUDE.md", "")
        _write_once(data, ("groups", group), "CLAUDE.md", INSTRUCTIONS.format(group=group))
        _write_once(data, ("sessions", group, ".claude"), "settings.json", json.dumps(SETTINGS, indent=2) + "\n")
        IpcFiles(paths).prepare()
        with locked(paths.ipc.parent):  # no sandbox sees it, so no agent can hold the lock
            _sync_skills(paths, skills)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            message = f"A directory of the group {group} is a link or a file: {error.filename}."
            raise BackstoryError(message, "Move it away, and try again.") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            message = f"A directory of the group {group} cannot be used: {error.filename}."
            raise BackstoryError(message, "Give yourself access to it, and try again.") from None
        raise


def make_ipc(paths: GroupPaths) -> None:
    """Make the directory of the files by which the agent and its host talk."""
    paths.ipc.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def shared_memory(paths: GroupPaths) -> str:
    """Return the memory that all groups share, as it is now."""
    try:
        folder = files.open_directory(paths.data, "groups", GLOBAL)
    except OSError:
        return ""
    try:
        return files.read_regular("CLAUDE.md", MAX_SHARED, within=folder).decode(errors="ignore").strip()
    except OSError:
        return ""
    finally:
        os.close(folder)


def _write_once(data: Path, folder: tuple[str, ...], name: str, text: str) -> None:
    """Write a file, unless there is something in its place already."""
    handle = files.open_directory(data, *folder, create=True)
    try:
        files.write_once(name, text.encode(), handle)
    finally:
        os.close(handle)


def _sync_skills(paths: GroupPaths, skills: Path) -> None:
    """Copy each skill of the data directory into the state of the group. Skills of the group itself stay."""
    wanted = [each for each in sorted(skills.glob("*")) if each.is_dir()] if skills.is_dir() else []
    if not wanted:
        return
    target = paths.state / "skills"
    # No agent of the group runs now, so nobody can change this in between.
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        target.unlink()
    target.mkdir(mode=0o700, exist_ok=True)
    os.close(files.open_up(target))
    for skill in wanted:
        place = target / skill.name
        with suppress(FileNotFoundError):
            files.remove(place)
        shutil.copytree(skill, place)
