"""The pages of statistics, settings and health, in a real browser with a real worker."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tomllib
from typing import Any

import pytest
from box import Box, until
from playwright.sync_api import Page, Response, expect
from viewer_page import EVERY_PAGE, Opener, address, find_violations, visit


def test_statistics_are_drawn_and_told(open_page: Opener, machine: Box) -> None:
    """Numbers stand above the charts, follow the pointer and the keys, and are in the tables."""
    page = open_page("#/stats")
    day = machine.client.get("/api/stats/days", days=30)["items"][-1]
    assert day["prompts"] >= 2  # the demo's
    expect(page.locator(".tiles div", has_text="prompts").locator("dd")).to_have_text(str(day["prompts"]))
    chart = page.get_by_role("figure").filter(has_text="Activity by day")
    plot = chart.locator(".u-over")
    box = plot.bounding_box()
    assert box
    assert chart.locator("canvas").evaluate(
        "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v)"
    )
    page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 20)
    expect(chart.locator(".readout")).to_contain_text(f"prompts {day['prompts']}")
    today = chart.locator(".readout-at").inner_text()
    assert today
    page.mouse.move(0, 0)
    expect(chart.locator(".readout-at")).to_have_text("")
    chart.locator(".plot").press("ArrowLeft")
    expect(chart.locator(".readout-at")).to_have_text(today)
    chart.get_by_text("Table").click()
    expect(chart.locator("tbody tr").first).to_contain_text(today)
    expect(chart.locator("tbody tr")).to_have_count(30)
    page.get_by_role("button", name="7 days").click()
    expect(chart.locator("tbody tr")).to_have_count(7)
    assert "days=7" in page.url
    expect(page.locator("section", has=page.get_by_role("heading", name="Observations by file"))).to_contain_text(
        "cart.py"
    )
    expect(page.get_by_role("heading", name="Size of the store")).to_be_visible()
    expect(page.get_by_text("remembered within")).to_be_visible()
    page.goto(address(machine, "#/stats?project=nobody"))
    expect(page.get_by_text("No observation names a file.")).to_be_visible()


def setting(page: Page, name: str) -> Any:
    return page.locator("form.setting", has=page.get_by_label(name, exact=True))


def config(box: Box) -> dict[str, Any]:
    return tomllib.loads((box.data / "config.toml").read_text())


def test_every_setting_is_shown_and_can_be_changed(open_page: Opener, machine: Box) -> None:
    page = open_page("#/settings")
    names = [row["name"] for row in machine.client.get("/api/settings")["items"]]
    expect(page.locator("form.setting")).to_have_count(len(names))
    one = setting(page, "context_tokens")
    expect(one).to_contain_text("Maximum number of tokens in the context of a new session.")
    expect(one).to_contain_text("Default: 4000.")
    one.get_by_role("textbox").fill("none")
    one.get_by_role("button", name="Save").click()
    expect(one.get_by_role("alert")).to_be_visible()
    one.get_by_role("textbox").fill("2000")
    one.get_by_role("button", name="Save").click()
    expect(one.get_by_text("changed")).to_be_visible()
    assert config(machine) == {"context_tokens": 2000}
    setting(page, "keep_transcripts").get_by_role("combobox").select_option("all")
    until(lambda: config(machine).get("keep_transcripts") == "all", "the choice to be written")
    page.goto(address(machine, "#/settings?changed=1"))
    expect(page.locator("form.setting")).to_have_count(len(changed(machine)))
    one.get_by_role("button", name="Use the default of context_tokens").click()
    expect(one).to_be_hidden()
    assert config(machine) == {"keep_transcripts": "all"}
    page.goto(address(machine, "#/settings?words=embedder"))
    fixed = setting(page, "embedder")
    expect(fixed).to_contain_text("Set by a variable of the environment.")
    expect(fixed.get_by_role("combobox")).to_be_disabled()


def changed(box: Box) -> list[dict[str, Any]]:
    return [row for row in box.client.get("/api/settings")["items"] if row["is_changed"]]


def test_a_secret_is_written_and_never_shown(open_page: Opener, machine: Box) -> None:
    page = open_page("#/settings?words=api_key")
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer) if "/api/settings" in answer.url else None)
    one = setting(page, "api_key")
    expect(one).to_contain_text("Not set.")
    one.locator("input").fill("sk-very-secret")
    one.get_by_role("button", name="Save").click()
    expect(one).to_contain_text("It is set, and never shown.")
    assert config(machine)["api_key"] == "sk-very-secret"
    assert one.locator("input").input_value() == ""
    assert "very-secret" not in page.content()
    assert answers
    assert not [answer for answer in answers if "very-secret" in answer.text()]
    one.get_by_role("button", name="Remove api_key").click()
    expect(one).to_contain_text("Not set.")
    assert "api_key" not in config(machine)


def test_the_provider_is_tested(open_page: Opener) -> None:
    page = open_page("#/health")
    page.get_by_role("button", name="Test").click()
    expect(page.locator(".provider")).to_contain_text("works")


def set_aside(box: Box, count: int) -> None:
    """Damage events, and let the observer find that out."""
    with contextlib.closing(sqlite3.connect(box.data / "backstory.db", timeout=60)) as database, database:
        rows = "SELECT id FROM events WHERE kind = 'tool' AND payload IS NOT NULL ORDER BY id LIMIT ?"
        database.execute(
            f"UPDATE events SET payload = '[', status = 'queued', available_at = 0 WHERE id IN ({rows})",  # noqa: S608
            (count,),
        )
    about = {"session_id": "other", "cwd": str(box.project), "last_assistant_message": "Go on."}
    box.client.post("/hooks/claude-code/Stop", about)  # wakes the observer
    until(lambda: (box.health() or {})["queue"]["dead"] == count, "the events to be set aside")


def test_the_queue_is_shown_and_mended(open_page: Opener, machine: Box) -> None:
    set_aside(machine, 2)
    page = open_page()
    expect(page.locator("main .queue")).to_contain_text("2 events set aside")
    page.locator("main .queue a").click()
    page.get_by_role("button", name="Set aside 2").click()
    lines = page.locator("section", has=page.get_by_role("heading", name="Queue")).locator(".line")
    expect(lines).to_have_count(2)
    lines.first.get_by_role("button", name="Drop").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(lines).to_have_count(2)
    lines.first.get_by_role("button", name="Drop").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop", exact=True).click()
    expect(lines).to_have_count(1)
    expect(page.get_by_text("1 event dropped.")).to_be_visible()
    page.get_by_role("button", name="Retry all").click()
    expect(page.get_by_text("1 event queued again.")).to_be_visible()
    until(lambda: (machine.health() or {})["queue"]["dead"] == 1, "the event to be set aside again")
    page.get_by_role("button", name="Drop all").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop", exact=True).click()
    expect(page.get_by_text("Nothing is set aside.")).to_be_visible()


def test_doctor_says_what_is_wrong(open_page: Opener, machine: Box) -> None:
    page = open_page("#/health")
    found = machine.client.get("/api/doctor")["findings"]
    doctor = page.locator("section", has=page.get_by_role("heading", name="Doctor"))
    expect(doctor.locator(".line")).to_have_count(len(found))
    for finding in found:
        expect(doctor).to_contain_text(finding["name"])


def test_the_verdict_of_the_page_is_that_of_doctor(open_page: Opener, machine: Box) -> None:
    """Of status, too: it is never healthy above a problem."""
    wrong = {one["name"] for one in machine.client.get("/api/doctor")["findings"] if one["level"] == "wrong"}
    health = machine.client.get("/api/health")
    assert "hooks-missing" in wrong
    assert (health["status"], set(health["problems"]) - wrong) == ("degraded", set())
    assert {"hooks-missing"} <= set(health["problems"])
    status = json.loads(machine.cli("status", "--json").stdout)
    assert set(status["problems"]) == wrong
    page = open_page("#/health")
    expect(page.get_by_text(f"{len(wrong)} problem")).to_be_visible()
    expect(page.get_by_text("healthy", exact=True)).to_have_count(0)
    page.route("**/api/doctor", lambda route: route.fulfill(json={"ok": True, "findings": []}))
    page.route("**/api/health", lambda route: route.fulfill(json=health | {"status": "ok", "problems": []}))
    page.reload()
    expect(page.get_by_text("healthy", exact=True)).to_be_visible()


def test_tokens_that_were_told_are_counted_and_unknown_costs_are_not_nothing(open_page: Opener, machine: Box) -> None:
    page = open_page("#/stats")
    days = machine.client.get("/api/stats/days", days=30)["items"]
    expect(page.locator(".tiles")).not_to_contain_text("saved")
    tile = page.locator(".tiles div", has_text="tokens told, about").locator("dd")
    expect(tile).to_have_text(short(sum(day["tokens_told_estimate"] for day in days)))
    cost = page.locator(".tiles div", has_text="cost of observing").locator("dd")
    expect(cost).to_have_text("$0.00")
    for micros, text in ((0, "not known"), (2_500_000, "over $2.50")):
        priced = [day | {"cost_micros": 0, "calls_without_price": 0} for day in days]
        priced[-1] |= {"cost_micros": micros, "calls_without_price": 3}
        page.route("**/api/stats/days*", lambda route, _, rows=priced: route.fulfill(json={"items": rows}))
        page.reload()
        expect(cost).to_have_text(text)


def short(number: int) -> str:
    """A number below ten thousand as the page writes it."""
    return str(number) if number < 1000 else f"{number / 1000:.1f}".removesuffix(".0") + "K"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_are_accessible(open_page: Opener, machine: Box, theme: str) -> None:
    page = open_page(color_scheme=theme)
    for fragment in EVERY_PAGE:
        visit(page, machine, fragment)
        for summary in page.locator("main summary").all()[:3]:
            summary.click()
        assert find_violations(page) == [], fragment


def test_a_worker_that_is_gone_comes_back(open_page: Opener, machine: Box) -> None:
    """Each page says so and goes on by itself."""
    page = open_page("#/groups")
    expect(page.get_by_role("link", name="main")).to_be_visible()
    stats = address(machine, "#/stats")
    machine.stop(machine.processes[-1])
    page.goto(stats)
    expect(page.get_by_role("heading", name="The worker does not answer").first).to_be_visible()
    machine.start()
    expect(page.locator(".tiles")).to_be_visible()
