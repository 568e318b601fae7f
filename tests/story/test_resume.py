"""The real client: `backstory resume` opens the conversation that is meant, in its directory."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from box import COMMAND, Box, until
from claude import Claude, binary
from endpoint import Endpoint, Kind
from terminal import ENTER, terminal

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")

TALKS = {
    "shop": ("Why is the cart total wrong?", "A code that is typed twice counts twice."),
    "money": ("Show prices in yen without decimals.", "The number of decimals comes from a small table."),
}


def settings(box: Box) -> dict[str, str]:
    """Our settings, and a PATH on which the client is called `claude`, as people have it."""
    programs = box.root / "bin"
    if not programs.exists():
        programs.mkdir()
        (programs / "claude").symlink_to(str(binary()))
    ours = {name: value for name, value in box.env.items() if name.startswith("BACKSTORY_")}
    return ours | {"PATH": f"{programs}:{COMMAND.parent}:/usr/local/bin:/usr/bin:/bin"}


@pytest.fixture
def talked(box: Box) -> tuple[Box, dict[str, str]]:
    """Two conversations in two directories, and their ids."""
    box.cli("install", "--agent", "claude-code")
    sessions = {}
    for name, (prompt, reply) in TALKS.items():
        (box.root / name).mkdir(exist_ok=True)
        with Endpoint([reply]) as endpoint:
            client = Claude(box.home, box.root / name, endpoint, env=settings(box))
            sessions[name] = client.run(prompt, timeout=120).session_id
    box.settle()
    return box, sessions


def go_on(box: Box, line: str) -> tuple[str, str]:
    """Run the line that `--print` printed, with one more prompt; the session that answered, and what the model got."""
    with Endpoint(["Going on."]) as endpoint:
        cd, directory, then, program, *rest = shlex.split(line)
        assert (cd, then, program) == ("cd", "&&", "claude")
        client = Claude(box.home, Path(directory), endpoint, env=settings(box))
        answer = client.run("And now?", *rest, timeout=120)
        (request, *_) = endpoint.of(Kind.MAIN)
    return answer.session_id, json.dumps(request.body, ensure_ascii=False)


def test_a_conversation_goes_on_wherever_it_is(talked: tuple[Box, dict[str, str]]) -> None:
    """The printed command: the same session, with all that was said, found from another directory, and one session in
    memory, too. Then its directory was moved; then it is opened somewhere else on purpose. A transcript that was
    deleted is named, as the client could only say that it finds nothing; a kept one goes on from the database."""
    box, sessions = talked

    def goes_on(name: str, *words: str, cwd: Path) -> None:
        session_id, sent = go_on(box, box.cli("resume", "--print", *words, cwd=cwd).stdout)
        assert session_id == sessions[name], words
        assert TALKS[name][1] in sent, words

    goes_on("money", "the table for decimals", cwd=box.project)
    box.settle()
    rows = box.rows("SELECT content_session_id, prompt_counter FROM sdk_sessions ORDER BY id")
    assert [row["prompt_counter"] for row in rows] == [1, 2]
    (box.root / "money").rename(box.root / "moved money")
    goes_on("money", "--here", sessions["money"], cwd=box.root / "moved money")
    (box.root / "elsewhere").mkdir()
    goes_on("money", "--here", sessions["money"], cwd=box.root / "elsewhere")
    box.settle()
    assert len(box.rows("SELECT id FROM sdk_sessions")) == 2

    def delete(name: str) -> None:
        found = list((box.home / ".claude" / "projects").glob(f"*/{sessions[name]}.jsonl"))
        assert found
        for file in found:
            file.unlink()

    delete("money")
    failed = box.cli("resume", sessions["money"], check=False)
    assert failed.returncode == 1
    assert "Claude Code cannot open session" in failed.stderr
    assert TALKS["money"][1] in box.cli("sessions", "export", sessions["money"]).stdout
    box.cli("sessions", "keep", "--all")
    delete("shop")
    goes_on("shop", "cart total", cwd=box.project)


def test_it_opens_in_the_terminal(talked: tuple[Box, dict[str, str]]) -> None:
    """What was found is shown, Enter opens it, and the client shows the conversation and answers in it."""
    box, sessions = talked
    box.cli("sessions", "rename", sessions["shop"], "Totals")
    with Endpoint(["Going on."]) as endpoint:
        client = Claude(box.home, box.project, endpoint, env=settings(box))
        words = [str(COMMAND), "resume", "--all", "why was the cart total wrong, or the decimals"]
        with terminal(client, program=words) as shown:
            shown.wait("1. Totals")
            shown.wait("Open 1?")
            shown.press(ENTER)
            shown.wait("❯")
            shown.wait(TALKS["shop"][1])
            shown.type("And now?")
            shown.wait("Going on.")
        (request, *_) = endpoint.of(Kind.MAIN)
    assert TALKS["shop"][1] in json.dumps(request.body, ensure_ascii=False)
    prompts = "SELECT prompt FROM user_prompts p JOIN sdk_sessions s ON s.id = p.session_id WHERE s.title = 'Totals'"
    until(lambda: len(box.rows(prompts)) == 2, "the second prompt")


def test_a_name_that_was_given_in_the_client_is_a_handle(box: Box) -> None:
    """It is in the transcript, and read when the session ends."""
    box.cli("install", "--agent", "claude-code")
    with Endpoint(["The cart is fine."]) as endpoint:
        client = Claude(box.home, box.project, endpoint, env=settings(box))
        with terminal(client) as shown:
            shown.type("Please mend the cart of the shop")
            shown.wait("The cart is fine.")
            (file,) = (box.home / ".claude" / "projects").glob("*/*.jsonl")
            shown.type("/rename Totals of Tuesday")
            until(lambda: '"custom-title"' in file.read_text(), "the name in the transcript")
            shown.type("/exit")
            shown.process.wait(120)
    until(lambda: box.rows("SELECT 1 FROM session_titles WHERE source = 'custom'"), "the name")
    assert shlex.split(box.cli("resume", "--print", "totals of tuesday").stdout)[-1] == file.stem
    assert "Totals of Tuesday" in box.cli("sessions").stdout
