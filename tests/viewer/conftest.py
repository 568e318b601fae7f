"""A real Chromium in front of a real worker. A page may ask that worker only, for what has a route and a command, and
no script of it may fail."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import page_routes
import pytest
import shared_box
from box import Box
from playwright.sync_api import Browser, Page, Request, sync_playwright
from viewer_page import PATIENCE_MS, ROOT, Opener, address, replay

ASSETS = ROOT / "src/backstory/worker/viewer/assets/index.html"
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP evil.test 127.0.0.1"),
    "--disable-features=LocalNetworkAccessChecks",  # the worker itself refuses other sites, for browsers without them
)


_loops: list[asyncio.AbstractEventLoop | None] = []


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("There is no chromium; `scripts/setup dev` asks apt for it.")
    if not ASSETS.is_file():
        pytest.skip("The viewer is not built; `make viewer` builds it.")
    with sync_playwright() as playwright:
        _loops.append(asyncio._get_running_loop())
        started = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield started
        asyncio._set_running_loop(_loops[0])
        started.close()


@pytest.fixture(autouse=True)
def loop_of_playwright(request: pytest.FixtureRequest) -> Iterator[None]:
    """Playwright's event loop runs in this thread until the last test. Tests of other files do not see it."""
    if "browser" not in request.fixturenames:
        yield
        return
    request.getfixturevalue("browser")
    asyncio._set_running_loop(_loops[0])
    yield
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A worker with the session of the demo in its memory, for all tests: each has texts of its own, and looks at no
    more than it needs. Its port stays the same when it is started again, and a round that does not end stays in the
    queue."""
    made = Box(tmp_path_factory.mktemp("viewer"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        made.settings["BACKSTORY_PORT"] = str(listener.getsockname()[1])
    made.tuning["settle_seconds"] = 3600
    for box in shared_box.started(made):
        replay(box)
        yield box


@pytest.fixture
def open_page(browser: Browser, machine: Box) -> Iterator[Opener]:
    """Opens the page at a fragment, signed in as `backstory open` does it."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def opened(fragment: str = "#/", box: Box = machine, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        origin = address(box)
        page.on("request", lambda request: wrong.append(request.url) if not _is_own(request, origin) else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if _is_wrong(said) else None)
        code = box.client.post("/api/open")["code"]
        page.goto(address(box, f"#code={code}"))
        page.get_by_text("Live", exact=True).wait_for()
        if fragment != "#/":
            page.goto(address(box, fragment))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong


def _is_own(request: Request, origin: str) -> bool:
    if request.url.startswith(f"blob:{origin}"):
        return True
    return request.url.startswith(origin) and page_routes.is_known(request.method, urlsplit(request.url).path)


def _is_wrong(said: Any) -> bool:
    # A worker that is gone or that refuses something is an error for the browser, and the page's own business.
    return said.type == "error" and "net::ERR_" not in said.text and "status of 4" not in said.text
