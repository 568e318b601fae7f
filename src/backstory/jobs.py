"""Background jobs. A job that fails is logged, reported, and restarted after an exponentially growing delay."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

log = logging.getLogger(__name__)
#: Seconds between the first failure and the restart. The delay doubles with each further failure.
FIRST_DELAY_S = 1.0
#: Maximum seconds between a failure and the restart.
MAX_DELAY_S = 300.0
#: Seconds without a failure after which a job counts as healthy again.
WELL_S = 60.0


class Job:
    """Runs a coroutine function until it returns or is stopped. Restarts it when it raises."""

    def __init__(
        self,
        name: str,
        run: Callable[[], Awaitable[None]],
        on_stop: Callable[[], Awaitable[None]] | None = None,
        first_s: float = FIRST_DELAY_S,
    ) -> None:
        self.name = name
        self._run, self._on_stop, self._first_s = run, on_stop, first_s
        self._pause_s = first_s
        self._task: asyncio.Task[None] | None = None
        self._cause = ""
        self._well_at = 0.0  #: when it counts as healthy again, on the monotonic clock

    @property
    def trouble(self) -> str:
        """A recent failure as a message for the user; empty if the job is healthy."""
        return f"{self.name}: {self._cause}" if time.monotonic() < self._well_at else ""

    def start(self) -> None:
        """Start the job, unless it is running already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._supervise(), name=self.name)

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._on_stop:
            await self._on_stop()

    def failed(self, error: BaseException) -> None:
        """Log and report a failure of the job or of a task that it started."""
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
            self._pause_s = min(self._pause_s * 2, MAX_DELAY_S)


def place_of(error: BaseException) -> str:
    """Return type, file and line of an error. Its message is left out, because it may quote a payload."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
