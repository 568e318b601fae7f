"""The MCP server of the sandbox, run as there: a bare interpreter, one file, and a directory to talk through."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import until

from backstory.groups import mcp_server


class Client:
    """What an agent is to the server."""

    def __init__(self, ipc: Path) -> None:
        command = [sys.executable, "-I", "-S", mcp_server.__file__, str(ipc)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ipc, self.last_id = ipc, 0

    def send(self, message: dict[str, Any] | bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write((message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message

    def request(self, method: str, **parameters: Any) -> None:
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": parameters})

    def ask(self, method: str, **parameters: Any) -> Any:
        self.request(method, **parameters)
        answer = self.receive()
        assert answer["id"] == self.last_id
        return answer.get("result", answer.get("error"))

    def requested(self) -> tuple[Path, dict[str, Any]]:
        """The request that lies before the host."""
        (task,) = until(lambda: list((self.ipc / "tasks").glob("[!.]*.json")), "the request")
        return task, json.loads(task.read_text())


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    for folder in ("tasks", "responses"):
        (tmp_path / folder).mkdir()
    client = Client(tmp_path)
    yield client
    client.process.communicate(timeout=60)
    assert client.process.returncode == 0


def said(result: dict[str, Any]) -> tuple[str, bool]:
    return result["content"][0]["text"], result.get("isError", False)


def test_the_protocol(client: Client) -> None:
    """A client gets its own version if tools are alike in it, four tools, and an error for what is unknown."""
    assert client.ask("initialize", protocolVersion="2025-06-18")["protocolVersion"] == "2025-06-18"
    assert client.ask("initialize", protocolVersion="1999-01-01")["protocolVersion"] == mcp_server.VERSIONS[0]
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    client.send(b"")
    assert client.ask("ping") == {}
    tools = {tool["name"]: tool for tool in client.ask("tools/list")["tools"]}
    assert list(tools) == ["clear_session", "list_sessions", "resume_session", "search_sessions"]
    assert tools["resume_session"]["inputSchema"]["required"] == ["session_id"]
    for ends in ("clear_session", "resume_session"):
        assert "BEFORE you call it" in tools[ends]["description"]
    assert client.ask("no/such")["code"] == mcp_server.METHOD_NOT_FOUND
    assert client.ask("tools/call", name="no_such")["code"] == mcp_server.INVALID_PARAMS
    client.send(b"{not json")
    assert client.receive()["error"]["code"] == mcp_server.PARSE_ERROR
    assert said(client.ask("tools/call", name="resume_session")) == (
        "resume_session takes session_id, save_current_as.",
        True,
    )
    assert said(client.ask("tools/call", name="clear_session", arguments={"group": "b"})) == (
        "clear_session takes name.",
        True,
    )
    assert list((client.ipc / "tasks").iterdir()) == []


def test_the_list_is_the_snapshot(client: Client) -> None:
    assert said(client.ask("tools/call", name="list_sessions")) == ("The list of sessions cannot be read.", True)
    snapshot = client.ipc / "session_history.json"
    snapshot.write_text("[]")
    assert said(client.ask("tools/call", name="list_sessions")) == ("No conversation is archived yet.", False)
    entries = [{"id": number, "name": "Täx", "session_id": "uuid"} for number in range(101, 0, -1)]
    snapshot.write_text(json.dumps(entries[:2]))
    listed = '{"id": 101, "name": "Täx"}\n{"id": 100, "name": "Täx"}'
    assert said(client.ask("tools/call", name="list_sessions")) == (listed, False)
    snapshot.write_text(json.dumps(entries))
    *_, before, last = said(client.ask("tools/call", name="list_sessions"))[0].splitlines()
    assert (before, last) == ('{"id": 2, "name": "Täx"}', "1 older ones are not listed; search_sessions finds them.")


def test_a_request_is_a_file_and_so_is_its_answer(client: Client) -> None:
    """The answer is removed once it is read, and an error of the host is one of the tool."""
    for answer, expected in (
        ({"text": "Done."}, ("Done.", False)),
        ({"error": "There is no such session."}, ("There is no such session.", True)),
    ):
        client.request("tools/call", name="resume_session", arguments={"session_id": 3})
        task, request = client.requested()
        assert request == {"type": "resume_session", "session_id": 3}
        task.unlink()
        temporary = client.ipc / "responses" / ".tmp"
        temporary.write_text(json.dumps(answer))
        temporary.rename(client.ipc / "responses" / task.name)
        assert said(client.receive()["result"]) == expected
    assert list(client.ipc.rglob("*.json")) == []


def test_a_host_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that was not taken is withdrawn, so that it is not carried out later."""
    monkeypatch.setattr(mcp_server, "ANSWER_S", 0.1)
    (tmp_path / "tasks").mkdir()
    with pytest.raises(mcp_server.Failed, match="Nothing was changed"):
        mcp_server.ask(tmp_path, {"type": "clear_session"})
    assert list((tmp_path / "tasks").iterdir()) == []
    result = mcp_server.METHODS["tools/call"]({"name": "clear_session"}, tmp_path / "away")
    assert said(result) == ("The directory of requests cannot be used: No such file or directory.", True)
