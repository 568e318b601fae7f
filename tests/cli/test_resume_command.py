"""`backstory resume`: finds the conversation, and knows the command, the directory and what is missing."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from box import Box
from terminal import in_terminal
from transcripts import Script

from backstory.agents.claude_code.resuming import RESUMING
from backstory.paths import Paths
from backstory.sessions import lock

CART = "11111111-2222-3333-4444-555555555555"
PRICES = "66666666-7777-8888-9999-000000000000"


def roots(box: Box) -> Path:
    return box.home / ".claude" / "projects"


def talk(box: Box, session: str, prompt: str, reply: str, cwd: Path) -> Path:
    """A conversation where the client would keep it."""
    said = Script(session, str(cwd))
    said.prompt(prompt)
    said.says(reply)
    return said.write(RESUMING.place(roots(box), str(cwd), session).parent)


def repository(path: Path, remote: str = "") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q"], cwd=path, check=True)
    if remote:
        subprocess.run(["git", "remote", "add", "origin", remote], cwd=path, check=True)
    return path


@pytest.fixture
def talked(running: Box) -> Box:
    """Two conversations in two directories: the cart in the shop, prices in another repository."""
    money = repository(running.root / "my money", "https://example.org/dev/money.git")
    talk(
        running,
        CART,
        "Find out why the cart total is wrong",
        "A code that is typed twice counts twice.",
        running.project,
    )
    talk(running, PRICES, "Show prices in yen without decimals", "`Money.format` asks a table for the decimals.", money)
    running.cli("import", "claude-code", str(roots(running)))
    running.settle()
    return running


def printed(box: Box, *words: str, cwd: Path | None = None) -> list[str]:
    """The words of the command that `--print` prints: cd, the directory, && and the rest."""
    return shlex.split(box.cli("resume", "--print", *words, cwd=cwd or box.project).stdout)


def test_the_command_is_printed_for_a_shell(talked: Box) -> None:
    """In the directory of the session, wherever it is asked for. What was found goes to standard error."""
    money = talked.root / "my money"
    for words in (("typed", "twice"), (CART,), (CART[:8],)):
        assert printed(talked, *words) == ["cd", str(talked.project), "&&", "claude", "--resume", CART]
    assert printed(talked, "typed", "twice", cwd=talked.home)[1] == str(talked.project)
    assert printed(talked, "prices in yen") == ["cd", str(money), "&&", "claude", "--resume", PRICES]
    shown = talked.cli("resume", "--print", "typed twice")
    assert shown.stdout.count("\n") == 1
    for text in ("Find out why the cart total is wrong", "2026-01-05 12:00, shop", "Asked: Find out"):
        assert text in shown.stderr
    found = json.loads(talked.cli("resume", "--json", "typed twice").stdout)
    assert found["opening"]["command"] == ["claude", "--resume", CART]
    assert found["items"][0]["content_session_id"] == CART


def test_the_sessions_of_this_project_come_first(talked: Box) -> None:
    """Another project's are found if it has none, or if all are asked for."""
    money = talked.root / "my money"
    talk(talked, CART.replace("1", "a"), "The cart of the price list", "Fine.", money)
    talked.cli("import", "claude-code", str(roots(talked)))
    assert printed(talked, "cart")[1] == str(talked.project)
    assert printed(talked, "cart", cwd=money)[1] == str(money)
    everywhere = json.loads(talked.cli("resume", "--json", "--all", "cart", cwd=money).stdout)["items"]
    assert {item["project"] for item in everywhere} == {"shop", "my money"}
    assert printed(talked, "--project", "shop", "cart", cwd=money)[1] == str(talked.project)
    assert printed(talked, "yen")[-1] == PRICES  # the shop has no such session


def test_a_name_is_a_handle(talked: Box) -> None:
    """A whole title opens its session without a question, whatever else has these words."""
    talked.cli("sessions", "rename", PRICES, "cart")
    assert printed(talked, "--all", "Cart")[-1] == PRICES
    assert printed(talked, "--all", "cart total wrong")[-1] == CART


def test_without_words_the_latest_are_offered(talked: Box) -> None:
    """As a list to choose from; a script gets the list and the first one's command."""
    shown = talked.cli("resume", "--all").stdout
    assert "1. " in shown and "2. " in shown
    assert "claude --resume" in shown
    on_terminal = in_terminal(talked, "resume", "--all", keys="2\n")
    assert "Open which? [1-2, Enter for none]" in on_terminal
    assert "`claude` is not installed" in on_terminal.replace("\r\n", " ")
    assert "not installed" not in in_terminal(talked, "resume", "--all", keys="\n")
    listed = on_terminal.replace("\r", "").partition("Open which?")[0]
    assert all(len(line) <= 80 for line in listed.split("\n")), listed


def test_a_session_that_a_program_drives_is_not_opened(talked: Box) -> None:
    """One caller at a time."""
    with lock.hold(Paths(talked.data), CART):
        assert "A program is using session" in in_terminal(talked, "resume", CART)
    assert "A program" not in in_terminal(talked, "resume", CART)


def test_a_transcript_that_is_gone_is_said_plainly(talked: Box) -> None:
    """With what is still there. An empty file is no transcript either."""
    path = RESUMING.transcript(roots(talked), CART)
    assert path
    path.write_bytes(b"")
    for _ in range(2):
        failed = talked.cli("resume", "--print", "typed twice", check=False)
        assert failed.returncode == 1
        assert "its transcript is gone" in failed.stderr
        assert "--turns` prints the conversation" in failed.stderr
        assert "backstory sessions keep" in failed.stderr
        assert failed.stdout == ""
        path.unlink(missing_ok=True)
    assert "gone" in json.loads(talked.cli("resume", "--json", "typed twice").stdout)["opening"]["error"]


def test_a_kept_transcript_is_restored(talked: Box) -> None:
    """Where the agent looks for it, even if the directory has moved. Looking does not restore it."""
    talked.cli("sessions", "keep", "--all")
    for session in (CART, PRICES):
        path = RESUMING.transcript(roots(talked), session)
        assert path
        path.unlink()
    old, new = talked.root / "my money", talked.root / "elsewhere"
    old.rename(new)
    assert "restored" in json.loads(talked.cli("resume", "--json", "yen", cwd=new).stdout)["opening"]["note"]
    assert RESUMING.transcript(roots(talked), PRICES) is None
    assert printed(talked, "typed twice")[1] == str(talked.project)
    assert printed(talked, "yen", cwd=new)[1] == str(new)
    for session, cwd in ((CART, talked.project), (PRICES, new)):
        path = RESUMING.place(roots(talked), str(cwd), session)
        assert {CART: "typed twice", PRICES: "Money.format"}[session] in path.read_text()


def test_a_moved_directory_is_found_by_its_repository(talked: Box) -> None:
    """The client finds the transcript there, too: it is the same file."""
    old, new = talked.root / "my money", talked.root / "elsewhere"
    old.rename(new)
    failed = talked.cli("resume", "--print", "yen", check=False)
    assert f"is gone: {old}" in failed.stderr
    assert "--here" in failed.stderr
    assert printed(talked, "yen", cwd=new)[1] == str(new)
    before, after = (RESUMING.place(roots(talked), str(path), PRICES) for path in (old, new))
    assert before.samefile(after)
    talk(talked, CART.replace("1", "b"), "Another session of the moved one", "Fine.", new)
    talked.cli("import", "claude-code", str(roots(talked)))
    assert printed(talked, "yen")[1] == str(new)  # it is known by now
    other = repository(talked.root / "other")
    assert printed(talked, "--here", PRICES, cwd=other)[1] == str(other)


def test_a_session_of_a_removed_worktree_opens_in_the_repository(running: Box) -> None:
    """All worktrees of a repository are one project."""
    repository(running.project)
    env = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a"}
    for words in (["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", "../feature"]):
        subprocess.run(["git", *words], cwd=running.project, check=True, env={**os.environ, **env}, capture_output=True)
    feature = running.root / "feature"
    talk(running, CART, "Try a discount in the worktree", "Done.", feature)
    running.cli("import", "claude-code", str(roots(running)))
    assert printed(running, "discount worktree")[1] == str(feature)
    subprocess.run(["git", "worktree", "remove", str(feature)], cwd=running.project, check=True)
    assert printed(running, "discount worktree", cwd=running.home)[1] == str(running.project)


def test_what_cannot_be_opened_is_refused(running: Box) -> None:
    """A session of another program, and an id that a shell or the client would read as something else."""
    turn = {"session": "talk-1", "number": 0, "role": "user", "text": "about unicorns", "at": "2026-01-05T12:00:00Z"}
    running.client.post("/api/import/turns", {"turns": [turn]})
    running.hook("UserPromptSubmit", {"session_id": "--version; rm -rf /", "prompt": "about dragons"})
    for words, said in (("unicorns", "cannot open it again"), ("dragons", "has no session with the id")):
        failed = running.cli("resume", "--print", words, check=False)
        assert failed.returncode == 1
        assert said in failed.stderr
        assert failed.stdout == ""
    failed = running.cli("resume", "zzzunknownzzz", check=False)
    assert failed.returncode == 1
    assert "No session was found for “zzzunknownzzz”." in failed.stderr


def test_there_is_nothing_to_resume_yet(running: Box) -> None:
    """One clear sentence."""
    failed = running.cli("resume", check=False)
    assert failed.returncode == 1
    assert failed.stderr.startswith("backstory: There are no sessions yet.\n`backstory install`")
