"""Connections that send or read too slowly, and too many of them."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from box import COMMAND, Box, until

from backstory.worker.connections import Limits, Pool

HALF = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
MUCH = 64 << 20


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, and answers with the number of its bytes, or with much more than a socket holds."""
    read, more = 0, scope["type"] == "http"
    while more:
        message = await receive()
        read, more = read + len(message.get("body", b"")), message.get("more_body", False)
    if scope["path"] == "/token":
        scope["admit"]()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/much":
        for _ in range(MUCH >> 20):
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
    await send({"type": "http.response.body", "body": str(read).encode()})


@contextmanager
def served(limits: Limits) -> Iterator[tuple[int, uvicorn.Server]]:
    """A real server with these limits, on a port of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application, lifespan="off", log_config=None, http=Pool(limits).protocol, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
    thread.start()
    until(lambda: server.started, "the server to start")
    try:
        yield listener.getsockname()[1], server
    finally:
        server.should_exit = True
        thread.join()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=120)


def client(port: int) -> closing[http.client.HTTPConnection]:
    return closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120))


def ask(connection: http.client.HTTPConnection, path: str) -> int:
    connection.request("GET", path)
    found = connection.getresponse()
    found.read()
    return found.status


def answer(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 20):
            found += piece
    return found


@pytest.mark.parametrize("sent", [b"", b"G", HALF, b"\r\n"])
def test_a_request_whose_head_does_not_come_is_given_up(sent: bytes) -> None:
    with served(Limits(head_s=0.2)) as (port, _), connect(port) as connection:
        connection.sendall(sent)
        assert answer(connection).startswith(b"HTTP/1.1 408")


def test_a_head_that_comes_byte_by_byte_is_given_up() -> None:
    """Each byte in time does not make the whole so."""
    with served(Limits(head_s=0.5)) as (port, server), connect(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        until(lambda: server.server_state.connections, "the connection")
        with contextlib.suppress(ConnectionError):
            while server.server_state.connections:
                connection.sendall(b"X")
                threading.Event().wait(0.01)
        assert answer(connection).startswith(b"HTTP/1.1 408")


def test_a_body_that_does_not_come_is_given_up() -> None:
    with served(Limits(body_s=0.2)) as (port, _), connect(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
        assert answer(connection).startswith(b"HTTP/1.1 408")


def test_a_connection_that_is_kept_serves_again() -> None:
    """A request that has come stops the clock."""
    with served(Limits(head_s=1, body_s=1)) as (port, _), client(port) as connection:
        for number in range(2):
            connection.request("POST", "/", b"x" * number)
            assert connection.getresponse().read() == str(number).encode()
            threading.Event().wait(1.2)


def test_an_answer_that_nobody_reads_is_broken_off() -> None:
    """And what made it is told, so that a snapshot of the database is let go."""
    with served(Limits(stalled_s=0.3)) as (port, server), connect(port) as connection:
        connection.sendall(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: server.server_state.tasks, "the request to be at work")
        until(lambda: not server.server_state.connections, "the connection to be given up")
        until(lambda: not server.server_state.tasks, "its task to end")
        assert 0 < len(answer(connection)) < MUCH


def test_an_answer_that_is_read_slowly_comes_whole() -> None:
    """Slower than the limit as a whole, and always a little of it."""
    with served(Limits(stalled_s=1.5)) as (port, _), connect(port) as connection:
        connection.sendall(b"GET /much HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        size = 0
        while piece := connection.recv(2 << 20):
            size += len(piece)
            threading.Event().wait(0.06)
        assert size > MUCH


def test_the_oldest_connection_without_a_credential_makes_room() -> None:
    with served(Limits(connections=3)) as (port, _), ExitStack() as stack:
        owner = stack.enter_context(client(port))
        assert ask(owner, "/token") == 200
        strangers = [stack.enter_context(connect(port)) for _ in range(5)]
        assert [answer(one) for one in strangers[:3]] == [b""] * 3
        assert ask(owner, "/") == 200


def test_where_all_connections_are_the_owners_another_is_refused() -> None:
    with served(Limits(connections=2)) as (port, _), ExitStack() as stack:
        for _ in range(2):
            assert ask(stack.enter_context(client(port)), "/token") == 200
        assert answer(stack.enter_context(connect(port))).startswith(b"HTTP/1.1 503")


def test_half_sent_requests_do_not_lock_the_owner_out(box: Box) -> None:
    """More of them than the worker may have files: the socket answers, and so does the port, with the token."""
    limited = ["sh", "-c", 'ulimit -n 256 && exec "$0" worker', str(COMMAND)]
    worker = subprocess.Popen(limited, env=box.env, cwd=box.home, stdout=-3, stderr=-3)
    box.processes.append(worker)
    until(box.health, "the worker to start")
    with ExitStack() as stack:
        for _ in range(300):
            connection = stack.enter_context(connect(box.port))
            connection.sendall(HALF)
        for _ in range(20):
            assert box.client.get("/api/health")
            assert box.http("GET", "/api/sessions").status == 200
        assert len(list(Path(f"/proc/{worker.pid}/fd").iterdir())) < 256 - 64
        box.hook("PostToolUse", {"session_id": "s", "tool_name": "T", "tool_response": "r", "tool_use_id": "t"})
        assert box.spooled() == []


def test_requests_without_the_token_do_not_use_up_the_owners_rate(box: Box) -> None:
    box.tuning["requests_per_second"] = 30
    box.start()
    statuses = {box.http("GET", "/api/sessions", token=False).status for _ in range(200)}
    assert statuses == {401, 429}
    assert box.http("GET", "/api/sessions").status == 200
