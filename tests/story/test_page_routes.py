"""What the page asks the worker for: feed, sources, context, settings, corrections and the stream."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import shared_box
from box import Box, until
from endpoint import Endpoint, error

shared = shared_box.shared

KEY = "sk-ant-api03-" + "Zq7" * 31 + "-AA"


@pytest.fixture(scope="module")
def told(shared: Box) -> dict[str, Any]:
    """A worker that has seen a session: a prompt, a tool use, an end, and two texts to remember."""
    shared.hook("UserPromptSubmit", {"session_id": "x", "prompt": "Why is the discount taken twice?"})
    edit = {"file_path": str(shared.project / "cart.py"), "old_string": "a", "new_string": "b"}
    payload = {"session_id": "x", "tool_name": "Edit", "tool_input": edit, "tool_response": {"ok": True}}
    shared.hook("PostToolUse", payload | {"tool_use_id": "toolu_1"})
    reply = "The discount was taken twice because apply_discount ran in the cart and in the checkout. I removed one."
    shared.hook("Stop", {"session_id": "x", "last_assistant_message": reply})
    shared.settle()
    for text in ("Prices are in cents, never floats.", "Amounts are whole cents."):
        shared.cli("remember", text)
    (session,) = (row for row in shared.client.get("/api/sessions")["items"] if row["content_session_id"] == "x")
    return {"session": session["id"], "project": session["project"]}


def test_the_feed_pages_and_filters(shared: Box, told: dict[str, Any]) -> None:
    whole = shared.client.get("/api/feed", limit=200)["items"]
    assert {row["kind"] for row in whole} == {"observation", "summary", "prompt"}
    first = shared.client.get("/api/feed", limit=2)
    second = shared.client.get("/api/feed", limit=200, cursor=first["next"])
    assert first["items"] + second["items"] == whole and second["next"] is None
    for row in whole:
        one = shared.client.get(f"/api/{'summaries' if row['kind'] == 'summary' else row['kind'] + 's'}/{row['id']}")
        assert one["id"] == row["id"] and one["session_id"] == row["session_id"]
        around = shared.client.get("/api/timeline", anchor=row["id"], kind=row["kind"])
        assert (around["anchor"]["kind"], around["anchor"]["id"]) == (row["kind"], row["id"])
    for path in ("summaries/4711", "prompts/4711", "observations/4711/sources", "timeline?anchor=4711&kind=prompt"):
        assert shared.http("GET", f"/api/{path}").status == 404, path
    choices = shared.client.get("/api/feed/choices")
    assert told["project"] in [row["name"] for row in choices["projects"]]
    assert "claude-code" in choices["agents"] and "decision" in choices["types"]
    assert shared.http("GET", "/api/feed?kind=turn").status == 400
    listed = shared.cli("timeline").stdout
    assert "prompt: Why is the discount taken twice?" in listed and "decision: " in listed


def test_the_context_as_lines_is_what_an_agent_gets(shared: Box, told: dict[str, Any]) -> None:
    """Each line with its reason, and with what it tells."""
    page = shared.client.get("/api/context", project=told["project"], cwd=str(shared.project))
    assert page["text"] == shared.client.get("/api/context/inject", project=told["project"], cwd=str(shared.project))
    assert "\n".join(line["text"] for line in page["lines"]) in page["text"]
    assert 0 < page["tokens"] <= 4000
    assert {line["part"] for line in page["lines"]} >= {"head", "last"}
    for line in page["lines"]:
        if line["kind"] == "observation":
            row = shared.client.get(f"/api/observations/{line['id']}")
            assert line["reason"] and row["session_id"] == line["session_id"]
        elif line["kind"] == "summary":
            assert shared.client.get(f"/api/summaries/{line['id']}")["session_id"] == line["session_id"]
    assert [line for line in page["lines"] if line["session_id"] == told["session"]]
    other = {"project": told["project"], "branch": "other"}
    assert shared.client.get("/api/context", **other)["text"] == shared.client.get("/api/context/inject", **other)
    on_branch = shared.cli("context", "--project", told["project"], "--branch", "other", "--why").stdout
    assert "discount" in on_branch and "importance" in on_branch


def test_an_observation_is_explained_corrected_and_merged(shared: Box, told: dict[str, Any]) -> None:
    rows = {row["text"]: row["id"] for row in shared.client.get("/api/feed", kind="observation", limit=200)["items"]}
    one, two = rows["Prices are in cents, never floats."], rows["Amounts are whole cents."]
    found = shared.client.get(f"/api/observations/{one}/sources")
    assert found["events"][0]["text"] == "Prices are in cents, never floats."
    shared.cli(
        "edit", str(two), "--title", "Whole cents", "--subtitle", "Never floats", "--fact", "An amount is an int."
    )
    edited = shared.client.get(f"/api/observations/{two}")
    assert (edited["subtitle"], edited["facts"]) == ("Never floats", ["An amount is an int."])
    assert "Nothing to change" in shared.cli("edit", str(two), check=False).stderr
    merged = json.loads(shared.cli("merge", str(one), str(two), "--json").stdout)
    assert merged["id"] == one and {"Whole cents", "An amount is an int."} <= set(merged["facts"])
    assert shared.client.get(f"/api/observations/{two}")["superseded_by"] == one
    shown = shared.cli("show", str(one), "--sources").stdout
    assert f"#{two} Whole cents" in shown
    for wrong in ([one], [], [one, "x"], [one, -1], "x", None):
        assert shared.http("POST", "/api/observations/merge", {"ids": wrong}).status == 400
    assert shared.http("POST", "/api/observations/merge", {"ids": [one, 4711]}).status == 404


def test_a_result_says_why_it_was_found(shared: Box, told: dict[str, Any]) -> None:
    best = shared.client.get("/api/search", query="discounts twice", explain="true")["items"][0]
    assert {"discount", "twice"} <= {term.lower() for term in best["terms"]}
    assert best["reasons"][0].startswith("has ")
    plain = shared.client.get("/api/search", query="discounts twice")["items"][0]
    assert "reasons" not in plain and "terms" not in plain


def test_doctor_finds_the_same_from_the_page(shared: Box) -> None:
    found = shared.client.get("/api/doctor")
    told = json.loads(shared.cli("doctor", "--json", check=False).stdout)
    assert {each["name"] for each in found["findings"]} == {each["name"] for each in told["findings"]}
    assert found["ok"] == told["ok"]


def doctors_of(box: Box) -> list[int]:
    """The processes that run `backstory doctor` on this machine, without those that watch over them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone by now
            is_ours = f"HOME={box.home}\0".encode() in (process / "environ").read_bytes()
            command = (process / "cmdline").read_bytes()
            if is_ours and b"\0doctor\0" in command and b"launch.py" not in command:
                found.append(int(process.name))
    return found


def test_doctor_ends_with_the_worker_that_runs_it(box: Box) -> None:
    worker = box.start()

    def ask() -> None:
        with contextlib.suppress(Exception):  # the worker is killed
            while True:
                box.client.get("/api/doctor")

    asking = threading.Thread(target=ask)
    asking.start()
    for doctor in until(lambda: doctors_of(box), "doctor to start"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(doctor, signal.SIGSTOP)
    box.kill(worker)
    asking.join()
    until(lambda: not doctors_of(box), "doctor to end")


def settings_of(box: Box) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in box.client.get("/api/settings")["items"]}


def patch(box: Box, body: Any, status: int = 200) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = box.http("PATCH", "/api/settings", raw)
    assert answer.status == status, answer.body
    return answer.json


def test_settings_are_listed_and_changed_and_secrets_are_not_shown(shared: Box) -> None:
    """Either all are changed, or none. The file is what `backstory config` reads."""
    before = settings_of(shared)
    assert before["port"]["source"] == "environment" and before["context_tokens"]["source"] == "default"
    patch(shared, {"context_tokens": 1234, "skip_tools": ["Read", "Glob"], "api_key": KEY, "daily_money": 2})
    now = settings_of(shared)
    assert (now["context_tokens"]["value"], now["context_tokens"]["source"]) == (1234, "file")
    assert now["skip_tools"]["value"] == ["Read", "Glob"] and now["daily_money"]["value"] == 2.0
    assert (now["api_key"]["value"], now["api_key"]["default"], now["api_key"]["is_set"]) == (None, None, True)
    assert shared.cli("config", "get", "context_tokens").stdout.strip() == "1234"
    assert shared.cli("config", "get", "api_key").stdout.strip() == "***"
    patch(shared, {"base_url": "https://me:hunter2@proxy.example/v1", "embed_model": "other"})
    now = settings_of(shared)
    assert now["base_url"]["value"] == "https://me:***@proxy.example/v1"
    assert now["embed_model"]["is_pending"] and now["embed_model"]["needs_restart"]
    for body, says in (
        ({"base_url": now["base_url"]["value"]}, "masked"),
        ({"context_tokens": 0}, "at least 1"),
        ({"context_tokens": 99, "provider": "magic"}, "one of"),
        ({"context_tokens": 99, "mode": "../../x"}, "not the name of a mode"),
        ({"context_tokens": 99, "nonsense": 1}, "unknown field"),
        ({"context_tokens": "99"}, "Expected"),
        ({"claude_path": "/bin/sh"}, "cannot be changed here"),
        ({"auth": "off"}, "cannot be changed here"),
        ({"data_dir": "/"}, "unknown field"),
        (b"[]", "Expected"),
        (b"{", "JSON"),
        (b"{" * 200, "JSON"),
    ):
        assert says in patch(shared, body, 400)["error"], body
    assert settings_of(shared)["context_tokens"]["value"] == 1234
    patch(shared, {"exclude_projects": ['a\n[table]\nport = 1 # "', "b"]})
    assert settings_of(shared)["exclude_projects"]["value"] == ['a\n[table]\nport = 1 # "', "b"]
    config = shared.data / "config.toml"
    written = config.read_text()
    config.write_text(
        written.replace("context_tokens = 1234", "context_tokens = 1234\nskip_tools = [\n]").replace(
            'skip_tools = ["Read", "Glob"]', ""
        )
    )
    assert "more than one line" in patch(shared, {"language": "French", "skip_tools": ["Read"]}, 400)["error"]
    assert settings_of(shared)["language"]["value"] == ""
    config.write_text(written)
    patch(shared, {"exclude_projects": None})
    everything = json.dumps([shared.client.get("/api/settings"), shared.client.get("/api/health")])
    log = (shared.data / "worker.log").read_text()
    assert KEY not in everything + log and "hunter2" not in everything + log
    patch(shared, dict.fromkeys(("context_tokens", "skip_tools", "api_key", "daily_money", "base_url", "embed_model")))
    assert settings_of(shared) == before
    assert not (shared.data / "config.toml").read_text().strip()


def test_a_provider_is_asked_one_question(shared: Box) -> None:
    """It contains nothing of the memory, and it is counted."""
    assert shared.client.post("/api/settings/test", {})["provider"] == "offline"
    with Endpoint(["Yes.", error(401), "Yes."]) as endpoint:
        try:
            patch(shared, {"provider": "anthropic", "base_url": endpoint.url, "api_key": KEY, "model": "m-1"})
            good = shared.client.post("/api/settings/test", {})
            assert (good["ok"], good["provider"], good["model"]) == (True, "anthropic", "m-1")
            bad = shared.client.post("/api/settings/test", {})
            assert not bad["ok"] and "rejected the API key" in bad["says"]
            assert "answered" in shared.cli("config", "test").stdout
            sent = json.dumps([request.body for request in endpoint.requests])
            assert "discount" not in sent and "shop" not in sent
            total = shared.client.get("/api/stats")["models"]["total"]
            assert total["calls"] == 2
        finally:
            patch(shared, dict.fromkeys(("provider", "base_url", "api_key", "model")))


def listen(box: Box, last: str, route: str = "/stream") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Id, name and data of each event."""
    connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=120)
    headers = {"Authorization": f"Bearer {box.token}"} | ({"Last-Event-ID": last} if last else {})
    connection.request("GET", route, headers=headers)
    answer, found = connection.getresponse(), dict[str, str]()
    try:
        while line := answer.readline().decode():
            if line.strip():
                name, _, value = line.strip().partition(": ")
                found[name] = value
            elif "event" in found:
                yield found["id"], found["event"], json.loads(found["data"])
                found.clear()
            elif "retry" in found:
                yield "", "connected", {}
                found.clear()
    finally:
        connection.close()


def test_the_stream_goes_on_after_a_restart(running: Box) -> None:
    """New rows are told once, by the store if the worker that stored them is gone; then a reader is asked to look."""
    heard: list[tuple[str, str, dict[str, Any]]] = []
    connected = threading.Event()

    def read() -> None:
        for one in listen(running, ""):
            connected.set()
            heard.append(one)
            if one[1] == "new_summary":
                return

    thread = threading.Thread(target=read)
    thread.start()
    assert connected.wait(120)
    running.hook("UserPromptSubmit", {"session_id": "x", "prompt": "Why is the discount taken twice?"})
    running.hook("Stop", {"session_id": "x", "last_assistant_message": "It was applied in the cart and the checkout."})
    thread.join(120)
    names = [name for _, name, _ in heard]
    assert {"session_started", "new_prompt", "processing_status", "new_summary"} <= set(names)
    working = [data["is_processing"] for _, name, data in heard if name == "processing_status"]
    assert working == [True, False]
    prompt = next(data for _, name, data in heard if name == "new_prompt")
    entry = next(row for row in running.client.get("/api/feed", kind="prompt")["items"] if row["id"] == prompt["id"])
    assert {name: prompt[name] for name in entry} == entry
    last = heard[-1][0]
    first = running.client.post("/api/memories", {"text": "Told before the restart.", "project": "shop"})
    running.kill(running.processes[0])
    running.start()
    second = running.client.post("/api/memories", {"text": "Told after it.", "project": "shop"})
    rows: list[int] = []
    for _, name, data in listen(running, last):
        if name == "new_observation" and data["session_id"] == first["session_id"]:
            rows.append(data["id"])
        if name == "resumed":
            break
    assert rows == [first["id"], second["id"]]
    # Corrections are told, too.
    stream = listen(running, "")
    assert next(stream)[1] == "connected"
    running.cli("pin", str(first["id"]))
    running.cli("hide", str(second["id"]))
    running.cli("forget", str(second["id"]), "--yes")
    changed = []
    for _, name, data in stream:
        if name in ("changed", "gone"):
            changed.append((name, data.get("id") or data["observations"]))
        if name == "gone":
            break
    assert changed == [("changed", first["id"]), ("changed", second["id"]), ("gone", [second["id"]])]


def test_a_group_is_told_of_only_to_who_asks_for_it(running: Box) -> None:
    until(running.health, "the worker")
    plain, whole = listen(running, ""), listen(running, "", "/stream?groups=true")
    assert next(plain)[1] == next(whole)[1] == "connected"
    running.client.post("/api/memories", {"text": "The zebra eats grass.", "project": "group:family"})
    running.client.post("/api/memories", {"text": "Prices are in cents.", "project": "shop"})
    for stream, wanted in (
        (plain, ["Prices are in cents."]),
        (whole, ["The zebra eats grass.", "Prices are in cents."]),
    ):
        told = []
        for _, name, data in stream:
            if name == "new_observation":
                told.append(data["narrative"])
                if data["project"] == "shop":
                    break
        assert told == wanted
    assert "zebra" not in json.dumps(running.client.get("/api/feed"))
    assert "zebra" in json.dumps(running.client.get("/api/feed", group="family"))
