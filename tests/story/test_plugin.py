"""The plugin: valid, the same hooks as the installer's, works by itself, and never a second copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from box import COMMAND, Box
from claude import Claude, binary
from endpoint import Endpoint, Kind, text, tool_use

import backstory
from backstory import __version__
from backstory.agents.claude_code.settings import hooks, ours

PLUGIN = Path(__file__).parent.parent.parent / "plugin"
real = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")


@pytest.fixture
def client(box: Box) -> Iterator[Claude]:
    """The real client with nothing of ours in its settings."""
    with Endpoint([tool_use("Bash", {"command": "echo seventeen"}), text("It says seventeen.")]) as endpoint:
        settings = {name: value for name, value in box.env.items() if name.startswith("BACKSTORY_")}
        yield Claude(box.home, box.project, endpoint, env=settings)


def plugin(client: Claude, *words: str) -> str:
    """`claude plugin WORDS`."""
    run = subprocess.run(
        [str(binary()), "plugin", *words],
        env=client.environment(),
        cwd=client.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def install(client: Claude) -> None:
    plugin(client, "marketplace", "add", str(PLUGIN))
    plugin(client, "install", "backstory@backstory")


def commands() -> dict[str, str]:
    """The plugin's command of each event."""
    found = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"]
    return {event: groups[0]["hooks"][0]["command"] for event, groups in found.items()}


def in_shell(box: Box, event: str, payload: dict[str, Any]) -> subprocess.CompletedProcess[bytes]:
    """One of the plugin's hooks, as the client runs it."""
    raw = json.dumps({"cwd": str(box.project)} | payload).encode()
    env = box.env | {"CLAUDE_PLUGIN_ROOT": str(PLUGIN)}
    return subprocess.run(["sh", "-c", commands()[event]], input=raw, env=env, capture_output=True, timeout=120)


def test_its_manifests_agree_with_the_package() -> None:
    """One version, one licence, and an entry for each event that the installer writes, Setup and the permission."""
    manifest = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())
    market = json.loads((PLUGIN / ".claude-plugin" / "marketplace.json").read_text())
    assert manifest["version"] == __version__
    assert [(p["name"], p["source"]) for p in market["plugins"]] == [(manifest["name"], "./")]
    assert (PLUGIN / "LICENSE").read_bytes() == (PLUGIN.parent / "LICENSE").read_bytes()
    assert len((PLUGIN / "README.md").read_text().split()) >= 40
    wanted = hooks("SHIM", "SHIM")
    assert set(commands()) == {*wanted, "Setup", "PreToolUse"}
    for event, hook in wanted.items():
        assert commands()[event].endswith(hook.command.removeprefix("SHIM"))
        assert ours(commands()[event])
    # The client prints a line for each hook of a compaction that its user asks for.
    assert {event: wanted[event].matcher for event in ("PreCompact", "PostCompact")} == dict.fromkeys(
        ("PreCompact", "PostCompact"), "auto"
    )


@real
def test_it_passes_the_strict_validator(client: Claude) -> None:
    """`claude plugin validate --strict`, on the marketplace and on the plugin in it."""
    assert "Validation passed" in plugin(client, "validate", "--strict", str(PLUGIN))


@real
def test_installed_from_a_folder_a_session_is_remembered_and_the_next_is_told(box: Box, client: Claude) -> None:
    """After `repair`, `claude --init` is silent. A session writes the scripts that the hooks call, also where an
    uninstall had left a hook that does nothing. Then the settings have hooks, too: each runs twice, and everything is
    kept and told once."""
    install(client)
    box.cli("repair", check=False)
    assert told_at_start(replace(client, env=client.env | {"PATH": "/usr/bin:/bin"}))[0] == ""
    for script in ("backstory-worker", "backstory-mcp"):
        (box.data / "bin" / script).unlink()
    box.shim.write_text("#!/bin/sh\nexit 0\n")
    assert "backstory-hook" not in (box.home / ".claude" / "settings.json").read_text()
    session_id = client.run("What does the script say?").session_id
    box.settle()
    rows = "SELECT status, prompt_counter FROM sdk_sessions WHERE content_session_id = ?"
    assert box.rows(rows, session_id) == [{"status": "completed", "prompt_counter": 1}]
    assert [r["tool_name"] for r in box.rows("SELECT tool_name FROM events WHERE kind = 'tool'")] == ["Bash"]
    box.cli("install", "--agent", "claude-code")
    again = [tool_use("Bash", {"command": "echo eighteen"}), text("It says eighteen.")]
    with Endpoint(again) as endpoint:
        second = Claude(box.home, box.project, endpoint, tools="Bash,Skill", env=client.env).run("And now?").session_id
        (first, *_) = endpoint.of(Kind.MAIN)
    assert json.dumps(first.body).count("</backstory-context>") == 1
    assert "backstory:backstory" in json.dumps(first.body)  # the skill is offered
    box.settle()
    of = "FROM {} t JOIN sdk_sessions s ON s.id = t.session_id WHERE content_session_id = ?"
    kinds = [row["kind"] for row in box.rows(f"SELECT kind {of.format('events')} ORDER BY kind", second)]
    assert kinds == ["prompt", "session_end", "session_start", "stop", "tool"]
    for table in ("user_prompts", "session_summaries"):
        assert len(box.rows(f"SELECT 1 {of.format(table)}", second)) == 1, table


def told_at_start(client: Claude) -> tuple[str, str]:
    """What the hooks of Setup and SessionStart say to `claude --init`."""
    init = ("--init", "--verbose", "--output-format=stream-json", "--include-hook-events")
    with Endpoint(["Hello."]) as endpoint:
        run = replace(client, endpoint=endpoint).run("Hello.", *init)
    lines = [json.loads(line) for line in run.stdout.splitlines() if line]
    answers = {x["hook_event"]: x for x in lines if x.get("subtype") == "hook_response"}
    for event in ("Setup", "SessionStart"):
        assert (answers[event]["exit_code"], answers[event]["stderr"]) == (0, "")
    return str(answers["Setup"]["stdout"]), str(answers["SessionStart"]["stdout"])


def test_a_second_hook_is_a_no_op_and_a_second_time_is_not(running: Box) -> None:
    """The same prompt id and text is one prompt; the same words with another id are another, and so is another stop."""
    start = {"session_id": "s", "source": "startup"}
    running.hook("UserPromptSubmit", {"session_id": "old", "prompt": "Fix the cart."})
    running.hook("Stop", {"session_id": "old", "last_assistant_message": "Fixed."})
    running.settle()
    first, second = running.hook("SessionStart", start), in_shell(running, "SessionStart", start)
    assert b"Fix the cart." in first.stdout
    assert second.stdout == b""
    for prompt_id in ("one", "two"):
        common = {"session_id": "s", "prompt_id": prompt_id}
        for event, payload in (
            ("UserPromptSubmit", {"prompt": "go on"}),
            ("SubagentStop", {"agent_id": "a", "agent_type": "Explore", "last_assistant_message": "Found."}),
            ("Stop", {"last_assistant_message": "Done."}),
            ("PreCompact", {"trigger": "manual"}),
        ):
            running.hook(event, common | payload)
            assert in_shell(running, event, common | payload).returncode == 0
    running.hook("Stop", {"session_id": "s", "prompt_id": "two", "last_assistant_message": "Done, and more."})
    rows = running.rows(
        "SELECT kind, COUNT(*) AS n FROM events e JOIN sdk_sessions s ON s.id = e.session_id"
        " WHERE content_session_id = 's' GROUP BY kind"
    )
    counts = {row["kind"]: row["n"] for row in rows}
    assert counts == {"session_start": 1, "prompt": 2, "subagent_stop": 2, "stop": 3, "pre_compact": 2}
    # A session that ended and began again at once is told again.
    start["session_id"] = "quick"
    assert running.hook("SessionStart", start).stdout
    running.hook("SessionEnd", {"session_id": "quick", "reason": "other"})
    assert running.hook("SessionStart", start).stdout


def test_without_the_program_the_start_of_a_session_says_so_once(box: Box) -> None:
    """No program: every hook exits 0 and prints nothing; Setup and the start of a session say how to install it."""
    box.settings["PATH"] = "/usr/bin:/bin"
    for event in commands():
        run = in_shell(box, event, {"session_id": "s", "source": "startup"})
        assert (run.returncode, run.stderr) == (0, b"")
        assert (b"pipx install backstory" in run.stdout) == (event in ("Setup", "SessionStart"))
        assert (run.stdout == b"") == (event not in ("Setup", "SessionStart", "PreToolUse"))
    assert in_shell(box, "SessionStart", {"session_id": "s", "source": "compact"}).stdout == b""
    # A server that fails would not be tried again for a while.
    (entry,) = json.loads((PLUGIN / ".mcp.json").read_text())["mcpServers"].values()
    asked = b'{"method":"initialize","params":{},"jsonrpc":"2.0","id":7}\n{"method":"notifications/initialized"}\n'
    server = subprocess.run([entry["command"], *entry["args"]], input=asked, env=box.env, capture_output=True)
    answer = json.loads(server.stdout)
    assert (answer["id"], answer["result"]["capabilities"], server.returncode) == (7, {}, 0)
    assert "pipx install backstory" in answer["result"]["instructions"]
    assert not box.data.exists()


def test_a_program_that_was_removed_is_named_and_another_takes_over(box: Box) -> None:
    """The package behind the scripts is gone, as after an upgrade of Python: a session says so, and the server too."""
    box.settings["PATH"] = "/usr/bin:/bin"
    package = Path(backstory.__file__).parent
    for shim in (box.shim, box.data / "bin" / "backstory-mcp"):
        shim.write_text(shim.read_text().replace(str(package / "hook.py"), "/gone/hook.py"))
    start = {"session_id": "s", "source": "startup"}
    assert "backstory repair" in json.loads(box.hook("SessionStart", start).stdout)["systemMessage"]
    assert box.hook("SessionStart", start | {"source": "clear"}).stdout == b""
    assert box.hook("UserPromptSubmit", {"session_id": "s", "prompt": "Go on."}).stdout == b""
    asked = b'{"method":"initialize","params":{},"jsonrpc":"2.0","id":0}\n'
    server = subprocess.run([box.data / "bin" / "backstory-mcp"], input=asked, env=box.env, capture_output=True)
    assert "backstory repair" in json.loads(server.stdout)["error"]["message"]
    assert (json.loads(server.stdout)["id"], server.returncode) == (0, 1)
    box.settings["PATH"] = f"{COMMAND.parent}:/usr/bin:/bin"
    assert b"systemMessage" not in box.hook("SessionStart", start).stdout
    assert subprocess.run([box.shim, "--version"], env=box.env, capture_output=True).stdout
    assert box.hook("UserPromptSubmit", {"session_id": "s", "prompt": "Go on."}).stdout
    box.settle()
    assert box.rows("SELECT prompt FROM user_prompts") == [{"prompt": "Go on."}]


def test_a_hook_of_the_settings_says_that_its_program_is_missing(box: Box) -> None:
    """Not in a project's settings: they may be shared with people who do not have it."""
    box.cli("install")
    box.cli("install", "--scope", "project")
    shutil.rmtree(box.data)
    said = []
    for settings in (box.home / ".claude" / "settings.json", box.project / ".claude" / "settings.json"):
        for event, groups in json.loads(settings.read_text())["hooks"].items():
            for source in ("resume", "compact"):
                command = groups[0]["hooks"][0]["command"]
                raw = json.dumps({"session_id": "s", "source": source}).encode()
                run = subprocess.run(["sh", "-c", command], input=raw, env=box.env, capture_output=True)
                assert (run.returncode, run.stderr) == (0, b"")
                said += [(settings.parent.parent.name, event, source, run.stdout)] if run.stdout else []
    ((where, event, source, text),) = said
    assert (where, event, source) == (box.home.name, "SessionStart", "resume")
    assert "backstory repair" in json.loads(text)["systemMessage"]
    assert not box.data.exists()


def test_setup_compares_the_versions(box: Box) -> None:
    """Silent where they agree; names `backstory repair` where the program is another version, or too old to say."""
    shim = box.shim
    version = subprocess.run([shim, "--version"], env=box.env, capture_output=True, check=True)
    assert version.stdout.decode() == f"{__version__}\n"
    assert in_shell(box, "Setup", {}).stdout == b""
    for answer in ("echo 9.9.9", "exit 0"):
        shim.write_text(f"#!/bin/sh\n{answer}\n")
        told = json.loads(in_shell(box, "Setup", {}).stdout)["systemMessage"]
        assert "backstory repair" in told and __version__ in told
        assert ("9.9.9" in told) == ("9.9.9" in answer)
    assert os.access(PLUGIN / "hooks" / "setup.sh", os.X_OK)
