"""The OpenAPI document is generated from the routes, and true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from box import Box
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from page_routes import COMMANDS

from backstory import __version__
from backstory.cli.examples import EXAMPLES

#: The source of the page.
VIEWER = Path(__file__).parent.parent.parent / "viewer" / "src"


def test_the_document_is_valid_and_names_every_route(running: Box) -> None:
    """It validates as OpenAPI, and has the routes of the product with and without the prefix."""
    document = running.client.get("/openapi.json")
    validate(document)
    assert document["info"]["version"] == __version__
    wanted = {
        "/api/health",
        "/api/context/inject",
        "/sessions/init",
        "/api/sessions/init",
        "/sessions/{id}/init",
        "/api/sessions/observations",
        "/sessions/observations",
        "/api/sessions/summarize",
        "/api/sessions/complete",
        "/api/processing",
        "/stream",
        "/hooks/{agent}/{event}",
        "/api/search",
        "/api/observations",
        "/api/observations/{id}",
        "/api/observations/batch",
        "/api/summaries",
        "/api/prompts",
        "/api/sessions",
        "/api/sessions/{id}",
        "/api/projects",
        "/api/agent-sessions/{content_id}",
        "/api/queue",
        "/api/import/reports",
        "/mcp",
        "/",
    }
    assert wanted <= set(document["paths"])
    summaries = [operation["summary"] for methods in document["paths"].values() for operation in methods.values()]
    assert all(summary.endswith(".") and "\n" not in summary for summary in summaries)


def test_the_page_does_nothing_that_has_no_route_and_no_command(running: Box) -> None:
    """`tests/viewer` holds that the page asks for nothing else. `${path}` of the source can be any part of a path."""
    paths = running.client.get("/openapi.json")["paths"]
    known = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(COMMANDS) <= known
    assert {command for commands in COMMANDS.values() for command in commands} <= set(EXAMPLES)
    sources = "\n".join(file.read_text("utf-8") for file in VIEWER.rglob("*.ts*"))
    for path in re.findall(r"""["`](/api/[^"`?\s]*)""", sources):
        pattern = re.compile(r"\w+ " + "[^/]+".join(map(re.escape, re.split(r"\$\{[^}]*\}", path))))
        assert any(map(pattern.fullmatch, COMMANDS)), path


def test_what_it_says_of_an_answer_is_what_comes(running: Box) -> None:
    """Every GET and every documented body is called, and the answer fits the schema of its status."""
    document = running.client.get("/openapi.json")
    running.client.post("/api/sessions/init", {"sessionId": "x", "project": "p", "userPrompt": "hello"})
    bodies: dict[str, dict[str, Any]] = {
        "init": {"sessionId": "x", "userPrompt": "again", "project": "p"},
        "observations": {"claudeSessionId": "x", "tool_name": "Read", "tool_response": "r"},
        "summarize": {"claudeSessionId": "x", "last_assistant_message": "done"},
        "complete": {"claudeSessionId": "x", "reason": "other"},
        "processing": {"isProcessing": True},
        "batch": {"ids": [1]},
        "open": {},
        "retry": {},
        "drop": {},
    }
    tried = 0
    for path, methods in document["paths"].items():
        if "stream" in path or path.startswith(("/hooks", "/mcp")):
            continue
        for method, operation in methods.items():
            concrete = re.sub(r"\{\w+\}", "1", path)
            body = bodies.get(path.rpartition("/")[2]) if method == "post" else None
            answer = running.http(method.upper(), concrete, body)
            described = operation["responses"].get(str(answer.status))
            assert described, (method, path, answer.status)
            content = described.get("content", {}).get("application/json")
            if content and "schema" in content:
                schema = {**content["schema"], "components": document["components"]}
                Draft202012Validator(schema).validate(answer.json)
            tried += 1
    assert tried > 25


def test_a_body_with_any_of_its_names_fits_the_schema_and_the_route(running: Box) -> None:
    """All the names of the session id are one field."""
    document = running.client.get("/openapi.json")
    schema = {**document["components"]["schemas"]["ToolUse"], "components": document["components"]}
    names = (
        "claudeSessionId",
        "contentSessionId",
        "sessionId",
        "claude_session_id",
        "content_session_id",
        "session_id",
    )
    for name in names:
        body = {name: "same", "tool_name": "Read", "tool_response": "r"}
        Draft202012Validator(schema).validate(body)
        assert running.http("POST", "/api/sessions/observations", body).status == 202
    assert len(running.rows("SELECT 1 FROM sdk_sessions")) == 1
    assert not Draft202012Validator(schema).is_valid({"tool_name": "Read"})
