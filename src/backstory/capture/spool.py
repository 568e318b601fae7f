"""Takes in the events that hooks left in the spool while the worker was not running."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from backstory import privacy
from backstory.agents import AGENTS
from backstory.capture.bodies import MAX_BYTES
from backstory.capture.processes import processes
from backstory.errors import BackstoryError, StoreUnavailable
from backstory.files import read_regular
from backstory.jobs import Job, place_of
from backstory.paths import Paths

log = logging.getLogger(__name__)

#: (agent, event, body, event_id): the function that handles a hook's request.
Deliver = Callable[[str, str, bytes, str], Awaitable[Any]]
#: Seconds between two looks at the folder. Hooks leave files without notice, and the folder is nearly always empty.
POLL_S = 2.0
#: Seconds that an event waits for those spooled before it. Its hook waits longer, and spools it, too.
TURN_S = 0.15


class Spool:
    """Reads the spool when the worker starts, and regularly afterwards."""

    def __init__(self, paths: Paths, deliver: Deliver, looked: asyncio.Event) -> None:
        self._folder, self._rejected, self._deliver = paths.spool, paths.rejected, deliver
        self.job = Job("spool", self._watch)
        self._stuck: set[str] = set()  #: names of entries that could be neither taken in nor set aside
        self._looked = looked  #: set after the first look
        self._called = asyncio.Event()  #: set to look at once
        self._waiting: list[asyncio.Event] = []  #: each is set after a whole look
        self._is_late = False  #: an event waited in vain: the others are refused at once until all is taken in

    async def _watch(self) -> None:
        while True:
            waiting, self._waiting = self._waiting, []
            self._called.clear()
            try:
                await self.drain()
            except StoreUnavailable:
                pass  # the entries stay where they are
            except OSError as error:
                log.warning("the spool cannot be read: %s", error.strerror)
            self._is_late = False
            for event in (self._looked, *waiting):
                event.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._called.wait()

    async def wait_turn(self, event_id: str) -> None:
        """Wait until the entries that are older than an event are taken in. Prompts are numbered as they arrive, so the
        later of two must not overtake the one that a hook could not deliver."""
        if not self._has_before(event_id):
            return
        looked = asyncio.Event()
        self._waiting.append(looked)
        self._called.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if self._is_late else TURN_S):
                await looked.wait()
        if not looked.is_set():
            self._is_late = True
            raise StoreUnavailable("Earlier events are still being stored.", "Send it again later.")

    def _has_before(self, event_id: str) -> bool:
        """Whether an older entry may still be taken in. The first one is enough, so a full folder takes no longer."""
        try:
            with os.scandir(self._folder) as entries:
                return any(
                    not each.name.startswith(".") and each.name.endswith(".json") and each.name < event_id
                    for each in entries
                    if each.name not in self._stuck
                )
        except OSError:
            return False  # the job reports it

    async def drain(self) -> int:
        """Take in all entries, oldest first. Returns how many were taken in."""
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
        """Delete the entries set aside that contain one of these ids. Returns how many were deleted."""
        deleted = 0
        wanted = [name.encode() for name in names]
        for file in (*self._rejected.glob("*"), *self._folder.glob(".*.json")):
            with contextlib.suppress(OSError):
                content = os.fsencode(file.name) + b"\n" + (_read(file) or b"")
                if any(name in content for name in wanted):
                    file.unlink()
                    deleted += 1
        return deleted

    def _names(self) -> list[str]:
        try:
            return sorted(file.name for file in self._folder.glob("[!.]*.json"))
        except FileNotFoundError:
            return []

    async def _take(self, file: Path) -> bool:
        """Take in one entry and return whether it worked. An entry that fails does not stop the others."""
        event_id, _, rest = file.name.removesuffix(".json").partition(".")
        agent, _, event = rest.partition(".")
        try:
            raw = await asyncio.to_thread(_read, file)
            if agent not in AGENTS or raw is None or len(raw) > MAX_BYTES:
                raise BackstoryError("The file is not a payload of an agent that we know.")
            await self._deliver(agent, event, raw, event_id)
            file.unlink(missing_ok=True)
        except StoreUnavailable:
            raise
        except FileNotFoundError:
            return False
        except OSError as error:
            self._leave(file, error)  # the cause may pass, so it is tried again
            return False
        except Exception as error:
            if await asyncio.to_thread(remove_if_empty, file):
                log.warning("an entry of the spool that held no event was deleted")
            else:
                await self._reject(file, error)
            return False
        return True

    async def _reject(self, file: Path, cause: Exception) -> None:
        """Set an entry aside, where people can look at it. Its name and text may be private and are not logged."""
        try:
            content = await asyncio.to_thread(_read, file)
            # Others than our hook may have written it.
            clean = await _stripped(content) if content is not None else None
            await asyncio.to_thread(_set_aside, file, self._rejected, None if clean == content else clean)
        except OSError as error:
            self._leave(file, error)
        else:
            log.warning("a spooled event was set aside: %s", place_of(cause))

    def _leave(self, file: Path, error: OSError) -> None:
        if file.name not in self._stuck:
            self._stuck.add(file.name)
            log.warning("an entry of the spool stays there: %s; `backstory doctor` names it", error.strerror)

    def _reset_gauge(self) -> None:
        """Reset the size that hooks count, if the folder is empty except for stuck entries."""
        if not set(self._names()) - self._stuck:
            handle = os.open(self._folder / ".size", os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(handle, 0)
            finally:
                os.close(handle)


def is_usable(file: Path) -> bool:
    """Whether an entry is a regular file, not a link, that a hook of this user may have written."""
    try:
        status = file.lstat()
        owners = {os.getuid(), file.parent.stat().st_uid}
        return stat.S_ISREG(status.st_mode) and status.st_uid in owners and os.access(file, os.R_OK)
    except FileNotFoundError:
        return True  # it was taken in just now
    except OSError:
        return False


def remove_if_empty(file: Path) -> bool:
    """Delete an entry that no worker can take in, because it is not a JSON object as agents send it: somebody called
    the hook by hand, or an agent was killed while it wrote. Return whether it was deleted."""
    try:
        content = _read(file)
        if content is None or len(content) > MAX_BYTES or isinstance(json.loads(content, parse_int=str), dict):
            return False
    except (OSError, RecursionError):
        return False
    except ValueError:
        pass
    file.unlink(missing_ok=True)
    return True


def _read(file: Path) -> bytes | None:
    """The content of an entry, up to one byte more than allowed. None if the entry is not usable."""
    if not is_usable(file):
        return None
    return read_regular(file, MAX_BYTES + 1)


async def _stripped(content: bytes) -> bytes:
    if len(content) > MAX_BYTES:
        return b'{"error":"The file was larger than 16 MiB."}'
    try:
        return await processes.read(privacy.strip_bytes, content)
    except BackstoryError:
        return b'{"error":"The file could not be read in time."}'


def _set_aside(file: Path, folder: Path, clean: bytes | None) -> None:
    """Move a file to the rejected ones, with its clean content if that differs."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if clean is not None:
        temporary = file.with_name(f".{file.name}")
        temporary.touch(mode=0o600)
        temporary.write_bytes(clean)
        temporary.replace(file)
    file.replace(folder / file.name)
