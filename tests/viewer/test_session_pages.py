"""The pages of sessions and groups, in a real browser with a real worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from box import Box
from playwright.sync_api import expect
from transcripts import Script
from viewer_page import Opener, address, remember

from backstory.groups.names import WORKSPACE, GroupPaths
from backstory.store import groups
from backstory.store.sqlite import SqliteStore

CAUSE = "The cause: `apply_discount` in `shop/cart.py` added the amount on every call, so SPRING10 counted twice."
NASTY = 'Fixed <img src="http://evil.example/x.png"><script>document.title = "owned"</script> \x1b[31mred \u202eback'


def report(box: Box, session: str, event: str, **payload: Any) -> None:
    box.client.post(f"/hooks/claude-code/{event}", {"session_id": session, "cwd": str(box.project)} | payload)


def converse(box: Box, session: str, prompt: str, reply: str, number: int = 1) -> None:
    """A round with a tool use that works and one that fails."""
    prompt_id = f"{session}-{number}"
    report(box, session, "UserPromptSubmit", prompt=prompt, prompt_id=prompt_id)
    read = {"file_path": f"{box.project}/shop/cart.py"}
    response = {"file": {"content": "def apply_discount(self, code): ..."}}
    report(
        box,
        session,
        "PostToolUse",
        tool_name="Read",
        tool_use_id=f"r{prompt_id}",
        tool_input=read,
        tool_response=response,
        prompt_id=prompt_id,
    )
    report(
        box,
        session,
        "PostToolUseFailure",
        tool_name="Bash",
        tool_use_id=f"b{prompt_id}",
        tool_input={"command": "pytest -q"},
        error="Exit code 1",
        prompt_id=prompt_id,
    )
    report(box, session, "Stop", last_assistant_message=reply, prompt_id=prompt_id)


@pytest.fixture(scope="module", autouse=True)
def told(machine: Box) -> None:
    """Two sessions, the second a fork of the first."""
    report(machine, "first", "SessionStart", source="startup")
    converse(machine, "first", "The cart total is wrong when a discount code is used twice. Why?", CAUSE)
    converse(machine, "first", "Show yen without decimals.", "Done: `Money.format` shows `1,200 JPY` now.", 2)
    report(machine, "second", "SessionStart", source="fork")
    converse(machine, "second", "Make the page safe.", NASTY)
    report(machine, "second", "SessionEnd", reason="exit")
    machine.settle()


def number_of(box: Box, name: str) -> int:
    return int(box.client.get(f"/api/sessions/{name}")["id"])


def test_sessions_are_listed_found_and_filtered(open_page: Opener, machine: Box) -> None:
    page = open_page("#/sessions")
    feed = page.get_by_role("feed", name="Sessions")
    listed = machine.client.get("/api/sessions")["items"]
    # Only rows in view are elements, so they are not counted.
    expect(feed.get_by_role("article").first).to_contain_text(listed[0]["title"])
    page.get_by_label("Find sessions by what you remember").fill("discount code")
    expect(feed.get_by_role("article").first).to_contain_text("cart total")
    assert "words=discount+code" in page.url
    page.goto(address(machine, "#/sessions?status=completed"))
    ended = machine.client.get("/api/sessions", status="completed")["items"]
    expect(feed.get_by_role("article").first).to_contain_text(ended[0]["title"])
    expect(feed.get_by_text("active", exact=True)).to_have_count(0)
    page.goto(address(machine, "#/sessions?branch=nowhere"))
    expect(page.get_by_text("No session matches these filters.")).to_be_visible()
    page.goto(address(machine, "#/sessions"))
    expect(feed.get_by_role("article").first).to_contain_text(listed[0]["title"])
    page.get_by_role("heading", name="Sessions").click()  # leaves the field
    for row in range(2):
        page.keyboard.press("j")
        expect(feed.get_by_role("article").nth(row)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(listed[1]["title"])


def test_a_session_is_a_readable_conversation(open_page: Opener, machine: Box) -> None:
    page = open_page(f"#/s/{number_of(machine, 'first')}")
    first = page.get_by_role("region", name="Prompt 1")
    expect(first).to_contain_text("The cart total is wrong")
    expect(first.locator(".turn.assistant code").first).to_have_text("apply_discount")
    beside = first.get_by_role("complementary")
    expect(beside.locator(".card.observation").first).to_contain_text("apply_discount")
    uses = first.locator("details.uses")
    expect(uses.locator("summary").first).to_contain_text("2 tool uses")
    expect(uses.locator("summary").first).to_contain_text("1 failed")
    assert not uses.locator("li").count()  # folded
    uses.locator("summary").first.click()
    uses.get_by_text("shop/cart.py").click()
    expect(uses.locator("pre").nth(1)).to_contain_text("def apply_discount")
    expect(page.get_by_role("region", name="Prompt 2")).to_contain_text("1,200 JPY")
    page.goto(address(machine, f"#/s/{number_of(machine, 'first')}?prompt=2"))
    expect(page.locator("#round-2.named")).to_be_in_viewport()


def test_observations_that_were_replaced_stay_beside_their_round(open_page: Opener, machine: Box) -> None:
    converse(machine, "sixth", "Why is the stamp blurred?", "The cause: the ink roller was dry, so the stamp blurred.")
    machine.settle()
    number = number_of(machine, "sixth")
    made = machine.client.get("/api/observations", session=number)["items"]
    new = machine.client.post("/api/memories", {"text": "The ink roller is replaced each month", "project": "shop"})
    for row in made:
        machine.client.patch(f"/api/observations/{row['id']}", {"superseded_by": new["id"]})
    page = open_page(f"#/s/{number}")
    beside = page.get_by_role("region", name="Prompt 1").get_by_role("complementary")
    expect(beside.locator(".card.replaced")).to_have_count(len(made))
    expect(beside.locator(".card.replaced").first).to_contain_text(f"replaced by #{new['id']}")


def test_what_an_agent_wrote_stays_text(open_page: Opener, machine: Box) -> None:
    """The fixture `open_page` sees that nothing but the worker is asked."""
    page = open_page(f"#/s/{number_of(machine, 'second')}")
    reply = page.locator(".turn.assistant")
    expect(reply).to_contain_text('<img src="http://evil.example/x.png">')
    expect(reply).to_contain_text("\\x1b[31mred \\u{202e}back")
    assert "owned" not in page.title()
    assert not page.locator("main img, main script").count()


def test_a_session_is_named_tagged_and_resumed(open_page: Opener, machine: Box) -> None:
    number = number_of(machine, "first")
    page = open_page(f"#/s/{number}", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Edit the title").click()
    page.get_by_label("Title", exact=True).fill("Cart totals")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Cart totals")
    page.get_by_label("Add a tag").fill("release")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="#release")).to_be_visible()
    row = machine.client.get("/api/sessions/first")
    assert (row["title"], row["tags"]) == ("Cart totals", ["release"])
    page.get_by_role("button", name="Remove the tag release").click()
    expect(page.get_by_role("link", name="#release")).to_be_hidden()
    page.get_by_role("button", name="Copy resume command").click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == f"backstory resume {number}"
    page.locator("details.details summary").click()
    expect(page.locator(".facts")).to_contain_text(str(machine.project))
    expect(page.locator(".facts")).to_contain_text("in what was said")
    expect(page.locator(".moves li").last).to_contain_text("active")
    page.get_by_role("link", name="Make the page safe").click()
    expect(page.locator(".link")).to_contain_text("forked from Cart totals")


def test_a_session_is_exported(open_page: Opener, machine: Box, tmp_path: Path) -> None:
    number = number_of(machine, "first")
    page = open_page(f"#/s/{number}")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export Markdown").click()
    assert saved.value.suggested_filename == f"session-{number}.md"
    saved.value.save_as(tmp_path / "export.md")
    assert (tmp_path / "export.md").read_text() == machine.cli("sessions", "export", str(number)).stdout
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export JSON").click()
    saved.value.save_as(tmp_path / "export.json")
    exported = machine.cli("sessions", "export", str(number), "--format", "json").stdout
    assert json.loads((tmp_path / "export.json").read_text()) == json.loads(exported)


def test_a_session_that_a_program_drives_has_tokens_and_cost(open_page: Opener, machine: Box) -> None:
    spent = {"input_tokens": 12_345, "output_tokens": 678, "cost_micros": 1_234_567}
    move = {"cause": "start", "cwd": str(machine.project), "model": "m-1", "metadata": spent}
    number = machine.client.post("/api/agent-sessions/33333333-aaaa-4000-8000-000000000000", move)["id"]
    page = open_page(f"#/s/{number}")
    page.locator("details.details summary").click()
    expect(page.locator(".facts")).to_contain_text("12.3K read, 678 written")
    expect(page.locator(".facts")).to_contain_text("m-1")
    expect(page.locator(".facts")).to_contain_text("$1.23, as the agent counted it")


def test_a_session_is_hidden_and_forgotten(open_page: Opener, machine: Box) -> None:
    converse(machine, "third", "Forget me.", "As you like.")
    machine.settle()
    page = open_page(f"#/s/{number_of(machine, 'third')}")
    page.get_by_role("button", name="Hide").click()
    expect(page.get_by_text("hidden from context and search", exact=True)).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("hidden from context and search", exact=True)).to_be_hidden()
    page.get_by_role("button", name="Forget …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 turns")
    dialog.get_by_role("button", name="Cancel").click()
    assert not machine.client.get("/api/sessions/third")["forgotten_at"]
    page.get_by_role("button", name="Forget …").click()
    dialog.get_by_role("button", name="Forget for good").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    assert machine.client.get("/api/sessions/third")["forgotten_at"]


def test_a_list_of_sessions_follows_them(open_page: Opener, machine: Box) -> None:
    page = open_page("#/sessions")
    first = page.get_by_role("feed", name="Sessions").get_by_role("article").first
    converse(machine, "fourth", "Follow me.", "I do.")
    expect(first).to_contain_text("Follow me")
    expect(first).to_contain_text("active")
    report(machine, "fourth", "SessionEnd", reason="exit")
    expect(first).not_to_contain_text("active")
    machine.client.post("/api/hide", {"sessions": [number_of(machine, "fourth")]})
    expect(first).to_contain_text("hidden")


def test_a_session_follows_what_others_do_with_it(open_page: Opener, machine: Box) -> None:
    converse(machine, "fifth", "Hide me.", "As you like.")
    page = open_page(f"#/s/{number_of(machine, 'fifth')}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Hide me")
    machine.client.post("/api/hide", {"sessions": [number_of(machine, "fifth")]})
    expect(page.get_by_text("hidden from context and search", exact=True)).to_be_visible()


def test_a_session_that_does_not_exist(open_page: Opener) -> None:
    page = open_page("#/s/99999")
    expect(page.get_by_role("alert")).to_contain_text("There is no session 99999.")


def speak(box: Box, group: str, session: str, words: str) -> None:
    """Make a session with a transcript the active one of a new group, as a run of its agent does."""
    script = Script(session, WORKSPACE)
    script.prompt(words)
    script.says(f"About {words}.")
    script.write(GroupPaths(box.data, group).transcript(session).parent)
    store = SqliteStore(box.data / "backstory.db")
    store.write(lambda tx: groups.ensure(tx, group, group))
    now = store.read(lambda tx: groups.pointer(tx, group))
    store.write(lambda tx: groups.set_session(tx, group, session, now.generation, None))
    store.close()


def test_a_group_is_created(open_page: Opener, machine: Box) -> None:
    page = open_page("#/groups")
    page.get_by_role("button", name="New group").click()
    page.get_by_label("Name").fill("../family")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Name").fill("family")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="family")).to_be_visible()
    expect(page.get_by_text("None. The next message starts one.")).to_be_visible()


def test_a_group_is_cleared_and_resumed(open_page: Opener, machine: Box) -> None:
    session = "11111111-aaaa-4000-8000-000000000000"
    speak(machine, "travel", session, "a trip to Japan")
    page = open_page("#/groups")
    expect(page.locator(".card", has_text="travel")).to_contain_text("active since")
    page.get_by_role("link", name="travel").click()
    page.get_by_role("button", name="Clear …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name in the history").fill("Japan")
    dialog.get_by_role("button", name="Clear", exact=True).click()
    expect(page.get_by_text("None. The next message starts one.")).to_be_visible()
    (entry,) = machine.client.get("/api/groups/travel/history")["items"]
    assert (entry["name"], entry["session_id"]) == ("Japan", session)

    archive = page.locator("details.archive")
    archive.locator("summary").click()
    expect(archive).to_contain_text("About a trip to Japan.")
    page.get_by_role("button", name="Resume Japan").click()
    dialog.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("link", name=session)).to_be_visible()
    assert machine.client.get("/api/groups/travel")["session_id"] == session


def test_a_group_is_archived_and_its_session_goes_on(open_page: Opener, machine: Box) -> None:
    session = "22222222-aaaa-4000-8000-000000000000"
    speak(machine, "garden", session, "tulips for the spring")
    page = open_page("#/g/garden")
    page.get_by_role("button", name="Archive now").click()
    expect(page.get_by_text("Archived. The session goes on.")).to_be_visible()
    archive = page.locator("details.archive")
    archive.locator("summary").click()
    expect(archive).to_contain_text("About tulips for the spring.")
    assert machine.client.get("/api/groups/garden")["session_id"] == session
    page.get_by_role("button", name="Archive now").click()
    expect(page.get_by_text("There is nothing new to archive.")).to_be_visible()
    assert len(machine.client.get("/api/groups/garden")["archives"]) == 1


def test_a_session_shows_what_it_was_told_and_used(open_page: Opener, machine: Box) -> None:
    """Each observation leads to its page, until it is hidden or forgotten. Nothing is said that is not known."""
    fact = remember(machine, "The tugboat is painted every third spring")
    used = {"part": "u1", "used": [{"model": "claude-opus-5", "cached_tokens": 900_000, "output_tokens": 12_000}]}
    about = {"session_id": "painted", "occurred_at": "2026-01-01T10:00:00Z", "cwd": str(machine.project)}
    report(machine, "painted", "SessionStart", source="startup")
    converse(machine, "painted", "Which boat is next?", "The tugboat is next.")
    one = {"kind": "usage", "event_id": "transcript-u1", "payload": used} | about
    machine.client.post("/api/import/reports", {"reports": [one]})
    machine.settle()
    session = machine.client.get("/api/sessions/painted")
    (told,) = session["told"]
    assert fact["id"] in {each["id"] for each in told["observations"]}
    page = open_page(f"#/s/{session['id']}")
    summary = page.locator(".details summary")
    tokens = told["tokens"]
    expect(summary).to_contain_text(f"told about {tokens if tokens < 1000 else f'{tokens / 1000:.1f}K'} tokens")
    summary.click()
    facts = page.locator(".details .facts")
    expect(facts).to_contain_text("900K read (900K from the cache), 12K written")
    expect(facts).to_contain_text("claude-opus-5")
    expect(facts).to_contain_text("about $0.7500 at list prices")
    expect(facts.get_by_role("link", name="The tugboat is painted")).to_have_attribute("href", f"#/o/{fact['id']}")
    expect(facts).to_contain_text("at its start (startup)")
    machine.client.post("/api/forget", {"ids": [fact["id"]]})
    page.reload()
    page.locator(".details summary").click()
    expect(facts).to_contain_text("1 hidden or forgotten since")
    expect(facts).not_to_contain_text("tugboat")
    page.goto(address(machine, f"#/s/{machine.client.get('/api/sessions/first')['id']}"))
    page.locator(".details summary").click()
    expect(facts).to_contain_text("what models used is not known")
    expect(facts).not_to_contain_text("$")
