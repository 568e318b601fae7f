"""Routes of export and import: the export as a stream, and the import of its rows, many per request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import msgspec
from starlette.responses import StreamingResponse

from backstory.capture import bodies
from backstory.errors import StoreUnavailable
from backstory.exchange.export import everything
from backstory.exchange.load import Load, Loaded, UnknownColumn
from backstory.jobs import place_of
from backstory.store import table_rows
from backstory.store.db import Store, Tx
from backstory.worker.endpoints import Call, Endpoint, needs_admin

log = logging.getLogger(__name__)
#: Bytes of a chunk of an export.
CHUNK_BYTES = 64 << 10
#: Chunks that wait for a slow reader, at most.
CHUNKS_WAITING = 4

ImportId = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class ImportRow(msgspec.Struct):
    """A line of an export."""

    table: str
    row: dict[str, Any]


class ImportRows(msgspec.Struct):
    """Lines of an export, in its order. `done` marks the last request of an import."""

    import_id: ImportId
    rows: Annotated[list[ImportRow], msgspec.Meta(max_length=2000)] = []
    done: bool = False


class RefusedRow(msgspec.Struct):
    """A row that was not imported: its index in `rows`, and the reason."""

    row: int
    reason: str


class ImportedRows(msgspec.Struct):
    added: int
    known: int
    refused: list[RefusedRow] = []


class _ReaderGone(Exception):
    """The reader of an export has disconnected."""


class _Pipe:
    """A queue from a thread to a reader on the event loop."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue(CHUNKS_WAITING)
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def put(self, chunk: bytes | None) -> None:
        """Add a chunk from the thread, and wait until there is room. Raises _ReaderGone after `close`."""
        if self._closed:
            raise _ReaderGone
        asyncio.run_coroutine_threadsafe(self.queue.put(chunk), self._loop).result()

    def close(self) -> None:
        """Stop the thread, from the event loop: a waiting `put` returns, and the next one raises."""
        self._closed = True
        while not self.queue.empty():
            self.queue.get_nowait()


class Exchange:
    """The routes of export and import."""

    def __init__(self, store: Store, wake: Callable[[], None], key: bytes = b"") -> None:
        self._store, self._wake, self._key = store, wake, key
        # An import that the previous worker did not finish starts again from its first row.
        store.write(table_rows.clear_import_keys)

    def table(self) -> list[Endpoint]:
        return [
            needs_admin("GET", "/api/export", self.export, media="application/x-ndjson"),
            needs_admin("POST", "/api/import/rows", self.load, ImportedRows, ImportRows, read=bodies.whole),
        ]

    async def export(self, call: Call) -> StreamingResponse:
        """Export everything as lines of JSON."""
        return StreamingResponse(self._chunks(), media_type="application/x-ndjson")

    async def _chunks(self) -> AsyncIterator[bytes]:
        """Yield the chunks of one snapshot. A thread of its own reads it, because it waits for the client. If a client
        stalls, its connection is closed, and the snapshot with it: the log of the database grows while one is open."""
        pipe = _Pipe()
        thread = threading.Thread(target=self._read_snapshot, args=(pipe,), name="backstory-export", daemon=True)
        thread.start()
        try:
            while (chunk := await pipe.queue.get()) is not None:
                yield chunk
        finally:
            pipe.close()

    def _read_snapshot(self, pipe: _Pipe) -> None:
        def work(tx: Tx) -> None:
            chunk = bytearray()
            for line in everything(tx):
                chunk += line.encode() + b"\n"
                if len(chunk) >= CHUNK_BYTES:
                    pipe.put(bytes(chunk))
                    chunk.clear()
            pipe.put(bytes(chunk))

        try:
            self._store.read(work)
        except _ReaderGone:
            return
        except Exception as error:
            # The last line is missing, so the reader knows that the export is not complete.
            log.warning("an export failed: %s", place_of(error))
        with contextlib.suppress(_ReaderGone):
            pipe.put(None)

    async def load(self, call: Call) -> ImportedRows:
        """Import rows of an export, in its order. A row that comes twice is stored once."""
        body: ImportRows = call.body
        load = Load(body.import_id, self._key)
        rows = [(given.table, given.row) for given in body.rows]
        loaded = await self._import(load, rows)
        if body.done:
            await asyncio.wrap_future(self._store.submit(load.finish))
        self._wake()
        refused = [RefusedRow(index, reason) for index, reason in loaded.refused.items()]
        return ImportedRows(loaded.added, len(rows) - loaded.added - len(refused), refused)

    async def _import(self, load: Load, rows: list[tuple[str, dict[str, Any]]]) -> Loaded:
        """Import rows in one transaction. If the database refuses it, import them one by one."""
        try:
            return await asyncio.wrap_future(self._store.submit(lambda tx: load.rows(tx, rows)))
        except (StoreUnavailable, UnknownColumn):
            raise
        except Exception as error:
            log.warning("an import of %d rows failed: %s", len(rows), place_of(error))
        if len(rows) == 1:
            return Loaded(refused={0: f"`{rows[0][0]}` does not fit"})
        loaded = Loaded()
        for index, row in enumerate(rows):
            one = await self._import(load, [row])
            loaded.added += one.added
            loaded.refused |= {index + offset: reason for offset, reason in one.refused.items()}
        return loaded
