"""A long day: twenty thousand events, and the worker is no larger than it was."""

from __future__ import annotations

import http.client
import json
import re
from pathlib import Path

import pytest
from box import Box


def rss_kb(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


def send(box: Box, first: int, last: int) -> None:
    """Tool uses of twenty sessions by turns, a round's end after every fifty."""
    connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=120)
    headers = {"Authorization": f"Bearer {box.token}", "Content-Type": "application/json"}
    for number in range(first, last):
        session = f"session-{number % 20}-{number // 2000}"
        body = {"claudeSessionId": session, "tool_name": "Bash", "tool_use_id": f"use-{number}", "project": "shop"}
        body |= {"tool_input": {"command": f"make target-{number}"}, "tool_response": f"line {number}\n" * 100}  # type: ignore[dict-item]
        route = "/api/sessions/observations"
        if number % 50 >= 49:
            body, route = (
                {"claudeSessionId": session, "last_assistant_message": f"Done {number}."},
                "/api/sessions/summarize",
            )
        connection.request("POST", route, json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        assert answer.status == 202, answer.read()
        answer.read()
    connection.close()
    box.settle()


def growth(box: Box, events: int) -> float:
    """How much larger the worker is after all of them than after a quarter."""
    pid = box.processes[0].pid
    send(box, 0, events // 4)
    before = rss_kb(pid)
    send(box, events // 4, events)
    after = rss_kb(pid)
    print(f"RSS after {events // 4} events {before} kB, after {events} {after} kB")
    return after / before - 1


def test_memory_stays_flat(running: Box) -> None:
    """Two thousand events: within a fifth, because a small process is soon larger by that much."""
    assert growth(running, 2000) < 0.2


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_memory_stays_flat_at_full_size(running: Box) -> None:
    """Twenty thousand: within a tenth."""
    assert growth(running, 20_000) < 0.1
