"""A process that starts, clears and resumes sessions of groups at random, for a test that kills it.

Run as `python mover.py DATA NUMBER MOVERS GROUPS SESSIONS`. It starts those sessions that are its own by their number,
and writes each down once it is the group's. Started again, it goes on where it was killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path
from uuid import NAMESPACE_URL, uuid4, uuid5

sys.path.insert(0, str(Path(__file__).parent.parent))

from house import House
from transcripts import Script

from backstory.groups.names import WORKSPACE, GroupPaths
from backstory.store.sqlite import SqliteStore


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


async def main(house: House, number: int, movers: int, groups: int, sessions: int) -> None:
    started = house.data / f"started-{number}"
    done = set(started.read_text().splitlines()) if started.exists() else set()
    own = [each for each in range(groups * sessions) if each % movers == number and str(each) not in done]
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


if __name__ == "__main__":
    data = Path(sys.argv[1])
    store = SqliteStore(data / "backstory.db")
    asyncio.run(main(House(data, store), *map(int, sys.argv[2:6])))
    store.close()
