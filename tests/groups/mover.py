"""Processes that start, clear and resume sessions of groups at random, and are killed at it.

Run as `python mover.py DATA GROUPS SESSIONS KILLS URL`, with an empty URL for SQLite. It forks movers: importing
costs more than moving. A mover starts those sessions that are its own by their number, and writes each down once it is
the group's. Started again, it goes on where it was killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from uuid import NAMESPACE_URL, uuid4, uuid5

sys.path.insert(0, str(Path(__file__).parent.parent))

from house import House
from transcripts import Script

from backstory.groups.names import WORKSPACE, GroupPaths
from backstory.store.db import Store
from backstory.store.postgres import PostgresStore
from backstory.store.sqlite import SqliteStore

MOVERS = 8


def group_name(number: int) -> str:
    return f"group-{number:02}"


def session_id(group: str, number: int) -> str:
    return str(uuid5(NAMESPACE_URL, f"{group} {number}"))


def write_transcript(paths: GroupPaths, number: int) -> str:
    """The session as its agent left it, unless it is there already."""
    script = Script(session_id(paths.group, number), WORKSPACE)
    script.prompt(f"{paths.group} asks {number:02}")
    script.says(f"{paths.group} answers {number:02}")
    path = paths.transcript(script.session)
    if not path.exists():
        temporary = script.write(path.parent, f".{os.getpid()}.tmp")
        temporary.rename(path)
    return script.session


def go_on(paths: GroupPaths, session: str) -> None:
    """One more message of the agent, in one piece."""
    script = Script(str(uuid4()), WORKSPACE)
    script.prompt(f"{paths.group} goes on {script.session}")
    line = script.lines[0] | {"sessionId": session}
    with paths.transcript(session).open("ab", buffering=0) as file:
        file.write(json.dumps(line).encode() + b"\n")


async def move(house: House, paths: GroupPaths, dice: random.Random) -> None:
    """Clear or resume, as an agent asks for it, and now and then say something."""
    now = await house.pointers.get(paths.group)
    history = await house.pointers.history(paths.group)
    if now.session_id and dice.random() < 0.3:
        go_on(paths, now.session_id)
    request: dict[str, object] = {"type": "clear_session"}
    if history and dice.random() < 0.5:
        request = {"type": "resume_session", "session_id": dice.choice(history).id}
    name = f"{uuid4().hex}.json"
    temporary = paths.tasks / f".{name}"
    temporary.write_text(json.dumps(request))
    temporary.rename(paths.tasks / name)
    await house.requests(paths, now.generation).carry_out()


async def work(house: House, number: int, groups: int, sessions: int) -> None:
    """Do the work of one mover."""
    started = house.data / f"started-{number}"
    done = set(started.read_text().splitlines()) if started.exists() else set()
    own = [each for each in range(groups * sessions) if each % MOVERS == number and str(each) not in done]
    dice = random.Random(f"{number} {len(done)}")
    dice.shuffle(own)
    for each in own:
        paths = GroupPaths(house.data, group_name(each // sessions))
        session = write_transcript(paths, each % sessions)
        while True:
            now = await house.pointers.get(paths.group)
            if await house.pointers.set(paths.group, session, now.generation):
                break
        with started.open("a") as file:
            file.write(f"{each}\n")
        for _ in range(2):
            await move(house, GroupPaths(house.data, group_name(dice.randrange(groups))), dice)


def opened(data: Path, url: str) -> Store:
    return PostgresStore(url, data) if url else SqliteStore(data / "backstory.db")


def start(data: Path, number: int, groups: int, sessions: int, url: str) -> int:
    """Fork a mover and return its process id."""
    if pid := os.fork():
        return pid
    store = opened(data, url)
    try:
        asyncio.run(work(House(data, store), number, groups, sessions))
        store.close()
        os._exit(0)
    finally:
        traceback.print_exc()
        os._exit(1)


def run_and_kill(data: Path, groups: int, sessions: int, kills: int, url: str) -> None:
    """Let all movers finish. So many that have begun are killed and started again."""
    dice = random.Random(3)
    running = {start(data, number, groups, sessions, url): number for number in range(MOVERS)}
    while running:
        time.sleep(dice.uniform(0.0, 0.1))
        begun = [pid for pid, number in running.items() if (data / f"started-{number}").exists()]
        victim = dice.choice(begun) if begun and kills else 0
        if victim:
            os.kill(victim, signal.SIGKILL)
        for pid in list(running):
            ended, status = os.waitpid(pid, 0 if pid == victim else os.WNOHANG)
            if not ended:
                continue
            number, code = running.pop(pid), os.waitstatus_to_exitcode(status)
            if code == -signal.SIGKILL:
                kills -= 1
                running[start(data, number, groups, sessions, url)] = number
            elif code:
                for left in running:
                    os.kill(left, signal.SIGKILL)
                sys.exit(f"mover {number} failed")
    sys.exit(f"{kills} were not killed" if kills else 0)


if __name__ == "__main__":
    folder, how_many, of_each, killed, database = sys.argv[1:]
    run_and_kill(Path(folder), int(how_many), int(of_each), int(killed), database)
