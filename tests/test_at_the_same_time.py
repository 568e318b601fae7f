"""Files that many threads and processes write or make at the same time."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest
from box import Box, until

from backstory import settings
from backstory.agents.claude_code import kept_files
from backstory.cli import shims
from backstory.groups import start, state_dir
from backstory.groups.names import GroupPaths
from backstory.kill_switch import KillSwitch, write_launcher
from backstory.paths import Paths, remove_abandoned, write_private
from backstory.settings import Settings
from backstory.store import forgotten
from backstory.worker.guard import make_token

THREADS, TIMES = 8, 25
#: Waits for a line, so that all of them begin together.
TOGETHER = "import sys; from pathlib import Path; here = Path(sys.argv[1]); print(flush=True); sys.stdin.readline()\n"


def in_threads(work: Callable[[int], object]) -> list[object]:
    """Call `work` in all threads at once, with the number of each; return what they return."""
    together = threading.Barrier(THREADS)

    def begin(number: int) -> object:
        together.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def in_processes(code: str, folder: Path) -> list[str]:
    """Run code in four processes at once; return what they print. `here` is the folder."""
    command = [sys.executable, "-c", TOGETHER + code, str(folder)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) for _ in range(4)
    ]
    for process in running:
        assert process.stdout
        process.stdout.readline()
    for process in running:
        assert process.stdin
        process.stdin.write("\n")
    said = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0] * 4
    return said


def left(folder: Path) -> list[str]:
    """The temporary files in a folder."""
    return [path.name for path in folder.rglob(".*")]


def test_a_file_is_always_whole_and_private(tmp_path: Path) -> None:
    """However many write it. A reader sees what one of them wrote."""
    file, size = tmp_path / "file", 50_000

    def write(number: int) -> None:
        for _ in range(TIMES):
            write_private(file, bytes([65 + number]) * size)
            seen = file.read_bytes()
            assert len(seen) == size
            assert len(set(seen)) == 1
            assert stat.S_IMODE(file.stat().st_mode) == 0o600

    in_threads(write)
    in_processes(
        "from backstory.paths import write_private\n"
        f"for _ in range({TIMES}):\n write_private(here / 'file', b'x' * {size})",
        tmp_path,
    )
    assert left(tmp_path) == []


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_private(tmp_path / "folder", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_launchers_run_while_others_write_them(tmp_path: Path) -> None:
    """Each start of an agent writes its launcher, and runs it at once. A fork of another thread may hold it open."""

    def run(number: int) -> None:
        for each in range(TIMES):
            path = tmp_path / ("launch" if number % 2 else f"launch-{number}-{each}")
            write_launcher(path, "PIPE", "PROGRAM")
            switch = KillSwitch(tmp_path)
            env = {"PIPE": str(switch.path), "PROGRAM": "/bin/true"}
            assert subprocess.run([path], env=env, timeout=60).returncode == 0
            switch.close()

    in_threads(run)
    assert left(tmp_path) == []


def test_the_files_of_all_sandboxes_are_there_while_agents_start(tmp_path: Path) -> None:
    """They stay what they are: bubblewrap cannot mount a file that is replaced before it gets there."""
    start.write_files(tmp_path)
    files = {path: path.stat().st_ino for path in tmp_path.iterdir()}

    def write(_: int) -> None:
        for _ in range(TIMES):
            start.write_files(tmp_path)
            assert os.access(tmp_path / "shell", os.X_OK)
            assert subprocess.run([tmp_path / "shell", "exit 7"], timeout=60).returncode == 7

    in_threads(write)
    assert {path: path.stat().st_ino for path in tmp_path.iterdir()} == files
    assert left(tmp_path) == []


def test_hooks_run_while_their_scripts_are_written(tmp_path: Path) -> None:
    """Every command that starts may repair them, and `uninstall` empties them."""
    chosen = Settings(data_dir=tmp_path / "data")
    shims.write(chosen)
    is_done = threading.Event()
    failed: list[int] = []

    def hook() -> None:
        while not is_done.is_set():
            run = subprocess.run([chosen.paths.hook, "--version"], capture_output=True, timeout=60)
            failed.extend([run.returncode] if run.returncode or run.stderr else [])

    def write(number: int) -> None:
        for _ in range(TIMES):
            shims.write(chosen)
            if number == 0:
                shims.remove(chosen.paths)

    calling = threading.Thread(target=hook)
    calling.start()
    try:
        in_threads(write)
    finally:
        is_done.set()
        calling.join()
    assert not failed
    assert left(chosen.paths.bin) == []


def test_all_get_the_same_token_and_key(tmp_path: Path) -> None:
    """Whoever makes it. A second key would make what was forgotten with the first one come back."""
    for attempt in range(TIMES):
        paths = Paths(tmp_path / str(attempt))
        paths.prepare()
        assert len(set(in_threads(lambda _, paths=paths: (forgotten.key(paths), make_token(paths.token))))) == 1  # type: ignore[misc]
    (tmp_path / "0" / "token").write_text("")
    assert len(make_token(tmp_path / "0" / "token")) > 20
    code = """
from backstory.paths import Paths
from backstory.store import forgotten
from backstory.worker.guard import make_token
print(*(x for n in range(25) for x in (forgotten.key(Paths(here / str(n))).hex(), make_token(here / str(n) / "token"))))
"""
    assert len(set(in_processes(code, tmp_path / "fresh"))) == 1


def test_a_directory_that_cannot_be_locked_is_used_all_the_same(tmp_path: Path) -> None:
    """Such as one on NFS, whose client refuses to lock what is open for reading."""
    refused = OSError(errno.EBADF, os.strerror(errno.EBADF))
    with mock.patch("fcntl.flock", side_effect=refused):
        token = make_token(tmp_path / "data" / "token")
    assert token == make_token(tmp_path / "data" / "token")


def test_no_setting_is_lost(tmp_path: Path) -> None:
    """Two commands that change different settings change both."""
    file, names = tmp_path / "config.toml", ("port", "host", "group_limit", "model")
    values = ("8123", "localhost", "3", "haiku")
    code = f"""
from backstory import settings
name, value = sys.stdin.readline().split()
for _ in range({TIMES}):
    settings.change(here / "config.toml", name, None)
    settings.change(here / "config.toml", name, value)
"""
    command = [sys.executable, "-c", TOGETHER + code, str(tmp_path)]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in names]
    for process in running:
        assert process.stdout
        process.stdout.readline()
    for process, name, value in zip(running, names, values, strict=True):
        process.communicate(f"\n{name} {value}\n", timeout=60)
        assert process.returncode == 0
    assert sorted(line.split(" = ")[0] for line in file.read_text().splitlines()) == sorted(names)
    in_threads(lambda number: settings.change(file, "port", 8000 + number))
    assert len(file.read_text().splitlines()) == len(names)


def test_a_group_is_made_ready_by_several(tmp_path: Path) -> None:
    """It is created while its first agent starts. Its skills are whole at any time."""
    skills = tmp_path / "skills"
    for name in ("one", "two"):
        (skills / name / "deep").mkdir(parents=True)
        (skills / name / "deep" / "SKILL.md").write_text(name)
    paths = GroupPaths(tmp_path / "data", "ours")

    def prepare(_: int) -> None:
        for _ in range(TIMES):
            state_dir.prepare(paths, skills)

    in_threads(prepare)
    assert (paths.state / "settings.json").read_text().endswith("}\n")
    assert "searchable history" in (paths.folder / "CLAUDE.md").read_text()
    assert sorted(path.read_text() for path in (paths.state / "skills").rglob("SKILL.md")) == ["one", "two"]
    assert left(paths.state / "skills") == []


def test_a_transcript_is_restored_by_several(tmp_path: Path) -> None:
    """One of them writes it, and it is whole."""
    entries = [f'{{"type": "user", "line": {number}}}' for number in range(2000)]
    for attempt in range(TIMES):
        path = tmp_path / "projects" / f"{attempt}.jsonl"
        in_threads(lambda _, path=path: kept_files.write(path, entries))  # type: ignore[misc]
        assert path.read_text().splitlines() == entries
    assert left(tmp_path) == []


def test_what_killed_processes_have_begun_is_removed(tmp_path: Path) -> None:
    """What somebody writes now stays, and so do files of other names."""
    old, mine = time.time() - 90_000, ".session.json.0123456789abcdef.tmp"
    for name in (mine, ".token.4711.tmp", ".backstory-hook.4711", ".gitignore", ".notes.tmp"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (old, old))
    (tmp_path / ".token.00000000deadbeef.tmp").touch()
    remove_abandoned(tmp_path)
    assert sorted(left(tmp_path)) == [".gitignore", ".notes.tmp", ".token.00000000deadbeef.tmp"]


def test_the_worker_removes_them(box: Box) -> None:
    """A copy of a session has its text."""
    left = box.data / "agent-sessions" / "s" / ".session.json.0123456789abcdef.tmp"
    left.parent.mkdir(parents=True)
    left.write_text("what was said")
    os.utime(left, (0, 0))
    box.start()
    until(lambda: not left.exists(), "it to be removed")
