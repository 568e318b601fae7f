"""The command, as people see it."""

from __future__ import annotations

import importlib
import json
import os
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from box import COMMAND, Box, until
from terminal import in_terminal

from backstory.cli import main, worker
from backstory.cli.parser import Parser
from backstory.settings import Settings

RECORDED = Path(__file__).parent.parent / "agents" / "recorded" / "claude-code"
COMMANDS = ["install", "uninstall", "start", "stop", "restart", "status", "worker", "open", "search", "show", "context"]
COMMANDS += ["sessions", "queue", "config"]


@pytest.fixture
def filled(running: Box) -> Box:
    """A worker that remembers a round."""
    edit = json.loads((RECORDED / "PostToolUse.Edit.json").read_text()) | {"session_id": "abcd-1234"}
    named = {"session_id": "abcd-1234", "prompt_id": edit["prompt_id"]}
    running.hook("UserPromptSubmit", named | {"prompt": "Add a discount to the cart " + "very " * 40})
    running.hook("PostToolUse", edit)
    running.hook("Stop", named | {"last_assistant_message": "The discount is in the cart now."})
    running.settle()
    return running


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(box: Box, command: str) -> None:
    """`--help` works for each."""
    run = box.cli(command, "--help")
    assert run.stdout.startswith("usage: backstory")


@pytest.mark.parametrize("noun", main.NOUNS)
def test_the_table_of_nouns_is_right(noun: str) -> None:
    """A command is found by the file that adds it, so that only that file is read."""
    commands = Parser().add_subparsers()
    importlib.import_module(f"backstory.cli.{noun}").add(commands)
    assert main.NOUNS[noun] == tuple(commands.choices)


def test_the_version(box: Box) -> None:
    """As a command and as an option."""
    assert box.cli("version").stdout == box.cli("--version").stdout
    assert re.fullmatch(r"backstory \d+\.\d+\.\d+\n", box.cli("version").stdout)


def test_search_show_context_and_sessions_find_the_round(filled: Box) -> None:
    """For people and as JSON."""
    found = json.loads(filled.cli("search", "--json", "discount").stdout)["items"]
    assert found
    observation = next(item for item in found if item["kind"] == "observation")
    assert f"#{observation['id']}" in filled.cli("search", "discount").stdout
    assert observation["title"] in " ".join(filled.cli("show", f"#{observation['id']}").stdout.split())
    assert json.loads(filled.cli("show", "--json", str(observation["id"])).stdout)[0]["event_ids"]
    assert "<backstory-context>" in filled.cli("context").stdout
    assert "discount" in filled.cli("sessions").stdout
    assert "Asked:" in filled.cli("sessions", "show", "abcd").stdout
    assert json.loads(filled.cli("sessions", "show", "1", "--json").stdout)["prompts"]
    assert filled.cli("search", "zzzunknownzzz").stdout == "Nothing was found in shop. Try fewer or other words.\n"
    assert re.search(r"#\d.*\n +words \d\.\d\d \(no\. \d\)", filled.cli("search", "discount", "--explain").stdout)
    found = filled.cli(
        "search", "was it the discount that went wrong"
    ).stdout  # in one word, as a shell's quotes make it
    assert "discount" in found


def test_a_line_fits_a_terminal_of_eighty_columns(filled: Box) -> None:
    """Long things are cut, not wrapped by chance."""
    for words in (("sessions",), ("search", "discount"), ("status",), ("sessions", "show", "1"), ("queue",)):
        shown = in_terminal(filled, *words)
        assert shown.strip(), words
        # Paths are printed whole, because people copy them.
        lines = [line for line in shown.replace("\r", "").split("\n") if str(filled.root) not in line]
        assert all(len(line) <= 80 for line in lines), words


def test_stored_text_can_not_drive_the_terminal(running: Box) -> None:
    """Control characters of what was stored are shown, not obeyed."""
    evil = "evil \x1b]0;owned\x07 \x1b[2J \u202e text"
    running.hook("UserPromptSubmit", {"session_id": "x", "prompt": evil})
    for words in (("sessions",), ("sessions", "show", "1"), ("search", "evil")):
        shown = running.cli(*words).stdout
        assert "evil" in shown.lower()
        assert not set(shown) & {"\x1b", "\x07", "\u202e"}


#: words of a command -> what is said of them
MISTAKES: list[tuple[tuple[str, ...], str]] = [
    (("show", "x"), "not an id"),
    (("show", "999"), "no observation 999"),
    (("sessions", "show", "nope"), "no session nope"),
    (("search", "--limit", "0", "x"), "1 to 200"),
    (("config", "set", "port", "many"), "whole number"),
    (("config", "set", "nothing", "1"), "no setting"),
    (("config", "set", "port", "99999"), "65535"),
    (("config", "set", "call_seconds", "nan"), "must be a number"),
    (("config", "set", "call_secnods", "5"), "Did you mean `call_seconds`?"),
    (("config", "get", "provder"), "Did you mean `provider`?"),
    (("config", "set", "provider", "antropic"), "Did you mean `anthropic`?"),
    (("config", "set", "mode", "nosuch"), "no mode `nosuch`"),
    (("config", "set", "mode", "cod"), "Did you mean `code`?"),
    (("config", "set", "mode", "../code"), "not the name of a mode"),
    (("queue", "retry", "5"), "not set aside"),
    (("search", "--since", "2026-02-30", "x"), "not a time"),
    (("sessions", "show", ""), "id is empty"),
    (("sessions", "show", "\udcff"), "no session"),
    (("export", "--output", "~nobody-here/x"), "could not be written"),
    (("import", "backstory", "~nobody-here/x"), "could not be read"),
    (("import", "claude-mem", "~nobody-here/x"), "could not be opened"),
    (("import", "conversations", "~nobody-here/x"), "could not be read"),
    (("import", "claude-code", "~nobody-here/x"), "could not be read"),
]


def test_a_mistake_gets_one_clear_sentence_and_an_exit_code(running: Box) -> None:
    """And never a stack trace."""
    for words, said in MISTAKES:
        run = running.cli(*words, check=False)
        assert run.returncode == 1, words
        assert said in run.stderr, words
        assert "Traceback" not in run.stderr, words
        assert run.stderr.startswith("backstory: "), words


def test_a_shell_may_pass_any_bytes(running: Box) -> None:
    """Words that are no text, or far too many, find nothing."""
    for word in ("\udcff", "x" * 100_000, "検索" * 20_000, "\x1b[31m"):
        for words in (("search", word), ("search", "zebra", "--project", word[:9])):
            assert running.cli(*words).stdout.startswith("Memory is empty. `backstory install` starts")
    assert json.loads(running.cli("context", "--project", "\udcff", "--json").stdout)["project"]


def test_settings_are_defaults_then_the_file_then_the_environment(box: Box) -> None:
    """Only what the user changed is written."""
    box.settings.pop("BACKSTORY_CONTEXT_TOKENS", None)
    assert box.cli("config", "get", "context_tokens").stdout == "4000\n"
    box.cli("config", "set", "context_tokens", "900")
    box.cli("config", "set", "skip_tools", "Peek, Poke")
    assert (box.data / "config.toml").read_text() == 'context_tokens = 900\nskip_tools = ["Peek", "Poke"]\n'
    assert box.cli("config", "get", "context_tokens").stdout == "900\n"
    box.settings["BACKSTORY_CONTEXT_TOKENS"] = "700"
    assert json.loads(box.cli("config", "list", "--json").stdout)["context_tokens"] == {
        "value": 700,
        "from": "BACKSTORY_CONTEXT_TOKENS",
    }
    box.cli("config", "unset", "context_tokens")
    assert "context_tokens" not in (box.data / "config.toml").read_text()
    (box.data / "config.toml").write_text("broken = = 1")
    assert "not valid TOML" in box.cli("config", check=False).stderr


def test_status_tells_what_runs(running: Box) -> None:
    """Up and down, with an exit code."""
    up = json.loads(running.cli("status", "--json").stdout)
    assert up["running"]
    assert up["address"].endswith(f":{running.port}/")
    running.stop(running.processes[0])
    down = running.cli("status", check=False)
    assert down.returncode == 1
    assert "not running" in down.stdout


def test_queue_shows_retries_and_drops(running: Box) -> None:
    """With nothing set aside, it says so."""
    assert running.cli("queue").stdout == "The queue is empty: everything is observed.\n"
    assert running.cli("queue", "retry", "--all").stdout == "No event is set aside.\n"
    assert running.cli("queue", "drop", "--all").stdout == "No event is set aside.\n"
    assert running.cli("queue", "drop", check=False).returncode == 2


def test_a_command_starts_the_worker_when_it_is_away(box: Box) -> None:
    """`search` on a machine that was just booted works."""
    assert box.cli("search", "anything").stdout.startswith("Memory is empty.")
    assert box.health()
    box.cli("stop")


def test_install_and_uninstall_leave_no_trace(box: Box) -> None:
    """Settings byte for byte as they were, no process, no port, no socket; what is remembered stays."""
    settings = box.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    original = b'{\t"model":"opus",\r\n "hooks": {"Stop": [{"hooks":[{"type":"command","command":"say done"}]}]}  }'
    settings.write_bytes(original)
    plan = box.cli("install", "--agent", "claude-code", "--diff").stdout
    assert "backstory-hook" in plan and "mcp__backstory__search" in plan
    assert settings.read_bytes() == original
    assert not box.data.exists()
    box.cli("install", "--agent", "claude-code")
    once = settings.read_bytes()
    assert b"say done" in once
    box.cli("install")
    assert settings.read_bytes() == once
    assert "claude-code" in box.cli("status", check=False).stdout
    box.told()
    pid = until(box.health, "the worker that the hook started")["pid"]
    assert "no longer in ~/.claude/settings.json." in box.cli("uninstall", "--agent", "claude-code").stdout
    assert settings.read_bytes() == original
    assert box.cli("uninstall").stdout.startswith("claude-code: nothing of backstory is in its files.\nMemory is kept")
    stat = Path(f"/proc/{pid}/stat")
    assert not stat.exists() or ") Z " in stat.read_text()
    assert not (box.data / "worker.sock").exists()
    # A session that still runs calls the shim once more: nothing happens, and nothing starts.
    late = box.hook("UserPromptSubmit", {"session_id": "x", "prompt": "late"})
    assert (late.returncode, late.stdout, late.stderr) == (0, b"", b"")
    assert not box.health()
    assert (box.data / "backstory.db").exists()


def test_what_install_creates_is_for_its_owner(box: Box) -> None:
    """In the home directory, where an agent stores its keys in the same file later. Modes that are there stay, and the
    files of a project are as the umask wants them."""

    def modes(root: Path) -> dict[str, int]:
        return {str(path.relative_to(root)): path.stat().st_mode & 0o777 for path in root.rglob("*")}

    box.cli("install")
    open_to_others = {name: mode for name, mode in modes(box.home).items() if mode & 0o077}
    assert open_to_others == {} and {".claude.json", ".claude/settings.json", ".claude/skills"} <= set(modes(box.home))
    box.cli("uninstall")
    assert not (box.home / ".claude.json").exists() and not (box.home / ".claude").exists()
    for name in (".claude.json", ".claude/settings.json"):
        (box.home / name).parent.mkdir(exist_ok=True)
        (box.home / name).write_text("{}")
        (box.home / name).chmod(0o644)
    (box.home / ".claude").chmod(0o755)
    box.cli("install")
    kept = modes(box.home)
    assert (kept[".claude"], kept[".claude.json"], kept[".claude/settings.json"]) == (0o755, 0o644, 0o644)
    box.cli("install", "--scope", "project")
    umask = os.umask(0o022)
    os.umask(umask)
    assert modes(box.project)[".mcp.json"] == modes(box.project)[".claude/settings.json"] == 0o666 & ~umask
    assert modes(box.project)[".claude"] == 0o777 & ~umask


def test_install_for_a_project(box: Box) -> None:
    """In the project's own settings, by a path that is anybody's home; it is gone again afterwards."""
    box.cli("install", "--scope", "project")
    text = (box.project / ".claude" / "settings.json").read_text()
    assert "$HOME/.backstory/bin/backstory-hook" in text
    assert str(box.home) not in text
    command = json.loads(text)["hooks"]["Stop"][0]["hooks"][0]["command"]
    run = subprocess.run(
        ["sh", "-c", command],
        input=b"{}",
        env={"HOME": "/nonexistent", "PATH": os.environ["PATH"]},
        capture_output=True,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
    box.cli("uninstall", "--scope", "project")
    assert not (box.project / ".claude").exists()


def test_install_refuses_settings_that_it_can_not_read(box: Box) -> None:
    """One sentence, and the file stays as it is."""
    settings = box.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{ // a comment\n}")
    run = box.cli("install", check=False)
    assert run.returncode == 1
    assert "nothing was changed" in run.stderr
    assert settings.read_text() == "{ // a comment\n}"


def test_a_hook_whose_package_or_interpreter_is_gone_says_nothing(box: Box) -> None:
    """Somebody removed the virtual environment first: the agent does not hear of it."""
    text = box.shim.read_text()
    for gone in ("hook.py", "/bin/python"):
        box.shim.write_text(text.replace(gone, f"{gone}-gone"))
        run = box.hook("PostToolUse", {"session_id": "x", "tool_name": "Read"})
        assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
    settings = json.loads((box.home / ".claude" / "settings.json").read_text())
    box.shim.unlink()
    command = settings["hooks"]["Stop"][0]["hooks"][0]["command"]
    run = subprocess.run(["sh", "-c", command], input=b"{}", env=box.env, capture_output=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_a_worker_whose_data_directory_is_taken_away_goes_too(running: Box) -> None:
    """And does not take a new one's socket with it."""
    old = running.processes[0]
    running.data.rename(running.data.with_name("elsewhere"))
    new = running.start()
    old.wait(10)
    assert new.poll() is None
    assert running.health()
    assert not [file.name for file in running.data.iterdir() if "damaged" in file.name or "restored" in file.name]


def test_one_can_leave_whatever_stands_in_the_configuration(running: Box) -> None:
    """stop and uninstall never depend on config.toml; status says what is wrong with it."""
    running.shim  # noqa: B018
    (running.data / "config.toml").write_text('port = "x')
    assert "TOML" in running.cli("status", check=False).stdout
    assert "no longer" in running.cli("uninstall").stdout
    assert not running.health()
    (running.data / "config.toml").write_text("exclude_project = ['x']")
    assert "`exclude_project` is not a setting" in running.cli("status", check=False).stdout


def test_a_hung_worker_is_named_at_once(running: Box) -> None:
    """Not waited for, and not started a second time."""
    import signal

    os.kill(running.processes[0].pid, signal.SIGSTOP)
    try:
        run = running.cli("search", "x", check=False)
    finally:
        os.kill(running.processes[0].pid, signal.SIGCONT)
    assert run.returncode == 1
    assert "does not answer" in run.stderr


def test_a_worker_that_does_not_start_says_why(box: Box) -> None:
    """The last line that it wrote to its log, not one of an earlier worker. A hint follows an error there."""
    box.data.mkdir(mode=0o700)
    (box.data / "backstory.db").mkdir()
    refused = box.cli("start", check=False).stderr
    assert refused.startswith("backstory: The worker did not start. ") and "~/.backstory/worker.log" in refused
    assert "backstory.db" in refused or "database" in refused
    log = box.data / "worker.log"
    before = log.stat().st_size
    chosen = Settings(data_dir=box.data)
    assert "wrote nothing" in str(worker._not_started(chosen, 7, before))
    log.write_text(log.read_text() + "backstory: The disk is slow.\nWait for it.\n")
    waited = worker._not_started(chosen, 7, before)
    assert str(waited).endswith("(pid 7) does not answer after 30 seconds. The last line of its log: The disk is slow.")


def test_a_data_directory_may_be_named_by_a_relative_path(box: Box) -> None:
    """Relative to where the command runs."""
    box.settings["BACKSTORY_DATA_DIR"] = "rel/data"
    assert box.cli("search", "x").stdout.startswith("Memory is empty.")
    assert (box.project / "rel" / "data" / "worker.json").exists()
    assert box.cli("stop").stdout == "The worker is stopped.\n"


def test_no_permission_is_one_sentence(box: Box) -> None:
    """Not a stack trace."""
    (box.root / "file").touch()
    box.settings["BACKSTORY_DATA_DIR"] = str(box.root / "file" / "data")
    for words in (("install",), ("search", "x"), ("config", "set", "port", "1")):
        run = box.cli(*words, check=False)
        assert run.returncode == 1
        assert run.stderr.startswith("backstory: ")
        assert "Traceback" not in run.stderr


def test_what_is_forbidden_holds_from_the_next_event_on(running: Box) -> None:
    """Without a restart."""
    running.hook("UserPromptSubmit", {"session_id": "a", "prompt": "kept"})
    assert "applies now" in running.cli("config", "set", "exclude_projects", "shop").stdout
    running.hook("UserPromptSubmit", {"session_id": "a", "prompt": "not kept"})
    assert [row["prompt"] for row in running.rows("SELECT prompt FROM user_prompts")] == ["kept"]


def test_trivia_does_not_take_the_hand_off(filled: Box) -> None:
    """After a "thanks" the next session is still told of the work."""
    filled.hook("UserPromptSubmit", {"session_id": "later", "prompt": "thanks"})
    filled.hook("Stop", {"session_id": "later", "last_assistant_message": "You are welcome!"})
    filled.settle()
    told = filled.told()
    assert "Add a discount" in told
    assert "welcome" not in told


def test_install_says_when_hooks_are_off(box: Box) -> None:
    """It would otherwise promise what can't come."""
    settings = box.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"disableAllHooks": true}')
    assert "nothing is recorded" in box.cli("install").stdout


CODES = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202e"
RAW = {"\x1b", "\x07", "\r", "\x9b", "\u202e"}
ECHOING = [
    [CODES],
    ["stats", f"--{CODES}"],
    ["show", CODES],
    ["config", "set", CODES, "1"],
    ["config", "set", "port", CODES],
    ["import", CODES],
    ["import", "backstory", f"/no/{CODES}"],
    ["export", "--output", f"/no/{CODES}/file"],
    ["search", "--kind", CODES, "word"],
    ["install", "--agent", CODES],
]


@pytest.mark.parametrize("words", ECHOING, ids=lambda words: words[0] if words[0].isalpha() else "alone")
def test_arguments_are_not_echoed_as_control_codes(box: Box, words: list[str]) -> None:
    """An error that quotes what was typed, or pasted, leaves the terminal alone."""
    run = subprocess.run([COMMAND, *words], env=box.env, cwd=box.project, capture_output=True, timeout=120)
    shown = (run.stdout + run.stderr).decode()
    assert run.returncode
    assert "owned" in shown and not set(shown) & RAW


def test_stored_text_is_not_printed_as_control_codes(filled: Box) -> None:
    """In no column of any row, as text or as JSON, which stays JSON."""
    with closing(sqlite3.connect(filled.data / "backstory.db", isolation_level=None)) as db:
        db.execute(
            "UPDATE observations SET type = :codes, project = :codes, title = :codes || title, "
            "facts = '[\"' || :odd || '\"]'",
            {"codes": CODES, "odd": "\x9b\u202e"},
        )
        db.execute(
            "UPDATE sdk_sessions SET project = :codes, git_branch = :codes, title = :codes, "
            "content_session_id = :codes",
            {"codes": CODES},
        )
        db.execute("UPDATE session_summaries SET completed = :codes, project = :codes", {"codes": CODES})
        db.execute("UPDATE turns SET speaker = :codes, text = :codes", {"codes": CODES})
    for words in (["sessions"], ["sessions", "show", "1"], ["sessions", "show", "1", "--turns"], ["show", "1"]):
        for more in ([], ["--json"]):
            run = filled.cli(*words, *more)
            assert "owned" in run.stdout and not set(run.stdout + run.stderr) & RAW, words
            if more:
                json.loads(run.stdout)
    for words in (["stats"], ["timeline", "1"], ["search", "discount"], ["context", "--project", CODES], ["queue"]):
        run = filled.cli(*words)
        assert not set(run.stdout + run.stderr) & RAW, words


def test_a_setting_applies_without_a_restart_by_hand(running: Box) -> None:
    """At once, or by a restart of the worker that the command does. What was changed is marked, and what is missing is
    said."""
    before = running.health()
    assert "applies now" in running.cli("config", "set", "context_tokens", "60").stdout
    for number in range(8):
        running.client.post("/api/memories", {"text": f"Prices are in cents, rule {number}.", "project": "shop"})
    told = running.client.get("/api/context/inject", project="shop")
    running.cli("config", "unset", "context_tokens")
    assert len(running.client.get("/api/context/inject", project="shop")) > len(told)
    assert "BACKSTORY_PORT is set, and comes first" in running.cli("config", "set", "port", "1").stdout
    running.cli("config", "set", "auth", "off")
    assert "The worker was restarted" in running.cli("config", "set", "auth", "on").stdout
    after = running.health()
    assert before and after and before["pid"] != after["pid"]
    listed = running.cli("config", "--changed").stdout
    assert "auth = on (from config.toml; default: on)" in listed and "context_tokens" not in listed
    said = running.cli("config", "set", "embedder", "fastembed", check=False).stdout
    assert "BACKSTORY_EMBEDDER is set" in said and "pip install 'fastembed'" in said
