"""What a session was told and what it used, with the real hook and the real client."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import closing
from typing import Any

import pytest
from box import Box, until
from claude import Claude, binary
from endpoint import Endpoint, Step, text, tool_use

from backstory.text import tokens

FACT = "Discount rounding in cart.apply_discount must stay half-even, or invoices differ by a cent"


def session(box: Box, name: str) -> dict[str, Any]:
    found: dict[str, Any] = box.client.get(f"/api/sessions/{name}")
    return found


def told(box: Box, name: str, count: int = 1) -> list[dict[str, Any]]:
    """What the API shows that a session was told. It is stored after the hook was answered."""
    until(lambda: len(session(box, name)["told"]) >= count, "it to be stored")
    found: list[dict[str, Any]] = session(box, name)["told"]
    return found


def remember(box: Box, *texts: str) -> list[int]:
    return [int(json.loads(box.cli("remember", each, "--json").stdout)["id"]) for each in texts]


def day(box: Box) -> tuple[int, int]:
    (today,) = box.client.get("/api/stats/days", days=1)["items"]
    return today["contexts"], today["tokens_told_estimate"]


def test_a_session_shows_what_its_agent_was_told(running: Box) -> None:
    """At its start and with a prompt, to the page, command and statistics. Looking counts nothing."""
    fact, *others = remember(running, FACT, "Releases are cut on Tuesdays", "Parser errors name a line")
    at_start = running.told("one")
    running.hook("UserPromptSubmit", {"session_id": "one", "prompt": "Begin"})
    (one,) = told(running, "one")
    assert (one["cause"], one["tokens"], one["gone"]) == ("startup", tokens(at_start), 0)
    assert {each["id"] for each in one["observations"]} == {fact, *others}
    for _ in range(3):
        running.client.get("/api/context/inject", project="shop")
        running.client.get("/api/context", project="shop")
        running.cli("context")
    ask = {"session_id": "two", "prompt": "Why do invoices differ after the rounding in cart.apply_discount changed?"}
    answer = json.loads(running.hook("UserPromptSubmit", ask).stdout)["hookSpecificOutput"]["additionalContext"]
    (two,) = told(running, "two")
    assert (two["cause"], two["tokens"], [each["id"] for each in two["observations"]]) == (
        "prompt",
        tokens(answer),
        [fact],
    )
    assert day(running) == (2, one["tokens"] + two["tokens"])
    printed = " ".join(running.cli("sessions", "show", "two").stdout.split())
    assert f"Told with a prompt, {two['at'][:10]}" in printed
    assert f"about {two['tokens']} tokens, 1 observation" in printed
    running.cli("forget", str(fact), "--yes")
    assert session(running, "two")["told"] == [two | {"observations": [], "gone": 1}]
    printed = " ".join(running.cli("sessions", "show", "two").stdout.split())
    assert "1 observation, 1 of them hidden or forgotten since" in printed
    assert "half-even" not in printed
    line = next(line for line in running.cli("stats", "--days", "1").stdout.splitlines() if line.startswith("20"))
    assert line.split()[-1] == f"{one['tokens'] + two['tokens']:,}"


def test_sessions_from_before_the_installation_saved_nothing(running: Box) -> None:
    """However many are imported, and however much the next one will be told."""
    for number in range(3):
        report = {
            "kind": "prompt",
            "session_id": f"old{number}",
            "event_id": f"transcript-p{number}",
            "occurred_at": "2026-01-01T10:00:00Z",
        }
        stop = report | {
            "kind": "stop",
            "event_id": f"transcript-s{number}",
            "payload": {"last_assistant_message": FACT},
        }
        batch = [report | {"payload": {"prompt": "Why half-even?"}}, stop]
        running.client.post("/api/import/reports", {"reports": batch, "project": "shop"})
    running.settle()
    items = running.client.get("/api/stats/days", days=366)["items"]
    assert sum(row["sessions"] for row in items) == 3
    assert {(row["contexts"], row["tokens_told_estimate"]) for row in items} == {(0, 0)}
    assert running.client.get("/api/stats/queue")["rounds"] == []  # these did not wait for what ended then


def test_what_a_hook_did_not_wait_for_was_not_told(box: Box) -> None:
    """A hook that gave up, one whose event came from the spool, and one whose agent is gone before the answer."""
    worker = box.start()
    remember(box, FACT)
    box.told("known")
    told(box, "known")
    pid = worker.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        late = box.hook("SessionStart", {"session_id": "late", "source": "startup"})
    finally:
        os.kill(pid, signal.SIGCONT)
    assert b"additionalContext" not in late.stdout
    payload = json.dumps({"session_id": "gone", "source": "startup", "cwd": str(box.project)}).encode()
    head = f"POST /hooks/claude-code/SessionStart HTTP/1.1\r\nHost: x\r\nContent-Length: {len(payload)}\r\n\r\n"
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.connect(str(box.data / "worker.sock"))
        connection.sendall(head.encode() + payload)
    for name in ("late", "gone"):
        until(lambda name=name: box.rows(f"SELECT 1 FROM sdk_sessions WHERE content_session_id = '{name}'"), name)  # type: ignore[misc]  # noqa: S608
        box.hook("UserPromptSubmit", {"session_id": name, "prompt": "Begin"})
    box.settle()
    box.told("last")
    told(box, "last")  # what came before it is stored by now, if it was to be
    assert [session(box, name)["told"] for name in ("late", "gone")] == [[], []]
    assert day(box)[0] == 2


def test_what_was_not_told_can_be_told_with_a_prompt(box: Box) -> None:
    """A session counts as having it only if its hook took it."""
    worker = box.start()
    remember(box, FACT, "Releases are cut on Tuesdays", "Parser errors name a line", "Colours are in theme.css")
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        box.hook("SessionStart", {"session_id": "late", "source": "startup"})
    finally:
        os.kill(worker.pid, signal.SIGCONT)
    box.settle()
    ask = "Why do invoices differ after the rounding in cart.apply_discount changed?"
    answer = box.hook("UserPromptSubmit", {"session_id": "late", "prompt": ask}).stdout
    assert b"half-even" in answer


@pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")
def test_a_real_session_used_what_its_client_says(box: Box) -> None:
    """Tokens, model and cost are those of the client's own result, also after it was resumed; a fork has its own."""
    box.cli("install", "--agent", "claude-code")
    box.start()
    (box.project / "money.py").write_text("def total(prices):\n    return sum(prices)\n")
    steps: list[Step] = [
        [text("I'll look."), tool_use("Read", {"file_path": str(box.project / "money.py")})],
        text("It adds up prices."),
        text("Nothing more."),
        text("Another way."),
    ]
    with Endpoint(steps) as endpoint:
        env = {name: value for name, value in box.env.items() if name.startswith("BACKSTORY_")}
        client = Claude(box.home, box.project, endpoint, env=env)
        first = client.run("What does money.py do?", "--output-format", "json")
        second = client.run("And more?", "--output-format", "json", "--resume", first.session_id)
        fork = client.run("In another way?", "--resume", first.session_id, "--fork-session")
    assert second.session_id == first.session_id

    def counted(name: str, output: int) -> dict[str, Any]:
        def whole() -> Any:
            usage = session(box, name)["usage"]
            return usage if usage and usage["output_tokens"] == output else None

        found: dict[str, Any] = until(whole, "the transcript to be read")
        return found

    ((model, total),) = second.result["modelUsage"].items()
    used = counted(first.session_id, total["outputTokens"])
    read = total["inputTokens"] + total["cacheReadInputTokens"] + total["cacheCreationInputTokens"]
    assert ([one["model"] for one in used["models"]], used["input_tokens"]) == ([model], read)
    assert used["cost_micros"] == round(second.result["total_cost_usd"] * 1_000_000)
    printed = " ".join(box.cli("sessions", "show", first.session_id).stdout.split())
    assert f"Tokens: {read:,} read, {used['output_tokens']:,} written; {model}." in printed
    assert "not reported" not in printed
    own = fork.result["usage"]
    forked = counted(fork.session_id, own["output_tokens"])
    assert forked["input_tokens"] == own["input_tokens"] + own["cache_creation_input_tokens"]
    assert forked["cost_source"] == "estimate"
    assert session(box, first.session_id)["told"]
