"""Only its owner gets in."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import shared_box
from box import Answer, Box

from backstory.errors import BadSetting, NotFound
from backstory.settings import Settings
from backstory.worker.guard import check_binding
from backstory.worker.viewer.assets import Assets
from backstory.worker.viewer.browsers import CODE_S, SESSION_S, Browsers, is_of_another_user

shared = shared_box.shared


def every_route(box: Box) -> list[tuple[str, str]]:
    document = box.client.get("/openapi.json")
    return [
        (method.upper(), re.sub(r"\{\w+\}", "1", path))
        for path, methods in document["paths"].items()
        for method in methods
    ]


def test_without_the_token_every_route_but_health_is_refused(shared: Box) -> None:
    """401 on each, with one sentence; a wrong token is no better."""
    found = every_route(shared)
    assert len(found) > 30
    for method, path in found:
        if path == "/" or path.startswith("/assets/"):
            continue  # the page, which holds nothing of the memory
        wanted = 200 if path.endswith("/health") else 401
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Backstory-Session wrong"},
            {"Cookie": f"backstory={shared.token}"},
            {"Authorization": "Basic x"},
        ):
            answer = shared.http(method, path, b"{}" if method == "POST" else None, headers, token=False)
            assert answer.status == wanted or (path == "/open" and answer.status == 401), (method, path, answer.status)


HOSTS = ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::2]", "192.0.2.7")
ORIGINS = ("http://evil.example", "null", "https://127.0.0.1", "http://localhost:1")


@pytest.mark.parametrize("header", [("Host", HOSTS), ("Origin", ORIGINS)], ids=["host", "origin"])
def test_a_foreign_host_or_origin_is_refused_even_with_the_token(shared: Box, header: tuple[str, Any]) -> None:
    """A page that rebinds its name to this machine gets nothing, and another site's page does not either. Every route
    is asked for the first, and some for each."""
    name, values = header
    routes = every_route(shared)
    for number, value in enumerate(values):
        for method, path in routes[:: 1 if number == 0 else 5]:
            answer = shared.http(method, path, b"{}" if method == "POST" else None, {name: value})
            assert answer.status == 403, (method, path, value)


def test_our_own_page_and_the_right_token_get_in(shared: Box) -> None:
    own = {"Origin": f"http://127.0.0.1:{shared.port}"}
    assert shared.http("GET", "/api/sessions", headers=own).status == 200


def test_the_page_needs_no_credential_and_loads_nothing_from_elsewhere(shared: Box) -> None:
    """Its policy allows its own files alone. A path is no name of a file."""
    page = shared.http("GET", "/", headers={"Accept": "text/html"}, token=False)
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "img-src")} == {"'self'"}
    assert policy["require-trusted-types-for"] == "'script'"
    for path in ("../token", "%2e%2e%2ftoken", "..%2f..%2ftoken", "%2e%2e", ".", "x.py", "__init__.py", "/etc/passwd"):
        assert shared.http("GET", f"/assets/{path}", token=False).status in (401, 404), path
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        assert shared.http("GET", "/", headers=headers, token=False).status == 403


def test_a_file_of_the_page_is_sent_once(tmp_path: Path) -> None:
    """And again after it was changed. Only names of files with a known type are served."""
    (tmp_path / "assets").mkdir()
    assets = Assets(tmp_path / "assets")
    assert b"was not built" in bytes(assets.page().body)
    (tmp_path / "assets" / "index.html").write_text("<!doctype html>")
    (tmp_path / "assets" / "viewer.js").write_text("one")
    assert assets.page().body == b"<!doctype html>"
    first = assets.file("viewer.js")
    assert first.headers["content-type"] == "text/javascript; charset=utf-8"
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    assert [assets.file("viewer.js", f'"x", W/{tag}').status_code, assets.file("viewer.js", '"x"').status_code] == [
        304,
        200,
    ]
    (tmp_path / "assets" / "viewer.js").write_text("two")
    os.utime(tmp_path / "assets" / "viewer.js", ns=(1, 1))
    assert assets.file("viewer.js", tag).body == b"two"
    (tmp_path / "token.js").write_text("secret")
    (tmp_path / "assets" / "build.log").write_text("log")
    for name in (
        "../token.js",
        "..",
        ".js",
        "x/viewer.js",
        "build.log",
        "viewer.js\0",
        "viewer.js\n",
        "VIEWER",
        "",
        "no.js",
    ):
        with pytest.raises(NotFound):
            assets.file(name)


def enter(box: Box, code: str) -> Answer:
    return box.http("POST", "/open", {"code": code}, {"Origin": f"http://127.0.0.1:{box.port}"}, token=False)


def code_of(box: Box) -> str:
    return box.cli("open", "--print").stdout.strip().partition("#code=")[2]


def test_a_browser_gets_a_session_for_a_code_and_not_the_token(shared: Box) -> None:
    """The link holds a code, no answer sets a cookie, and the session opens what the token opens."""
    link = shared.cli("open", "--print").stdout.strip()
    assert link.startswith(f"http://127.0.0.1:{shared.port}/#code=")
    entered = enter(shared, link.partition("#code=")[2])
    assert entered.status == 200
    assert entered.headers["cache-control"] == "no-store"
    session = entered.json["session"]
    assert entered.json["expires_in"] <= 24 * 3600
    own = {"Authorization": f"Backstory-Session {session}", "Sec-Fetch-Site": "same-origin"}
    assert shared.http("GET", "/api/sessions", headers=own, token=False).status == 200
    changed = {"claudeSessionId": "s", "tool_name": "T", "tool_response": "r"}
    own["Origin"] = f"http://127.0.0.1:{shared.port}"
    assert shared.http("POST", "/api/sessions/observations", changed, own, token=False).status == 202
    assert "set-cookie" not in entered.headers
    assert shared.token != session
    assert shared.token.encode() not in entered.body


def test_each_credential_opens_only_its_own_door(shared: Box) -> None:
    """What a browser sends to other ports of the machine, cookies, opens nothing; a session is no token."""
    session = enter(shared, code_of(shared)).json["session"]
    for value in (shared.token, session):
        for name in ("backstory", "session", "token", f"backstory-{shared.port}"):
            cookie = {"Cookie": f"{name}={value}"}
            assert shared.http("GET", "/api/sessions", headers=cookie, token=False).status == 401
    for refused in (f"Bearer {session}", f"Backstory-Session {shared.token}", f"Basic {session}", session):
        assert shared.http("GET", "/api/sessions", headers={"Authorization": refused}, token=False).status == 401
    assert shared.http("GET", f"/api/sessions?token={shared.token}&session={session}", token=False).status == 401


def test_a_session_is_taken_from_our_own_page_only(shared: Box) -> None:
    own = {"Authorization": f"Backstory-Session {enter(shared, code_of(shared)).json['session']}"}
    origin = {"Origin": f"http://127.0.0.1:{shared.port}"}
    for site in ("cross-site", "same-site", "none"):
        assert shared.http("GET", "/api/sessions", headers=own | {"Sec-Fetch-Site": site}, token=False).status == 403
    assert shared.http("POST", "/api/queue/retry", {}, own, token=False).status == 403, "it does not say from where"
    other = {"Origin": f"http://127.0.0.1:{shared.port + 1}"}
    assert shared.http("POST", "/api/queue/retry", {}, own | other, token=False).status == 403
    assert shared.http("POST", "/api/queue/retry", {}, own | origin, token=False).status == 200


def test_a_code_that_comes_twice_ends_the_session_that_it_gave(shared: Box) -> None:
    """Somebody else has read it, and which of the two is the owner is not known."""
    code = code_of(shared)
    own = {"Authorization": f"Backstory-Session {enter(shared, code).json['session']}"}
    assert shared.http("GET", "/api/sessions", headers=own, token=False).status == 200
    assert enter(shared, code).status == 401
    assert shared.http("GET", "/api/sessions", headers=own, token=False).status == 401
    for wrong in ("", "x", code + "x"):
        assert enter(shared, wrong).status == 401


def test_a_session_ends_with_its_time_and_with_the_token(
    running: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart of the worker does not end it. What is kept of it opens nothing."""
    browsers, code = Browsers(tmp_path / "browsers.json", "token"), ""
    session = browsers.exchange(browsers.make_code())
    assert session
    assert session not in (tmp_path / "browsers.json").read_text()
    assert (tmp_path / "browsers.json").stat().st_mode & 0o077 == 0
    code = browsers.make_code()
    now, clock = time.monotonic(), time.time()
    monkeypatch.setattr(time, "monotonic", lambda: now + CODE_S + 1)
    assert browsers.exchange(code) is None
    for later, is_known in ((0, True), (SESSION_S - 5, True), (SESSION_S + 1, False), (-3600, False)):
        monkeypatch.setattr(time, "time", lambda later=later: clock + later)
        assert browsers.knows(session) is is_known, later
        assert Browsers(tmp_path / "browsers.json", "token").knows(session) is is_known, later
    monkeypatch.undo()
    assert not Browsers(tmp_path / "browsers.json", "another token").knows(session)
    for damaged in (b"", b"[]", b'{"sessions": 5}', b"\xff"):
        (tmp_path / "browsers.json").write_bytes(damaged)
        assert not Browsers(tmp_path / "browsers.json", "token").knows(session)
    own = {"Authorization": f"Backstory-Session {enter(running, code_of(running)).json['session']}"}
    running.kill(running.processes[0])
    worker = running.start()
    assert running.http("GET", "/api/sessions", headers=own, token=False).status == 200
    running.stop(worker)
    (running.data / "token").unlink()
    running.start()
    assert running.http("GET", "/api/sessions", headers=own, token=False).status == 401


def test_another_user_of_the_machine_can_not_use_a_code(shared: Box) -> None:
    """Which stands on the browser's command line, for all to see."""
    with socket.create_connection(("127.0.0.1", shared.port)) as connection:
        address, port = connection.getsockname()
        assert not is_of_another_user(address, port)
    if os.getuid() != 0 or not Path("/proc/net/tcp").exists() or not shutil.which("curl"):
        pytest.skip("only root can be another user, and only Linux tells")
    with socket.socket(socket.AF_INET6) as connection:  # which the kernel lists elsewhere
        connection.connect(("::ffff:127.0.0.1", shared.port))
        address, port, *_ = connection.getsockname()
        assert not is_of_another_user("127.0.0.1", port)
    assert is_of_another_user("127.0.0.1", port), "a connection that nobody owns"
    code = code_of(shared)
    body = json.dumps({"code": code})
    call = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-d", body, f"http://127.0.0.1:{shared.port}/open"]
    run = subprocess.run(call, user=65534, group=65534, env={"PATH": os.environ["PATH"]}, cwd="/", capture_output=True)
    assert run.stdout == b"401"
    assert enter(shared, code).status == 200


def test_the_token_is_in_no_answer(shared: Box) -> None:
    """Nothing that can be read over HTTP tells it."""
    for method, path in every_route(shared):
        if method == "GET" and "stream" not in path:
            assert shared.token.encode() not in shared.http(method, path).body


def test_bound_beyond_this_machine_it_refuses_to_start_without_authentication(box: Box) -> None:
    """And says so in one sentence."""
    box.settings |= {"BACKSTORY_HOST": "0.0.0.0", "BACKSTORY_AUTH": "off"}
    run = box.cli("worker", check=False)
    assert run.returncode == 1
    assert "without authentication" in run.stderr
    assert "Traceback" not in run.stderr
    with pytest.raises(BadSetting):
        check_binding(Settings(host="192.168.1.1", auth="off"))


def test_bound_beyond_this_machine_it_answers_to_its_addresses_and_names(box: Box) -> None:
    """With the token, and to no name that is somebody else's: that may have been bound anew."""
    box.settings["BACKSTORY_HOST"] = "0.0.0.0"
    box.start()
    own = socket.gethostname()
    for host in ("192.0.2.7", f"192.0.2.7:{box.port}", f"[2001:db8::7]:{box.port}", "0.0.0.0", own, f"{own}.local:80"):
        assert box.http("GET", "/api/sessions", headers={"Host": host}).status == 200, host
        assert box.http("GET", "/api/sessions", headers={"Host": host}, token=False).status == 401, host
        page = {"Host": host, "Origin": f"http://{host}"}
        assert box.http("GET", "/api/sessions", headers=page).status == 200, host
    for host in ("evil.example", "192.0.2.7.evil.example", "192.0.2.7@evil.example", "", "0x7f000001", "127.1", "[::2"):
        assert box.http("GET", "/api/sessions", headers={"Host": host}).status == 403, host


def test_auth_can_be_off_on_a_machine_of_ones_own(box: Box) -> None:
    """Host and Origin are checked all the same."""
    box.settings["BACKSTORY_AUTH"] = "off"
    box.start()
    assert box.http("GET", "/api/sessions", token=False).status == 200
    assert box.http("GET", "/api/sessions", headers={"Host": "evil.example"}, token=False).status == 403


def test_too_many_requests_get_429_and_the_socket_is_not_counted(box: Box) -> None:
    """A runaway program on the port does not cost the hooks anything."""
    box.tuning["requests_per_second"] = 5
    box.start()
    statuses = [box.http("GET", "/api/health").status for _ in range(12)]
    assert 429 in statuses
    assert all(box.client.get("/api/health") for _ in range(12))


BAD: list[tuple[str, bytes]] = [
    ("not json", b"hello"),
    ("empty", b""),
    ("list", b"[1]"),
    ("null", b"null"),
    (
        "wrong types",
        b'{"claudeSessionId": 5, "tool_name": {}, "sessionId": 5, "isProcessing": "x", "ids": "y", "id": "z"}',
    ),
    ("missing", b"{}"),
    (
        "too long an id",
        json.dumps(
            {"claudeSessionId": "x" * 5000, "tool_name": "T", "userPrompt": "p", "isProcessing": 1, "ids": 1, "id": []}
        ).encode(),
    ),
    (
        "deep",
        b'{"claudeSessionId":"x","tool_name":"T","userPrompt":"p","isProcessing":' + b"[" * 100 + b"]" * 100 + b"}",
    ),
    ("cut", b'{"claudeSessionId": "x"'),
    ("invalid utf-8", b'{"claudeSessionId": "\xff\xfe"}'),
    (
        "two names that differ",
        b'{"claudeSessionId": "a", "sessionId": "b", "tool_name": "T", "userPrompt": "p", "isProcessing": 3, "ids": 0}',
    ),
]


def test_bad_input_gets_a_clear_4xx_on_every_route_and_nothing_is_half_written(running: Box) -> None:
    """One sentence and what to do; and the next good event is stored."""
    routes = every_route(running)
    for name, raw in BAD:
        for method, path in routes:
            if method != "POST":
                continue
            answer = running.http(method, path, raw)
            harmless = path in (
                "/api/open",
                "/api/queue/retry",
                "/api/queue/drop",
                "/api/sessions/1/init",
                "/sessions/1/init",
                "/api/vectors",
                "/api/reindex",
                "/api/reobserve",
                "/api/search",
                "/api/settings/test",
            )
            said = (name, path, answer.status, answer.body)
            assert 400 <= answer.status < 500 or (harmless and answer.status == 200), said
            if answer.status >= 400 and path != "/mcp":  # which answers in its own protocol
                assert set(answer.json) == {"error", "hint"}, said
                assert "Traceback" not in answer.json["error"], said
        assert running.rows("SELECT * FROM sdk_sessions") == [], name
    good = {"claudeSessionId": "good", "tool_name": "T", "tool_response": "r"}
    assert running.http("POST", "/api/sessions/observations", good).status == 202


def test_a_body_that_is_too_large_gets_413(shared: Box) -> None:
    """Declared or streamed."""
    big = json.dumps({"claudeSessionId": "x", "tool_name": "T", "tool_response": "x" * (17 << 20)}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=120)
    connection.putrequest("POST", "/api/sessions/observations")
    connection.putheader("Authorization", f"Bearer {shared.token}")
    connection.putheader("Content-Length", str(len(big)))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
    chunked = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=120)
    parts = (b"x" * (1 << 20) for _ in range(18))
    try:
        chunked.request(
            "POST",
            "/api/sessions/observations",
            parts,
            {"Authorization": f"Bearer {shared.token}"},
            encode_chunked=True,
        )
        assert chunked.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused before we were done
    finally:
        chunked.close()
    assert shared.health()


def test_nonsense_on_the_port_does_no_harm(shared: Box) -> None:
    """Not HTTP, half a request, a thousand headers."""
    for raw in (
        b"\x16\x03\x01",
        b"GET / HTTP/1.1\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * 5000,
    ):
        with socket.create_connection(("127.0.0.1", shared.port), timeout=5) as connection:
            connection.sendall(raw)
    assert shared.health()


def test_unknown_routes_and_methods_answer_in_our_form(shared: Box) -> None:
    """404 and 405 with a sentence and a hint."""
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("DELETE", "/api/sessions", 405),
        ("GET", "/api/observations/999999999999999999999", 404),
    ):
        answer = shared.http(method, path)
        assert answer.status == status
        assert set(answer.json) == {"error", "hint"}


def test_lists_go_on_where_they_stopped(running: Box) -> None:
    """`next` leads through all of it, each row once. Limits and cursors are checked."""
    for query in ("limit=0", "limit=1000", "limit=x", "cursor=abc", "cursor=-1", "session=-1", "session=" + "9" * 23):
        answer = running.http("GET", f"/api/observations?{query}")
        assert answer.status == 400 and answer.json["hint"], query
    for number in range(25):
        running.client.post(
            "/api/sessions/init", {"sessionId": f"s{number}", "project": "p", "userPrompt": f"prompt {number}"}
        )
    for route in ("/api/prompts", "/api/sessions"):
        seen: list[int] = []
        cursor: Any = ""
        while cursor is not None:
            page = running.client.get(route, limit=10, cursor=cursor)
            seen += [row["id"] for row in page["items"]]
            cursor = page["next"]
        assert len(seen) == len(set(seen)) == 25
