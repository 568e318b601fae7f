"""Makes pictures of the pages of the viewer, in both themes and two widths: `scripts/screenshots.py DIR [--home HOME]`.

HOME is that of a worker that runs. Without it, the demo's: `make demo` starts it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parent.parent
COMMAND = Path(sys.executable).parent / "backstory"
SIZES = {"wide": (1280, 860), "phone": (390, 844)}
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def backstory(home: Path, *words: str) -> str:
    env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "HOME": str(home), "BACKSTORY_PORT": "0"}
    return subprocess.run([COMMAND, *words], env=env, check=True, capture_output=True, text=True).stdout.strip()


def pages(page: Page, query: str) -> dict[str, str]:
    """Return the fragments of the pages by their names. Some lead to entries of the feed, which is open."""
    page.locator(".card.observation").first.wait_for()

    def first(selector: str) -> str:
        return page.locator(selector).first.get_attribute("href") or ""

    entry = first(".card.observation .title")
    return {
        "feed": "#/",
        "search": f"#/search?q={quote(query)}",
        "nothing": "#/search?q=zeppelin",
        "context": "#/context",
        "entry": entry,
        "edit": f"{entry}?edit=1",
        "summary": first(".card.summary .title"),
        "prompt": first(".card.prompt .title"),
        "sessions": "#/sessions",
        "session": first(".meta a[href^='#/s/']"),
        "groups": "#/groups",
        "group": "#/g/main",
        "stats": "#/stats",
        "settings": "#/settings",
        "health": "#/health",
    }


def settle(page: Page) -> None:
    """Wait until nothing loads any more."""
    page.wait_for_timeout(200)  # until the requests are sent
    page.wait_for_load_state("load")
    page.locator(".skeleton").first.wait_for(state="detached")
    page.evaluate("document.fonts.ready.then(() => 1)")
    page.wait_for_timeout(200)  # a chart is drawn in the next frames


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--home", type=Path, default=ROOT / ".demo")
    parser.add_argument("--query", default="discount code", help="what is searched")
    parser.add_argument("--only", default="", help="names of pages, with commas")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    chosen = set(filter(None, options.only.split(",")))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for theme in ("light", "dark"):
            for size, (width, height) in SIZES.items():
                viewport = {"width": width, "height": height}
                page = browser.new_page(color_scheme=theme, viewport=viewport)  # type: ignore[arg-type]
                link = backstory(options.home, "open", "--print").split()[-1]
                page.goto(link)
                page.get_by_text("Live", exact=True).wait_for()
                for name, fragment in pages(page, options.query).items():
                    if chosen and name not in chosen:
                        continue
                    page.goto(f"{link.partition('#')[0]}{fragment}")
                    settle(page)
                    page.screenshot(path=options.folder / f"{name}-{size}-{theme}.png")
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
