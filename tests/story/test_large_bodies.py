"""A large or hostile body: while it is taken in, everybody else is answered, and no cut shows what it hides."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from box import Box, until

from backstory.capture import bodies
from backstory.capture.processes import IDLE_S, PROCESSES

SECRET = "API_TOKEN=8dS9fk2JdL4sQ9xZ7pW3 "
#: JSON of a value that takes long to clean or to truncate.
HOSTILE: dict[str, Callable[[], str]] = {
    "items": lambda: "[" + ",".join(['"a"'] * 1_000_000) + "]",
    "keys": lambda: "{" + ",".join(f'"k{n}":1' for n in range(300_000)) + "}",
    "tags": lambda: json.dumps("<private>a</private>b " * 150_000),
    "secrets": lambda: "[" + ",".join([json.dumps(SECRET * 40)] * 3_000) + "]",
}
USE = '{"session_id":"large","tool_name":"Bash","tool_use_id":"t1","tool_response":%s}'
#: route -> a body around a hostile value
ROUTES = {
    "/hooks/claude-code/PostToolUse": USE,
    "/api/sessions/observations": USE,
    "/api/memories": '{"text":"The total is rounded once.","project":"shop","unknown":%s}',
    "/api/import/reports": '{"reports":[{"kind":"tool","session_id":"large","event_id":"e1","tool_name":"Bash",'
    '"occurred_at":"2026-11-01T00:00:00.000Z","payload":{"tool_response":%s}}]}',
    "/mcp": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"remember","arguments":{"text":%s}}}',
}
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@contextmanager
def longest_wait(box: Box) -> Iterator[list[float]]:
    """The longest wait for an answer of `/api/health` and of a hook, from now to the end of the block."""
    waits, ended = [0.0], threading.Event()

    def ask() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            start = time.monotonic()
            box.client.get("/api/health")
            small = {"session_id": "small", "tool_name": "Read", "tool_use_id": f"s{number}"}
            box.client.post("/hooks/claude-code/PostToolUse", small)
            waits[0] = max(waits[0], time.monotonic() - start)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield waits
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize(("route", "kind"), [*((each, "items") for each in ROUTES), *((USE, kind) for kind in HOSTILE)])
def test_others_are_answered_while_a_body_is_cleaned(running: Box, route: str, kind: str) -> None:
    """Whatever a body takes, nobody waits for a part of it that counts."""
    route, body = (route, ROUTES[route]) if route in ROUTES else ("/hooks/claude-code/PostToolUse", route)
    raw = (body % HOSTILE[kind]()).encode()
    assert len(raw) < bodies.MAX_BYTES
    with longest_wait(running) as waits:
        start = time.monotonic()
        answer = running.http("POST", route, raw, JSON)
        seconds = time.monotonic() - start
    assert answer.status < 500, answer.body
    assert waits[0] < max(seconds / 3, 0.5), (waits, seconds)


def cleaners(worker: int) -> list[int]:
    """The processes that clean bodies for a worker."""
    found = Path(f"/proc/{worker}/task").glob("*/children")
    numbers = [int(number) for file in found for number in file.read_text().split()]
    return [each for each in numbers if b"capture.processes" in Path(f"/proc/{each}/cmdline").read_bytes()]


def clean_one(box: Box, number: int) -> int:
    """Send a body that is cleaned elsewhere."""
    response = SECRET * 2000
    use = {"session_id": "s", "tool_name": "Bash", "tool_use_id": f"t{number}", "tool_response": response}
    return box.http("POST", "/hooks/claude-code/PostToolUse", json.dumps(use).encode(), JSON).status


def test_a_process_that_cleans_stands_in_nobodys_way(running: Box) -> None:
    """It is stopped. Of two large bodies one waits for it and a second process cleans the other. Health and hooks are
    answered, and the first body is stored when it goes on. If it is killed, another takes its place."""
    worker = running.processes[0].pid
    assert clean_one(running, 0) == 200
    (cleaner,) = cleaners(worker)
    os.kill(cleaner, signal.SIGSTOP)
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda n=n: statuses.append(clean_one(running, n))) for n in (1, 2)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: statuses, "another process to clean one of them")
        assert "queue" in running.client.get("/api/health")
        running.client.post(
            "/hooks/claude-code/PostToolUse", {"session_id": "s", "tool_name": "T", "tool_use_id": "t3"}
        )
        assert statuses == [200]
        assert len(cleaners(worker)) <= PROCESSES
    finally:
        os.kill(cleaner, signal.SIGCONT)
    for thread in threads:
        thread.join(60)
    assert statuses == [200, 200]
    for each in cleaners(worker):
        os.kill(each, signal.SIGKILL)
    assert clean_one(running, 4) == 200
    stored = running.rows("SELECT tool_use_id, payload FROM events ORDER BY tool_use_id")
    assert [row["tool_use_id"] for row in stored] == ["t0", "t1", "t2", "t3", "t4"]
    assert not [row for row in stored if "8dS9fk" in row["payload"]]


def test_no_process_is_left_when_there_is_nothing_to_clean(running: Box) -> None:
    """Neither in a worker that rests, nor after one that was killed."""
    worker = running.processes[0]
    assert clean_one(running, 0) == 200
    assert cleaners(worker.pid)
    until(lambda: not cleaners(worker.pid), "the processes to end", IDLE_S + 60)
    assert clean_one(running, 1) == 200
    left = cleaners(worker.pid)
    running.kill(worker)
    until(lambda: not any(_lives(each) for each in left), "the processes of a killed worker to end")


def _lives(process: int) -> bool:
    try:
        return b"capture.processes" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def test_identifying_fields_survive_among_many() -> None:
    """Only the first fields of a large body are read, and those that say whose it is."""
    fields: dict[str, Any] = {f"field{n}": "x" * 3000 for n in range(bodies.MAX_FIELDS * 2)}
    value = bodies.strip_tags(json.dumps(fields | {"session_id": "s", "tool_name": "Bash"}).encode())
    assert value["session_id"] == "s"
    assert value["tool_name"] == "Bash"
    assert len(value) <= bodies.MAX_FIELDS + 2
    long = {f"field{n}": "x y" * 100_000 for n in range(9)} | {"session_id": "s"}
    value = bodies.strip_tags(json.dumps(long).encode())
    assert value["session_id"] == "s"
    assert len(json.dumps(value)) < bodies.MAX_CHARS + 10_000


@pytest.mark.parametrize("filler", ["words and more words\n", "minified,code;without=blanks,"])
@pytest.mark.parametrize("secret", ["db_password: hUnter2abcQ8x ", '","db_password":"hUnter2abcQ8x","a":"'])
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_cut_does_not_separate_a_secret_from_its_name(filler: str, secret: str, is_nested: bool) -> None:
    """Wherever the cut is: in the name, between both, in the value."""

    def stored(text: str) -> str:
        response = {"stdout": text, "stderr": ""} if is_nested else text
        raw = json.dumps({"session_id": "s", "tool_name": "Bash", "tool_response": response}).encode()
        report, _ = bodies.report(raw, "claude-code", "PostToolUse", "e1", "2026-11-01T00:00:00.000Z")
        assert report
        kept = report.payload["tool_response"]
        return str(kept["stdout"] if is_nested else kept)

    plain = filler * (600_000 // len(filler))
    head, _, tail = stored(plain).partition("\n[…")
    for edge in (len(head), len(plain) - len(tail.partition("…]\n")[2])):
        for offset in range(-44, 6, 3):
            at = edge + offset
            left = stored(plain[:at] + secret + plain[at + len(secret) :])
            assert "hUnter2ab" not in left, offset
            assert "abcQ8x" not in left, offset
