"""What a new session is told, from the hook to the hook."""

from __future__ import annotations

import json
import subprocess

from box import Box, until

#: A closing reply, and the words of it that the next session must have.
REPLIES = [
    ("The parser is done.\n\nNext steps:\n- add a cache for the tokens", "add a cache for the tokens"),
    ("The parser is done.\n\n## Next steps\n\n- write the docs of `parse`", "write the docs of `parse`"),
    ("The parser is done.\n\nWhat remains:\n- the lexer drops tabs", "the lexer drops tabs"),
    ("The parser is done.\n\n**Remaining work:**\n- port the Windows build", "port the Windows build"),
    ("The parser is done. Still to do: measure the memory of large files.", "measure the memory of large files"),
    ("The fetcher works. I have not implemented retries yet.", "not implemented retries yet"),
    ("It works now. Important: never set B_TIMEOUT above 60, the proxy gives up.", "never set B_TIMEOUT above 60"),
    ("It works now. Note that the proxy cuts connections after a minute.", "the proxy cuts connections after a minute"),
    ("Done. Note: pytest has to be run from the project's root", "pytest has to be run from the project's root"),
    ("Done. We agreed to use urllib, not requests, so that nothing has to be installed.", "use urllib, not requests"),
    ("All local tests pass. Once you set STAGING_KEY I can run the smoke tests.", "Once you set STAGING_KEY"),
    ("Fertig. Entschieden: wir speichern Preise in Cent.", "wir speichern Preise in Cent"),
]
TASK = "Start the fetcher module. Use urllib. Never touch a.py. Ask before you add a dependency."


def say(box: Box, session: str, prompt: str, reply: str) -> None:
    common = {"session_id": session, "cwd": str(box.project)}
    box.hook("UserPromptSubmit", common | {"prompt": prompt})
    box.hook("Stop", common | {"last_assistant_message": reply})
    box.settle()


def git(box: Box, *words: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@b.c")
    subprocess.run(["git", "-C", str(box.project), *who, *words], check=True, capture_output=True)


def test_a_closing_reply_reaches_the_next_session(running: Box) -> None:
    """Next steps, warnings and decisions, however they are marked; and the task as a whole. Each in its project."""
    for number, (reply, words) in enumerate(REPLIES):
        project = running.root / f"project{number}"
        project.mkdir()
        about = {"session_id": f"s{number}", "cwd": str(project)}
        running.hook("UserPromptSubmit", about | {"prompt": TASK})
        running.hook("Stop", about | {"last_assistant_message": reply})
        running.settle()
        start = {"session_id": f"next{number}", "cwd": str(project), "source": "startup"}
        told = json.loads(running.hook("SessionStart", start).stdout)["hookSpecificOutput"]["additionalContext"]
        assert words in told, reply
        assert f"Asked: {TASK}" in told, reply


def test_a_line_names_its_type_once(running: Box) -> None:
    """`Decision: …` is a decision, `Cause: …` none, also if it says `instead of`."""
    say(running, "one", TASK, "Decision: the loader uses urllib.")
    say(running, "two", "Why is it slow?", "Cause: the client sent `b` instead of `a` to the proxy.")
    context = running.client.get("/api/context/inject", cwd=str(running.project))
    assert "decision: the loader uses urllib" in context
    assert "discovery: Cause: the client sent" in context


def test_what_is_open_is_told_once(running: Box) -> None:
    """An open end that follows a decision is no fact of it, too."""
    say(running, "one", TASK, "We decided against floats because of rounding. Next: the invoice page needs the fix.")
    context = running.client.get("/api/context/inject", cwd=str(running.project))
    assert "Open: the invoice page needs the fix." in context
    assert context.count("invoice page") == 1


def test_a_branch_has_its_own_hand_off(running: Box) -> None:
    """Back on a branch, its last session comes first, and that of the other branch after it."""
    git(running, "init", "-q", "-b", "one")
    git(running, "commit", "-q", "--allow-empty", "-m", "first")
    say(running, "a", "Write the importer for the old files.", "The importer skips empty lines because they break it.")
    git(running, "switch", "-q", "-c", "two")
    say(running, "b", "Draw the chart of the last month.", "The chart uses UTC days, since local days have gaps.")
    assert "Asked: Draw the chart" in running.told("c")
    git(running, "switch", "-q", "one")
    told = running.told("d")
    assert "Asked: Write the importer" in told
    assert told.index("skips empty lines") < told.index("Draw the chart")


def test_a_decision_stands_whatever_its_age(running: Box) -> None:
    """Sixty sessions later it is told still, and what is said again and again is told once."""
    say(running, "old", "How do we keep prices?", "We decided to keep prices in cents, because floats lose a cent.")
    for number in range(60):
        about = {"session_id": f"s{number}", "cwd": str(running.project)}
        running.client.post("/hooks/claude-code/UserPromptSubmit", about | {"prompt": f"Look at report {number}."})
        running.client.post(
            "/hooks/claude-code/Stop",
            about | {"last_assistant_message": "The report is late because the job runs at noon."},
        )
    running.settle()
    told = running.told()
    assert "keep prices in cents" in told
    assert told.count("The report is late because the job runs at noon") == 1
    assert "The report is late because the job runs at noon (60 times)" in told


def test_a_resumed_session_is_told_only_what_is_new(running: Box) -> None:
    """It knows what was said before it stopped. Without anything new it is told nothing."""
    say(running, "a", "Write the importer for the old files.", "The importer skips empty lines because they break it.")
    assert running.told("a", "resume") == ""
    say(running, "b", "Draw the chart of the last month.", "The chart uses UTC days, since local days have gaps.")
    told = running.told("a", "resume")
    assert "UTC days" in told
    assert "skips empty lines" not in told


def test_each_line_has_its_reason(running: Box) -> None:
    """`context --why`: the reason stands below the line; without it the context is as the agent gets it."""
    say(running, "a", "Write the importer for the old files.", "The importer skips empty lines because they break it.")
    plain = running.cli("context", "--project", "shop").stdout
    why = running.cli("context", "--project", "shop", "--why").stdout
    assert "(the task of this session)" in why
    assert "importance" in why
    assert "importance" not in plain
    for line in plain.splitlines():
        assert line.startswith(("<", "</")) or line in why


def test_what_was_committed_since_is_not_told_as_uncommitted(running: Box) -> None:
    """The user commits by hand, after the session."""
    git(running, "init", "-q", "-b", "main")
    common = {"session_id": "s", "cwd": str(running.project)}
    file = running.project / "a.py"
    file.write_text("a = 1\n")
    running.hook("UserPromptSubmit", common | {"prompt": "Write the module a, please."})
    used = {"tool_name": "Write", "tool_use_id": "t", "tool_input": {"file_path": str(file), "content": "a = 1\n"}}
    running.hook("PostToolUse", common | used | {"tool_response": {"type": "create", "filePath": str(file)}})
    running.hook("Stop", common | {"last_assistant_message": "The module is written."})
    running.settle()
    assert "Not committed: a.py" in running.told("b")
    git(running, "add", "-A")
    git(running, "commit", "-qm", "all")
    # On a busy machine there may be no time to look, and then nobody knows.
    until(lambda: "Not committed" not in running.told("c"), "the working tree is read", 60)
