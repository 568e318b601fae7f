"""Pointers, history and archives agree while eight processes move them and are killed at any point."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import mover
import pytest
from house import House

from backstory.groups.names import GroupPaths
from backstory.store import groups as rows
from backstory.store.migrate import migrate


def said_in(paths: GroupPaths) -> Counter[str]:
    """Every message of the archives of a group."""
    texts = (file.read_text().partition("---\n")[2] for file in paths.conversations.glob("*.md"))
    return Counter(line.partition("**: ")[2] for text in texts for line in text.splitlines() if line)


def written_in(paths: GroupPaths) -> Counter[str]:
    """Every message of the transcripts of a group."""
    lines = (line for file in paths.transcript("x").parent.glob("[!.]*") for line in file.read_bytes().splitlines())
    found = (json.loads(line)["message"]["content"] for line in lines)
    return Counter(each if isinstance(each, str) else each[0]["text"] for each in found)


async def agree(house: House, name: str, sessions: int) -> None:
    """Each session is active or in the history, once. Then all are left once more, so that all is archived."""
    paths, pointers = GroupPaths(house.data, name), house.pointers
    active, history = await house.state(name)
    known = [*history.values(), *([active] if active else [])]
    assert sorted(known) == sorted(mover.session_id(name, number) for number in range(sessions))
    for number in history:
        await pointers.resume(name, number)
    await pointers.clear(name)
    active, history = await house.state(name)
    assert active is None
    assert sorted(history.values()) == sorted(known)
    assert said_in(paths) == written_in(paths)
    assert set(said_in(paths).values()) == {1}
    noted = house.store.read(lambda tx: rows.archives(tx, name))
    assert sorted(str(each.file) for each in noted) == sorted(file.name for file in paths.conversations.glob("*.md"))
    assert [file for file in paths.tasks.iterdir() if not file.name.startswith(".")] == []


def everything_is_there_once(data: Path, groups: int, sessions: int, kills: int, url: str = "") -> None:
    store = mover.opened(data, url)
    migrate(store)
    house = House(data, store)
    for number in range(groups):
        house.group(mover.group_name(number))
    command = [sys.executable, mover.__file__, *map(str, (data, groups, sessions, kills, url))]
    moved = subprocess.run(command, capture_output=True, text=True)
    assert (moved.returncode, moved.stderr) == (0, "")

    async def check() -> None:
        for number in range(groups):
            await agree(house, mover.group_name(number), sessions)

    try:
        asyncio.run(check())
    finally:
        store.close()


def test_every_conversation_is_there_once(tmp_path: Path) -> None:
    """Five groups with twenty sessions each, moved by eight processes, eight of which are killed."""
    everything_is_there_once(tmp_path, groups=5, sessions=20, kills=8)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_every_conversation_is_there_once_at_full_size(tmp_path: Path) -> None:
    """Fifty groups with twenty sessions each, and eighty kills."""
    everything_is_there_once(tmp_path, groups=50, sessions=20, kills=80)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_every_conversation_is_there_once_on_postgresql(tmp_path: Path, database_url: str) -> None:
    """Where eight processes write at the same time."""
    everything_is_there_once(tmp_path, groups=10, sessions=20, kills=20, url=database_url)
