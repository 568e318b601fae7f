"""Everything out and in again: the export as a stream, rows of one back in, a few at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import msgspec
from starlette.responses import StreamingResponse

from backstory.errors import BackstoryError, BadInput
from backstory.exchange.export import everything
from backstory.exchange.load import Load
from backstory.store.db import Store, Tx
from backstory.worker import web
from backstory.worker.web import Call, Endpoint

log = logging.getLogger(__name__)
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


class Imported(msgspec.Struct):
    added: int
    known: int


class _Gone(Exception):
    """The reader went away."""


class Exchange:
    """The routes of export and import."""

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        self._store, self._wake = store, wake
        # What a worker before this one left half-way comes again from the beginning.
        store.write(lambda tx: tx.run("import_keys_clear", import_id=""))

    def table(self) -> list[Endpoint]:
        return [
            Endpoint("GET", "/api/export", self.export, "Everything, as lines of JSON.", media="application/x-ndjson"),
            Endpoint(
                "POST",
                "/api/import/rows",
                self.load,
                "Rows of an export, in its order; each is taken in once, however often it comes.",
                Imported,
                ImportRows,
                read=web.read_whole,
            ),
        ]

    async def export(self, call: Call) -> StreamingResponse:
        return StreamingResponse(self._pieces(), media_type="application/x-ndjson")

    async def _pieces(self) -> AsyncIterator[bytes]:
        """One snapshot, read by a thread that waits for whoever reads us."""
        pipe: queue.Queue[bytes | None] = queue.Queue(WAITING)
        gone = threading.Event()
        thread = threading.Thread(target=self._pump, args=(pipe, gone), name="backstory-export", daemon=True)
        thread.start()
        try:
            while (piece := await asyncio.to_thread(pipe.get)) is not None:
                yield piece
        finally:
            gone.set()
            with contextlib.suppress(queue.Empty):
                while True:
                    pipe.get_nowait()

    def _pump(self, pipe: queue.Queue[bytes | None], gone: threading.Event) -> None:
        def put(piece: bytes) -> None:
            while not gone.is_set():
                with contextlib.suppress(queue.Full):
                    return pipe.put(piece, timeout=0.2)
            raise _Gone

        def work(tx: Tx) -> None:
            gathered = bytearray()
            for line in everything(tx, self._store.engine):
                gathered += line.encode() + b"\n"
                if len(gathered) >= PIECE:
                    put(bytes(gathered))
                    gathered.clear()
            put(bytes(gathered))

        try:
            self._store.read(work)
        except _Gone:
            return
        except Exception as error:
            # The end is missing, which is how a reader knows.
            _log("an export", error)
        with contextlib.suppress(queue.Full):
            pipe.put(None, timeout=60)

    async def load(self, call: Call) -> Imported:
        asked: ImportRows = call.body
        load = Load(self._store.engine, asked.import_id)

        def work(tx: Tx) -> int:
            added = load.rows(tx, [(given.table, given.row) for given in asked.rows])
            if asked.done:
                load.finish(tx)
            return added

        try:
            added = await asyncio.wrap_future(self._store.submit(work))
        except BackstoryError:
            raise
        except Exception as error:
            _log("an import", error)
            raise BadInput(
                "A row of the file does not fit, so this part was not imported.", "Make the export again."
            ) from None
        self._wake()
        return Imported(added, len(asked.rows) - added)


def _log(what: str, error: Exception) -> None:
    """Where, but not what: an error's text may quote a row."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    log.warning("%s failed: %s in %s:%s", what, type(error).__name__, place.filename, place.lineno)
