"""What the pages show while there is nothing yet, while they load, and when something is wrong. None of it jumps."""

from __future__ import annotations

import contextlib
import re

from box import Box
from playwright.sync_api import Error, Route, expect
from viewer_page import EVERY_PAGE, Opener, address

#: page -> what it says before anything is remembered
NOTHING = {
    "#/": "Nothing is remembered yet",
    "#/search": "Words and meaning both count.",
    "#/context": "No project is known yet",
    "#/sessions": "There are no sessions yet.",
    "#/groups": "no active session",
    "#/g/main": "None. The next message starts one.",
    "#/stats": "Nothing happened in these days.",
    "#/health": "Nothing waits: everything is observed.",
}
#: page -> what it says of an address that is wrong
WRONG = {
    "#/o/999999": "There is no observation 999999.",
    "#/summary/999999": "There is no summary 999999.",
    "#/prompt/999999": "There is no prompt 999999.",
    "#/s/999999": "There is no session 999999.",
    "#/g/nobody": "There is no group nobody.",
    "#/search?since=soon": "soon is not a time.",
    "#/sessions?since=soon": "soon is not a time.",
    "#/nowhere": "There is no such page.",
}
WATCH = """
    window.jumps = [];
    const names = (jump) => jump.sources.map(({node}) => node?.className ?? "").join(", ");
    // The width of a letter is less.
    const note = (jump) => jump.value > 0.001 && jumps.push(`${jump.value} ${names(jump)}`);
    new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({type: "layout-shift", buffered: true});
"""
PAINT = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def test_an_empty_memory_says_so_on_every_page(box: Box, open_page: Opener) -> None:
    box.start()
    page = open_page(box=box)
    for fragment, words in NOTHING.items():
        page.goto(address(box, fragment))
        expect(page.locator("main")).to_contain_text(words)


def test_a_wrong_address_is_explained(machine: Box, open_page: Opener) -> None:
    page = open_page()
    for fragment, words in WRONG.items():
        page.goto(address(machine, fragment))
        expect(page.locator("main .notice").first).to_contain_text(words)


def test_nothing_jumps_while_a_page_loads(machine: Box, open_page: Opener) -> None:
    """Answers are held until the page shows that it loads, and come one by one."""
    page = open_page()
    page.add_init_script(WATCH)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    for fragment in EVERY_PAGE:
        page.goto(address(machine, fragment))
        page.route(re.compile("/api/(?!stream|health)"), hold)
        page.reload()
        page.get_by_text("Live", exact=True).wait_for()
        page.evaluate("document.fonts.ready.then(() => { jumps.length = 0 })")
        while held or page.locator(".skeleton").count():
            with contextlib.suppress(Error, IndexError):  # the page does not want it any more, or asks only now
                route = held.pop(0)
                route.fulfill(response=route.fetch())
            page.evaluate(PAINT)
        page.unroute_all()
        assert page.evaluate("jumps") == [], fragment
