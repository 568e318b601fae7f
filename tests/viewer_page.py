"""A page of the viewer in a real Chromium, for tests: where it is, what it shows, and what axe says about it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from box import Box
from playwright.sync_api import Page, expect

ROOT = Path(__file__).parent.parent
AXE = ROOT / "viewer/node_modules/axe-core/axe.min.js"
#: Milliseconds that a busy machine may take for anything.
PATIENCE_MS = 60_000
#: Fragments of all pages, for the session of the demo.
EVERY_PAGE = (
    *("#/", "#/search?q=discount", "#/context", "#/o/1", "#/o/1?edit=1", "#/summary/1", "#/prompt/1"),
    *("#/sessions", "#/s/1", "#/groups", "#/g/main", "#/stats", "#/settings", "#/health"),
)
#: Opens the page at a fragment such as `#/o/12`.
Opener = Callable[..., Page]
expect.set_options(timeout=PATIENCE_MS)


def address(box: Box, fragment: str = "") -> str:
    return f"http://127.0.0.1:{box.port}/{fragment}"


def replay(box: Box) -> None:
    """Send the session of the demo to the worker."""
    for line in (ROOT / "demo/session.jsonl").read_text("utf-8").splitlines():
        call = json.loads(line)
        box.client.post(f"/hooks/claude-code/{call['event']}", call["payload"])
    box.settle()


def remember(box: Box, text: str, **more: Any) -> dict[str, Any]:
    """Store an observation of the demo's project."""
    row: dict[str, Any] = box.client.post("/api/memories", {"text": text, "project": "shop"} | more)
    return row


def visit(page: Page, box: Box, fragment: str) -> None:
    """Open a page, and wait until it has loaded."""
    page.goto(address(box, fragment))
    page.locator("main h1, main form.edit").first.wait_for(state="attached")
    expect(page.locator(".skeleton")).to_have_count(0)


def find_violations(page: Page) -> list[str]:
    """Return what axe finds serious about the page as it is now."""
    page.evaluate(AXE.read_text("utf-8"))
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for one in result["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
