"""Bench: the viewer in Chromium in front of 100,000 observations, beside an empty store in the same run."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from lab import Lab, end_gently, load, machine, ms, p50, percentile, say, table
from playwright.sync_api import Browser, Page, sync_playwright
from recall_load import Words
from search import Filling

from backstory.client import Client
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
#: page -> its fragment
PAGES = {
    "feed": "#/",
    "feed of a project": "#/?project=shop",
    "search": "#/search?q=read+the+file+again",
    "context": "#/context",
    "observation": "#/o/{last}",
    "sessions": "#/sessions",
    "session": "#/s/1",
    "health": "#/health",
    "settings": "#/settings",
    "statistics": "#/stats",
}
#: Notes when there is something to see, and when nothing is missing any more.
WATCH = """
window.times = new Promise((done) => {
  const times = {};
  const look = () => {
    const page = document.querySelector("main h1, main .notice, main .card");
    const isLoading = document.querySelector(".skeleton");
    if (page) times.begun ??= performance.now();
    if (!page || isLoading || document.readyState !== "complete") return requestAnimationFrame(look);
    times.whole = performance.now();
    const painted = performance.getEntriesByName("first-contentful-paint")[0];
    if (!painted) return requestAnimationFrame(look);
    done({ ...times, painted: painted.startTime });
  };
  requestAnimationFrame(look);
});
"""


def fill(lab: Lab, size: int, kept: Path | None) -> None:
    """Give the machine a store with so many observations; one that was kept is as good."""
    database = lab.data / "backstory.db"
    database.parent.mkdir(exist_ok=True)
    if kept and (kept / "whole").exists():
        shutil.copy(kept / "backstory.db", database)
        return
    with closing(SqliteStore(database)) as store:
        migrate(store)
        say(f"page_load: {size:,} filled in {Filling(Words()).to(store, size):.0f} s, {load()}")
    if kept:
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy(database, kept / "backstory.db")
        (kept / "whole").touch()


@contextmanager
def worker(root: Path, size: int, kept: Path | None) -> Iterator[Lab]:
    root.mkdir()
    made = Lab(root)
    made.settings["BACKSTORY_EMBEDDER"] = "off"
    if size:
        fill(made, size, kept)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def sign_in(browser: Browser, lab: Lab) -> Page:
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    page.set_default_timeout(120_000)
    code = Client(lab.data / "worker.sock", timeout=60).post("/api/open")["code"]
    page.goto(f"http://127.0.0.1:{lab.port}/#code={code}")
    page.get_by_text("Live", exact=True).wait_for()
    page.add_init_script(WATCH)
    return page


def measure(page: Page, lab: Lab, fragment: str) -> dict[str, float]:
    """Load the page from nothing but the browser's cache of files: seconds until it paints and until it is whole."""
    page.goto("about:blank")
    page.goto(f"http://127.0.0.1:{lab.port}/{fragment}", wait_until="commit")
    found: dict[str, float] = page.evaluate("times")
    return {name: value / 1000 for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="how often each page is loaded")
    parser.add_argument("--size", type=int, default=100_000, help="how many observations")
    parser.add_argument("--keep", type=Path, help="a folder for the filled store, which another run goes on with")
    options = parser.parse_args()
    end_gently()
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("There is no chromium; `scripts/setup dev` asks apt for it.")
    before, rows = load(), []
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="backstory-bench-")))
        labs = [stack.enter_context(worker(root / str(size), size, options.keep)) for size in (0, options.size)]
        playwright = stack.enter_context(sync_playwright())
        browser = stack.enter_context(playwright.chromium.launch(executable_path=chromium, args=FLAGS))
        opened = [(sign_in(browser, lab), lab) for lab in labs]
        for name, fragment in PAGES.items():
            say(f"page_load: {name}, {load()}")
            at = fragment.format(last=options.size)
            both = [[measure(page, lab, at) for page, lab in opened] for _ in range(options.runs + 1)][1:]
            for part in ("painted", "whole"):
                empty, full = ([run[which][part] for run in both] for which in (0, 1))
                share = f"{p50(full) / p50(empty):.2f}"
                rows.append([f"{name}, {part}", ms(p50(empty)), ms(p50(full)), ms(percentile(full, 0.95)), share])
    print(f"{machine()}. Each page loaded {options.runs} times; {before} at the start, {load()} at the end.\n")
    print(table(["ms from the address to", "empty", f"{options.size:,}", "p95", "full / empty"], rows))


if __name__ == "__main__":
    main()
