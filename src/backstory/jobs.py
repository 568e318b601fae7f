"""Background jobs: one that ends by an exception is logged, started again after a growing pause, and reported."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

log = logging.getLogger(__name__)
#: Seconds between a failure and the next start: the first pause, and the longest that it doubles to.
FIRST_S = 1.0
LONGEST_S = 300.0
#: Seconds without a failure after which a job counts as well again.
WELL_S = 60.0


class Job:
    """A coroutine function that runs until it returns or is stopped, and survives its own failures."""

    def __init__(
        self,
        name: str,
        run: Callable[[], Awaitable[None]],
        on_stop: Callable[[], Awaitable[None]] | None = None,
        first_s: float = FIRST_S,
    ) -> None:
        self.name = name
        self._run, self._on_stop, self._first_s = run, on_stop, first_s
        self._pause_s = first_s
        self._task: asyncio.Task[None] | None = None
        self._cause = ""
        self._well_at = 0.0  #: on the monotonic clock

    @property
    def trouble(self) -> str:
        """What went wrong lately, for people; empty if the job is well."""
        return f"{self.name}: {self._cause}" if time.monotonic() < self._well_at else ""

    def start(self) -> None:
        """Run it; one that runs already goes on."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._supervise(), name=self.name)

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._on_stop:
            await self._on_stop()

    def failed(self, error: BaseException) -> None:
        """Log and report a failure: of the job, or of a task that it started."""
        if time.monotonic() >= self._well_at:
            self._pause_s = self._first_s
        self._cause = place_of(error)
        self._well_at = time.monotonic() + self._pause_s + WELL_S
        log.error("%s failed: %s", self.name, self._cause)

    async def _supervise(self) -> None:
        while True:
            try:
                await self._run()
            except Exception as error:
                self.failed(error)
            else:
                return
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(self._pause_s * 2, LONGEST_S)


def place_of(error: BaseException) -> str:
    """An error's type and place. Not its text, which may quote a payload."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
