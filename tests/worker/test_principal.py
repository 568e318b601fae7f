"""Every request has a caller, and every route says what its caller must be allowed."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from backstory.errors import BackstoryError, Forbidden
from backstory.settings import Settings
from backstory.worker import endpoints
from backstory.worker.app import App
from backstory.worker.endpoints import Endpoint
from backstory.worker.guard import OPEN_PATHS, OPEN_ROUTE, Guard, is_open
from backstory.worker.mcp.tools import Caller, Tools
from backstory.worker.principal import ANONYMOUS, OWNER, Principal, Scope
from backstory.worker.viewer.browsers import Browsers

SOURCE = Path(__file__).parent.parent.parent / "src" / "backstory"
BASE = "http://127.0.0.1"
RPC = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
#: A call of each tool that is right but for its caller.
TOOLS: dict[str, dict[str, Any]] = {
    "search": {"query": "discount"},
    "timeline": {"id": 1},
    "get_observations": {"ids": [1]},
    "get_session": {"id": 1},
    "get_turns": {"id": 1},
    "find_sessions": {},
    "session_context": {"project": "shop"},
    "remember": {"text": "Prices are in cents.", "project": "shop"},
    "pin": {"ids": [1]},
    "hide": {"ids": [1]},
    "supersede": {"old": 1, "new": None},
    "forget": {"ids": [1]},
}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with mock.patch.object(Path, "home", return_value=tmp_path):
        app = App(Settings(data_dir=tmp_path / ".backstory", embedder="off"))
    yield app
    app.store.close()


def allowed(*scopes: Scope, group: str | None = None) -> Principal:
    return Principal("somebody", False, frozenset(scopes), group)


def client(app: App, principal: Principal | None) -> httpx2.AsyncClient:
    """Requests to the routes as they come from the guard: with this caller."""
    inner = Starlette(routes=endpoints.routes(app.table))

    async def behind_the_guard(scope: AsgiScope, receive: Receive, send: Send) -> None:
        if principal is not None:
            scope["principal"] = principal
        await inner(scope, receive, send)

    return httpx2.AsyncClient(transport=httpx2.ASGITransport(behind_the_guard), base_url=BASE)


async def every_route(app: App) -> list[tuple[str, str, Scope]]:
    """Method, path and scope of each, by the OpenAPI document."""
    async with client(app, OWNER) as http:
        document = (await http.get("/openapi.json")).json()
    routes = [
        (method.upper(), re.sub(r"\{\w+\}", "1", path), Scope(operation["description"].split("`")[1]))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    assert len(routes) > 40
    assert {needs for _, _, needs in routes} == set(Scope)
    return routes


def test_a_caller_without_its_scope_is_refused_by_every_route(app: App) -> None:
    """403, with one sentence and what to do, though every other scope is there; before a body is looked at."""

    async def test() -> None:
        for method, path, needs in await every_route(app):
            async with client(app, allowed(*set(Scope) - {needs})) as http:
                answer = await http.request(method, path, content=b"no JSON")
            assert answer.status_code == 403, (method, path)
            assert f"`{needs}`" in answer.json()["error"], (method, path)
            assert answer.json()["hint"]

    asyncio.run(test())


def test_a_caller_with_its_scope_alone_is_let_through_by_every_route(app: App) -> None:
    """So the scope that the document names is the one that counts."""

    async def test() -> None:
        for method, path, needs in await every_route(app):
            if path.endswith(("/stream", "/mcp")):
                continue  # the one does not end, the other has a test of its own
            async with client(app, allowed(needs)) as http:
                answer = await http.request(method, path, content=b"{}")
            assert answer.status_code not in (403, 500), (method, path, answer.text)

    asyncio.run(test())


def test_without_a_credential_only_what_the_guard_leaves_open_can_be_used(app: App) -> None:
    async def test() -> None:
        public = {(method, path) for method, path, needs in await every_route(app) if ANONYMOUS.may(needs)}
        assert public == {OPEN_ROUTE, ("GET", "/"), ("GET", "/assets/1"), *(("GET", path) for path in OPEN_PATHS)}
        assert all(is_open(method, path) for method, path in public)
        for method, path in (
            ("GET", "/assets"),
            ("POST", "/assets/x"),
            ("GET", "/open"),
            ("DELETE", "/"),
            ("GET", "//"),
        ):
            assert not is_open(method, path)

    asyncio.run(test())


def test_a_caller_of_a_group_gets_only_what_is_confined_to_it(app: App) -> None:
    """A new route is refused until it says that it leaves out the rows of others."""
    confinable = {
        (each.method, re.sub(r"\{\w+(:\w+)?\}", "1", path))
        for each in app.table
        if each.is_confinable
        for path in each.paths
    }

    async def test() -> None:
        for method, path, needs in await every_route(app):
            if needs is not Scope.PUBLIC and (method, path) not in confinable:
                async with client(app, allowed(*Scope, group="family")) as http:
                    assert (await http.request(method, path, content=b"{}")).status_code == 403, (method, path)

    asyncio.run(test())


def test_a_request_that_no_guard_looked_at_has_no_caller_and_fails(app: App) -> None:
    async def test() -> None:
        async with client(app, None) as http:
            for path in ("/api/health", "/api/sessions", "/"):
                assert (await http.get(path)).status_code == 500

    asyncio.run(test())


def test_a_route_that_does_not_say_what_it_needs_can_not_be_written() -> None:
    """Nor is there another way to make or to run one."""

    async def nothing(call: endpoints.Call) -> None: ...

    with pytest.raises(TypeError, match="needs"):
        Endpoint("GET", "/api/new", nothing)  # type: ignore[call-arg]
    made = {
        (file.name, node.func.id)
        for file in (SOURCE / "worker").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    places = {name: {file for file, called in made if called == name} for name in ("Route", "Mount", "Call", "perform")}
    assert places["Route"] == places["Call"] == {"endpoints.py"}
    assert places["perform"] == {"endpoints.py", "tools.py"}
    assert not places["Mount"]


def caller_of(
    settings: Settings, browsers: Browsers, path: str, headers: dict[str, str], **scope: Any
) -> Principal | int:
    """Whom the guard takes a request for, or the status that it refuses it with."""
    seen: list[Principal] = []
    sent: list[Any] = []

    async def route(scope: AsgiScope, receive: Receive, send: Send) -> None:
        seen.append(scope["principal"])

    async def send(message: Any) -> None:
        sent.append(message)

    guard: ASGIApp = Guard(route, settings, "the-token", browsers)
    raw = [(name.lower().encode(), value.encode()) for name, value in ({"Host": "127.0.0.1"} | headers).items()]
    asked = {"type": "http", "method": "GET", "path": path, "headers": raw, "server": ("127.0.0.1", 37777)} | scope
    asyncio.run(guard(asked, mock.AsyncMock(), send))  # type: ignore[arg-type]
    return seen[0] if seen else int(sent[0]["status"])


def test_the_guard_says_who_calls(tmp_path: Path) -> None:
    settings, browsers = Settings(data_dir=tmp_path), Browsers(tmp_path / "browsers.json", "token")
    session = browsers.exchange(browsers.make_code())
    token, page = {"Authorization": "Bearer the-token"}, {"Authorization": f"Backstory-Session {session}"}

    def who(path: str, headers: dict[str, str], **scope: Any) -> Principal | int:
        return caller_of(settings, browsers, path, headers, **scope)

    assert who("/api/sessions", {}, server=("worker.sock", None)) is OWNER
    assert who("/api/sessions", token) is OWNER
    assert who("/api/sessions", page) is OWNER
    assert who("/api/sessions", {}) == 401
    assert who("/api/sessions", {"Authorization": "Bearer another", "Principal": "owner"}) == 401
    assert who("/open", {}, method="POST") is ANONYMOUS
    assert who("/api/health", {}) is ANONYMOUS
    assert who("/api/health", token) is OWNER
    assert who("/api/health", {"Host": "evil.example"}) == 403
    assert who("/api/health", token | {"Origin": "http://evil.example"}) == 403
    open_settings = Settings(data_dir=tmp_path, auth="off")
    assert caller_of(open_settings, browsers, "/api/sessions", {}) is OWNER
    assert caller_of(open_settings, browsers, "/api/sessions", {"Origin": "http://evil.example"}) == 403


def test_a_tool_may_do_what_its_caller_may(app: App) -> None:
    """A tool asks routes as the one who called it: with no scope nothing, and without `write` it only reads."""
    tools = Tools(app.table)
    assert set(TOOLS) == set(tools.rows)

    async def is_refused(name: str, principal: Principal) -> bool:
        try:
            await tools.call(name, TOOLS[name], Caller(principal, ""))
        except Forbidden:
            return True
        except BackstoryError:
            return False
        return False

    async def test() -> None:
        for name, tool in tools.rows.items():
            assert await is_refused(name, ANONYMOUS), name
            assert await is_refused(name, allowed(Scope.READ)) is tool.changes, name
            assert not await is_refused(name, OWNER), name

    asyncio.run(test())


def test_the_caller_of_a_message_is_the_caller_of_its_tool(app: App) -> None:
    """Through the SDK and back."""

    async def remember(principal: Principal) -> dict[str, Any]:
        params = {"name": "remember", "arguments": TOOLS["remember"]}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        async with client(app, principal) as http:
            result: dict[str, Any] = (await http.post("/mcp", json=message, headers=RPC)).json()["result"]
        return result

    async def test() -> None:
        refused = await remember(allowed(Scope.READ))
        assert refused["isError"]
        assert "`write`" in refused["content"][0]["text"]
        done = await remember(allowed(Scope.READ, Scope.WRITE))
        assert done["content"][0]["text"].startswith("Remembered for shop")
        await app.mcp.stop()

    asyncio.run(test())
