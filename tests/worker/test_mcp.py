"""The Model Context Protocol: every tool by the official client, over HTTP and the bridge, rightly and wrongly."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from box import COMMAND, Box, until
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from backstory import mcp_bridge
from backstory.agents.json_servers import READING_TOOLS
from backstory.text import tokens
from backstory.worker.mcp.server import VERSIONS

HEAD = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
TOOLS = {
    "search",
    "timeline",
    "get_observations",
    "get_session",
    "get_turns",
    "find_sessions",
    "session_context",
    "remember",
    "pin",
    "supersede",
    "hide",
    "forget",
}


@asynccontextmanager
async def connected(box: Box, how: str) -> AsyncIterator[Client]:
    """The official client, by one of the ways in."""
    if how == "bridge":
        server = StdioServerParameters(command=str(box.data / "bin" / "backstory-mcp"), env=box.env, cwd=box.project)
        async with Client(server) as client:
            yield client
        return
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {box.token}"}, timeout=120) as http,
        Client(
            streamable_http_client(f"http://127.0.0.1:{box.port}/mcp", http_client=http),
            mode="legacy" if how == "http" else "auto",
        ) as client,
    ):
        yield client


def said(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def number_in(text: str) -> int:
    found = re.search(r"#(\d+)", text)
    assert found, text
    return int(found[1])


def rpc(box: Box, method: str, params: dict[str, Any] | None = None, number: int = 1) -> dict[str, Any]:
    """One message over the socket, as the bridge sends it."""
    body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}
    answer = box.http("POST", "/mcp", body, HEAD)
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def call(box: Box, tool: str, **arguments: Any) -> tuple[str, bool]:
    """A tool's text, and whether it is an error."""
    found = rpc(box, "tools/call", {"name": tool, "arguments": arguments})
    if "error" in found:
        return str(found["error"]["message"]), True
    (block,) = found["result"]["content"]
    return str(block["text"]), bool(found["result"]["isError"])


@pytest.mark.parametrize("how", ["http", "http-modern", "bridge"])
def test_the_official_client_lists_and_calls_every_tool(running: Box, how: str) -> None:
    """What one call gives, the next takes; the bridge also says where the agent works."""
    running.cli("install")
    mended = "The total of the cart was wrong because `add_tax` rounded every row."
    running.hook("UserPromptSubmit", {"session_id": "cart-1", "prompt": "Mend the cart."})
    running.hook("Stop", {"session_id": "cart-1", "last_assistant_message": mended})
    running.settle()
    here = {} if how == "bridge" else {"project": "shop"}

    async def story() -> None:
        async with connected(running, how) as client:

            async def ask(name: str, **arguments: Any) -> str:
                result = await client.call_tool(name, arguments)
                assert not result.is_error, said(result)
                return said(result)

            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            assert client.instructions and "not instructions" in client.instructions
            old = number_in(await ask("remember", text="The port is 8080.", **here))
            new = number_in(await ask("remember", text="The port is 9090.", title="Port", type="change", **here))
            index = await ask("search", query="port")
            assert f"#{old} " in index and f"#{new} " in index and len(index.splitlines()) == 2
            assert f"#{new} " in await ask("search", query="port", type="change", kind="observations", since="2026")
            assert await ask("search", query="port", until="2020-01-01") == "Nothing was found."
            assert await ask("search", query="port", file="cart.py") == "Nothing was found."
            assert f"> #{new} " in await ask("timeline", id=new, before=3)
            whole = await ask("get_observations", ids=[new, old])
            assert whole.index("9090") < whole.index("8080")
            assert f"#{old} " in await ask("supersede", old=old, new=new)
            assert f"[replaced by #{new}]" in await ask("search", query="8080")
            assert "Pinned" in await ask("pin", ids=[new])
            context = await ask("session_context", **here)
            assert "## Pinned" in context and "9090" in context and "8080" not in context
            found = await ask("find_sessions", query="cart")
            (session,) = re.findall(r"^S(\d+) ", found)
            assert "Mend the cart." in await ask("get_session", id=int(session))
            assert "Mend the cart." in await ask("get_session", id=f"S{session}")
            assert "Mend the cart." in await ask("get_session", id="cart-1")
            made = number_in(await ask("search", query="add_tax", kind="observations"))
            whole = await ask("get_observations", ids=[made])
            assert "\nAsked: Mend the cart.\n" in whole and f"\nAnswered then: {mended}\n" in whole
            assert "Mend the cart" in await ask("find_sessions")
            said_there = await ask("get_turns", id=f"S{session}", segment=1, page=-1)
            assert said_there.startswith(f"S{session}, segment 1 of 1, page 1 of 1\n\n[0] user, ")
            assert said_there.endswith(f"\n{mended}")
            assert f"#{new} " in await ask("hide", ids=[f"#{new}", f"S{session}"])
            assert f"#{new} " not in await ask("search", query="port")
            assert "9090" not in await ask("session_context", **here)
            assert "Shown again" in await ask("hide", ids=[new, f"S{session}"], undo=True)
            assert await ask("forget", ids=[old]) == f"Forgotten: #{old}."
            assert (await client.call_tool("get_observations", {"ids": [old]})).is_error

    asyncio.run(story())
    assert {r["project"] for r in running.rows("SELECT project FROM observations")} == {"shop"}


WRONG: dict[str, tuple[dict[str, Any], ...]] = {
    "search": (
        {},
        {"query": ""},
        {"query": 5},
        {"query": "x", "limit": 0},
        {"query": "x", "kind": "nonsense"},
        {"query": "x", "since": "once"},
    ),
    "timeline": ({}, {"id": "x"}, {"id": 4711}, {"id": 1, "before": -1}, {"id": 2**70}),
    "get_observations": ({}, {"ids": []}, {"ids": "1"}, {"ids": [4711]}, {"ids": [0]}, {"ids": list(range(1, 99))}),
    "get_session": ({}, {"id": "nobody"}, {"id": -1}, {"id": ["x"]}, {"id": 2**80}, {"id": "%"}),
    "get_turns": (
        {},
        {"id": "nobody"},
        {"id": 4711},
        {"id": 1, "page": 0},
        {"id": 1, "page": 2},
        {"id": 1, "page": -2},
        {"id": 1, "page": 2**70},
        {"id": 1, "page": "last"},
        {"id": 1, "segment": 2},
        {"id": 1, "segment": -1},
        {"id": 1, "segment": None},
        {"id": 1, "pages": 1},
    ),
    "find_sessions": ({"query": 1}, {"limit": 1000}, {"when": "today"}),
    "session_context": ({"project": 1}, {}),
    "remember": (
        {},
        {"text": ""},
        {"text": "x", "type": "poem", "project": "p"},
        {"text": "no project"},
        {"text": "<private>all of it</private>", "project": "p"},
    ),
    "pin": ({}, {"ids": [4711]}, {"ids": []}, {"id": 1}, {"ids": [1], "pinned": "maybe"}),
    "supersede": ({}, {"old": 1}, {"old": 1, "new": 1}, {"old": 4711, "new": 1}, {"old": 1, "new": 4711}),
    "hide": ({}, {"ids": []}, {"ids": [4711]}, {"ids": ["S4711"]}, {"ids": ["x"]}, {"ids": [1], "off": True}),
    "forget": ({}, {"ids": []}, {"ids": [4711]}, {"session": 1}),
    "no_such_tool": ({},),
}


def test_every_tool_refuses_what_it_can_not_take_in_one_sentence(running: Box) -> None:
    """An error of the tool's, for the agent to read; never the protocol's, never a stack trace, and nothing changes."""
    call(running, "remember", text="The port is 8080.", project="shop")
    before = running.dump()
    assert set(WRONG) >= TOOLS
    for tool, cases in WRONG.items():
        for arguments in cases:
            text, failed = call(running, tool, **arguments)
            assert failed, (tool, arguments, text)
            assert text.endswith(".") and "\n" not in text and len(text) < 300, (tool, text)
            assert "mistake" not in text, (tool, arguments)
    text = call(running, "find_sessions", when="today")[0]
    assert text == "find_sessions has no argument `when`. It takes: query, project, all_projects, limit."
    assert running.dump() == before


def test_an_id_is_taken_in_every_form_in_which_it_is_written(running: Box) -> None:
    """As a number, as a text, and as it is printed: by tools and by commands. A list may mix them and repeat one."""
    for number in range(4):
        call(running, "remember", text=f"Port {number} is open.", project="shop")
    for mixed in ([1], ["1"], ["#1"], [1, "#1", "1", " #1 "]):
        text, failed = call(running, "get_observations", ids=mixed)
        assert not failed and text.startswith("#1 ") and text.count("(session S1)") == 1, mixed
    whole, failed = call(running, "get_observations", ids=["#2", 3, "4", "9"])
    assert not failed and [f"#{number} " in whole for number in (2, 3, 4)] == [True] * 3
    assert whole.endswith("There is no observation 9.")
    for form in (2, "2", "#2"):
        assert "> #2 " in call(running, "timeline", id=form)[0]
        for tool, more in (("pin", {"pinned": True}), ("hide", {}), ("hide", {"undo": True})):
            text, failed = call(running, tool, ids=[form], **more)
            assert not failed and "#2 " in text, (tool, form)
        text, failed = call(running, "supersede", old=form, new={2: 3, "2": "3", "#2": "#3"}[form])
        assert not failed and "[replaced by #3]" in text
        assert call(running, "supersede", old=form, new=None)[0].startswith("No longer superseded: #2 ")
    assert call(running, "forget", ids=["#4"])[0] == "Forgotten: #4."
    for tool, name in (("get_observations", "ids"), ("pin", "ids"), ("forget", "ids"), ("timeline", "id")):
        for wrong in ("#", "0", "#0", "-1", "1.0", "x" * 999, "1" * 30, "", "１", "S1"):
            text, failed = call(running, tool, **{name: [wrong] if name == "ids" else wrong})
            assert failed and text.endswith(".") and len(text) < 200, (tool, wrong, text)
            assert wrong != "S1" or "S1 is a session" in text
    for form in ("3", "#3"):
        assert "Port 2" in running.cli("show", form).stdout
        for words in (("timeline",), ("pin",), ("hide",), ("hide", "--undo"), ("edit", "--type", "change")):
            assert "#3" in running.cli(*words, form).stdout, words
        assert "Replaced by #2" in running.cli("supersede", form, form.replace("3", "2")).stdout
        running.cli("supersede", form, "--off")
        assert "Would be forgotten" in running.cli("forget", form).stdout


def test_an_agent_does_not_find_the_prompt_that_it_answers(running: Box) -> None:
    """Neither by what is asked, nor as a turn, nor as a session. When the round has ended, it is found like others."""
    question = "Which port does the checkout listen on"
    call(running, "remember", text="The checkout listens on port 9090.", project="shop")
    running.hook("UserPromptSubmit", {"session_id": "now", "prompt": question})
    running.settle()
    for kind in ("", "prompts", "turns"):
        assert question not in call(running, "search", query=question, kind=kind)[0], kind
    assert "9090" in call(running, "search", query=question)[0]
    assert question not in call(running, "find_sessions", query=question)[0]
    running.hook("Stop", {"session_id": "now", "last_assistant_message": "It is 9090."})
    running.settle()
    assert question in call(running, "search", query=question, kind="prompts")[0]
    assert question in call(running, "find_sessions", query=question)[0]


def test_sessions_are_looked_for_in_this_project_first(running: Box) -> None:
    running.cli("install")
    other = running.root / "other"
    other.mkdir()
    for session, cwd in (("here", running.project), ("there", other)):
        said_there = {"session_id": session, "cwd": str(cwd), "prompt": f"Mend the walrus {session}"}
        running.hook("UserPromptSubmit", said_there)
        running.hook("Stop", {"session_id": session, "cwd": str(cwd), "last_assistant_message": "Done."})
    running.settle()

    async def story() -> None:
        async with connected(running, "bridge") as client:
            for given in ({"query": "walrus"}, {}):
                found = said(await client.call_tool("find_sessions", given))
                assert "walrus here" in found and "walrus there" not in found
                everywhere = said(await client.call_tool("find_sessions", given | {"all_projects": True}))
                assert "walrus here" in everywhere and "walrus there" in everywhere

    asyncio.run(story())
    assert "walrus there" not in running.cli("sessions", "search", "walrus").stdout
    assert "walrus there" in running.cli("sessions", "search", "walrus", "--all-projects").stdout
    assert "walrus there" in running.cli("sessions", "search", "walrus", "--project", "other").stdout
    assert running.cli("sessions", "search", "walrus", "--project", "x", "--all-projects", check=False).returncode == 1


ODD = ['"', "AND OR NOT", "foo::bar->baz", '%_*"', "' OR 1=1 --", "🎉", "日本語", "x" * 10_000, "\0\ud800", "^(", " "]


def test_any_query_is_safe(running: Box) -> None:
    """Results or none, never an error."""
    call(running, "remember", text="日本語 and foo::bar->baz", project="shop")
    for query in ODD:
        for tool in ("search", "find_sessions"):
            text, failed = call(running, tool, query=query)
            assert not failed, (query, text)
    assert "#1 " in call(running, "search", query="日本語")[0]
    assert "#1 " in call(running, "search", query="foo::bar->baz")[0]


def test_its_guard_is_that_of_every_route(running: Box) -> None:
    """Token, host and origin; nothing but POST."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert running.http("POST", "/mcp", body, token=False).status == 401
    assert running.http("POST", "/mcp", body, {"Host": "evil.example"}).status == 403
    assert running.http("POST", "/mcp", body, {"Origin": "http://evil.example"}).status == 403
    assert running.http("GET", "/mcp").status == 405
    assert running.http("DELETE", "/mcp").status == 405


def test_the_sdk_is_loaded_with_the_first_message_and_nobody_waits_for_it(running: Box) -> None:
    """Not at the start; and the answer to a first `initialize` is the one that the SDK gives later."""
    pid = running.client.get("/api/health")["pid"]

    def loaded() -> bool:
        return "pydantic_core" in Path(f"/proc/{pid}/maps").read_text()

    def initialize(version: str) -> dict[str, Any]:
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        return rpc(running, "initialize", params)

    assert not loaded()
    versions = [*VERSIONS, "1999-01-01", "2026-07-28"]
    early = []
    for version in versions:
        early.append(initialize(version))
    assert rpc(running, "tools/list")["result"]["tools"]
    assert loaded()
    assert [initialize(version) for version in versions] == early


def test_what_the_tools_cost_a_session(running: Box) -> None:
    """Names, words and schemas of all twelve."""
    told = rpc(running, "tools/list")["result"]["tools"]
    assert len(told) == len(TOOLS)
    assert {tool["name"] for tool in told if tool["annotations"]["readOnlyHint"]} == set(READING_TOOLS)
    shown = [{name: tool[name] for name in ("name", "description", "inputSchema")} for tool in told]
    assert tokens(json.dumps(shown)) < 1860


def test_i14_nothing_private_goes_in_or_into_the_log(box: Box) -> None:
    """Stripped like any request's body, and the SDK, which quotes what it was sent, is silent even at `debug`."""
    box.tuning["log_level"] = "debug"
    box.start()
    running = box
    token = "ghp_" + "a1B2" * 9
    text, _ = call(running, "remember", text=f"<private>canary55</private> the token is {token}", project="shop")
    assert "canary55" not in text and token not in text
    call(running, "remember", text="x", title=["canary66"], project="shop")
    running.http("POST", "/mcp", b'{"jsonrpc": canary66', HEAD)
    running.http("POST", "/mcp", b'{"jsonrpc":"2.0","id":1,"method":"canary66"}', HEAD)
    for params in (b"5", b'{"name": "canary66", "arguments": "canary66"}', b'{"canary66": 1}'):
        for method in (b"tools/call", b"notifications/canary66", b"notifications/progress"):
            body = b'{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}' % (method, params)
            running.http("POST", "/mcp", body, HEAD)
            running.http("POST", "/mcp", body.replace(b'"id":1,', b""), HEAD)
    log = (running.data / "worker.log").read_text()
    assert "canary" not in log and token not in log
    assert "canary55" not in json.dumps(running.dump(), default=str)


class Bridge:
    """`backstory-mcp`, as an agent runs it."""

    def __init__(self, box: Box, *words: str | Path) -> None:
        self.process = subprocess.Popen(
            words or [box.data / "bin" / "backstory-mcp"],
            env=box.env,
            cwd=box.project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        box.processes.append(self.process)

    def tell(self, line: bytes | dict[str, Any]) -> None:
        assert self.process.stdin
        raw = line if isinstance(line, bytes) else json.dumps(line).encode()
        self.process.stdin.write(raw + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def ask(self, number: int, method: str, **params: Any) -> dict[str, Any]:
        self.tell({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        found = self.hear()
        assert found["id"] == number
        return found

    def end(self) -> tuple[bytes, bytes]:
        """Standard input ends; what else was printed."""
        out, err = self.process.communicate(timeout=120)
        assert self.process.returncode == 0
        return out, err


def search(number: int) -> dict[str, Any]:
    params = {"name": "search", "arguments": {"query": "port"}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def test_the_bridge_prints_answers_and_nothing_else(running: Box) -> None:
    """A notification has none; what can't be read is answered as the protocol says; and it ends with its input."""
    running.cli("install")
    bridge = Bridge(running)
    bridge.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert "result" in bridge.ask(7, "ping")
    bridge.tell(b"")
    bridge.tell(b"this is not JSON")
    assert bridge.hear()["error"]["code"] == -32700
    assert bridge.ask(8, "no/such/method")["error"]["code"] == -32601
    bridge.tell(b'{"jsonrpc":"2.0","id":9,"method":"ping","pad":"' + b"x" * (16 << 20) + b'"}')
    assert "16 MiB" in bridge.hear()["error"]["message"]
    assert bridge.end() == (b"", b"")


def test_the_bridge_answers_what_was_asked_before_its_input_ended(running: Box) -> None:
    """Many at once, in whatever order, the last without a line end."""
    running.cli("install")
    lines = b"\n".join(json.dumps(search(number)).encode() for number in range(20))
    done = subprocess.run([running.data / "bin" / "backstory-mcp"], input=lines, env=running.env, capture_output=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(20))
    assert {len(answer["result"]["content"]) for answer in answers} == {1}
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_bridge_leaves_when_nobody_listens(running: Box) -> None:
    """An answer that is long in coming does not keep it."""
    running.cli("install")
    bridge, pid = Bridge(running), int((running.data / "worker.lock").read_text())
    assert bridge.process.stdin
    assert bridge.process.stdout
    os.kill(pid, signal.SIGSTOP)
    try:
        bridge.tell(search(1))
        bridge.process.stdout.close()
        bridge.process.stdin.close()
        assert bridge.process.wait(mcp_bridge.LEAVE_S / 2) == 0
    finally:
        os.kill(pid, signal.SIGCONT)


def test_the_bridge_starts_the_worker_and_outlives_it(box: Box) -> None:
    """Away, stopped, killed in the middle of an answer: the next message is answered, and nothing is left behind."""
    box.cli("install")
    bridge = Bridge(box)
    assert "result" in bridge.ask(1, "tools/list")
    box.cli("stop")
    assert "result" in bridge.ask(2, "tools/call", name="search", arguments={"query": "port"})
    pid = int((box.data / "worker.lock").read_text())
    os.kill(pid, signal.SIGSTOP)
    bridge.tell(search(3))
    time.sleep(0.1)  # until it is on its way to a worker that will never read it
    os.kill(pid, signal.SIGKILL)
    assert "ask again" in bridge.hear()["error"]["message"]
    assert "result" in bridge.ask(4, "ping")
    children = Path(f"/proc/{bridge.process.pid}/task/{bridge.process.pid}/children").read_text().split()
    states = [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] for child in children]
    assert "Z" not in states
    assert bridge.end() == (b"", b"")
    assert until(box.health), "the worker it started stays"


def test_the_bridge_says_that_no_worker_can_be_had(box: Box) -> None:
    """One sentence, once it has waited; it does not hang its agent when it leaves."""
    box.cli("install")
    (box.data / "bin" / "backstory-worker").write_text("#!/bin/sh\nexit 1\n")
    bridge = Bridge(box)
    began = time.monotonic()
    assert "backstory doctor" in bridge.ask(1, "ping")["error"]["message"]
    assert time.monotonic() - began < 9, "it does not wait for one that has ended"
    bridge.tell(search(2))
    began = time.monotonic()
    bridge.process.communicate(timeout=120)
    assert time.monotonic() - began < 8


def test_backstory_mcp_needs_no_installation(box: Box) -> None:
    """The command alone is the same bridge: for agents whose settings we do not write."""
    bridge = Bridge(box, COMMAND, "mcp")
    assert "result" in bridge.ask(1, "tools/list")
    text = bridge.ask(2, "tools/call", name="remember", arguments={"text": "Kept."})
    assert "Remembered for shop" in text["result"]["content"][0]["text"]
    assert bridge.end() == (b"", b"")


def test_the_bridge_says_where_it_is_in_any_letters(running: Box) -> None:
    """The directory's name goes in a header, which is made for fewer."""
    running.cli("install")
    for name in ("geschäft", "店", "a\nb"):
        folder = running.root / name
        folder.mkdir()
        params = {"name": "remember", "arguments": {"text": "x"}}
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        program = running.data / "bin" / "backstory-mcp"
        done = subprocess.run([program], input=line, env=running.env, cwd=folder, capture_output=True)
        text = json.loads(done.stdout)["result"]["content"][0]["text"]
        assert (f"Remembered for {name}" in text) if "\n" not in name else "Name the project" in text
