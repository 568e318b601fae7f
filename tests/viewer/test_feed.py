"""The feed: live, filtered by its address, whole after a restart of the worker, and quick while much arrives."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import uuid

import pytest
from box import Box, until
from playwright.sync_api import APIResponse, Page, Route, expect
from viewer_page import EVERY_PAGE, Opener, find_violations, remember, visit


def titles(page: Page) -> list[str]:
    return [text.strip() for text in page.locator(".card .title").all_inner_texts()]


def test_entries_of_every_kind_are_shown_and_filters_live_in_the_address(machine: Box, open_page: Opener) -> None:
    page = open_page()
    expect(page.locator(".card.prompt").first).to_be_visible()
    expect(page.locator(".card.summary").first).to_be_visible()
    expect(page.locator(".card.observation").first).to_be_visible()
    page.get_by_label("type").select_option("feature")
    expect(page).to_have_url(re.compile(r"#/\?type=feature$"))
    expect(page.locator(".card.prompt")).to_have_count(0)
    shown = machine.client.get("/api/feed", type="feature")["items"]
    expect(page.locator(".card.observation")).to_have_count(len(shown))
    page.reload()
    expect(page.locator(".card.observation")).to_have_count(len(shown))
    expect(page.get_by_label("type")).to_have_value("feature")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".card.prompt").first).to_be_visible()
    assert not find_violations(page)


def test_each_filter_shows_its_entries_alone(machine: Box, open_page: Opener) -> None:
    """They are chosen on the page, stand in its address, and entries that come obey them."""
    (machine.root / "depot/.git").mkdir(parents=True)
    (machine.root / "depot/.git/HEAD").write_text("ref: refs/heads/conveyor\n")
    machine.client.post("/api/groups", {"name": "dispatch"})

    def ask(words: str) -> None:
        prompt = {"sessionId": str(uuid.uuid4()), "agent": "robot", "cwd": str(machine.root / "depot")}
        machine.client.post("/api/sessions/init", prompt | {"userPrompt": words})

    ask("How fast is the conveyor?")
    chosen = {"project": "depot", "branch": "conveyor", "agent": "robot"}
    everything = len(machine.client.get("/api/feed", limit=200)["items"])
    page = open_page()
    for name, value in chosen.items():
        ask(f"Is the conveyor filtered by {name}?")
        page.get_by_label(name).select_option(value)
        expect(page).to_have_url(re.compile(rf"[?&]{name}={value}"))
        rows = machine.client.get("/api/feed", limit=200, **{name: value})["items"]
        assert 1 < len(rows) < everything
        expect(page.locator(".card .title")).to_have_text([row["text"] for row in rows])
        ask(f"Does the conveyor, filtered by {name}, go on?")
        remember(machine, f"The shop has no conveyor, says who filters by {name}")
        expect(page.locator(".card .title").first).to_have_text(f"Does the conveyor, filtered by {name}, go on?")
        expect(page.get_by_text("The shop has no conveyor")).to_have_count(0)
        page.get_by_role("button", name="Clear").click()
        expect(page.get_by_text(f"The shop has no conveyor, says who filters by {name}")).to_be_visible()
    page.get_by_label("group").select_option("dispatch")
    expect(page.get_by_text("Nothing matches these filters")).to_be_visible()
    assert "group=dispatch" in page.url


def lease(box: Box, before: str, after: str) -> None:
    """Do to events what the observer does, but for as long as the test looks."""
    with contextlib.closing(sqlite3.connect(box.data / "backstory.db", timeout=60)) as database, database:
        values = {"before": before, "after": after, "until": 9999999999999 if after == "leased" else None}
        database.execute("UPDATE events SET status = :after, lease_until = :until WHERE status = :before", values)


def test_a_late_answer_does_not_undo_what_the_stream_told(machine: Box, open_page: Opener) -> None:
    page, other = open_page(), open_page()
    late: list[tuple[Route, APIResponse]] = []
    page.route("**/api/health", lambda route: late.append((route, route.fetch())), times=1)
    page.reload()
    while not late:
        page.wait_for_timeout(20)
    about = {"session_id": str(uuid.uuid4()), "cwd": str(machine.project)}
    machine.client.post("/hooks/claude-code/UserPromptSubmit", about | {"prompt": "Is the queue up to date?"})
    use = {"tool_name": "Read", "tool_use_id": "late", "tool_input": {"file_path": "a.py"}, "tool_response": "1"}
    machine.client.post("/hooks/claude-code/PostToolUse", about | use)
    expect(page.get_by_text("Is the queue up to date?")).to_be_visible()
    expect(other.locator("header .queue")).to_have_text("1 event queued")
    for route, answer in late:
        route.fulfill(response=answer)
    expect(page.locator("header .queue")).to_have_text("1 event queued")
    machine.client.post("/hooks/claude-code/Stop", about | {"last_assistant_message": "It is."})
    machine.settle()


def test_what_is_queued_is_visible(machine: Box, open_page: Opener) -> None:
    page = open_page()
    about = {"session_id": str(uuid.uuid4()), "cwd": str(machine.project)}
    machine.client.post("/hooks/claude-code/UserPromptSubmit", about | {"prompt": "What does the queue show?"})
    machine.client.post(
        "/hooks/claude-code/PostToolUse",
        about | {"tool_name": "Read", "tool_use_id": "one", "tool_input": {"file_path": "a.py"}, "tool_response": "1"},
    )
    expect(page.get_by_text("What does the queue show?")).to_be_visible()
    expect(page.locator("header .queue")).to_have_text("1 event queued")
    lease(machine, "queued", "leased")
    page.reload()
    expect(page.locator("header .queue .busy")).to_have_text("1 event being observed")
    lease(machine, "leased", "queued")
    machine.client.post("/hooks/claude-code/Stop", about | {"last_assistant_message": "It shows one event."})
    machine.settle()
    expect(page.locator("header .queue")).to_have_text("")


def test_new_entries_appear_and_do_not_move_who_reads_further_down(machine: Box, open_page: Opener) -> None:
    for number in range(25):
        remember(machine, f"Shelf {number} has a scanner of its own")
    page = open_page()
    remember(machine, "The label printer needs 203 dpi")
    expect(page.get_by_text("The label printer needs 203 dpi")).to_be_visible()
    page.mouse.wheel(0, 700)
    expect(page.get_by_text("The label printer needs 203 dpi")).not_to_be_in_viewport()
    before = page.evaluate("scrollY")
    seen = page.locator("article", has_text="Shelf 13").bounding_box()
    remember(machine, "The till rounds to five cents")
    expect(page.get_by_role("button", name="1 new")).to_be_visible()
    assert page.evaluate("scrollY") == before
    assert page.locator("article", has_text="Shelf 13").bounding_box() == seen
    page.get_by_role("button", name="1 new").click()
    expect(page.get_by_text("The till rounds to five cents")).to_be_in_viewport()


def test_keys_move_open_select_and_explain(machine: Box, open_page: Opener) -> None:
    page = open_page("#/?kind=observation")
    expect(page.locator(".card").first).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator("article").nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("article").nth(1)).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("x")
    expect(page.get_by_role("toolbar")).to_contain_text("1 observation")
    page.keyboard.press("Escape")
    expect(page.get_by_role("toolbar")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("search")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator("article").nth(0).focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"#/o/\d+$"))
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()


def test_the_page_recovers_from_a_restart_and_misses_nothing(machine: Box, open_page: Opener) -> None:
    page = open_page()
    first = remember(machine, "Before the restart the page was open")
    expect(page.get_by_text(first["title"])).to_be_visible()
    machine.kill(machine.processes[-1])
    expect(page.get_by_text("The worker does not answer").first).to_be_visible()
    machine.start()
    missed = [remember(machine, f"Stored right after the restart, number {number}")["title"] for number in range(5)]
    page.get_by_text("Live", exact=True).wait_for()
    for title in missed:
        expect(page.get_by_text(title, exact=True)).to_have_count(1)
    stored = [row["title"] or row["text"] for row in machine.client.get("/api/feed", limit=6)["items"]]
    assert titles(page)[:6] == stored


def test_a_tab_that_nobody_sees_closes_its_stream_and_catches_up(machine: Box, open_page: Opener) -> None:
    """A browser has six connections to an address, for all its tabs."""
    page = open_page()
    page.clock.install()
    hide = """isHidden => {
        Object.defineProperty(document, "hidden", {get: () => isHidden, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    page.clock.run_for(20_000)
    expect(page.get_by_text("Connecting …")).to_be_visible()
    row = remember(machine, "The night shift counts the pallets twice")
    page.evaluate(hide, False)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    expect(page.get_by_text(row["title"])).to_have_count(1)


def flood(machine: Box, page: Page, count: int) -> None:
    """Store many observations while the page is open, and see that it stays small, and does what is asked meanwhile."""
    client = page.context.new_cdp_session(page)

    def heap() -> float:
        client.send("HeapProfiler.collectGarbage")
        return float(client.send("Runtime.getHeapUsage")["usedSize"]) / 1e6

    before = heap()
    mark = uuid.uuid4().hex[:8]
    for number in range(count):
        remember(machine, f"Pallet {number} of delivery {mark} was checked against its note, and nothing was missing")
        if number % (count // 4) == 0:
            page.keyboard.press("?")
            expect(page.get_by_role("dialog")).to_be_visible()
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text(f"Pallet {count - 1} of delivery {mark}").first).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") < 1500
    assert heap() < before + 5
    page.keyboard.press("j")
    expect(page.locator("article").first).to_be_focused()


def test_the_page_stays_small_while_many_arrive(machine: Box, open_page: Opener) -> None:
    flood(machine, open_page(), 100)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_page_stays_small_while_ten_thousand_arrive(machine: Box, open_page: Opener) -> None:
    flood(machine, open_page(), 10_000)


def test_the_theme_follows_the_system_and_the_switch(open_page: Opener) -> None:
    page = open_page(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator(".card").first).to_be_visible()
    assert not find_violations(page)
    page.get_by_role("button", name="Theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_a_phone_has_no_sideways_scrolling(machine: Box, open_page: Opener) -> None:
    page = open_page()
    page.set_viewport_size({"width": 390, "height": 800})
    for fragment in EVERY_PAGE:
        visit(page, machine, fragment)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, fragment


def test_a_filter_that_matches_nothing_says_so(open_page: Opener) -> None:
    page = open_page("#/?type=refactor&agent=nobody")
    expect(page.get_by_text("Nothing matches these filters")).to_be_visible()
    page.get_by_role("button", name="Show everything").click()
    expect(page.locator(".card").first).to_be_visible()
    until(lambda: page.url.endswith("#/"), "the address without filters")


def test_an_answer_that_is_cut_off_is_no_answer(open_page: Opener) -> None:
    """Filters that change while an answer arrives abort it: its head is there, its body never comes."""
    page = open_page()
    page.evaluate("""() => {
        const real = window.fetch
        window.fetch = (path, init) => {
            if (!path.includes("kind=summary")) return real(path, init)
            window.fetch = real
            const body = new ReadableStream({
                start: (to) => init.signal.addEventListener("abort", () => {
                    to.error(new DOMException("", "AbortError"))
                    window.isCutOff = true
                }),
            })
            return Promise.resolve(new Response(body))
        }
        location.hash = "#/?kind=summary"
    }""")
    expect(page.locator(".skeleton").first).to_be_attached()
    page.evaluate("location.hash = '#/?kind=prompt'")
    until(lambda: page.evaluate("window.isCutOff"), "the end of the first answer")
    expect(page.locator(".skeleton")).to_have_count(0)
