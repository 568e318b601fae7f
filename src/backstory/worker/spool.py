"""Takes in what hooks left while the worker was away."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from backstory import privacy
from backstory.agents import AGENTS
from backstory.errors import BackstoryError, StoreUnavailable
from backstory.jobs import Job
from backstory.paths import Paths
from backstory.worker.web import LARGEST, strip_tags

log = logging.getLogger(__name__)

#: (agent, event, payload, event_id): the same door that a hook's request goes through.
Deliver = Callable[[str, str, dict[str, Any], str], Awaitable[Any]]
LOOK_S = 2.0


class Spool:
    """Looks into the folder: at the start, when told to, and now and then."""

    def __init__(self, paths: Paths, deliver: Deliver) -> None:
        self._folder, self._rejected, self._deliver = paths.spool, paths.rejected, deliver
        self.job = Job("spool", self._watch)
        self.looked = asyncio.Event()  #: set once what lay there at the start was taken in, or could not be

    def start(self) -> None:
        self.job.start()

    async def stop(self) -> None:
        await self.job.stop()

    async def _watch(self) -> None:
        while True:
            try:
                await self.drain()
            except StoreUnavailable:
                pass  # they stay where they are
            except OSError as error:
                log.warning("the spool can not be read: %s", error.strerror)
            self.looked.set()
            # A hook leaves a file without a word to us, so this one place looks by the clock: one listing of a folder
            # that is nearly always empty.
            await asyncio.sleep(LOOK_S)

    async def drain(self) -> int:
        """Take in what is there, in the order in which it happened; how many."""
        names = await asyncio.to_thread(self._names)
        for name in names:
            await self._take(self._folder / name)
        if names:
            log.info("took %d events in from the spool", len(names))
            self._reset_gauge()
        return len(names)

    def forget(self, names: set[str]) -> int:
        """Remove what was set aside and holds one of these ids; how many."""
        gone = 0
        wanted = [name.encode() for name in names]
        for file in (*self._rejected.glob("*"), *self._folder.glob(".*.json")):
            with contextlib.suppress(OSError):
                if any(name in file.name.encode() or name in file.read_bytes() for name in wanted):
                    file.unlink()
                    gone += 1
        return gone

    def _names(self) -> list[str]:
        try:
            return sorted(file.name for file in self._folder.glob("[!.]*.json"))
        except FileNotFoundError:
            return []

    async def _take(self, file: Path) -> None:
        event_id, _, rest = file.name.removesuffix(".json").partition(".")
        agent, _, event = rest.partition(".")
        try:
            payload = await asyncio.to_thread(_read, file)
            if agent not in AGENTS or not isinstance(payload, dict):
                raise BackstoryError("The file is not a payload of an agent that we know.")
            await self._deliver(agent, event, payload, event_id)
        except StoreUnavailable:
            raise
        except FileNotFoundError:
            return
        except (BackstoryError, ValueError) as error:
            # Never in the way of the others; kept where people can look at it.
            log.warning("a spooled %s event was set aside: %s", event, type(error).__name__)
            await asyncio.to_thread(_set_aside, file, self._rejected)
            return
        file.unlink(missing_ok=True)

    def _reset_gauge(self) -> None:
        """The hooks' count of what they spooled starts again once the folder is empty."""
        if not self._names():
            (self._folder / ".size").write_bytes(b"")


def _read(file: Path) -> Any:
    if file.stat().st_size > LARGEST:
        raise BackstoryError("The file is too large.")
    return strip_tags(file.read_bytes())


def _set_aside(file: Path, folder: Path) -> None:
    """Keep a file where people can look at it, stripped: not every file in the spool was written by our hook."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with file.open("rb") as source:
        given = source.read(LARGEST + 1)
    clean = privacy.strip_bytes(given) if len(given) <= LARGEST else b'{"error":"The file was larger than 16 MiB."}'
    if clean != given:
        temporary = file.with_name(f".{file.name}")
        temporary.touch(mode=0o600)
        temporary.write_bytes(clean)
        temporary.replace(file)
    file.replace(folder / file.name)


def size(paths: Paths) -> tuple[int, int]:
    """How many events wait in the spool, and how many were rejected."""

    return sum(1 for _ in paths.spool.glob("[!.]*.json")), sum(1 for _ in paths.rejected.glob("*.json"))
