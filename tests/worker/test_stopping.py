"""Stopping: a task that is cancelled ends, whatever it is doing at that moment."""

from __future__ import annotations

import asyncio

import pytest

from backstory import ids
from backstory.model import ContentId, Reply, Report, Round
from backstory.observe.observer import Observer
from backstory.project import Project
from backstory.store import events, sessions
from backstory.store.db import Store, Tx
from backstory.store.feed import Newest
from backstory.worker.live import Live

#: So many steps of the event loop after it was woken, a task is cancelled. `asyncio.wait_for` of Python 3.11 loses a
#: cancellation that comes in the middle of them.
STEPS = range(8)


async def provider(round: Round) -> Reply:
    return Reply()


def queue_for_later(tx: Tx) -> None:
    """A round that goes on, so that the observer waits for a moment and not for ever."""
    report = Report("claude-code", "tool", ContentId("a"), ids.new_event_id(), ids.now())
    events.add(tx, sessions.get_or_create(tx, report, Project("shop", "shop")), report, settle_ms=600_000)


async def waits_for(event: asyncio.Event) -> None:
    """Return once a task has nothing to do until the event is set."""
    while not event._waiters:
        await asyncio.sleep(0)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_an_observer_that_is_woken_and_stopped_at_once_stops(store: Store) -> None:
    """At whichever step between the wake and the loop's next turn it is stopped."""

    async def stop_after(steps: int) -> None:
        observer = Observer(store, provider)
        observer.job.start()
        await waits_for(observer._wake_event)
        observer.wake()
        for _ in range(steps):
            await asyncio.sleep(0)
        async with asyncio.timeout(5) as limit:
            await observer.job.stop()
        assert not limit.expired(), f"it did not stop {steps} steps after it was woken"

    store.write(queue_for_later)
    for steps in STEPS:
        asyncio.run(stop_after(steps))


def test_a_stream_that_is_told_something_and_closed_at_once_ends() -> None:
    """A reader that goes away at the moment of a message is let go."""

    async def close_after(steps: int) -> None:
        live = Live(Newest(), lambda *_: [])

        async def listen() -> None:
            async for _ in live.stream(None).body_iterator:
                pass

        reader = asyncio.create_task(listen())
        while not live._wake:
            await asyncio.sleep(0)
        await waits_for(*live._wake)
        live.publish("new_prompt", {})
        for _ in range(steps):
            await asyncio.sleep(0)
        reader.cancel()
        done, _ = await asyncio.wait([reader], timeout=5)
        assert done, f"it did not end {steps} steps after the message"
        assert reader.cancelled()

    for steps in STEPS:
        asyncio.run(close_after(steps))
