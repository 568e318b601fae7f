"""Sessions that end without a closing reply: the next one is told. The real client, in a terminal."""

from __future__ import annotations

import json
import signal
import subprocess
from datetime import UTC, datetime

import pytest
from box import Box, until
from claude import Claude, binary
from endpoint import Endpoint, Kind, Step, error, text, tool_use
from terminal import ESCAPE, PATIENCE, Terminal, terminal
from transcripts import Script

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")

REQUEST = "Make the sum right, then run the soak."
UNASKED = "--dangerously-skip-permissions"
SOAK = {"command": "sh soak.sh", "description": "Soak"}
INTERRUPTED = "[Request interrupted by user"
AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")


@pytest.fixture
def shop(box: Box) -> Box:
    """A repository with a commit, a command that takes long, and backstory installed."""
    (box.project / "money.py").write_text("def total(prices):\n    return sum(prices) + 1\n")
    (box.project / "soak.sh").write_text("echo $$ >../soaking\nexec sleep 600\n")
    for words in (["init", "-q"], ["add", "-A"], [*AUTHOR, "commit", "-qm", "Begin"]):
        subprocess.run(["git", *words], cwd=box.project, check=True)
    box.cli("install", "--agent", "claude-code")
    return box


def client(shop: Box, endpoint: Endpoint) -> Claude:
    env = {name: value for name, value in shop.env.items() if name.startswith("BACKSTORY_")}
    return Claude(shop.home, shop.project, endpoint, env=env | {"CLAUDE_CODE_MAX_RETRIES": "0"})


def work(shop: Box) -> list[Step]:
    """An edit, then a command that does not end."""
    money = str(shop.project / "money.py")
    return [
        [text("I'll look at it."), tool_use("Read", {"file_path": money})],
        tool_use("Edit", {"file_path": money, "old_string": " + 1", "new_string": ""}),
        [text("The sum is right. Now the soak."), tool_use("Bash", SOAK)],
    ]


def interrupt(shop: Box, shown: Terminal) -> None:
    """Ask, and press Escape while the command runs."""
    shown.type(REQUEST)
    until((shop.root / "soaking").exists, "the command to run", PATIENCE)
    shown.press_until(ESCAPE, lambda: INTERRUPTED in transcripts(shop))


def transcripts(shop: Box) -> str:
    return "".join(path.read_text() for path in (shop.home / ".claude" / "projects").glob("*/*.jsonl"))


def assert_told(sent: str) -> None:
    """What was asked, what was under way, that it was interrupted, and what is uncommitted."""
    assert sent.count("</backstory-context>") == 1, sent
    context = sent.partition("<backstory-context>")[2].partition("</backstory-context>")[0]
    assert f"Asked: {REQUEST}" in context
    assert "Interrupted by the user while running `sh soak.sh`, after editing money.py." in context
    assert "Not committed: money.py" in context
    assert "Done:" not in context


def test_interrupted_and_cleared(shop: Box) -> None:
    with Endpoint([*work(shop), "Hello."]) as endpoint:
        with terminal(client(shop, endpoint), UNASKED) as shown:
            interrupt(shop, shown)
            shown.type("/clear")
            until(lambda: transcripts(shop).count("<command-name>/clear"), "the new session", PATIENCE)
            shown.type("What did we do?")
            until(lambda: len(endpoint.of(Kind.MAIN)) > 3, "the first request", PATIENCE)
        assert_told(json.dumps(endpoint.of(Kind.MAIN)[-1].body, ensure_ascii=False))


def test_interrupted_and_left(shop: Box) -> None:
    with Endpoint(work(shop)) as endpoint, terminal(client(shop, endpoint), UNASKED) as shown:
        interrupt(shop, shown)
        shown.type("/exit")
        assert shown.process.wait(PATIENCE) == 0
    with Endpoint(["Hello again."]) as endpoint:
        client(shop, endpoint).run("What did we do?", timeout=PATIENCE)
        (first, *_) = endpoint.of(Kind.MAIN)
    assert_told(json.dumps(first.body, ensure_ascii=False))


def test_a_command_that_the_user_does_not_permit_is_told(shop: Box) -> None:
    """The command is not run, and the next session knows that the user did not want it."""
    steps: list[Step] = [[text("I'll run it."), tool_use("Bash", SOAK)]]
    with Endpoint(steps) as endpoint, terminal(client(shop, endpoint), "--permission-mode=default") as shown:
        shown.type(REQUEST)
        shown.wait("Do you want to proceed?")
        shown.press_until(ESCAPE, lambda: INTERRUPTED in transcripts(shop))
        shown.type("/exit")
        assert shown.process.wait(PATIENCE) == 0
    shop.settle()
    assert "The user rejected running `sh soak.sh`" in shop.told()
    assert not (shop.root / "soaking").exists()


def test_an_error_of_the_api(shop: Box) -> None:
    with Endpoint([*work(shop)[:2], error(401)]) as endpoint:
        client(shop, endpoint).run(REQUEST, timeout=PATIENCE, check=False)
    shop.settle()
    context = shop.told()
    assert "Ended with an API error (authentication_failed), after editing money.py." in context
    assert "Not committed: money.py" in context


def test_killed(shop: Box) -> None:
    """Nothing tells of the end, so the next session is told how far it came."""
    shop.start()  # one that the client started would be killed with it
    with Endpoint(work(shop)) as endpoint, client(shop, endpoint).start(REQUEST):
        until((shop.root / "soaking").exists, "the command to run", PATIENCE)
    until(lambda: shop.rows("SELECT 1 FROM session_summaries"), "the round so far")
    context = shop.told()
    assert f"Asked: {REQUEST}" in context
    assert "No closing reply so far, after editing money.py." in context
    assert "Not committed: money.py" in context


def test_hung_up(shop: Box) -> None:
    """The terminal is closed while a command runs: the session ends, and its last round is told as it was."""
    with Endpoint(work(shop)) as endpoint, terminal(client(shop, endpoint), UNASKED) as shown:
        shown.type(REQUEST)
        until((shop.root / "soaking").exists, "the command to run", PATIENCE)
        shown.process.send_signal(signal.SIGHUP)
        shown.process.wait(PATIENCE)
    until(lambda: shop.rows("SELECT 1 FROM events WHERE kind = 'stop'"), "the transcript to be read")
    shop.settle()
    assert "Ended without a closing reply while running `sh soak.sh`, after editing money.py." in shop.told()


def test_a_session_that_follows_at_once_is_told(shop: Box) -> None:
    """The transcript of the last one is read and observed before the new one gets its context."""
    script = Script(cwd=str(shop.project), now=datetime.now(UTC))
    script.prompt(REQUEST)
    script.uses("Bash", SOAK, "t1", message="m1")
    script.user([{"type": "text", "text": f"{INTERRUPTED}]"}], interruptedMessageId="m1")
    path = script.write(shop.home / ".claude" / "projects" / "shop")
    shop.start()
    about = {"session_id": script.session, "transcript_path": str(path), "cwd": str(shop.project)}
    shop.client.post("/hooks/claude-code/UserPromptSubmit", {**about, "prompt": REQUEST, "prompt_id": "p0"})
    shop.client.post("/hooks/claude-code/SessionEnd", {**about, "reason": "clear"})
    start = {**about, "session_id": "next", "transcript_path": "", "source": "clear"}
    answer = shop.client.post("/hooks/claude-code/SessionStart", start)
    context = answer["hookSpecificOutput"]["additionalContext"]
    assert "Interrupted by the user while running `sh soak.sh`." in context
