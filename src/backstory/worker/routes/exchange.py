"""Everything out and in again: the export as a stream, rows of one back in, a few at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, TypeVar

import msgspec
from starlette.responses import StreamingResponse

from backstory.errors import StoreUnavailable
from backstory.exchange.export import everything
from backstory.exchange.load import Load, Loaded, UnknownColumn
from backstory.store import table_rows
from backstory.store.db import Store, Tx
from backstory.worker import endpoints
from backstory.worker.endpoints import Call, Endpoint, needs_admin

log = logging.getLogger(__name__)
T = TypeVar("T")
#: How much is gathered before it is sent, and how many such pieces wait for a slow reader.
PIECE = 64 << 10
WAITING = 4

ImportId = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class ImportRow(msgspec.Struct):
    """A line of an export."""

    table: str
    row: dict[str, Any]


class ImportRows(msgspec.Struct):
    """Some lines of an export, in its order; the last piece says that it is the last."""

    import_id: ImportId
    rows: Annotated[list[ImportRow], msgspec.Meta(max_length=2000)] = []
    done: bool = False


class RefusedRow(msgspec.Struct):
    """A row that was not taken in, by its place in `rows`, and why."""

    row: int
    reason: str


class ImportedRows(msgspec.Struct):
    added: int
    known: int
    refused: list[RefusedRow] = []


class _Gone(Exception):
    """The reader went away."""


class _Pipe:
    """From a thread to a reader on the loop. While it waits for a slow reader, it takes up no thread of the pool."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING)
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def put(self, piece: bytes | None) -> None:
        """For the thread: wait until there is room. Raises _Gone when the reader is."""
        if self._closed:
            raise _Gone
        asyncio.run_coroutine_threadsafe(self.queue.put(piece), self._loop).result()

    def close(self) -> None:
        """For the reader, when it goes: a `put` that waits comes back, and the next one raises."""
        self._closed = True
        while not self.queue.empty():
            self.queue.get_nowait()


class Exchange:
    """The routes of export and import."""

    def __init__(self, store: Store, wake: Callable[[], None], key: bytes = b"") -> None:
        self._store, self._wake, self._key = store, wake, key
        # What a worker before this one left half-way comes again from the beginning.
        store.write(table_rows.clear_import_keys)

    def table(self) -> list[Endpoint]:
        return [
            needs_admin(
                "GET", "/api/export", self.export, "Everything, as lines of JSON.", media="application/x-ndjson"
            ),
            needs_admin(
                "POST",
                "/api/import/rows",
                self.load,
                "Rows of an export, in its order; each is taken in once, however often it comes.",
                ImportedRows,
                ImportRows,
                read=endpoints.read_whole,
            ),
        ]

    async def export(self, call: Call) -> StreamingResponse:
        return StreamingResponse(self._pieces(), media_type="application/x-ndjson")

    async def _pieces(self) -> AsyncIterator[bytes]:
        """One snapshot, read by a thread that waits for whoever reads us. A reader that stalls is given up by its
        connection, and the snapshot with it: as long as one is open, the database's log can only grow."""
        pipe = _Pipe()
        thread = threading.Thread(target=self._pump, args=(pipe,), name="backstory-export", daemon=True)
        thread.start()
        try:
            while (piece := await pipe.queue.get()) is not None:
                yield piece
        finally:
            pipe.close()

    def _pump(self, pipe: _Pipe) -> None:
        def work(tx: Tx) -> None:
            gathered = bytearray()
            for line in everything(tx, self._store.engine):
                gathered += line.encode() + b"\n"
                if len(gathered) >= PIECE:
                    pipe.put(bytes(gathered))
                    gathered.clear()
            pipe.put(bytes(gathered))

        try:
            self._store.read(work)
        except _Gone:
            return
        except Exception as error:
            # The end is missing, which is how a reader knows.
            _log("an export", error)
        with contextlib.suppress(_Gone):
            pipe.put(None)

    async def load(self, call: Call) -> ImportedRows:
        asked: ImportRows = call.body
        load = Load(self._store.engine, asked.import_id, self._key)
        rows = [(given.table, given.row) for given in asked.rows]
        try:
            loaded = await self._write(lambda tx: load.rows(tx, rows))
        except (StoreUnavailable, UnknownColumn):
            raise
        except Exception as error:
            _log("a part of an import", error)
            loaded = await self._one_by_one(load, rows)
        if asked.done:
            await self._write(load.finish)
        self._wake()
        refused = [RefusedRow(at, reason) for at, reason in loaded.refused.items()]
        return ImportedRows(loaded.added, len(rows) - loaded.added - len(refused), refused)

    async def _one_by_one(self, load: Load, rows: list[tuple[str, dict[str, Any]]]) -> Loaded:
        """Rows of which one does not fit beside what is stored: that one is refused, and the others are taken in."""
        loaded = Loaded()
        for at, row in enumerate(rows):
            try:
                one = await self._write(lambda tx, row=row: load.rows(tx, [row]))  # type: ignore[misc]
            except (StoreUnavailable, UnknownColumn):
                raise
            except Exception as error:
                _log("a row of an import", error)
                loaded.refused[at] = f"`{row[0]}` does not fit"
            else:
                loaded.added += one.added
                loaded.refused |= {at + place: reason for place, reason in one.refused.items()}
        return loaded

    async def _write(self, work: Callable[[Tx], T]) -> T:
        return await asyncio.wrap_future(self._store.submit(work))


def _log(what: str, error: Exception) -> None:
    """Where, but not what: an error's text may quote a row."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    log.warning("%s failed: %s in %s:%s", what, type(error).__name__, place.filename, place.lineno)
