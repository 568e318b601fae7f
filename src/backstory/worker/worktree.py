"""What is being worked on in a folder: the files that git sees changed."""

from __future__ import annotations

import asyncio
import contextlib
import os

#: An agent waits for this; a repository that takes longer goes without.
SECONDS = 0.15
MOST = 50
#: git alone, and nothing that a repository's own configuration names.
STATUS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-optional-locks", "status")


async def changed(cwd: str) -> frozenset[str]:
    """Files with changes that are not committed, from the repository's root; none where that can't be told."""
    if not cwd or not os.path.isdir(cwd):  # noqa: PTH112 - a Path raises where a name is too long
        return frozenset()
    try:
        git = await asyncio.create_subprocess_exec(
            *("git", "-C", cwd, *STATUS, "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return frozenset()
    try:
        async with asyncio.timeout(SECONDS):
            out, _ = await git.communicate()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            git.kill()
        await git.wait()
        return frozenset()
    return frozenset(_paths(out.decode("utf-8", "replace"))[:MOST])


def _paths(status: str) -> list[str]:
    """The paths of `git status --porcelain -z`; a rename tells the old one behind the new."""
    found, parts = [], iter(status.split("\0"))
    for part in parts:
        if len(part) > 3:
            found.append(part[3:])
            if part[0] in "RC":
                next(parts, None)
    return found
