"""doctor and repair: each thing that can be wrong is broken, named, mended where that is safe, and then gone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from box import COMMAND, Box, until

from backstory import __version__

ROOT = Path(__file__).parent.parent.parent


def found(box: Box) -> dict[str, dict[str, Any]]:
    """What doctor names."""
    run = box.cli("doctor", "--json", check=False)
    told = json.loads(run.stdout)
    assert run.stderr == ""
    wrong = [f for f in told["findings"] if f["level"] == "wrong"]
    assert (run.returncode, told["ok"]) == ((1, False) if wrong else (0, True))
    return {finding["name"]: finding for finding in told["findings"]}


def repair(box: Box) -> str:
    run = box.cli("repair", check=False)
    assert run.stderr == ""
    assert (run.returncode == 0) == ("All is well." in run.stdout), run.stdout
    return run.stdout


@pytest.fixture
def well(box: Box) -> Box:
    """A machine on which all is well."""
    box.settings["PATH"] = f"{COMMAND.parent}:{os.environ['PATH']}"
    box.cli("install", "--agent", "claude-code")
    box.cli("start")
    return box


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield int(other.getsockname()[1])


def kill(box: Box, sig: signal.Signals = signal.SIGKILL) -> int:
    pid = int((box.data / "worker.lock").read_text())
    os.kill(pid, sig)
    if sig == signal.SIGKILL:
        until(lambda: box.health() is None)
    return pid


def spool(box: Box, count: int, age_s: float = 0, agent: str = "claude-code") -> None:
    folder = box.data / "spool"
    folder.mkdir(exist_ok=True, mode=0o700)
    for number in range(count):
        stamp = int((time.time() - age_s) * 1000)
        payload = {"session_id": "s", "tool_name": "Bash", "tool_use_id": f"u{number}", "cwd": str(box.project)}
        name = f"{stamp:013x}-{number:016x}.{agent}.PostToolUse.json"
        (folder / name).write_text(json.dumps(payload))


def test_a_machine_on_which_all_is_well(well: Box) -> None:
    """Nothing is named, exit code 0, and repair finds nothing to do."""
    assert found(well) == {}
    assert well.cli("doctor").stdout == "All is well.\n"
    assert repair(well) == "All is well.\n"


def test_a_machine_without_anything(box: Box) -> None:
    """Named, not mended: putting hooks into somebody's settings takes somebody who wants that."""
    assert {"hooks-missing", "worker-away"} <= set(found(box))
    assert not (box.home / ".claude").exists()
    repair(box)
    assert not (box.home / ".claude").exists()
    assert "backstory install" in found(box)["hooks-missing"]["do"]


def no_worker(box: Box) -> None:
    box.cli("stop")


def killed(box: Box) -> None:
    kill(box)


def hung(box: Box) -> None:
    kill(box, signal.SIGSTOP)


def open_to_others(box: Box) -> None:
    box.data.chmod(0o755)
    (box.data / "token").chmod(0o644)


def no_shim(box: Box) -> None:
    (box.data / "bin" / "backstory-hook").unlink()


def no_interpreter(box: Box) -> None:
    shim = box.data / "bin" / "backstory-hook"
    text = shim.read_text()
    shim.write_text(text.replace("exec '", "exec '/gone", 1))


def no_workers_interpreter(box: Box) -> None:
    shim = box.data / "bin" / "backstory-worker"
    shim.write_text(shim.read_text().replace("exec '", "exec '/gone", 1))


def another_hook(box: Box) -> None:
    """The shim of another installation, of another version."""
    package = newer(box)
    shim = box.data / "bin" / "backstory-hook"
    shim.write_text(shim.read_text().replace(str(ROOT / "src" / "backstory"), str(package)))


def no_hooks(box: Box) -> None:
    (box.home / ".claude" / "settings.json").write_text("{}")


def half_the_hooks(box: Box) -> None:
    path = box.home / ".claude" / "settings.json"
    settings = json.loads(path.read_text())
    del settings["hooks"]["Stop"]
    path.write_text(json.dumps(settings))


def plugin_too(box: Box) -> None:
    path = box.home / ".claude" / "settings.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"enabledPlugins": {"backstory@backstory": True}}))


def many_spooled(box: Box) -> None:
    box.cli("stop")
    spool(box, 1001)


def rejected(box: Box) -> None:
    """An event that an older worker did not understand."""
    spool(box, 1, agent="claude-code")
    folder = box.data / "spool"
    (folder / "rejected").mkdir(mode=0o700)
    for file in folder.glob("*.json"):
        file.replace(folder / "rejected" / file.name)


def damaged(box: Box) -> None:
    """The pages of a table are overwritten while nothing runs; there is no backup."""
    box.cli("stop")
    with (box.data / "backstory.db").open("r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(4096 * 4))


def newer(box: Box) -> Path:
    """The package as it will be in a later version."""
    package = box.root / "newer" / "backstory"
    shutil.copytree(ROOT / "src" / "backstory", package, ignore=shutil.ignore_patterns("__pycache__"))
    init = package / "__init__.py"
    init.write_text(init.read_text().replace(__version__, "9.9.9"))
    return package


def another_worker(box: Box) -> None:
    """The worker of a version to come."""
    box.cli("stop")
    package = newer(box)
    worker = subprocess.Popen(
        [sys.executable, "-P", "-m", "backstory", "worker"],
        env=box.env | {"PYTHONPATH": str(package.parent)},
        cwd=box.home,
        stderr=subprocess.PIPE,
    )
    box.processes.append(worker)
    assert until(box.health)["version"] == "9.9.9"


@pytest.mark.parametrize(
    ("name", "break_it"),
    [
        ("worker-away", no_worker),
        ("worker-left-over", killed),
        ("worker-hung", hung),
        ("worker-version", another_worker),
        ("open-to-others", open_to_others),
        ("hook-missing", no_shim),
        ("hook-broken", no_interpreter),
        ("hook-broken", no_workers_interpreter),
        ("hook-version", another_hook),
        ("hooks-missing", no_hooks),
        ("hooks-missing", half_the_hooks),
        ("hooks-doubled", plugin_too),
        ("spool-growing", many_spooled),
        ("spool-rejected", rejected),
        ("database-damaged", damaged),
    ],
    ids=lambda given: given if isinstance(given, str) else given.__name__,
)
def test_what_repair_mends(well: Box, name: str, break_it: Callable[[Box], None]) -> None:
    """Broken, named, repaired, gone; and hooks report again."""
    break_it(well)
    assert name in found(well)
    assert name in repair(well)
    assert found(well) == {}
    answer = subprocess.run(
        [well.data / "bin" / "backstory-hook", "claude-code", "UserPromptSubmit"],
        input=json.dumps({"session_id": "after", "prompt": "Go on.", "cwd": str(well.project)}).encode(),
        env=well.env,
        capture_output=True,
    )
    assert answer.returncode == 0
    assert well.rows("SELECT prompt FROM user_prompts") == [{"prompt": "Go on."}]


def test_a_port_that_is_taken(well: Box, taken: int) -> None:
    """Named; repair takes the port back where it is free, else keeps to the one that the worker has."""
    well.settings["BACKSTORY_PORT"] = ""
    well.cli("config", "set", "port", str(taken))
    well.cli("restart")
    told = found(well)["port-taken"]
    assert str(taken) in told["says"] and str(well.port) in told["says"]
    assert "port-taken" in repair(well)
    assert found(well) == {}
    assert well.cli("config", "get", "port").stdout.strip() == str(well.port) != str(taken)


def test_a_port_that_is_free_again(well: Box, taken: int) -> None:
    """The worker goes back to the port that was set, and nothing is written."""
    well.settings["BACKSTORY_PORT"] = ""
    other = socket.socket()
    other.bind(("127.0.0.1", 0))
    other.listen()
    wanted = other.getsockname()[1]
    well.cli("config", "set", "port", str(wanted))
    well.cli("restart")
    assert "port-taken" in found(well)
    other.close()
    assert "free again" in repair(well)
    assert found(well) == {} and well.port == wanted


def test_a_port_that_the_environment_asks_for_is_not_ours_to_change(well: Box, taken: int) -> None:
    """It says why, and goes when the port is set to another."""
    well.settings["BACKSTORY_PORT"] = str(taken)
    well.cli("restart")
    assert "BACKSTORY_PORT" in repair(well)
    assert not (well.data / "config.toml").exists()
    assert "port-taken" in found(well)
    well.settings["BACKSTORY_PORT"] = str(well.port)
    assert found(well) == {}


def test_settings_that_can_not_be_read_are_named_and_left_to_their_owner(well: Box) -> None:
    """A file without its exclusions would remember what it must not, so repair leaves it alone."""
    config = well.data / "config.toml"
    config.write_text('exclude_projects = ["secret"\n')
    config.chmod(0o600)
    assert "not valid TOML" in found(well)["config-unreadable"]["says"]
    assert "config-unreadable" in repair(well)
    assert config.read_text() == 'exclude_projects = ["secret"\n'
    assert well.health(), "a worker that runs is not ended where none could start"
    kill(well)
    assert "No worker would start" in repair(well)
    config.write_text('exclude_projects = ["secret"]\n')
    repair(well)
    assert found(well) == {}


def test_a_disk_nearly_full(well: Box) -> None:
    """Named with what is free; it goes when there is room."""
    well.settings["BACKSTORY_SPARE_MB"] = "1000000000"
    assert "free" in found(well)["disk-nearly-full"]["says"]
    assert "disk-nearly-full" in repair(well)
    del well.settings["BACKSTORY_SPARE_MB"]
    assert found(well) == {}


def test_an_agents_settings_that_can_not_be_read(well: Box) -> None:
    """Never written over."""
    path = well.home / ".claude" / "settings.json"
    before = path.read_bytes()
    path.write_text("{ not json")
    assert "settings-unreadable" in found(well)
    repair(well)
    assert path.read_text() == "{ not json"
    path.write_bytes(before)
    assert found(well) == {}


def test_hooks_of_user_and_project_are_named_and_which_to_keep_is_not_ours_to_say(well: Box) -> None:
    """The project's file is often shared; without the user's no other project would be remembered."""
    well.cli("install", "--scope", "project")
    assert "user, project" in found(well)["hooks-doubled"]["says"]
    repair(well)
    assert "hooks-doubled" in found(well)
    well.cli("uninstall", "--scope", "project")
    assert found(well) == {}


def test_a_plugin_that_is_switched_off_here_does_not_double(well: Box) -> None:
    """The project's word goes before the user's."""
    plugin_too(well)
    (well.project / ".claude").mkdir()
    local = well.project / ".claude" / "settings.local.json"
    local.write_text(json.dumps({"enabledPlugins": {"backstory@backstory": False}}))
    assert found(well) == {}


def test_an_event_that_waits_for_a_day_beside_a_running_worker(well: Box) -> None:
    """Here because somebody else holds the database; as soon as that one lets go it is taken in."""
    with contextlib.closing(sqlite3.connect(well.data / "backstory.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        spool(well, 1, age_s=2 * 86_400)
        assert "the oldest for 48 hours" in found(well)["spool-growing"]["says"]
        other.execute("ROLLBACK")
    repair(well)
    assert found(well) == {}
    assert well.rows("SELECT tool_use_id FROM events") == [{"tool_use_id": "u0"}]


def test_what_can_never_be_taken_in_stays_rejected(well: Box) -> None:
    """Tried again, refused again, and said so; deleted by its owner it is gone."""
    folder = well.data / "spool" / "rejected"
    folder.mkdir(parents=True, mode=0o700)
    (well.data / "spool").chmod(0o700)
    file = folder / f"{1:013x}-{1:016x}.claude-code.PostToolUse.json"
    file.write_text("not json")
    assert "refused again" in repair(well)
    assert "spool-rejected" in found(well) and file.exists()
    file.unlink()
    assert found(well) == {}


def test_events_that_were_set_aside(well: Box) -> None:
    """Named, and tried again."""
    well.hook("UserPromptSubmit", {"session_id": "s", "prompt": "Go."})
    well.hook("PostToolUse", {"session_id": "s", "tool_name": "Bash", "tool_use_id": "u", "tool_input": {}})
    well.settle()
    well.cli("stop")
    with contextlib.closing(sqlite3.connect(well.data / "backstory.db", isolation_level=None)) as db:
        db.execute("UPDATE events SET status = 'dead', attempts = 5, last_error = 'x' WHERE kind = 'tool'")
    well.cli("start")
    assert "1 events" in found(well)["events-set-aside"]["says"]
    assert "1 tried again" in repair(well)
    assert found(well) == {}
    assert well.rows("SELECT status FROM events WHERE kind = 'tool'") == [{"status": "done"}]


def test_not_on_path(well: Box) -> None:
    """Named with the folder to add."""
    bare = well.root / "bin"
    bare.mkdir()
    (bare / "python3").symlink_to(sys.executable)
    before, well.settings["PATH"] = well.settings["PATH"], str(bare)
    assert str(COMMAND.parent) in found(well)["not-on-path"]["do"]
    well.settings["PATH"] = before
    assert found(well) == {}


def test_transcripts_that_claude_code_is_about_to_delete(well: Box) -> None:
    """A note, not a fault; by its own setting or the default of 30 days; and never edited by us."""
    folder = well.home / ".claude" / "projects" / "-shop"
    folder.mkdir(parents=True)
    old = folder / "a.jsonl"
    old.write_text("{}\n")
    (folder / "b.jsonl").write_text("{}\n")
    os.utime(old, (time.time() - 25 * 86_400,) * 2)
    path = well.home / ".claude" / "settings.json"
    before = path.read_bytes()
    told = found(well)["transcripts-expire"]
    assert (told["level"], told["mends"]) == ("note", False)
    assert "1 transcripts" in told["says"] and "30 days" in told["says"]
    assert "All is well." in repair(well)
    assert path.read_bytes() == before
    path.write_text(json.dumps(json.loads(before) | {"cleanupPeriodDays": 365}))
    assert found(well) == {}


def test_every_finding_is_in_the_document_and_no_other() -> None:
    """docs/doctor.md has a row for each name in the code."""
    code = "".join(f.read_text() for f in (ROOT / "src" / "backstory" / "cli" / "doctor").glob("*.py"))
    names = set(re.findall(r'Finding\(\s*"([a-z-]+)"', code))
    rows = set(re.findall(r"^\| `([a-z-]+)`", (ROOT / "docs" / "doctor.md").read_text(), re.MULTILINE))
    assert names == rows
