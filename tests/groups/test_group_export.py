"""The archive of a group that is deleted, whatever its agent has made in its directories."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
import unprivileged
from box import Box

from backstory.groups import export
from backstory.groups.names import GroupPaths

#: Bytes of a file that no disk has.
HUGE = 900 << 30


@pytest.fixture
def paths(tmp_path: Path) -> GroupPaths:
    found = GroupPaths(tmp_path / "data", "ours")
    found.folder.mkdir(parents=True)
    found.state.mkdir(parents=True)
    return found


def exported(paths: GroupPaths) -> tuple[Path, int]:
    """The archive, and how many entries are left out."""
    target = paths.data / "x.tar.gz"
    with target.open("wb") as out:
        return target, export.write(paths, out)


def make_holes(file: Path, size: int = HUGE) -> None:
    """A file with a little at its beginning, in its middle and at its end."""
    with file.open("wb") as out:
        for at, text in ((0, b"begin"), (size // 2, b"middle"), (size - 3, b"end")):
            out.seek(at)
            out.write(text)


def test_a_group_with_a_sparse_file_is_deleted(running: Box) -> None:
    """It would take hours to write its zeros. Its data is kept."""
    running.cli("groups", "create", "ours")
    paths, target = GroupPaths(running.data, "ours"), running.root / "ours.tar.gz"
    make_holes(paths.folder / "sparse")
    make_holes(paths.state / "sparse")
    began = time.monotonic()
    running.cli("groups", "list")
    running.cli("groups", "show", "ours")
    running.cli("groups", "delete", "ours", "--yes", "--output", str(target))
    assert time.monotonic() - began < 30
    assert target.stat().st_size < 100_000
    with tarfile.open(target) as tar:
        assert tar.getmember("groups/ours/sparse").size == HUGE
        assert tar.getmember("sessions/ours/.claude/sparse").size == HUGE
    assert not paths.folder.exists()


def test_holes_come_back(paths: GroupPaths, tmp_path: Path) -> None:
    """By Python and by `tar`. What follows them in the archive is whole, too."""
    make_holes(paths.folder / "a", 100 << 20)
    os.truncate(os.open(paths.folder / "b", os.O_RDWR | os.O_CREAT), 50 << 20)
    (paths.folder / "c").write_bytes(os.urandom(3 << 20))
    target, _ = exported(paths)
    with tarfile.open(target) as tar:
        tar.extractall(tmp_path / "python", filter="data")
    (tmp_path / "gnu").mkdir()
    if shutil.which("tar"):
        subprocess.run(["tar", "-xzf", target, "-C", tmp_path / "gnu"], check=True, timeout=120)
    for unpacked in ("python", "gnu") if shutil.which("tar") else ("python",):
        for name in "abc":
            assert (tmp_path / unpacked / "groups" / "ours" / name).read_bytes() == (paths.folder / name).read_bytes()
    assert (tmp_path / "python" / "groups" / "ours" / "a").stat().st_blocks < 1000


def test_everything_that_an_agent_can_make_is_kept(paths: GroupPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is opened that could block, and no link is followed."""
    odd = b"\xff\xfe\n\xc3"
    (paths.folder / os.fsdecode(odd)).write_text("odd")
    os.mkfifo(paths.folder / "pipe")
    (paths.folder / "loop").symlink_to("loop")
    (paths.folder / "zero").symlink_to("/dev/zero")
    (paths.folder / "up").symlink_to("..")
    (paths.folder / "one").write_text("one")
    (paths.folder / "other").hardlink_to(paths.folder / "one")
    (paths.folder / "later").touch()
    os.utime(paths.folder / "later", (2**40, 2**40))
    with socket.socket(socket.AF_UNIX) as service:
        monkeypatch.chdir(paths.folder)
        service.bind("socket")
    for number in range(3000):
        (paths.state / str(number)).write_text(str(number))
    target, left_out = exported(paths)
    assert left_out == 0
    with tarfile.open(target) as tar:
        kinds = {os.fsencode(each.name).rpartition(b"/")[2]: each for each in tar if each.name.startswith("groups")}
        assert kinds[b"pipe"].isfifo()
        assert {name: kinds[name].linkname for name in (b"loop", b"zero", b"up")} == {
            b"loop": "loop",
            b"zero": "/dev/zero",
            b"up": "..",
        }
        assert {kinds[b"one"].islnk(), kinds[b"other"].islnk()} == {True, False}
        assert kinds[odd].size == 3
        assert kinds[b"later"].mtime == (paths.folder / "later").stat().st_mtime
        assert sum(name.startswith("sessions/ours/.claude/") for name in tar.getnames()) == 3000
        assert len(kinds) == 9


def test_what_is_too_deep_is_left_out(paths: GroupPaths) -> None:
    """No program could open it by its path. It does not keep the group from being deleted."""
    place, depth = os.open(paths.folder, os.O_RDONLY), 50
    for _ in range(depth):
        os.mkdir("d" * 200, dir_fd=place)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    target, left_out = exported(paths)
    assert left_out == 1
    with tarfile.open(target) as tar:
        assert 15 < len([name for name in tar.getnames() if name.startswith("groups/ours/d")]) < depth


@unprivileged.needs_bubblewrap
def test_what_its_agent_has_shut_is_kept(paths: GroupPaths) -> None:
    shut = paths.folder / "shut"
    shut.mkdir()
    (shut / "file").write_text("kept")
    (shut / "file").chmod(0)
    shut.chmod(0)
    work = """
import sys
from pathlib import Path
from backstory.groups import export
from backstory.groups.names import GroupPaths
with open(sys.argv[2], "wb") as out:
    assert export.write(GroupPaths(Path(sys.argv[1]), "ours"), out) == 0
"""
    target = paths.data / "x.tar.gz"
    unprivileged.run(work, paths.data, target)
    with tarfile.open(target) as tar:
        file = tar.extractfile("groups/ours/shut/file")
        assert file
        assert file.read() == b"kept"
