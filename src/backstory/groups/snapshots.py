"""Snapshots that a sandbox reads instead of the database, written before each start of its agent.

`session_history.json` has the archived sessions of the group, `current_tasks.json` the agents at work (the main group
sees all, another one only its own), and `available_groups.json`, for the main group alone, every group.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from backstory.groups import names
from backstory.groups.ipc_files import IpcFiles
from backstory.groups.pointers import HistoryEntry

HISTORY = "session_history.json"
TASKS = "current_tasks.json"
GROUPS = "available_groups.json"


@dataclass(frozen=True, slots=True)
class CurrentTask:
    """An agent at work in a group."""

    group: str
    started_at: str
    session_id: str | None = None  #: None until a new session has told its id


def write(
    files: IpcFiles, history: Iterable[HistoryEntry], tasks: Iterable[CurrentTask], groups: Sequence[str]
) -> None:
    """Write all snapshots of a group, each as a whole. What the group may not see is left out here."""
    sees_all = names.is_main(files.group)
    write_history(files, history)
    _write(files, TASKS, [asdict(task) for task in tasks if sees_all or task.group == files.group])
    if sees_all:
        _write(files, GROUPS, [{"name": name, "is_main": names.is_main(name)} for name in groups])
    else:
        files.remove("", GROUPS)


def write_history(files: IpcFiles, history: Iterable[HistoryEntry]) -> None:
    """Write the archived sessions of a group, in the order of its history: newest first."""
    _write(files, HISTORY, [asdict(entry) for entry in history])


def _write(files: IpcFiles, name: str, value: object) -> None:
    files.put("", name, json.dumps(value, ensure_ascii=False, indent=1).encode())
