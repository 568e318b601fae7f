"""What a sandbox may place among its files, and how the host reads and writes there without following it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import unprivileged
from unprivileged import needs_bubblewrap

from backstory.groups import ipc_files, state_dir
from backstory.groups.ipc_files import IpcFiles, TakenFile
from backstory.groups.names import GroupPaths

PREPARE = """
import sys
from pathlib import Path
from backstory.groups import state_dir
from backstory.groups.names import GroupPaths

state_dir.prepare(GroupPaths(Path(sys.argv[1]), "alpha"), Path(sys.argv[2]))
"""


@pytest.fixture
def paths(tmp_path: Path) -> GroupPaths:
    paths = GroupPaths(tmp_path, "alpha")
    IpcFiles(paths).prepare()
    IpcFiles(GroupPaths(tmp_path, "beta")).prepare()
    return paths


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def errors_of(paths: GroupPaths) -> set[str]:
    return set(names(paths.errors)) if paths.errors.exists() else set()


def test_files_are_taken_once_in_the_order_of_their_names(paths: GroupPaths) -> None:
    """Temporary names are not looked at: their writer is not done."""
    for name in ("2.json", "1.json", ".3.json", "4.tmp"):
        (paths.tasks / name).write_text(name)
    box = IpcFiles(paths)
    assert box.take("tasks") == [TakenFile("1.json", b"1.json"), TakenFile("2.json", b"2.json")]
    assert box.take("tasks") == []
    assert names(paths.tasks) == [".3.json", "4.tmp"]
    assert errors_of(paths) == set()


def test_what_is_no_plain_file_is_moved_away_unread(paths: GroupPaths, tmp_path: Path) -> None:
    """A link, a pipe, a directory or a file without end neither blocks the host nor tells it anything."""
    secret = tmp_path / "token"
    secret.write_text("secret")
    (paths.tasks / "link.json").symlink_to(secret)
    (paths.tasks / "dangling.json").symlink_to(tmp_path / "nowhere")
    os.mkfifo(paths.tasks / "pipe.json")
    (paths.tasks / "folder.json").mkdir()
    with (paths.tasks / "large.json").open("wb") as file:
        file.truncate(ipc_files.MAX_BYTES + 1)
    for long in ("n" * 250, "😀" * 60):
        (paths.tasks / f"{long}.json").symlink_to(secret)
    (paths.tasks / "good.json").write_text("{}")
    assert [taken.name for taken in IpcFiles(paths).take("tasks")] == ["good.json"]
    assert list(paths.tasks.iterdir()) == []
    bad = {f"alpha.{name}.json" for name in ("link", "dangling", "pipe", "folder", "large")}
    assert bad < errors_of(paths)
    assert len(errors_of(paths)) == 7
    assert secret.read_text() == "secret"


@pytest.mark.parametrize("folder", ["input", "tasks", "responses"])
def test_a_folder_that_became_a_link_is_made_anew(paths: GroupPaths, tmp_path: Path, folder: str) -> None:
    """Nothing is read from another group's folder, and nothing is written there."""
    other = GroupPaths(tmp_path, "beta")
    (other.ipc / folder / "theirs.json").write_text("{}")
    (paths.ipc / folder).rmdir()
    (paths.ipc / folder).symlink_to(f"../beta/{folder}")
    assert IpcFiles(paths).take(folder) == []
    (paths.ipc / folder).rmdir()
    (paths.ipc / folder).symlink_to(f"../beta/{folder}")
    IpcFiles(paths).put(folder, "ours.json", b"{}")
    assert names(paths.ipc / folder) == ["ours.json"]
    assert not (paths.ipc / folder).is_symlink()
    assert names(other.ipc / folder) == ["theirs.json"]


def test_a_file_is_written_over_a_link_and_not_through_it(paths: GroupPaths, tmp_path: Path) -> None:
    """A directory in its place is moved away. What is written is never seen half."""
    theirs = GroupPaths(tmp_path, "beta").ipc / "session_history.json"
    theirs.write_text("[1]")
    own = paths.ipc / "session_history.json"
    own.symlink_to(theirs)
    IpcFiles(paths).put("", "session_history.json", b"[2]")
    assert (own.read_text(), theirs.read_text(), own.is_symlink()) == ("[2]", "[1]", False)
    own.unlink()
    (own / "nested").mkdir(parents=True)
    IpcFiles(paths).put("", "session_history.json", b"[3]")
    assert own.read_text() == "[3]"
    assert names(paths.ipc) == ["input", "responses", "session_history.json", "tasks"]


def test_what_was_taken_is_not_lost_with_what_cannot_be_moved_away(paths: GroupPaths, tmp_path: Path) -> None:
    paths.errors.write_text("not a directory")
    (paths.tasks / "1.json").write_text("{}")
    (paths.tasks / "2.json").symlink_to(tmp_path)
    assert IpcFiles(paths).take("tasks") == [TakenFile("1.json", b"{}")]


def test_a_new_run_starts_without_requests_of_the_last_one(paths: GroupPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many. Nobody waits for their answers. Messages to the group stay, and `_close` does not."""
    monkeypatch.setattr(ipc_files, "MAX_ENTRIES", 2)
    for number in range(5):
        (paths.tasks / f"{number}.json").write_text("{}")
    (paths.responses / "1.json").write_text("{}")
    (paths.input / "1.json").write_text("{}")
    (paths.input / "_close").write_text("")
    IpcFiles(paths).prepare()
    assert [list(folder.iterdir()) for folder in (paths.tasks, paths.responses)] == [[], []]
    assert names(paths.input) == ["1.json"]


def test_what_a_host_that_died_has_begun_to_write_is_removed(paths: GroupPaths) -> None:
    for name, age in ((".0123456789abcdef.tmp", 3600), (".0123456789abcde0.tmp", 0)):
        (paths.input / name).write_text("{")
        os.utime(paths.input / name, (time.time() - age,) * 2)
    IpcFiles(paths).prepare()
    assert names(paths.input) == [".0123456789abcde0.tmp"]


def test_errors_do_not_grow_without_end(paths: GroupPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipc_files, "MAX_ERRORS", 3)
    box = IpcFiles(paths)
    for _ in range(5):
        box.set_aside("bad.json", b"bad")
        os.mkfifo(paths.tasks / "pipe.json")
        box.take("tasks")
    assert len(errors_of(paths)) == 3
    assert list(paths.tasks.iterdir()) == []


@needs_bubblewrap
@pytest.mark.parametrize("is_full", [False, True])
def test_no_mode_locks_a_group_out(tmp_path: Path, is_full: bool) -> None:
    """The agent owns its directories, and may take every right from itself and from the host."""
    paths, skills = GroupPaths(tmp_path, "alpha"), tmp_path / "skills"
    (skills / "cook").mkdir(parents=True)
    state_dir.prepare(paths, skills)
    for number in range(ipc_files.MAX_ERRORS if is_full else 0):
        paths.errors.mkdir(exist_ok=True)
        (paths.errors / f"beta.{number}.json").touch()
    (paths.tasks / "locked" / "inner").mkdir(parents=True)
    state = (paths.state / "skills" / "cook", paths.state / "skills", paths.state)
    for folder in (paths.tasks / "locked", paths.tasks, paths.ipc, *state, paths.folder):
        folder.chmod(0o000)
    unprivileged.run(PREPARE, tmp_path, skills)
    assert names(paths.ipc) == ["input", "responses", "tasks"]
    assert names(paths.tasks) == []
    assert ("alpha.locked" in errors_of(paths)) != is_full
    assert names(paths.state / "skills") == ["cook"]


def test_errors_of_a_group_are_removed_with_it(paths: GroupPaths, tmp_path: Path) -> None:
    (paths.tasks / "folder.json" / "inner").mkdir(parents=True)
    (paths.tasks / "link.json").symlink_to(tmp_path)
    other = GroupPaths(tmp_path, "alpha-b")
    IpcFiles(other).prepare()
    (other.tasks / "link.json").symlink_to(tmp_path)
    for each in (paths, other):
        IpcFiles(each).take("tasks")
    assert errors_of(paths) == {"alpha.folder.json", "alpha.link.json", "alpha-b.link.json"}
    IpcFiles(paths).remove_errors()
    assert errors_of(paths) == {"alpha-b.link.json"}
