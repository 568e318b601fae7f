"""The live stream: nothing is told twice or missed, whether a reader was away, was slow, or the worker restarted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from backstory import ids
from backstory.model import ContentId, Report
from backstory.project import Project
from backstory.store import events, sessions
from backstory.store.db import Tx
from backstory.store.feed import Newest
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore
from backstory.worker import live
from backstory.worker.jobs.queue_counts import QueueCounts
from backstory.worker.live import Live


def row(number: int, kind: str = "observation", project_key: str = "shop") -> dict[str, Any]:
    return {"kind": kind, "id": number, "project_key": project_key}


class Rows:
    """What is stored, by kind."""

    def __init__(self) -> None:
        self.stored: list[dict[str, Any]] = []

    def add(self, stream: Live | None, number: int, kind: str = "observation", project_key: str = "shop") -> None:
        self.stored.append(row(number, kind, project_key))
        if stream:
            stream.publish(live.NEW[kind], self.stored[-1])

    def since(self, newest: Newest, limit: int) -> list[dict[str, Any]]:
        return [each for each in self.stored if not newest.has(each["kind"], each["id"])][:limit]

    def live(self, *known: int) -> Live:
        return Live(Newest(*known), self.since)


class Reader:
    """A reader of the stream."""

    def __init__(self, stream: Live, last_id: str | None = None, with_groups: bool = True) -> None:
        self._text: AsyncIterator[Any] = aiter(stream.stream(last_id, with_groups).body_iterator)
        self.last_id = last_id

    async def next(self) -> tuple[str, dict[str, Any]]:
        while True:
            async with asyncio.timeout(20):
                lines = (await anext(self._text)).decode().splitlines()
            found = dict(line.split(": ", 1) for line in lines if line and not line.startswith(":"))
            if "event" in found:
                self.last_id = found["id"]
                return found["event"], json.loads(found["data"])

    async def numbers(self, count: int) -> list[int]:
        return [(await self.next())[1]["id"] for _ in range(count)]

    async def connected(self) -> Reader:
        await anext(self._text)
        return self

    async def leave(self) -> None:
        await self._text.aclose()  # type: ignore[attr-defined]


def test_a_reader_that_comes_back_misses_nothing() -> None:
    async def test() -> None:
        rows = Rows()
        stream = rows.live()
        reader = await Reader(stream).connected()
        for number in (1, 2, 3):
            rows.add(stream, number)
        assert await reader.numbers(2) == [1, 2]
        await reader.leave()
        again = Reader(stream, reader.last_id)
        assert await again.numbers(1) == [3]
        await again.leave()

    asyncio.run(test())


def test_after_a_restart_new_rows_come_from_the_store_once() -> None:
    """Also those that are told while the store is read, and a reader that leaves in the middle gets the rest."""

    async def test() -> None:
        rows = Rows()
        before = rows.live()
        reader = await Reader(before).connected()
        rows.add(before, 1)
        assert await reader.numbers(1) == [1]
        rows.add(None, 2)  # stored, and the worker was killed before it told it
        rows.add(None, 7, "prompt")
        after = rows.live(2, 0, 7)
        rows.add(after, 3)
        half = Reader(after, reader.last_id)
        assert await half.numbers(1) == [2]
        await half.leave()
        rest = Reader(after, half.last_id)
        told = [await rest.next() for _ in range(3)]
        assert [(name, data.get("id")) for name, data in told] == [
            ("new_prompt", 7),
            ("new_observation", 3),
            ("resumed", None),
        ]
        rows.add(after, 4)
        assert await rest.numbers(1) == [4]
        await rest.leave()
        # What it has seen now is not read from the store again.
        last = Reader(after, rest.last_id)
        rows.add(after, 5)
        assert await last.numbers(1) == [5]
        await last.leave()

    asyncio.run(test())


def test_a_reader_that_is_too_far_behind_is_asked_to_load_anew() -> None:
    async def test() -> None:
        rows = Rows()
        for number in range(1, live.REPLAYED + 3):
            rows.add(None, number)
        stream = rows.live(live.REPLAYED + 2, 0, 0)
        for last_id in ("1-0-0-0", "1", "0", "1-9-9", "99999999999999999-0-0-0", "1-999999-0-0"):
            reader = Reader(stream, last_id)
            assert await reader.next() == ("reset", {}), last_id
            rows.add(stream, 5000 + len(last_id))
            assert await reader.numbers(1) == [5000 + len(last_id)], last_id
            await reader.leave()
        for last_id in ("", "x", "-1", "²", "9" * 400):
            reader = await Reader(stream, last_id).connected()
            rows.add(stream, 6000)
            assert await reader.numbers(1) == [6000]
            await reader.leave()

    asyncio.run(test())


def test_a_slow_reader_gets_what_was_dropped_from_the_store() -> None:
    async def test() -> None:
        rows = Rows()
        stream = rows.live()
        reader = await Reader(stream).connected()
        rows.add(stream, 1)
        assert await reader.numbers(1) == [1]
        many = live.KEPT + 500
        for number in range(2, many // 2):
            rows.add(stream, number)
        for _ in range(live.KEPT):
            stream.publish("queue", {"queued": 1})
        found: list[int] = []
        while True:
            name, data = await reader.next()
            if name == "resumed":
                break
            found.append(data["id"])
        assert found == list(range(2, many // 2))
        stream.clear()  # as after something was forgotten
        rows.add(stream, many)
        assert await reader.numbers(1) == [many]
        await reader.leave()

    asyncio.run(test())


def test_what_belongs_to_a_group_is_told_to_who_asks_for_it() -> None:
    """New, replayed and changed rows alike."""

    async def test() -> None:
        rows = Rows()
        rows.add(None, 1, project_key="group:family")
        rows.add(None, 2)
        stream = rows.live(2, 0, 0)
        everything, rest = Reader(stream, "1-0-0-0"), Reader(stream, "1-0-0-0", with_groups=False)
        assert [(await everything.next())[1].get("id") for _ in range(3)] == [1, 2, None]
        assert [(await rest.next())[1].get("id") for _ in range(2)] == [2, None]
        rows.add(stream, 3, project_key="group:family")
        stream.publish("changed", row(1, project_key="group:family"))
        rows.add(stream, 4)
        assert await everything.numbers(3) == [3, 1, 4]
        assert await rest.numbers(1) == [4]
        await everything.leave()
        await rest.leave()

    asyncio.run(test())


def test_readers_are_told_what_waits(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "backstory.db")
    migrate(store)

    def add(tx: Tx) -> None:
        report = Report("claude-code", "tool", ContentId("x"), ids.new_event_id(), ids.now(), tool_name="Read")
        events.add(tx, sessions.get_or_create(tx, report, Project("shop", "shop")), report)

    async def test() -> None:
        stream = Rows().live()
        counts = QueueCounts(store, stream)
        counts.job.start()
        reader = await Reader(stream).connected()
        for number in (1, 2):
            await asyncio.to_thread(store.write, add)
            counts.wake()
            assert await reader.next() == ("queue", {"queued": number, "leased": 0, "dead": 0})
        await reader.leave()
        await counts.job.stop()

    asyncio.run(test())
    store.close()
