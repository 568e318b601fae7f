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
from terminal import in_terminal

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
    assert (run.returncode == 0) == ("No problems found." in run.stdout), run.stdout
    return run.stdout


def set_up(box: Box) -> None:
    box.settings["PATH"] = f"{COMMAND.parent}:{os.environ['PATH']}"
    box.cli("install", "--agent", "claude-code")
    box.cli("start")


@pytest.fixture(scope="module")
def machines() -> Iterator[list[Box]]:
    """The machine that the last test has mended."""
    kept: list[Box] = []
    yield kept
    for box in kept:
        box.clean_up()


@pytest.fixture
def well(
    machines: list[Box], tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Box]:
    """A machine on which all is well, and is well again when a test has passed. The next test goes on with it."""
    failed = request.session.testsfailed
    if not machines:
        box = Box(tmp_path_factory.mktemp("well"))
        machines.append(box)
        box.home.mkdir()
        box.project.mkdir()
        set_up(box)
    box = machines[0]
    settings, tuning = dict(box.settings), dict(box.tuning)
    yield box
    box.settings, box.tuning = settings, tuning
    (box.data / "config.toml").unlink(missing_ok=True)
    if request.session.testsfailed != failed:
        machines.pop().clean_up()


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


def spool(box: Box, count: int, age_s: float = 0, session: str = "s", event: str = "PostToolUse") -> None:
    folder = box.data / "spool"
    folder.mkdir(exist_ok=True, mode=0o700)
    for number in range(count):
        stamp = int((time.time() - age_s) * 1000)
        payload = {"session_id": session, "tool_name": "Bash", "tool_use_id": f"u{number}", "cwd": str(box.project)}
        name = f"{stamp:013x}-{number:016x}.claude-code.{event}.json"
        (folder / name).write_text(json.dumps(payload))


def test_a_machine_on_which_all_is_well(well: Box) -> None:
    """Nothing is named, exit code 0, and repair finds nothing to do."""
    assert found(well) == {}
    for place in (well.project, well.home):  # at home, the user's files are the project's
        assert well.cli("doctor", cwd=place).stdout == "No problems found.\n"
    assert repair(well) == "No problems found.\n"


def test_a_machine_without_anything(box: Box) -> None:
    """Named, not mended: putting hooks into somebody's settings takes somebody who wants that. But the programs are
    written that a plugin calls."""
    assert {"hooks-missing", "worker-away"} <= set(found(box))
    assert not (box.home / ".claude").exists()
    told = json.loads(box.cli("repair", "--json", check=False).stdout)
    assert not (box.home / ".claude").exists()
    assert not told["ok"] and [finding["name"] for finding in told["findings"]][:1] == ["hooks-missing"]
    assert "backstory install" in told["findings"][0]["do"]
    assert {(one["name"], one["fixed"]) for one in told["repairs"]} == {("worker-away", True), ("hook-missing", True)}
    hook = subprocess.run([box.data / "bin" / "backstory-hook", "--version"], env=box.env, capture_output=True)
    assert hook.stdout.decode().strip() == __version__


def test_all_is_well_right_after_an_installation(box: Box) -> None:
    """The worker starts with the next session, and hooks do not need PATH: both are notes, and are marked as notes."""
    box.cli("install")
    for path, names in ((os.environ["PATH"], {"worker-away"}), ("/usr/bin:/bin", {"worker-away", "not-on-path"})):
        box.settings["PATH"] = f"{COMMAND.parent}:{path}" if len(names) == 1 else path
        run = box.cli("doctor")
        assert set(re.findall(r"^([a-z-]+) \(a note\): ", run.stdout, re.MULTILINE)) == names
        assert run.stdout.endswith("\nNo problems found.\n") and "repair" not in run.stdout
        assert {(name, one["level"]) for name, one in found(box).items()} == {(name, "note") for name in names}
    assert "\x1b[32mNo problems found." in in_terminal(box, "doctor", colours=True)
    (box.data / "bin" / "backstory-hook").unlink()
    assert set(found(box)) == {"hook-missing", "worker-away", "not-on-path"}
    run = box.cli("doctor", check=False)
    assert run.stdout.startswith("hook-missing: ") and "No problems" not in run.stdout
    assert "worker-away: started the worker" in box.cli("repair").stdout


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


def no_server(box: Box) -> None:
    (box.home / ".claude.json").write_text('{"numStartups": 1}')


def no_skill(box: Box) -> None:
    (box.home / ".claude" / "skills" / "backstory" / "SKILL.md").unlink()


def no_bridge(box: Box) -> None:
    (box.data / "bin" / "backstory-mcp").unlink()


def plugin_too(box: Box) -> None:
    path = box.home / ".claude" / "settings.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"enabledPlugins": {"backstory@backstory": True}}))


def many_spooled(box: Box) -> None:
    """Of a kind that nobody observes, which takes less time."""
    box.cli("stop")
    spool(box, 1001, event="PreCompact")


def rejected(box: Box) -> None:
    """An event that an older worker did not understand."""
    spool(box, 1, session="rejected")
    folder = box.data / "spool"
    (folder / "rejected").mkdir(mode=0o700, exist_ok=True)
    for file in folder.glob("*.json"):
        file.replace(folder / "rejected" / file.name)


def damaged(box: Box) -> None:
    """The pages of a table are overwritten while nothing runs; there is no backup."""
    box.cli("stop")
    shutil.rmtree(box.data / "backups", ignore_errors=True)
    with (box.data / "backstory.db").open("r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(4096 * 4))


def not_a_database(box: Box) -> None:
    """Something else under its name."""
    box.cli("stop")
    shutil.rmtree(box.data / "backups", ignore_errors=True)
    (box.data / "backstory.db").write_text("Dear diary,\n" * 1000)


def much_spooled(box: Box) -> None:
    """More than 100 MB in few events, as a tool that prints much leaves them."""
    box.cli("stop")
    spool(box, 7)
    for file in (box.data / "spool").glob("*.json"):
        payload = json.loads(file.read_text())
        file.write_text(json.dumps(payload | {"tool_response": "0123456789abcde\n" * (15 << 16)}))


def newer(box: Box) -> Path:
    """The package as it will be in a later version."""
    package = box.root / "newer" / "backstory"
    if package.exists():
        return package
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


#: Each round breaks things that do not hide each other.
ROUNDS: list[dict[Callable[[Box], None], str]] = [
    {
        open_to_others: "open-to-others",
        no_shim: "hook-missing",
        half_the_hooks: "hooks-missing",
        no_skill: "tools-missing",
        rejected: "spool-rejected",
    },
    {
        killed: "worker-left-over",
        no_interpreter: "hook-broken",
        no_hooks: "hooks-missing",
        no_server: "tools-missing",
    },
    {no_worker: "worker-away", no_workers_interpreter: "hook-broken"},
    {another_worker: "worker-version", no_bridge: "hook-missing"},
    {hung: "worker-hung", another_hook: "hook-version"},
    {many_spooled: "spool-growing"},
    {much_spooled: "spool-growing"},
    {damaged: "database-damaged"},
    {not_a_database: "database-damaged"},
    {plugin_too: "hooks-doubled"},
]


@pytest.mark.parametrize("broken", ROUNDS, ids=lambda given: "-".join(one.__name__ for one in given))
def test_what_repair_mends(well: Box, broken: dict[Callable[[Box], None], str], request: pytest.FixtureRequest) -> None:
    """Broken, named, repaired, gone; and hooks report again."""
    settings = well.home / ".claude" / "settings.json"
    before, session = settings.read_bytes(), request.node.name
    for break_it in broken:
        break_it(well)
    named = set(broken.values())
    assert named <= set(found(well))
    told = repair(well)
    assert named <= set(re.findall(r"^([a-z-]+): ", told, re.MULTILINE)), told
    assert found(well) == {}
    answer = subprocess.run(
        [well.data / "bin" / "backstory-hook", "claude-code", "UserPromptSubmit"],
        input=json.dumps({"session_id": session, "prompt": f"Go on, {session}.", "cwd": str(well.project)}).encode(),
        env=well.env,
        capture_output=True,
    )
    assert answer.returncode == 0
    assert well.rows("SELECT prompt FROM user_prompts")[-1]["prompt"] == f"Go on, {session}."
    if plugin_too in broken:  # which took our hooks out of the settings
        settings.write_bytes(before)
        well.cli("install", "--agent", "claude-code")


def test_a_port_that_is_taken(well: Box, taken: int) -> None:
    """A note, which repair leaves: the setting is the user's, and the other program may be gone tomorrow."""
    well.settings["BACKSTORY_PORT"] = ""
    well.cli("config", "set", "port", str(taken))
    well.cli("restart")
    told = found(well)["port-taken"]
    assert str(taken) in told["says"] and str(well.port) in told["says"]
    assert told["level"] == "note" and not told["mends"]
    pid = well.health() or {}
    assert "port-taken" in repair(well)
    assert well.cli("config", "get", "port").stdout.strip() == str(taken) != str(well.port)
    assert (well.health() or {})["pid"] == pid["pid"]


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
    assert "worker cannot start" in repair(well)
    config.write_text('exclude_projects = ["secret"]\n')
    assert repair(well).endswith("No problems found.\n")


def put_a_folder(path: Path) -> None:
    path.mkdir(mode=0o700)
    (path / "somebody's").touch()


def put_a_dangling_link(path: Path) -> None:
    path.symlink_to(path.parent.parent / "disk" / "backstory.db")


@pytest.mark.parametrize("up", [False, True], ids=["down", "up"])
def test_a_database_that_can_not_be_opened_is_left_to_its_owner(box: Box, up: bool) -> None:
    """What lies in its place is not ours to move, and no empty database takes its place; hooks spool meanwhile. A link
    to a database elsewhere is no fault."""
    set_up(box)
    if not up:
        box.cli("stop")
    database, aside = box.data / "backstory.db", box.data / "aside.db"
    elsewhere = box.home / "disk" / "backstory.db"
    database.rename(aside)
    for put, do in ((put_a_folder, "Move it away"), (put_a_dangling_link, "Restore")):
        if database.is_dir():
            shutil.rmtree(database)
        put(database)
        told = found(box)["database-unreadable"]
        assert do in told["do"] and not told["mends"]
        assert "database-unreadable" in repair(box)
        assert database.is_dir() or (database.is_symlink() and not elsewhere.exists())
        assert (box.health() is not None) == up
    if up:
        database.unlink()
        aside.rename(database)
    else:
        elsewhere.parent.mkdir()
        aside.rename(elsewhere)
    mended = repair(box)
    assert found(box) == {}, mended
    assert database.is_symlink() != up


@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv, to be a user whom modes bind")
@pytest.mark.parametrize("mode", [0, 0o400])
def test_a_database_whose_mode_stands_in_the_way(well: Box, mode: int) -> None:
    """Named, and mended: the file is ours."""
    well.cli("stop")
    (well.data / "backstory.db").chmod(mode)
    # Modes do not bind root; without these two capabilities they do.
    bound = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"] if os.getuid() == 0 else []
    told = subprocess.run([*bound, COMMAND, "doctor", "--json"], env=well.env, cwd=well.project, capture_output=True)
    finding = {f["name"]: f for f in json.loads(told.stdout)["findings"]}["database-unreadable"]
    assert finding["mends"] and "chmod 600" in finding["do"]
    mended = subprocess.run([*bound, COMMAND, "repair"], env=well.env, cwd=well.project, capture_output=True)
    assert mended.stdout.endswith(b"No problems found.\n"), mended
    assert (well.data / "backstory.db").stat().st_mode & 0o777 == 0o600


def test_a_server_that_does_not_answer(well: Box) -> None:
    """Named with what to look at; gone when the setting is."""
    well.cli("stop")
    well.settings["BACKSTORY_DATABASE_URL"] = "postgresql://somebody:secret@127.0.0.1:1/memory"
    told = found(well)["database-unreadable"]
    assert "database_url" in told["do"] and "secret" not in json.dumps(told)
    del well.settings["BACKSTORY_DATABASE_URL"]
    assert repair(well).endswith("No problems found.\n")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_another_user_is_left_to_its_owner(well: Box) -> None:
    """Named with the command that gives it back; repair takes nothing from anybody."""
    token = well.data / "token"
    os.chown(token, 65534, -1)
    told = found(well)["owned-by-another"]
    assert "token" in told["says"] and "chown" in told["do"] and not told["mends"]
    assert "owned-by-another" in repair(well)
    assert token.stat().st_uid == 65534
    os.chown(token, 0, -1)
    assert found(well) == {}


@pytest.fixture
def small_disk(box: Box) -> Iterator[Box]:
    """A machine whose data directory is a disk of its own, of 64 MB."""
    box.data.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "backstory", str(box.data)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield box
    finally:
        box.clean_up()
        subprocess.run(["umount", "--lazy", str(box.data)], check=True)


def test_a_disk_that_is_small(small_disk: Box) -> None:
    """Named with what is really free there; it goes when the disk has grown."""
    set_up(small_disk)
    told = found(small_disk)
    assert set(told) == {"disk-nearly-full"} and " MB are free" in told["disk-nearly-full"]["says"]
    assert "disk-nearly-full" in repair(small_disk)
    subprocess.run(["mount", "-o", "remount,size=1g", small_disk.data], check=True)
    assert found(small_disk) == {}


def test_a_disk_nearly_full(well: Box) -> None:
    """Named with what is free; it goes when there is room."""
    well.tuning["spare_mb"] = 1000000000
    assert "free" in found(well)["disk-nearly-full"]["says"]
    assert "disk-nearly-full" in repair(well)
    del well.tuning["spare_mb"]
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
    settings = well.home / ".claude" / "settings.json"
    before = settings.read_bytes()
    plugin_too(well)
    (well.project / ".claude").mkdir(exist_ok=True)
    local = well.project / ".claude" / "settings.local.json"
    local.write_text(json.dumps({"enabledPlugins": {"backstory@backstory": False}}))
    assert found(well) == {}
    settings.write_bytes(before)
    local.unlink()


def test_an_event_that_waits_for_a_day_beside_a_running_worker(well: Box) -> None:
    """Here because somebody else holds the database; as soon as that one lets go it is taken in."""
    with contextlib.closing(sqlite3.connect(well.data / "backstory.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        spool(well, 1, age_s=2 * 86_400, session="held")
        assert "the oldest for 48 hours" in found(well)["spool-growing"]["says"]
        other.execute("ROLLBACK")
    assert repair(well).endswith("No problems found.\n")
    sql = "SELECT tool_use_id FROM events JOIN sdk_sessions s ON s.id = session_id WHERE content_session_id = 'held'"
    assert well.rows(sql) == [{"tool_use_id": "u0"}]


def test_what_can_never_be_taken_in_stays_rejected(well: Box) -> None:
    """Tried again, refused again, and said so; deleted by its owner it is gone. What holds no event is deleted."""
    folder = well.data / "spool" / "rejected"
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    (well.data / "spool").chmod(0o700)
    file = folder / f"{1:013x}-{1:016x}.claude-code.PostToolUse.json"
    file.write_text('{"tool_name": "Read"}')  # of no session
    empty = [folder / f"{number:013x}-{1:016x}.claude-code.Stop.json" for number in (2, 3)]
    empty[0].touch()
    empty[1].write_text("not json")
    assert "read 0 events and rejected 1 again" in repair(well)
    assert "rejected 1 event: " in found(well)["spool-rejected"]["says"] and list(folder.iterdir()) == [file]
    file.unlink()
    empty[0].touch()
    assert "the worker read 0 events, and 1 file without one was deleted." in repair(well)
    assert found(well) == {}


def test_events_that_were_set_aside(well: Box) -> None:
    """Named, and tried again."""
    well.hook("UserPromptSubmit", {"session_id": "aside", "prompt": "Go."})
    well.hook("PostToolUse", {"session_id": "aside", "tool_name": "Bash", "tool_use_id": "aside", "tool_input": {}})
    well.settle()
    well.cli("stop")
    with contextlib.closing(sqlite3.connect(well.data / "backstory.db", isolation_level=None)) as db:
        db.execute("UPDATE events SET status = 'dead', attempts = 5, last_error = 'x' WHERE tool_use_id = 'aside'")
    well.cli("start")
    assert "1 event was set aside" in found(well)["events-set-aside"]["says"]
    told = repair(well)
    assert "events retried: 1." in told and told.endswith("No problems found.\n")
    assert well.rows("SELECT status FROM events WHERE tool_use_id = 'aside'") == [{"status": "done"}]


def test_a_job_that_fails_is_named_until_it_is_well(well: Box) -> None:
    """Health, status and doctor tell its name and the place of its failure; the log quotes nothing."""
    well.client.post("/api/memories", {"text": "The port is 80", "project": "shop"})
    well.cli("stop")
    with contextlib.closing(sqlite3.connect(well.data / "backstory.db")) as connection:
        connection.execute("INSERT INTO rebuilds (step, before_id, done) VALUES ('observations', 99, 'canary')")
        connection.commit()
    well.cli("start")
    until(lambda: well.client.get("/api/health")["failing"], "the failure to be told")
    health = well.client.get("/api/health")
    assert health["status"] == "degraded" and health["failing"][0].startswith("reindex: TypeError in reindex.py:")
    assert "failing   reindex: TypeError" in well.cli("status").stdout
    assert set(found(well)) == {"job-failing"}
    assert well.client.get("/api/search", query="port")["items"]
    log = (well.data / "worker.log").read_text()
    assert "reindex failed: TypeError in reindex.py:" in log and "canary" not in log and "Traceback" not in log
    with contextlib.closing(sqlite3.connect(well.data / "backstory.db")) as connection:
        connection.execute("DELETE FROM rebuilds")
        connection.commit()
    assert "job-failing: restarted the worker" in repair(well)
    assert well.client.get("/api/health")["status"] == "ok"


def test_not_on_path(well: Box) -> None:
    """Named with the folder to add."""
    bare = well.root / "bin"
    bare.mkdir()
    (bare / "python3").symlink_to(sys.executable)
    before, well.settings["PATH"] = well.settings["PATH"], str(bare)
    assert str(COMMAND.parent) in found(well)["not-on-path"]["do"]
    well.settings["PATH"] = before
    assert found(well) == {}


def test_groups_without_their_sandbox(well: Box) -> None:
    """A machine without groups does not need it."""
    well.settings["PATH"] = str(COMMAND.parent)
    assert "sandbox-missing" not in found(well)
    (well.data / "groups" / "family").mkdir(parents=True)
    assert "bubblewrap is not installed" in found(well)["sandbox-missing"]["says"]
    well.settings["BACKSTORY_GROUP_SANDBOX"] = "none"
    assert "sandbox-missing" not in found(well)
    shutil.rmtree(well.data / "groups")


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
    assert "1 transcript that is not kept" in told["says"] and "30 days" in told["says"]
    assert "No problems found." in repair(well)
    assert path.read_bytes() == before
    path.write_text(json.dumps(json.loads(before) | {"cleanupPeriodDays": 365}))
    assert found(well) == {}
    path.write_bytes(before)
    shutil.rmtree(folder)


def test_every_finding_is_in_the_document_and_no_other() -> None:
    """docs/doctor.md has a row for each name in the code."""
    code = "".join(f.read_text() for f in (ROOT / "src" / "backstory" / "cli" / "doctor").glob("*.py"))
    names = set(re.findall(r'(?:Finding|_missing)\(\s*"([a-z-]+)"', code))
    rows = set(re.findall(r"^\| `([a-z-]+)`", (ROOT / "docs" / "doctor.md").read_text(), re.MULTILINE))
    assert names == rows
