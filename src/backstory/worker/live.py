"""The live stream: server-sent events, which a reader can resume where it left off, also after a restart."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from backstory import ids
from backstory.errors import StoreUnavailable, TooMany
from backstory.project import group_of
from backstory.store.db import Row
from backstory.store.feed import Newest

#: Messages that a reader can catch up on. After more, and after a restart, new rows are read from the store.
KEPT = 1000
#: Rows that are read from the store for a reader. If there are more, it loads everything anew.
REPLAYED = 1000
#: Streams that are open at the same time, at most.
READERS = 100
#: Seconds without a message after which a comment is sent, so that the connection stays open.
KEEP_ALIVE_S = 15.0
#: kind of a row -> the event that tells of a new one
NEW = {"observation": "new_observation", "summary": "new_summary", "prompt": "new_prompt"}
_KINDS = {event: kind for kind, event in NEW.items()}
#: Returns the rows that are newer than some, at most so many, as data of events.
Replay = Callable[[Newest, int], list[Row]]


@dataclass(frozen=True, slots=True)
class _Message:
    number: int
    text: bytes
    newest: Newest  #: the newest rows that were told of by then
    is_groups: bool  #: it is about something that belongs to a group
    row: tuple[str, int] | None = None  #: kind and id of the row that it tells of


@dataclass(frozen=True, slots=True)
class _Position:
    """The last message that a reader got, and the newest rows that were told of by then."""

    number: int
    newest: Newest | None

    def __str__(self) -> str:
        return "-".join(map(str, (self.number, *(self.newest or Newest()).numbers())))


def _parse(last_id: str) -> _Position | None:
    """Return the position that a reader names; None if it names none."""
    first, *rest = (ids.number(part) for part in last_id[:100].split("-"))
    if first is None:
        return None
    numbers = [number for number in rest if number is not None]
    return _Position(first, Newest(*numbers) if len(numbers) == len(rest) == len(NEW) else None)


class Live:
    """The latest messages, and their readers."""

    def __init__(self, newest: Newest, replay: Replay) -> None:
        self._kept: deque[_Message] = deque()
        self._wake: set[asyncio.Event] = set()
        self._newest, self._replay = newest, replay
        self._last = self._whole_since = _clock()  # messages after this one are all kept
        self._closed = False
        self.opened = asyncio.Event()  #: set while somebody reads

    def publish(self, event: str, data: Mapping[str, Any]) -> None:
        # Ids come from the clock: they still grow after a restart, so a reader's Last-Event-ID stays valid.
        self._last = max(self._last + 1, _clock())
        row = None
        if (kind := _KINDS.get(event)) and isinstance(number := data.get("id"), int):
            row, self._newest = (kind, number), self._newest.with_row(kind, number)
        text = _encode(_Position(self._last, self._newest), event, data)
        is_groups = group_of(str(data.get("project_key") or "")) is not None
        self._kept.append(_Message(self._last, text, self._newest, is_groups, row))
        while len(self._kept) > KEPT:
            self._whole_since = self._kept.popleft().number
        self._wake_readers()

    def clear(self) -> None:
        """Drop the messages. They may quote what was forgotten."""
        self._kept.clear()
        self._whole_since = self._last

    def close(self) -> None:
        """End every stream, so that none delays a stop."""
        self._closed = True
        self._wake_readers()

    def _wake_readers(self) -> None:
        for wake in self._wake:
            wake.set()

    def stream(self, last_id: str | None, with_groups: bool = True) -> StreamingResponse:
        if len(self._wake) >= READERS:
            raise TooMany("Too many streams are open.")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        messages = self._messages(self._position(last_id or ""), with_groups)
        return StreamingResponse(messages, media_type="text/event-stream", headers=headers)

    def _position(self, last_id: str) -> _Position:
        """Return where a reader left off. Rows that are not stored, or a time to come, are those of another store."""
        position = _parse(last_id) or _Position(self._last, self._newest)
        if position.number > self._last:
            position = replace(position, number=0)
        if position.newest and position.newest.or_newer(self._newest) != self._newest:
            position = _Position(0, None)
        return position

    async def _messages(self, position: _Position, with_groups: bool) -> AsyncIterator[bytes]:
        wake = asyncio.Event()
        self._wake.add(wake)
        self.opened.set()
        seen, told = position.number, Newest()
        try:
            yield b"retry: 1000\n: connected\n\n"
            while not self._closed:
                wake.clear()
                if seen < self._whole_since:
                    seen = self._last
                    async for text, newest in self._replayed(position, seen, with_groups):
                        told = newest
                        yield text
                for message in list(self._kept):
                    if message.number > seen:
                        seen = message.number
                        position = _Position(seen, message.newest)
                        is_told = message.row is not None and told.has(*message.row)
                        if not is_told and (with_groups or not message.is_groups):
                            yield message.text
                try:
                    async with asyncio.timeout(KEEP_ALIVE_S):
                        await wake.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._wake.discard(wake)
            if not self._wake:
                self.opened.clear()

    async def _replayed(self, position: _Position, seen: int, with_groups: bool) -> AsyncIterator[tuple[bytes, Newest]]:
        """Yield what a reader missed: the rows that were stored since, from the store. Other changes are not kept, so
        the last message asks the reader to look again."""
        rows: list[Row] | None = None
        told = position.newest
        if told is not None:
            try:
                rows = await asyncio.to_thread(self._replay, told, REPLAYED + 1)
            except StoreUnavailable:
                rows = None
        if told is None or rows is None or len(rows) > REPLAYED:
            yield _encode(_Position(seen, self._newest), "reset", {}), Newest()
            return
        for row in rows:
            told = told.with_row(row["kind"], row["id"])
            if with_groups or group_of(str(row["project_key"])) is None:
                # A reader that leaves now still has to see the rest.
                yield _encode(_Position(position.number, told), NEW[row["kind"]], row), told
        yield _encode(_Position(seen, told.or_newer(self._newest)), "resumed", {}), told


def _clock() -> int:
    return time.time_ns() // 1000


def _encode(position: _Position, event: str, data: Mapping[str, Any]) -> bytes:
    return f"id: {position}\nevent: {event}\ndata: {msgspec.json.encode(data).decode()}\n\n".encode()
