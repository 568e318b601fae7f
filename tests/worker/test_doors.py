"""What a stranger on the port learns, and requests that say who asks in two ways."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from typing import Any

import pytest
import shared_box
from box import Box, until

shared = shared_box.shared
#: What the owner is told of the worker, and a stranger is not.
TOLD = {"status", "version", "pid", "uptime_s", "queue", "provider", "store"}
HEALTH = ("/api/health", "/health")


def health(box: Box, headers: dict[str, str], token: bool = False, path: str = HEALTH[0]) -> dict[str, Any]:
    answer = box.http("GET", path, headers=headers, token=token)
    assert answer.status == 200, (headers, answer.body)
    found: dict[str, Any] = json.loads(answer.body)
    return found


@pytest.mark.parametrize("path", HEALTH)
def test_a_stranger_learns_only_that_the_worker_is_there(shared: Box, path: str) -> None:
    """The owner gets all of it: over the socket, with the token, and in a browser that is signed in."""
    for wrong in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": f"token={shared.token}"}):
        assert health(shared, wrong, path=path) == {"status": "ok"}, wrong
    assert shared.http("GET", f"{path}?token={shared.token}", token=False).body == b'{"status":"ok"}'
    code = shared.client.post("/api/open")["code"]
    signed_in = shared.http("POST", "/open", {"code": code}, {"Origin": f"http://127.0.0.1:{shared.port}"}, token=False)
    page = {"Authorization": f"Backstory-Session {json.loads(signed_in.body)['session']}"}
    owners = (health(shared, {}, token=True, path=path), health(shared, page, path=path), shared.client.get(path))
    for found in owners:
        assert set(found) >= TOLD
        assert found["pid"] == owners[0]["pid"]


@pytest.mark.parametrize("path", HEALTH)
def test_health_answers_no_foreign_host_or_page(shared: Box, path: str) -> None:
    """Not even that it is there: a page that rebinds its name could find out which ports of this machine answer."""
    port = shared.port
    hosts = (
        "evil.example",
        f"evil.example:{port}",
        "",
        f"127.0.0.1:{port}@evil.example",
        f"127.0.0.1.evil.example:{port}",
    )
    for host in hosts:
        for token in (False, True):
            assert shared.http("GET", path, headers={"Host": host}, token=token).status == 403, host
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{port + 1}", f"https://127.0.0.1:{port}"):
        assert shared.http("GET", path, headers={"Origin": origin}).status == 403, origin
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "[::1]", "LOCALHOST"):
        assert shared.http("GET", path, headers={"Host": host}, token=False).status == 200, host


def raw(box: Box, *lines: str) -> tuple[int, bytes]:
    """Send a request as it is written. Return the status and all that was answered."""
    with closing(socket.create_connection(("127.0.0.1", box.port), timeout=60)) as connection:
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    return int(answer.split()[1]), answer


DOUBLED = {
    "host, ours first": ("Host: {own}", "Host: evil.example", "Authorization: Bearer {token}"),
    "host, ours last": ("Host: evil.example", "Host: {own}", "Authorization: Bearer {token}"),
    "host twice the same": ("Host: {own}", "host: {own}", "Authorization: Bearer {token}"),
    "origin": ("Host: {own}", "Origin: http://{own}", "Origin: http://evil.example", "Authorization: Bearer {token}"),
    "authorization": ("Host: {own}", "Authorization: Bearer {token}", "Authorization: Bearer x"),
    "fetch site": (
        "Host: {own}",
        "Sec-Fetch-Site: same-origin",
        "Sec-Fetch-Site: cross-site",
        "Authorization: Bearer {token}",
    ),
    "length": ("Host: {own}", "Content-Length: 0", "Content-Length: 5", "Authorization: Bearer {token}"),
}


@pytest.mark.parametrize("route", ["GET /api/sessions", "GET /api/health", "GET /", "POST /hooks/claude-code/Stop"])
@pytest.mark.parametrize("name", DOUBLED)
def test_a_header_that_decides_is_refused_if_it_comes_twice(shared: Box, route: str, name: str) -> None:
    """Of two, a proxy may believe the one, and the worker the other."""
    values = {"own": f"127.0.0.1:{shared.port}", "token": shared.token}
    status, answer = raw(shared, f"{route} HTTP/1.1", *(line.format(**values) for line in DOUBLED[name]))
    assert status == 400 and (name == "length" or "several" in str(answer)), answer


def test_a_target_with_a_host_of_its_own_is_refused(shared: Box) -> None:
    """It would stand beside the header that is checked. A header that a proxy adds decides nothing."""
    own, token = f"Host: 127.0.0.1:{shared.port}", f"Authorization: Bearer {shared.token}"
    for target in ("http://evil.example/api/sessions", f"http://127.0.0.1:{shared.port}/api/sessions", "*", "evil:80"):
        for method in ("GET", "OPTIONS", "CONNECT"):
            status, answer = raw(shared, f"{method} {target} HTTP/1.1", own, token)
            assert status == 400, (method, target, answer)
    until(lambda: shared.http("GET", "/api/sessions").status == 200, "the worker to answer")
    for header in ("X-Forwarded-Host: 127.0.0.1", "Forwarded: host=127.0.0.1", "X-Forwarded-For: 127.0.0.1"):
        assert raw(shared, "GET /api/sessions HTTP/1.1", "Host: evil.example", token, header)[0] == 403
        assert raw(shared, "GET /api/sessions HTTP/1.1", own, header)[0] == 401
        assert (
            raw(shared, "GET /api/sessions HTTP/1.1", own, token, header.replace("127.0.0.1", "evil.example"))[0] == 200
        )


def test_other_methods_and_protocols_are_no_way_in(shared: Box) -> None:
    own = f"Host: 127.0.0.1:{shared.port}"
    for method, path, status in (
        ("HEAD", "/api/health", 200),
        ("HEAD", "/api/sessions", 401),
        ("OPTIONS", "/api/health", 401),
    ):
        found, answer = raw(shared, f"{method} {path} HTTP/1.1", own)
        assert found == status, (method, path, answer)
        assert b"access-control" not in answer.lower()
    upgrade = ("Upgrade: websocket", "Sec-WebSocket-Key: eA==", "Sec-WebSocket-Version: 13")
    assert raw(shared, "GET /api/sessions HTTP/1.1", own, *upgrade)[0] == 401
    assert raw(shared, "GET /api/health HTTP/1.1", "Host: evil.example", *upgrade)[0] == 403
    assert raw(shared, "GET /api/sessions HTTP/1.0", f"Authorization: Bearer {shared.token}")[0] == 403  # no Host
