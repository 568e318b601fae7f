"""The real client and our tools: installed or as a plugin, the server is connected and a model's calls are answered."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from box import Box
from claude import Claude, binary
from endpoint import Endpoint, Kind, Request, Step, tool_use
from test_plugin import install as install_plugin

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")


def settings(box: Box) -> dict[str, str]:
    return {name: value for name, value in box.env.items() if name.startswith("BACKSTORY_")}


def servers(client: Claude) -> str:
    """`claude mcp list`, which starts every server."""
    run = subprocess.run(
        [str(binary()), "mcp", "list"],
        env=client.environment(),
        cwd=client.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return run.stdout + run.stderr


def results(request: Request) -> list[tuple[str, bool]]:
    """What tools answered, as the model is told."""
    found = []
    for message in request.body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block.get("type") == "tool_result":
                content = block["content"]
                text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
                found.append((text, bool(block.get("is_error"))))
    return found


def once_offered(steps: Iterable[Step]) -> Callable[[Request], Step]:
    """A script that begins when the tools are there: the client does not wait for a server that is slow to start."""
    rest = iter(steps)

    def next_step(request: Request) -> Step:
        there = any("backstory" in tool["name"] for tool in request.body["tools"])
        return next(rest) if there else tool_use("Bash", {"command": "sleep 0.3"})

    return next_step


CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("remember", {"text": "The port is 9090."}, "Remembered for shop: #3 "),
    ("search", {"query": "port"}, "#3 "),
    ("timeline", {"id": 1}, "> #1 "),
    ("get_observations", {"ids": [1]}, "The port is 8080."),
    ("supersede", {"old": 1, "new": 3}, "[replaced by #3]"),
    ("pin", {"ids": [3]}, "Pinned: #3 "),
    ("session_context", {}, "## Pinned"),
    ("find_sessions", {"query": "port"}, "S"),
    ("get_session", {"id": 1}, "S1 "),
    ("get_turns", {"id": 1, "page": -1}, "S1, page 1 of 1"),
    ("hide", {"ids": ["3"]}, "idden: #3"),
    ("forget", {"ids": [2]}, "Forgotten: #2."),
    ("get_observations", {"ids": [2]}, "There is no observation 2."),
]


@pytest.mark.parametrize("how", ["install", "project", "plugin"])
def test_a_model_calls_every_tool_through_the_real_client(box: Box, how: str) -> None:
    """Each tool and a mistake, each result in the model's next request, in the project where the client runs. In
    settings and plugin at once, they are offered once."""
    prefix = "mcp__plugin_backstory_backstory__" if how == "plugin" else "mcp__backstory__"
    script: list[Step] = [*(tool_use(prefix + name, given) for name, given, _ in CALLS), "Done."]
    with Endpoint(once_offered(script)) as endpoint:
        client = Claude(box.home, box.project, endpoint, env=settings(box))
        if how == "plugin":
            install_plugin(client)
            box.cli("repair", check=False)
        else:
            box.cli("install", *(("--scope", "project") if how == "project" else ()))
        box.cli("remember", "The port is 8080.")
        box.cli("remember", "Something else.")
        if how != "project":  # a project's servers wait for somebody to approve them
            assert "Connected" in servers(client)
        client.run("Which port is it?", *(("--mcp-config", ".mcp.json") if how == "project" else ()))
        last = endpoint.of(Kind.MAIN)[-1]
    answers = results(last)[-len(CALLS) :]
    for (name, _, wanted), (text, failed) in zip(CALLS, answers, strict=True):
        assert wanted in text, (name, text)
        assert failed == ("There is no" in wanted)
    box.settle()
    # What memory answered is no new memory: it would outlive what is forgotten.
    kept = box.rows("SELECT status, payload FROM events WHERE kind LIKE 'tool%' AND tool_name <> 'Bash'")
    assert len(kept) == len(CALLS) and all(row == {"status": "tombstone", "payload": None} for row in kept)
    if how == "plugin":
        box.cli("install")
        offered_once(box)


def offered_once(box: Box) -> None:
    """The plugin's entry is the installer's, so the client starts one of them; the tools cost their tokens once."""
    with Endpoint(once_offered(["Hello."])) as endpoint:
        Claude(box.home, box.project, endpoint, env=settings(box)).run("Hello?")
        offered = [tool["name"] for tool in endpoint.of(Kind.MAIN)[-1].body["tools"]]
    assert len([name for name in offered if "backstory" in name]) == len({name for name, _, _ in CALLS})


READS: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": "port"}),
    ("timeline", {"id": 1}),
    ("get_observations", {"ids": [1]}),
    ("get_session", {"id": 1}),
    ("get_turns", {"id": 1}),
    ("find_sessions", {}),
    ("session_context", {}),
]


@pytest.mark.parametrize("how", ["install", "plugin"])
def test_reading_needs_no_permission_and_writing_does(box: Box, how: str) -> None:
    """In the client's own mode, unattended: what needs a permission is refused. A rule of the user's goes before."""
    prefix = "mcp__plugin_backstory_backstory__" if how == "plugin" else "mcp__backstory__"
    calls = [*READS, ("pin", {"ids": [1]}), ("remember", {"text": "no"}), ("forget", {"ids": [1]})]
    script: list[Step] = [*(tool_use(prefix + name, given) for name, given in calls), "Done."]
    with Endpoint(once_offered(script)) as endpoint:
        client = Claude(box.home, box.project, endpoint, env=settings(box), permissions="--permission-mode=default")
        if how == "plugin":
            install_plugin(client)
        else:
            box.cli("install")
        box.cli("remember", "The port is 8080.")
        file = box.home / ".claude" / "settings.json"
        chosen = json.loads(file.read_text())
        chosen.setdefault("permissions", {})["deny"] = [f"{prefix}find_sessions"]
        file.write_text(json.dumps(chosen))
        client.run("Which port is it?", "--allowedTools=Bash(sleep 0.3)")
        last = endpoint.of(Kind.MAIN)[-1]
    answers = [failed for _, failed in results(last)[-len(calls) :]]
    refused = [name for (name, _), failed in zip(calls, answers, strict=True) if failed]
    assert refused == ["find_sessions", "pin", "remember", "forget"], results(last)[-len(calls) :]
    assert len(box.rows("SELECT 1 FROM observations")) == 1
