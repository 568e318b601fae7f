"""Numbers in paths, queries and headers: short ASCII digits are taken, anything else is a clear refusal."""

from __future__ import annotations

import http.client
import re
from contextlib import closing
from urllib.parse import quote

import pytest
from box import Box

from backstory import ids

#: Digits of other scripts, signs, bases and separators that `int` or `isdigit` takes, and lengths that break.
ODD_NUMBERS = ["²", "٣", "１", "-1", "+1", " 1", "1 ", "1_0", "0x1", "1e3", "1.0", "", "9" * 19, "9" * 5000, "0" * 5000]


@pytest.mark.parametrize("text", ODD_NUMBERS)
def test_only_short_ascii_digits_are_a_number(text: str) -> None:
    assert ids.number(text) is None


@pytest.mark.parametrize("text", ["0", "7", "007", "9" * 18])
def test_ascii_digits_are_a_number(text: str) -> None:
    assert ids.number(text) == int(text)


def test_an_odd_number_in_a_path_or_query_is_a_4xx_on_every_route(running: Box) -> None:
    document = running.client.get("/openapi.json")
    tried = 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "stream" in path or "export" in path:
                continue
            for parameter in operation.get("parameters", []):
                for odd in ODD_NUMBERS:
                    target = re.sub(r"\{\w+\}", quote(odd) or "1" if parameter["in"] == "path" else "1", path)
                    if parameter["in"] == "query":
                        target += f"?{parameter['name']}={quote(odd)}"
                    body = None if method == "get" else b"{}"
                    answer = running.http(method.upper(), target, body)
                    assert answer.status < 500, (method, path, parameter["name"], odd[:20])
                    tried += 1
    assert tried > 300


def test_a_cursor_that_is_none_of_ours_is_refused_by_every_list(running: Box) -> None:
    """Also by the queue, which took it for the beginning."""
    for route in ("observations", "summaries", "prompts", "sessions", "queue", "feed"):
        for cursor in ("²", "x", "-1", "9" * 19):
            assert running.http("GET", f"/api/{route}?cursor={quote(cursor)}").status == 400, (route, cursor)


def test_an_odd_number_in_a_header_is_no_500(running: Box) -> None:
    """A `Last-Event-ID` that is no number is passed over; a `Content-Length` that is none is refused."""
    for odd in ODD_NUMBERS:
        assert status(running, "GET", "/stream", "Last-Event-ID", odd) == 200, odd[:20]
    for odd in ("²", "-1", "+1", "0x1", "9" * 19, "9" * 5000):
        assert 400 <= status(running, "POST", "/api/observations/batch", "Content-Length", odd) < 500, odd[:20]


def status(box: Box, method: str, route: str, header: str, value: str) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", box.port, timeout=120)) as connection:
        connection.putrequest(method, route)
        connection.putheader("Authorization", f"Bearer {box.token}")
        raw = value.encode("latin-1", "ignore") or value.encode()  # `²` is one byte in a header
        connection.putheader(header, raw)
        connection.endheaders()
        with closing(connection.getresponse()) as answer:
            return answer.status
