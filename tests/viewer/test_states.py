"""What the pages show while there is nothing yet, while they load, and when something is wrong. None of it jumps."""

from __future__ import annotations

from box import Box
from playwright.sync_api import Page, Route, expect
from viewer_page import EVERY_PAGE, Opener, address, visit

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


def hold_answers(page: Page) -> list[Route]:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/**", hold)
    return held


def test_nothing_jumps_while_a_page_loads(machine: Box, open_page: Opener) -> None:
    """Each answer is held until the page shows that it loads."""
    page = open_page()
    page.add_init_script(WATCH)
    for fragment in EVERY_PAGE:
        page.goto(address(machine, fragment))
        held = hold_answers(page)
        page.reload()
        expect(page.locator("main .skeleton").first).to_be_visible()
        page.evaluate(PAINT)
        for route in held:
            route.continue_()
        page.unroute_all()
        visit(page, machine, fragment)
        page.evaluate(PAINT)
        assert page.evaluate("jumps") == [], fragment
