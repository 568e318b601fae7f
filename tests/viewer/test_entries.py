"""Search, the page of an entry, the context, and correcting the memory from all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from box import Box, until
from playwright.sync_api import Page, expect
from viewer_page import Opener, address, find_violations, remember

from backstory.errors import BackstoryError


def test_search_as_you_type_highlights_and_explains(machine: Box, open_page: Opener) -> None:
    page = open_page("#/search")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("discount code twice", delay=5)
    expect(page).to_have_url(re.compile("q=discount"))
    first = page.locator(".card").first
    expect(first.locator("mark").first).to_have_text(re.compile("discount|code|twice", re.I))
    expect(first.locator(".why")).not_to_be_empty()
    assert not find_violations(page)
    first.locator(".title").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("searchbox")).to_have_value("discount code twice")
    page.get_by_role("searchbox").fill("zeppelin maintenance")
    expect(page.get_by_text("Nothing is about “zeppelin maintenance”")).to_be_visible()


def test_search_finds_what_was_said_and_who_changed_a_file(machine: Box, open_page: Opener) -> None:
    """Everything is searched, unless a filter says otherwise. A turn leads to its place in the session."""
    about = {"session_id": "harbour", "cwd": str(machine.project)}
    machine.client.post("/hooks/claude-code/UserPromptSubmit", about | {"prompt": "Look at the harbour."})
    edit = {"file_path": f"{machine.project}/harbour.py", "old_string": "1", "new_string": "2"}
    use = {"tool_name": "Edit", "tool_use_id": "harbour", "tool_input": edit, "tool_response": {}}
    machine.client.post("/hooks/claude-code/PostToolUse", about | use)
    said = "Fixed: the tugboat waits for the tide now.\n\n```python\nseagull_count = 7\n```"
    machine.client.post("/hooks/claude-code/Stop", about | {"last_assistant_message": said})
    machine.settle()
    number = machine.client.get("/api/sessions/harbour")["id"]
    page = open_page("#/search")
    page.get_by_role("searchbox").fill("seagull_count")
    turn = page.locator(".card", has_text="assistant")
    expect(turn.locator("mark").first).to_have_text("seagull_count")
    turn.locator(".title").click()
    expect(page.locator("#round-1.named")).to_contain_text("seagull_count = 7")
    page.goto(address(machine, "#/search"))
    page.get_by_role("searchbox").fill("harbour.py")
    page.get_by_role("button", name="Which sessions changed harbour.py?").click()
    expect(page).to_have_url(re.compile(r"#/search\?file=harbour\.py&kind=sessions$"))
    expect(page.get_by_text("newest first")).to_be_visible()
    expect(page.locator(".card .label")).to_have_text(["session"])
    expect(page.locator(".card .why")).to_have_text("changed harbour.py")
    page.locator(".card").get_by_role("link", name=f"session {number}").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("harbour")
    page.goto(address(machine, "#/search?q=os.path"))
    expect(page.get_by_text("Nothing is about “os.path”")).to_be_visible()
    expect(page.get_by_role("button", name="Which sessions")).to_have_count(0)


def test_an_entry_shows_what_it_rests_on_and_what_is_around_it(machine: Box, open_page: Opener) -> None:
    rows = machine.client.get("/api/observations", type="feature", limit=200)["items"]
    row = next(one for one in rows if one["files_modified"])
    page = open_page(f"#/o/{row['id']}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".timeline li[aria-current]")).to_have_count(1)
    assert page.locator(".timeline li").count() > 3
    expect(page.locator(".asked")).to_be_visible()
    page.get_by_text("What was said").click()
    expect(page.locator(".said").first).to_be_visible()
    page.locator("details.event summary").first.click()
    expect(page.locator("details.event pre").first).to_be_visible()
    assert not find_violations(page)
    # Which session changed this file?
    page.locator(".files a").first.click()
    expect(page).to_have_url(re.compile(r"#/search\?file="))
    result = page.locator(".card", has_text=f"#{row['id']}")
    expect(result.locator(".why")).to_contain_text("changed ")
    expect(result.locator(".meta a", has_text="session")).to_be_visible()


def test_summaries_and_prompts_have_pages(machine: Box, open_page: Opener) -> None:
    summary = machine.client.get("/api/summaries")["items"][-1]
    page = open_page(f"#/summary/{summary['id']}")
    expect(page.locator(".summary-parts dt").first).to_be_visible()
    expect(page.locator(".timeline li[aria-current]")).to_have_count(1)
    prompt = machine.client.get("/api/prompts")["items"][-1]
    page.goto(address(machine, f"#/prompt/{prompt['id']}"))
    expect(page.locator(".entry-body .prompt-text")).to_contain_text(prompt["prompt"][:40])
    page.goto(address(machine, "#/o/999999"))
    expect(page.get_by_text("There is no observation 999999.").first).to_be_visible()


def test_the_context_says_why_and_can_be_corrected(machine: Box, open_page: Opener) -> None:
    page = open_page("#/context")
    line = page.locator(".context li.observation").first
    expect(line.locator(".why")).not_to_be_empty()
    told = machine.client.get("/api/context", project="shop")
    assert page.locator(".context > li").count() == sum(1 for one in told["lines"] if one["text"])
    assert not find_violations(page)
    number = int((line.locator("a.id").inner_text()).removeprefix("#"))
    line.hover()
    line.get_by_role("button", name="Pin").click()
    expect(page.locator(".context h2", has_text="Pinned")).to_be_visible()
    assert machine.client.get(f"/api/observations/{number}")["pinned_at"]
    wrong = page.locator(".context li.observation", has_text=re.compile(rf"#{number}\b"))
    wrong.hover()
    wrong.get_by_role("button", name="Hide").click()
    expect(wrong).to_have_count(0)
    until(lambda: machine.client.get(f"/api/observations/{number}")["hidden_at"], "it to be hidden")
    assert f"#{number} " not in machine.client.get("/api/context", project="shop")["text"]
    page.get_by_role("button", name="Undo").click()
    expect(wrong).to_have_count(1)
    wrong.hover()
    wrong.get_by_role("button", name="Hide").click()
    page.get_by_role("link", name="hidden lines").click()
    hidden = page.locator(".card", has=page.get_by_text(f"#{number}", exact=True))
    expect(hidden).to_be_visible()
    assert not find_violations(page)
    hidden.get_by_role("button", name="Show again").click()
    expect(page.get_by_text("Nothing is hidden.")).to_be_visible()
    page.goto(address(machine, "#/context?project=shop"))
    expect(wrong).to_have_count(1)
    wrong.get_by_role("button", name="Correct").click()
    page.get_by_role("textbox", name="Title", exact=True).fill("A code is redeemed once for each cart")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("A code is redeemed once for each cart")
    page.goto(address(machine, "#/context?project=shop"))
    expect(wrong).to_contain_text("A code is redeemed once for each cart")
    machine.client.patch(f"/api/observations/{number}", {"pinned": False})


def test_the_context_is_that_of_a_branch(machine: Box, open_page: Opener) -> None:
    repository = machine.root / "kiosk"
    (repository / ".git").mkdir(parents=True)
    for branch, words in (("screen", "The screen turns dark after a minute."), ("coins", "Coins of one cent return.")):
        (repository / ".git/HEAD").write_text(f"ref: refs/heads/{branch}\n")
        about = {"session_id": f"kiosk-{branch}", "cwd": str(repository)}
        machine.client.post("/hooks/claude-code/UserPromptSubmit", about | {"prompt": f"What does {branch} do?"})
        machine.client.post("/hooks/claude-code/Stop", about | {"last_assistant_message": words})
    machine.settle()
    page = open_page("#/context")
    page.get_by_label("project").select_option(label="kiosk")
    expect(page.locator(".context h2").first).to_contain_text("branch coins")  # the one that is checked out
    for branch in ("screen", "coins"):
        page.get_by_label("branch").select_option(branch)
        expect(page.locator(".context h2").first).to_contain_text(f"branch {branch}")
        assert f"branch={branch}" in page.url
        told = machine.client.get("/api/context", project="kiosk", branch=branch)
        assert page.locator(".context .told").count() == len([one for one in told["lines"] if _is_told(one)])
        assert told["text"] == machine.cli("context", "--project", "kiosk", "--branch", branch).stdout.strip()


def _is_told(line: dict[str, Any]) -> bool:
    return bool(line["text"]) and line["kind"] != "heading"


def test_an_observation_is_edited(machine: Box, open_page: Opener) -> None:
    row = remember(machine, "The warehouse closes at six")
    page = open_page(f"#/o/{row['id']}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="Title", exact=True).fill("The warehouse closes at seven")
    page.get_by_role("combobox", name="Type", exact=True).select_option("discovery")
    page.get_by_label("Facts, one on each line").fill("It opens at five\nIt closes at seven")
    assert not find_violations(page)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The warehouse closes at seven")
    stored = machine.client.get(f"/api/observations/{row['id']}")
    assert stored["type"] == "discovery" and stored["facts"] == ["It opens at five", "It closes at seven"]


def test_an_observation_is_replaced_and_restored(machine: Box, open_page: Opener) -> None:
    old = remember(machine, "Invoices are sent by post")
    new = remember(machine, "Invoices are sent by email since the move")
    page = open_page(f"#/o/{old['id']}")
    page.get_by_role("button", name="Replace …").click()
    page.get_by_role("dialog").get_by_role("searchbox").fill("invoices sent email move")
    page.get_by_role("dialog").get_by_role("button", name=f"#{new['id']}").click()
    expect(page.locator(".standing")).to_contain_text(f"#{new['id']} replaces it")
    page.locator("section", has=page.get_by_role("heading", name="Replaced by")).get_by_role("link").click()
    replaced = page.locator("section", has=page.get_by_role("heading", name="It replaced"))
    replaced.get_by_role("link", name=old["title"]).click()
    page.get_by_role("button", name="Restore").click()
    expect(page.locator(".standing")).to_have_count(0)
    assert machine.client.get(f"/api/observations/{old['id']}")["superseded_by"] is None


def select_rows(page: Page, *texts: str) -> None:
    for text in texts:
        row = page.locator("article", has_text=text)
        row.hover()
        row.get_by_role("checkbox").check()


def test_several_are_merged_hidden_and_forgotten(machine: Box, open_page: Opener) -> None:
    texts = [f"The crane in hall {name} lifts two tons" for name in ("A", "B", "C", "D")]
    rows = [remember(machine, text) for text in texts]
    page = open_page()
    select_rows(page, texts[0], texts[1])
    page.get_by_role("toolbar").get_by_role("button", name="Merge").click()
    expect(page).to_have_url(re.compile(rf"#/o/{rows[0]['id']}$"))
    assert machine.client.get(f"/api/observations/{rows[1]['id']}")["superseded_by"] == rows[0]["id"]
    page.goto(address(machine, "#/"))
    select_rows(page, texts[2])
    page.get_by_role("toolbar").get_by_role("button", name="Hide").click()
    expect(page.locator("article", has_text=texts[2])).to_have_count(0)
    until(lambda: machine.client.get(f"/api/observations/{rows[2]['id']}")["hidden_at"], "it to be hidden")


def test_forgetting_can_be_undone_for_ten_seconds_and_is_final_then(machine: Box, open_page: Opener) -> None:
    kept = remember(machine, "The alarm code of hall E is known to Ada")
    gone = remember(machine, "The alarm code of hall F is known to Bob")
    page = open_page()
    expect(page.locator("article", has_text=gone["title"])).to_be_visible()
    page.clock.install()
    page.clock.pause_at(datetime.now(UTC) + timedelta(seconds=1))
    select_rows(page, kept["title"], gone["title"])
    page.get_by_role("toolbar").get_by_role("button", name="Forget").click()
    expect(page.locator("article", has_text="The alarm code")).to_have_count(0)
    page.clock.run_for(9_000)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("article", has_text=kept["title"])).to_be_visible()
    page.clock.run_for(20_000)
    assert machine.client.get(f"/api/observations/{gone['id']}")["title"] == gone["title"]
    page.locator("article", has_text=gone["title"]).hover()
    page.locator("article", has_text=gone["title"]).get_by_role("button", name="Forget").click()
    for name in ("Pin", "Unpin", "Pin", "Unpin", "Pin", "Unpin"):  # as many messages as there is room for, and more
        page.locator("article", has_text=kept["title"]).get_by_role("button", name=name, exact=True).click()
        page.clock.run_for(500)
    page.clock.run_for(11_000)

    def is_gone() -> bool:
        try:
            machine.client.get(f"/api/observations/{gone['id']}")
        except BackstoryError:
            return True
        return False

    until(is_gone, "it to be forgotten")
    expect(page.locator("article", has_text=kept["title"])).to_be_visible()
    expect(page.locator("article", has_text=gone["title"])).to_have_count(0)


LEAVES: dict[str, Callable[[Page], Any]] = {
    "reload": lambda page: page.reload(),
    "close": lambda page: page.close(),
    "close at once": lambda page: page.close(run_before_unload=False),
    "elsewhere": lambda page: page.goto("about:blank"),
    "elsewhere and back": lambda page: (page.goto("about:blank"), page.go_back()),
}


@pytest.mark.parametrize("leaves", LEAVES)
def test_who_leaves_the_page_while_it_forgets_has_not_decided(machine: Box, open_page: Opener, leaves: str) -> None:
    """A reload, a closed tab, another page: forgetting is final, and each of them happens for other reasons."""
    row = remember(machine, f"The spare key hangs behind boiler {leaves}")
    page = open_page(f"#/o/{row['id']}")
    asked: list[str] = []
    page.context.on("request", lambda request: asked.append(request.url))
    page.clock.install()
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_role("heading", name="is being forgotten")).to_be_visible()
    expect(page.get_by_text("if this page stays open")).to_be_visible()
    LEAVES[leaves](page)
    if not page.is_closed() and page.url != "about:blank":
        expect(page.get_by_role("heading", name=row["title"])).to_be_visible()
        page.clock.run_for(20_000)
        expect(page.get_by_role("heading", name=row["title"])).to_be_visible()
    # What a page sends while it closes arrives before what the next one asks.
    other = open_page(f"#/o/{row['id']}")
    expect(other.get_by_role("heading", name=row["title"])).to_be_visible()
    assert not [url for url in asked if url.endswith("/api/forget")]
    assert machine.client.get(f"/api/observations/{row['id']}")["title"] == row["title"]


def test_another_tab_does_not_end_the_time_to_undo(machine: Box, open_page: Opener) -> None:
    """It shows the observation until it is forgotten. What closes is that tab alone."""
    row = remember(machine, "The fuse box of hall G is behind the fern")
    page = open_page(f"#/o/{row['id']}")
    other = page.context.new_page()
    other.goto(address(machine, f"#/o/{row['id']}"))
    expect(other.get_by_role("heading", name=row["title"])).to_be_visible()
    page.clock.install()
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_role("heading", name="is being forgotten")).to_be_visible()
    other.reload()
    expect(other.get_by_role("heading", name=row["title"])).to_be_visible()
    other.close()
    page.clock.run_for(11_000)
    expect(page.get_by_text(f"#{row['id']} is forgotten.")).to_be_visible()
    assert all(one["id"] != row["id"] for one in machine.client.get("/api/feed")["items"])
