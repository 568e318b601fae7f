"""An export whose reader goes away or stalls lets go of its snapshot, and of every thread."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

import pytest
import uvicorn
from box import until
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from backstory.exchange import turn_lines
from backstory.exchange.lines import Reader
from backstory.exchange.turn_lines import Said
from backstory.store.db import Store
from backstory.worker import endpoints
from backstory.worker.connections import Limits, Pool
from backstory.worker.endpoints import Call
from backstory.worker.principal import OWNER
from backstory.worker.routes.exchange import Exchange

AT = "2026-02-21T03:39:07.123Z"
#: More than the buffers of a connection hold.
LARGE = 24 << 20


@pytest.fixture
def exchange(store: Store) -> Exchange:
    """A route over a store with a large memory."""
    said = [Said("p", "s", number, "user", f"{number} " + "word " * 4000, AT) for number in range(20)]
    store.write(lambda tx: turn_lines.store(tx, "conversations", said))
    return Exchange(store, lambda: None)


def exporting() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "backstory-export"]


def test_an_export_that_nobody_reads_lets_go_of_its_snapshot(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection gives the reader up; then the thread that reads the database ends."""
    rows = ("x" * (1 << 20) for _ in range(LARGE >> 20))
    monkeypatch.setattr("backstory.worker.routes.exchange.everything", lambda tx: rows)
    routes = Starlette(routes=endpoints.routes(exchange.table()))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await routes({**scope, "principal": OWNER}, receive, send)  # as from the guard

    listener = socket.create_server(("127.0.0.1", 0))
    pool = Pool(Limits(stalled_s=0.3))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, http=pool.protocol))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
    thread.start()
    try:
        with socket.create_connection(listener.getsockname()) as connection:
            connection.sendall(b"GET /api/export HTTP/1.1\r\nHost: x\r\n\r\n")
            until(exporting, "the export to begin")
            until(lambda: not exporting(), "the thread to end")
    finally:
        server.should_exit = True
        thread.join()


def test_a_reader_that_goes_while_it_waits_leaves_no_thread_behind(exchange: Exchange) -> None:
    """Neither the one that reads the database nor one of the pool, of which there are few."""

    async def leave() -> None:
        answer = await exchange.export(Call(Request({"type": "http", "headers": []}), OWNER))
        task = asyncio.create_task(anext(answer.body_iterator))  # type: ignore[call-overload]
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await asyncio.to_thread(until, lambda: not exporting(), "the thread to end")

    asyncio.run(leave())  # which also waits for the threads of the pool


def test_a_reader_that_reads_gets_all_of_it(exchange: Exchange) -> None:
    async def read() -> bytes:
        answer = await exchange.export(Call(Request({"type": "http", "headers": []}), OWNER))
        return b"".join([piece async for piece in answer.body_iterator])  # type: ignore[misc]

    reader = Reader()  # which refuses an export without its end
    assert len(list(reader.read(iter(asyncio.run(read()).splitlines(keepends=True))))) >= 20
