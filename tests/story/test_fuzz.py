"""Every route, with what its schema allows and a good deal that it does not: no 5xx, no lost event, worker alive."""

from __future__ import annotations

import http.client
import json
import random
import re
from collections import Counter
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from box import Box

pytestmark = pytest.mark.usefixtures("meaning")

ODD: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        2**31,
        2**63,
        2**70,
        1e308,
        "",
        " ",
        "\x00",
        "\ud800",
        "🎉" * 9,
        "日本語",
        "a" * 5000,
        [],
        {},
        [[]],
    ),
    *(
        "../../etc/passwd",
        "%_*\"'",
        "<private>x",
        "SELECT 1; --",
        {"a": {"b": [1, "x"]}},
        [1, "a", None],
        "\n\r\t",
        "-",
    ),
]
#: What ends a stream, removes things or changes what is kept is tried by tests of its own.
LEFT_OUT = re.compile(r"stream|/export|/forget|/drop|/settings")


ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class Fuzz:
    """Requests thrown from one document by one die."""

    def __init__(self, box: Box, seed: int) -> None:
        self.box, self.dice = box, random.Random(seed)
        self.document = box.client.get("/openapi.json")
        self.operations = [
            (method, path, operation)
            for path, methods in self.document["paths"].items()
            for method, operation in methods.items()
            if not LEFT_OUT.search(path) and method != "delete"
        ]
        listed = box.http("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, ACCEPT)
        self.tools = [tool for tool in listed.json["result"]["tools"] if not LEFT_OUT.search(f"/{tool['name']}")]

    def value(self, schema: dict[str, Any], depth: int = 0) -> Any:  # noqa: PLR0911 - a row for each kind of schema
        """Something that may fit the schema, or may not."""
        if self.dice.random() < 0.15 or depth > 5:
            return self.dice.choice(ODD)
        if "$ref" in schema:
            return self.value(self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], depth + 1)
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return self.value(self.dice.choice(options), depth + 1)
        if "enum" in schema:
            return self.dice.choice(schema["enum"])
        kind = schema.get("type")
        if kind == "object" or "properties" in schema:
            chosen = {n: s for n, s in schema.get("properties", {}).items() if self.dice.random() < 0.7}
            for group in schema.get("allOf", []):
                # One of the names of a required field.
                name = self.dice.choice(group["anyOf"])["required"][0]
                chosen = {n: s for n, s in chosen.items() if {"required": [n]} not in group["anyOf"]}
                chosen[name] = schema["properties"][name]
            return {name: self.value(s, depth + 1) for name, s in chosen.items()}
        if kind == "array":
            return [self.value(schema.get("items", {}), depth + 1) for _ in range(self.dice.randrange(4))]
        if kind == "integer":
            return self.dice.choice([schema.get("minimum", 0), 1, 2, 7, schema.get("maximum", 50)])
        if kind == "boolean":
            return self.dice.random() < 0.5
        return self.dice.choice(
            ["s1", "s2", "Read", "shop", "claude-code", "a text of some words", "2026-01-01T00:00:00.000Z"]
        )

    def request(self, number: int) -> tuple[str, str, bytes | None, str]:
        """Each operation once, in their order, then any."""
        first = number < len(self.operations)
        method, path, operation = self.operations[number] if first else self.dice.choice(self.operations)
        target, query = path, {}
        for parameter in operation.get("parameters", []):
            given = self.value(parameter["schema"])
            text = given if isinstance(given, str) else json.dumps(given)
            if parameter["in"] == "path":
                target = target.replace(
                    f"{{{parameter['name']}}}", quote(text.encode("utf-8", "replace"), safe="")[:500] or "1"
                )
            elif self.dice.random() < 0.6:
                query[parameter["name"]] = text.encode("utf-8", "replace")
        if path.startswith("/hooks"):
            event = self.dice.choice(["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd", "New"])
            target = f"/hooks/claude-code/{event}"
        body = None
        if method in ("post", "patch", "put"):
            schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            given = (
                self.value(schema)
                if schema
                else {"session_id": "s1", "cwd": "/x", "prompt": self.value({}), "tool_name": "Read"}
            )
            if path == "/mcp":
                tool = self.dice.choice(self.tools)
                params = {"name": tool["name"], "arguments": self.value(tool["inputSchema"])}
                given = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            body = json.dumps(given).encode()
            if self.dice.random() < 0.05:
                body = body[: self.dice.randrange(len(body) + 1)] + bytes([self.dice.randrange(256)])
        return method.upper(), target + (f"?{urlencode(query)}" if query else ""), body, path


def throw(box: Box, count: int, seed: int) -> None:
    fuzz = Fuzz(box, seed)
    accepted: list[str] = []
    seen: Counter[str] = Counter()
    headers = {"Authorization": f"Bearer {box.token}", **ACCEPT}
    connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=120)
    for number in range(count):
        method, target, body, path = fuzz.request(number)
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        raw = answer.read()
        seen[f"{method} {path}"] += 1
        assert answer.status < 500, (method, target, body, raw[:300])
        if answer.status >= 400:
            # The Model Context Protocol has errors of its own.
            wanted = {"jsonrpc", "id", "error"} if path == "/mcp" else {"error", "hint"}
            assert set(json.loads(raw)) == wanted, (method, target, raw[:300])
        if path == "/mcp":
            assert b"Internal error" not in raw, body
        if answer.status == 202 and b'"queued"' in raw:
            accepted.append(json.loads(raw)["event_id"])
    connection.close()
    assert len(seen) == len(fuzz.operations), "every route was tried"
    assert accepted
    stored = {row["event_id"] for row in box.rows("SELECT event_id FROM events")}
    assert set(accepted) <= stored
    assert box.health()
    box.settle()


def test_no_request_breaks_it(running: Box) -> None:
    """Six hundred requests, the same every time."""
    throw(running, 600, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_no_request_breaks_it_at_full_size(running: Box, seed: int) -> None:
    """Three times two thousand."""
    throw(running, 2000, seed)
