"""Takes in what hooks left while the worker was away."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from backstory import privacy
from backstory.agents import AGENTS
from backstory.capture.bodies import LARGEST, strip_tags
from backstory.errors import BackstoryError, StoreUnavailable
from backstory.files import read_regular
from backstory.jobs import Job, place_of
from backstory.paths import Paths

log = logging.getLogger(__name__)

#: (agent, event, payload, event_id): the same door that a hook's request goes through.
Deliver = Callable[[str, str, dict[str, Any], str], Awaitable[Any]]
LOOK_S = 2.0


class Spool:
    """Looks into the folder: at the start, when told to, and now and then."""

    def __init__(self, paths: Paths, deliver: Deliver, looked: asyncio.Event) -> None:
        self._folder, self._rejected, self._deliver = paths.spool, paths.rejected, deliver
        self.job = Job("spool", self._watch)
        self._stuck: set[str] = set()  #: entries that could be neither taken in nor set aside, by name
        self._looked = looked  #: set once what lay there at the start was taken in, or could not be

    async def _watch(self) -> None:
        while True:
            try:
                await self.drain()
            except StoreUnavailable:
                pass  # they stay where they are
            except OSError as error:
                log.warning("the spool can not be read: %s", error.strerror)
            self._looked.set()
            # A hook leaves a file without a word to us, so this one place looks by the clock: one listing of a folder
            # that is nearly always empty.
            await asyncio.sleep(LOOK_S)

    async def drain(self) -> int:
        """Take in what is there, in the order in which it happened; how many."""
        names = await asyncio.to_thread(self._names)
        self._stuck &= set(names)
        taken = 0
        for name in names:
            taken += await self._take(self._folder / name)
        if taken:
            log.info("took %d events in from the spool", taken)
        if names:
            await asyncio.to_thread(self._reset_gauge)
        return taken

    def forget(self, names: set[str]) -> int:
        """Remove what was set aside and holds one of these ids; how many."""
        gone = 0
        wanted = [name.encode() for name in names]
        for file in (*self._rejected.glob("*"), *self._folder.glob(".*.json")):
            with contextlib.suppress(OSError):
                held = os.fsencode(file.name) + b"\n" + (_read(file) or b"")
                if any(name in held for name in wanted):
                    file.unlink()
                    gone += 1
        return gone

    def _names(self) -> list[str]:
        try:
            return sorted(file.name for file in self._folder.glob("[!.]*.json"))
        except FileNotFoundError:
            return []

    async def _take(self, file: Path) -> bool:
        """Take an entry in; whether that was done. One that can't be is never in the way of the others."""
        event_id, _, rest = file.name.removesuffix(".json").partition(".")
        agent, _, event = rest.partition(".")
        try:
            payload = await asyncio.to_thread(_payload, file)
            if agent not in AGENTS or not isinstance(payload, dict):
                raise BackstoryError("The file is not a payload of an agent that we know.")
            await self._deliver(agent, event, payload, event_id)
            file.unlink(missing_ok=True)
        except StoreUnavailable:
            raise
        except FileNotFoundError:
            return False
        except OSError as error:
            self._leave(file, error)  # not its own fault, perhaps: it is tried again
            return False
        except Exception as error:
            await self._reject(file, error)
            return False
        return True

    async def _reject(self, file: Path, cause: Exception) -> None:
        """Kept where people can look at it. Neither its name nor its text is logged: anything may stand there."""
        try:
            await asyncio.to_thread(_set_aside, file, self._rejected)
        except OSError as error:
            self._leave(file, error)
        else:
            log.warning("a spooled event was set aside: %s", place_of(cause))

    def _leave(self, file: Path, error: OSError) -> None:
        if file.name not in self._stuck:
            self._stuck.add(file.name)
            log.warning("an entry of the spool stays there: %s; `backstory doctor` names it", error.strerror)

    def _reset_gauge(self) -> None:
        """The hooks' count of what they spooled starts again once the folder is empty, but for what is stuck."""
        if not set(self._names()) - self._stuck:
            handle = os.open(self._folder / ".size", os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(handle, 0)
            finally:
                os.close(handle)


def is_usable(file: Path) -> bool:
    """Whether an entry is a file, not a link to one, that a hook of this user may have left."""
    try:
        known = file.lstat()
        owners = {os.getuid(), file.parent.stat().st_uid}
        return stat.S_ISREG(known.st_mode) and known.st_uid in owners and os.access(file, os.R_OK)
    except FileNotFoundError:
        return True  # taken in at this moment
    except OSError:
        return False


def _read(file: Path) -> bytes | None:
    """An entry's bytes, with one more than may be at the most; None for what is not ours to read."""
    if not is_usable(file):
        return None
    return read_regular(file, LARGEST + 1)


def _payload(file: Path) -> Any:
    raw = _read(file)
    return strip_tags(raw) if raw is not None and len(raw) <= LARGEST else None


def _set_aside(file: Path, folder: Path) -> None:
    """Keep a file where people can look at it, stripped: not every file in the spool was written by our hook."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if (given := _read(file)) is None:
        file.replace(folder / file.name)
        return
    clean = privacy.strip_bytes(given) if len(given) <= LARGEST else b'{"error":"The file was larger than 16 MiB."}'
    if clean != given:
        temporary = file.with_name(f".{file.name}")
        temporary.touch(mode=0o600)
        temporary.write_bytes(clean)
        temporary.replace(file)
    file.replace(folder / file.name)
