"""Background jobs: what happens to one that fails."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from backstory import jobs
from backstory.jobs import Job


def test_a_job_that_fails_is_logged_without_its_text_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    """It is reported while it fails, and the log names the error's type and place, nothing that it quotes."""
    starts = 0
    runs = asyncio.Event()

    async def run() -> None:
        nonlocal starts
        starts += 1
        if starts <= 3:
            raise ValueError("canary-of-a-payload")
        runs.set()
        await asyncio.Event().wait()

    async def main() -> str:
        job = Job("observer", run, first_s=0.001)
        assert job.trouble == ""
        job.start()
        async with asyncio.timeout(120):
            await runs.wait()
        trouble = job.trouble
        await job.stop()
        return trouble

    with caplog.at_level(logging.ERROR):
        trouble = asyncio.run(main())
    assert trouble.startswith("observer: ValueError in test_jobs.py:")
    assert len(caplog.records) == 3 and "canary" not in caplog.text and "ValueError" in caplog.text


def test_the_pauses_grow_and_a_job_that_runs_on_is_well_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pause is twice the one before, up to a bound; after a while without a failure it begins anew."""
    now = 1000.0
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds
        if len(slept) == 11:
            now += jobs.WELL_S + 1
            assert job.trouble == ""
        if len(slept) == 13:
            raise asyncio.CancelledError

    async def run() -> None:
        assert bool(slept) == bool(job.trouble) or len(slept) == 11
        raise OSError

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    job = Job("spool", run)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(job._supervise())
    assert slept == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 1, 2]


def test_a_job_that_is_done_can_be_started_again() -> None:
    """And starting one that runs changes nothing."""
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        await asyncio.sleep(0)

    async def main() -> None:
        job = Job("wipe", run)
        for _ in range(2):
            job.start()
            job.start()
            while job._task and not job._task.done():
                await asyncio.sleep(0)
        await job.stop()

    asyncio.run(main())
    assert runs == 2
