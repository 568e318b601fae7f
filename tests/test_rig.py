"""The rig itself: the real client works against the scripted endpoint, unattended, and leaves nothing running."""

import json
import os
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from http.client import IncompleteRead, RemoteDisconnected
from pathlib import Path
from typing import Any

import pytest
from claude import Claude, binary, kill
from endpoint import Endpoint, Fault, Kind, Request, Step, error, half, hang, html, text, tool_use

needs_claude = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")

CLIENT = {"User-Agent": "claude-cli/2.1 (external, sdk-cli)"}
TOOL = {"name": "Read", "input_schema": {"type": "object"}}
TEST = {"command": "python -m unittest -q test_money", "description": "Run the tests"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a function and a test that fails."""
    project = tmp_path / "home" / "shop"
    project.mkdir(parents=True)
    (project / "money.py").write_text("def total(prices):\n    return sum(prices) + 1\n")
    (project / "test_money.py").write_text(
        "import unittest\nfrom money import total\n\n\nclass Total(unittest.TestCase):\n"
        "    def test_nothing_costs_nothing(self):\n        self.assertEqual(total([]), 0)\n"
    )
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    return project


def ask(endpoint: Endpoint, body: Mapping[str, Any], headers: Mapping[str, str] = CLIENT, path: str = "") -> Any:
    """One request as a client without streaming would make it."""
    data = json.dumps({"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}], **body})
    request = urllib.request.Request(f"{endpoint.url}/v1/messages{path}", data.encode(), dict(headers))  # noqa: S310
    with urllib.request.urlopen(request, timeout=120) as response:  # noqa: S310
        return json.load(response)


def said(answer: Mapping[str, Any]) -> str:
    return str(answer["content"][0]["text"])


@needs_claude
def test_a_scripted_session_works_on_real_files(project: Path) -> None:
    """The client reads, edits and tests as the script says, each step answering one request, and hooks hear of it."""
    money = str(project / "money.py")
    steps: list[Step] = [
        [text("I'll look."), tool_use("Read", {"file_path": money})],
        tool_use("Edit", {"file_path": money, "old_string": "+ 1", "new_string": "+ 2"}),
        tool_use("Bash", TEST),
        tool_use("Edit", {"file_path": money, "old_string": "sum(prices) + 2", "new_string": "sum(prices)"}),
        tool_use("Bash", TEST),
        "The sum is right now.",
    ]
    with Endpoint(steps) as endpoint:
        claude = Claude(project.parent, project, endpoint)
        heard = claude.listen()
        run = claude.run("Make the test pass.")
    assert run.result["result"] == "The sum is right now."
    assert Path(money).read_text() == "def total(prices):\n    return sum(prices)\n"
    assert [r.kind for r in endpoint.requests] == [Kind.MAIN] * len(steps)
    assert heard.events() == [
        "SessionStart.startup",
        "UserPromptSubmit",
        "PostToolUse.Read",
        "PostToolUse.Edit",
        "PostToolUseFailure.Bash",
        "PostToolUse.Edit",
        "PostToolUse.Bash",
        "Stop",
        "SessionEnd.other",
    ]
    assert "AssertionError: 2 != 0" in heard.payloads("PostToolUseFailure")[0]["error"]
    assert claude.transcript(run.session_id).stat().st_size > 0


@needs_claude
def test_a_session_is_compacted_and_told_its_context_again(project: Path) -> None:
    """`/compact` on a resumed session asks for a summary, starts it anew under the same id, and takes no step."""
    with Endpoint(["Hello.", "We had spoken of nothing."]) as endpoint:
        claude = Claude(project.parent, project, endpoint)
        heard = claude.listen(context="The kettle is on.")
        session = claude.run("Hello").session_id
        compacted = claude.run("/compact", f"--resume={session}")
        claude.run("What did we speak of?", f"--resume={session}")
    assert compacted.session_id == session
    assert [r.kind for r in endpoint.requests] == [Kind.MAIN, Kind.COMPACT, Kind.MAIN]
    starts = [payload["source"] for payload in heard.payloads("SessionStart")]
    assert starts == ["startup", "resume", "compact", "resume"]
    assert "made and tested" in heard.payloads("PostCompact")[0]["compact_summary"]
    first, last = endpoint.of(Kind.MAIN)
    assert any("SessionStart hook additional context: The kettle is on." in words for words in first.texts("system"))
    assert any("made and tested" in words for words in last.texts("user"))
    assert any("The kettle is on." in words for words in last.texts("system"))


@needs_claude
def test_a_client_is_killed_with_its_children(project: Path) -> None:
    """Killing the client at work leaves no process, not even a shell command in a group of its own."""
    pipe = project / "pipe"
    os.mkfifo(pipe)
    # A slow machine lets the client ask again.
    with Endpoint(lambda _: tool_use("Bash", {"command": f"cat {pipe}"})) as endpoint:
        claude = Claude(project.parent, project, endpoint)
        with claude.start("Wait.") as process, pipe.open("w"):  # opens when the command has opened the other end
            assert running(f"cat {pipe}")
            kill(process)
            assert not running(f"cat {pipe}")


def running(command: str) -> list[str]:
    listing = subprocess.run(["ps", "-Aww", "-o", "stat=,command="], capture_output=True, text=True, check=True)
    return [line for line in listing.stdout.splitlines() if line.endswith(command) and not line.startswith("Z")]


@needs_claude
def test_a_run_that_outlives_its_time_is_killed(project: Path) -> None:
    """No test waits for a client that waits for ever."""
    with Endpoint([hang()]) as endpoint:
        claude = Claude(project.parent, project, endpoint)
        with pytest.raises(subprocess.TimeoutExpired):
            claude.run(f"Wait in {project}", timeout=0.5)
        assert not running(f"Wait in {project}")


@needs_claude
def test_the_client_recovers_from_a_fault(project: Path) -> None:
    """An error of the endpoint's reaches the client as the API's own would: it waits as told and asks again."""
    with Endpoint([error(429, retry_after=1), "Here I am."]) as endpoint:
        run = Claude(project.parent, project, endpoint).run("Hello")
    first, second = endpoint.requests
    assert run.result["result"] == "Here I am."
    assert second.at - first.at >= 1


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Kind.SIDE, {"max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]}),
        (Kind.SIDE, {"tools": [], "output_config": {"format": {"type": "json_schema"}}}),
        (Kind.SIDE, {}),
        (
            Kind.COMPACT,
            {
                "tools": [TOOL],
                "messages": [
                    {"role": "user", "content": "Your task is to create a detailed summary of the conversation so far"},
                    {"role": "system", "content": "SessionStart hook additional context: noise"},
                ],
            },
        ),
    ],
)
def test_side_calls_take_no_step(kind: Kind, body: Mapping[str, Any]) -> None:
    """Titles, probes and summaries get an answer of their own; the script waits for the conversation."""
    with Endpoint(["The step."]) as endpoint:
        assert said(ask(endpoint, body)) != "The step."
        assert said(ask(endpoint, {"tools": [TOOL]})) == "The step."
    assert [r.kind for r in endpoint.requests] == [kind, Kind.MAIN]


def test_a_locked_down_client_and_our_own_are_conversations() -> None:
    """No tools do not make a side call: an observer offers none, and a plain client never does."""
    with Endpoint(["One.", "Two."]) as endpoint:
        assert said(ask(endpoint, {"tools": [], "output_config": {"effort": "medium"}})) == "One."
        assert said(ask(endpoint, {}, headers={})) == "Two."


def test_a_script_can_be_a_function() -> None:
    """A function sees each request and answers it."""
    with Endpoint(lambda request: f"You said {request.texts('user')[-1]}.") as endpoint:
        assert said(ask(endpoint, {}, headers={})) == "You said Hello."


def test_an_error_in_a_script_fails_the_test() -> None:
    """A function that raises is not taken for a client that went away."""

    def broken(_: Request) -> Step:
        raise LookupError("no such step")

    with pytest.raises(LookupError, match="no such step"), Endpoint(broken) as endpoint, suppress(RemoteDisconnected):
        ask(endpoint, {}, headers={})


@pytest.mark.parametrize(("fault", "status"), [(error(401), 401), (error(500), 500), (html(), 502)])
def test_faults_have_their_status(fault: Fault, status: int) -> None:
    """An error is an error on the wire."""
    with Endpoint([fault]) as endpoint, pytest.raises(urllib.error.HTTPError) as caught:
        ask(endpoint, {}, headers={})
    assert caught.value.code == status
    caught.value.close()


def test_half_an_answer_breaks_off() -> None:
    """The length is promised and not kept."""
    with Endpoint([half()]) as endpoint, pytest.raises(IncompleteRead):
        ask(endpoint, {}, headers={})


def test_closing_ends_what_hangs() -> None:
    """A request without an answer ends with the endpoint, and no thread of its outlives it."""
    before = threading.active_count()
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            ask(endpoint, {}, headers={})
        except (RemoteDisconnected, ConnectionError) as failure:
            failures.append(failure)

    with Endpoint([hang()]) as endpoint:
        asker = threading.Thread(target=wait)
        asker.start()
        endpoint.wait(1)
        assert asker.is_alive()
    asker.join(10)
    assert len(failures) == 1
    assert threading.active_count() == before


def test_a_script_that_runs_out_fails_the_test() -> None:
    """A client that asks more than the test foresaw is noticed."""
    with pytest.raises(AssertionError, match="the script ran out"), Endpoint() as endpoint:
        assert said(ask(endpoint, {}, headers={})) == "Done."


def test_tokens_are_counted_without_a_step() -> None:
    """The counting route answers a number and is no request of the conversation."""
    with Endpoint() as endpoint:
        assert ask(endpoint, {}, path="/count_tokens")["input_tokens"] > 0
    assert endpoint.requests == []
