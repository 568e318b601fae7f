"""The changed files of a working tree, compared with what `git status` says of it, and indexes that lie."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from backstory.recall import worktree
from backstory.recall.git_index import Index, UnreadableIndex


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine finds no less."""
    monkeypatch.setattr(worktree, "TIMEOUT_S", 60.0)


def git(where: Path, *words: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always")
    ran = subprocess.run(["git", *who, *words], cwd=where, check=True, capture_output=True, text=True)
    return ran.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With a few files committed in several directories."""
    return make(tmp_path / "shop")


def make(root: Path, *how: str) -> Path:
    root.mkdir()
    git(root, "init", "-q", "-b", "main", *how)
    for name in ("a.py", "b.py", "src/cart.py", "src/deep/er/tax.py", "src-old/x.py", "ünï/ça.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"# {name}\n")
    (root / "link").symlink_to("a.py")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    return root


def changed(root: Path) -> set[str]:
    return set(asyncio.run(worktree.changed_files(str(root))) or ())


def status(root: Path) -> set[str]:
    """What git sees, a rename as both of its names."""
    told = git(
        root, "--no-optional-locks", "status", "--porcelain", "-z", "-uall", "--no-renames", "--ignore-submodules"
    )
    return {line[3:] for line in told.split("\0") if line}


def modify(root: Path) -> None:
    (root / "src/cart.py").write_text("total = 1\n")


def modify_in_place(root: Path) -> None:
    """As long as before."""
    (root / "a.py").write_text("# A.PY\n")


def append(root: Path) -> None:
    with (root / "src/deep/er/tax.py").open("a") as file:
        file.write("rate = 2\n")


def delete(root: Path) -> None:
    (root / "b.py").unlink()
    shutil.rmtree(root / "src/deep")


def stage(root: Path) -> None:
    modify(root)
    git(root, "add", "src/cart.py")


def add(root: Path) -> None:
    (root / "src/new.py").write_text("new\n")
    (root / "lib").mkdir()
    (root / "lib/new.py").write_text("new\n")
    git(root, "add", "src/new.py", "lib/new.py")


def write_new(root: Path) -> None:
    (root / "new.py").write_text("new\n")
    (root / "src/deep/new.py").write_text("new\n")


def plan_to_add(root: Path) -> None:
    (root / "planned.py").write_text("new\n")
    git(root, "add", "-N", "planned.py")


def touch(root: Path) -> None:
    """No change at all."""
    os.utime(root / "a.py", (1, 1))
    (root / "b.py").touch()


def make_executable(root: Path) -> None:
    (root / "a.py").chmod(0o755)


def ignore_modes(root: Path) -> None:
    git(root, "config", "core.fileMode", "false")
    (root / "a.py").chmod(0o755)


def change_kind(root: Path) -> None:
    (root / "a.py").unlink()
    (root / "a.py").symlink_to("b.py")
    (root / "link").unlink()
    (root / "link").write_text("no link\n")
    (root / "b.py").unlink()
    os.mkfifo(root / "b.py")


def turn_link(root: Path) -> None:
    (root / "link").unlink()
    (root / "link").symlink_to("b.py")


def leave_alone(root: Path) -> None:
    git(root, "update-index", "--assume-unchanged", "a.py")
    git(root, "update-index", "--skip-worktree", "b.py")
    (root / "a.py").write_text("not to be looked at\n")
    (root / "b.py").unlink()


def check_out_sparsely(root: Path) -> None:
    git(root, "sparse-checkout", "set", "--cone", "--sparse-index", "src-old")
    (root / "src-old/x.py").write_text("changed\n")


def conflict(root: Path) -> None:
    git(root, "checkout", "-qb", "other")
    (root / "a.py").write_text("theirs\n")
    git(root, "commit", "-qam", "theirs")
    git(root, "checkout", "-q", "main")
    (root / "a.py").write_text("ours!!\n")
    git(root, "commit", "-qam", "ours")
    subprocess.run(["git", "merge", "-q", "other"], cwd=root, capture_output=True)


def switch(root: Path) -> None:
    git(root, "checkout", "-qb", "other")
    (root / "a.py").write_text("other\n")
    git(root, "commit", "-qam", "other")
    git(root, "checkout", "-q", "main")
    git(root, "checkout", "-q", "other")


def commit_a_part(root: Path) -> None:
    """What is left out of a commit is still changed."""
    modify(root)
    append(root)
    git(root, "commit", "-qm", "one of them", "src/cart.py")


def restore(root: Path) -> None:
    modify(root)
    git(root, "checkout", "-q", "--", "src/cart.py")


def pack(root: Path) -> None:
    modify(root)
    git(root, "gc", "-q")
    git(root, "pack-refs", "--all")


WAYS: list[Callable[[Path], None]] = [
    modify,
    modify_in_place,
    append,
    delete,
    stage,
    add,
    write_new,
    plan_to_add,
    touch,
    make_executable,
    ignore_modes,
    change_kind,
    turn_link,
    leave_alone,
    check_out_sparsely,
    conflict,
    switch,
    commit_a_part,
    restore,
    pack,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_git_sees_changed_is_seen(repository: Path, way: Callable[[Path], None]) -> None:
    """Without asking git; and the same once git has refreshed its index."""
    assert changed(repository) == status(repository) == set()
    way(repository)
    expected = status(repository)
    assert changed(repository) == expected
    git(repository, "status")
    assert changed(repository) == expected


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("format", ["sha1", "sha256"])
def test_every_form_of_an_index_is_read(tmp_path: Path, version: str, format: str) -> None:
    """All of its versions, with both kinds of hashes."""
    root = make(tmp_path / "repo", f"--object-format={format}")
    git(root, "update-index", "--index-version", version)
    if version == "3":
        plan_to_add(root)  # git writes version 3 only where it has something to note
    touch(root)
    modify(root)
    delete(root)
    add(root)
    assert changed(root) == status(root)
    assert int.from_bytes((root / ".git/index").read_bytes()[4:8]) == int(version)


def test_a_staged_move_shows_where_the_file_is_now(repository: Path) -> None:
    """A staged deletion is in no index: it is the one change that is not seen."""
    git(repository, "mv", "src/cart.py", "src/basket.py")
    with (repository / "src/basket.py").open("a") as file:
        file.write("more\n")
    assert status(repository) - changed(repository) == {"src/cart.py"}


def test_worktrees_and_submodules_are_looked_at_by_themselves(repository: Path, tmp_path: Path) -> None:
    """Each has an index of its own, and a submodule's changes are not its parent's."""
    tree = tmp_path / "tree"
    git(repository, "worktree", "add", "-q", "-b", "feature", str(tree))
    git(repository, "submodule", "add", "-q", str(make(tmp_path / "lib")), "lib")
    git(repository, "commit", "-qm", "lib")
    assert changed(repository) == changed(tree) == changed(repository / "lib") == set()
    modify(tree)
    append(repository / "lib")
    assert changed(tree) == changed(tree / "src" / "deep") == status(tree) == {"src/cart.py"}
    assert changed(repository / "lib") == status(repository / "lib") == {"src/deep/er/tax.py"}
    assert changed(repository) == status(repository) == set()


def test_a_fresh_clone_and_a_copy_have_no_changes(repository: Path, tmp_path: Path) -> None:
    """Though no time in them is the index's."""
    git(tmp_path, "clone", "-q", str(repository), "clone")
    shutil.copytree(repository, tmp_path / "copy", symlinks=True, copy_function=shutil.copyfile)
    assert changed(tmp_path / "clone") == set()
    assert changed(tmp_path / "copy") == set()


def test_before_the_first_commit_everything_is_changed(tmp_path: Path) -> None:
    """With an index and without."""
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("a\n")
    assert changed(tmp_path) == status(tmp_path) == {"a.py"}
    git(tmp_path, "add", "a.py")
    assert changed(tmp_path) == status(tmp_path) == {"a.py"}


def test_a_split_index_and_no_repository_tell_nothing(repository: Path, tmp_path: Path) -> None:
    """Nothing is better than half."""
    git(repository, "update-index", "--split-index")
    modify(repository)
    for path in (repository, tmp_path, tmp_path / "nowhere", "/", "", "/a\0b"):
        assert asyncio.run(worktree.changed_files(str(path))) is None


def test_of_many_changes_the_latest_are_told(repository: Path) -> None:
    """As many as are of use."""
    for number in range(worktree.MAX_FILES + 10):
        (repository / f"new{number}").write_text("x")
        os.utime(repository / f"new{number}", (2**31 + number, 2**31 + number))
    assert changed(repository) == {f"new{number}" for number in range(10, worktree.MAX_FILES + 10)}


def test_when_time_is_up_it_ends(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree that nobody looked at is not clean."""
    assert asyncio.run(worktree.changed_files(str(repository))) == frozenset()
    modify(repository)
    monkeypatch.setattr(worktree, "TIMEOUT_S", -1.0)
    assert asyncio.run(worktree.changed_files(str(repository))) is None


# Indexes that git did not write


def forged(*paths: bytes, mode: int = 0o100644, count: int | None = None, extensions: bytes = b"") -> bytes:
    """An index with these paths in it."""
    data = struct.pack(">4sII", b"DIRC", 2, len(paths) if count is None else count)
    for path in paths:
        entry = struct.pack(">10I20sH", *[0] * 6, mode, 0, 0, 0, b"x" * 20, min(len(path), 0xFFF)) + path
        data += entry + b"\0" * (8 - len(entry) % 8)
    data += extensions
    return data + hashlib.sha1(data, usedforsecurity=False).digest()


def test_nothing_outside_of_a_working_tree_is_looked_at(repository: Path, tmp_path: Path) -> None:
    """Neither by `..`, nor by an absolute path, nor behind a link."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "gone").symlink_to("nowhere")
    absolute = os.fsencode(tmp_path / "outside" / "nothing")
    (repository / ".git/index").write_bytes(
        forged(b"../nothing", absolute, b"src/../../nothing", b"./nothing", b"a//b")
    )
    assert not any("nothing" in name or "//" in name for name in changed(repository))
    # Behind the link everything is as the index says; whoever went there would find no change.
    shutil.move(repository / "src", tmp_path / "outside" / "src")
    git(repository, "read-tree", "HEAD")
    assert not changed(repository) & {"a.py", "b.py"}
    (repository / "src").symlink_to(tmp_path / "outside" / "src")
    assert changed(repository) == {"src/cart.py", "src/deep/er/tax.py", *status(repository)} - {"src"}


@pytest.mark.parametrize("index", ["pipe", "zeros", "directory", "loop", "huge", "empty", "text"])
def test_an_index_that_is_none_tells_nothing(repository: Path, index: str) -> None:
    """And nobody waits for it, or reads it to an end that it does not have."""
    modify(repository)
    file = repository / ".git/index"
    file.unlink()
    if index == "pipe":
        os.mkfifo(file)
    elif index == "zeros":
        file.symlink_to("/dev/zero")
    elif index == "directory":
        file.mkdir()
    elif index == "loop":
        file.symlink_to("index")
    else:
        file.write_bytes({"huge": b"DIRC", "empty": b"", "text": b"DIRC" + b"what is this? " * 100}[index])
        if index == "huge":
            os.truncate(file, 1 << 40)
    # Where there is no index to be seen at all, every file is new.
    assert changed(repository) <= {"a.py", "b.py"}


def entries(data: bytes, hash_size: int = 20) -> int:
    """How many entries there are, and all else is read too."""
    index = Index(data, hash_size)
    count = sum(1 for _ in index.entries())
    index.committed({b"", b"src"})
    return count


@pytest.mark.parametrize("version", ["2", "4"])
def test_a_damaged_index_is_unreadable_and_no_more(repository: Path, version: str) -> None:
    """Cut anywhere, or with any byte another: it is read, or refused, and nothing else comes of it."""
    git(repository, "update-index", "--index-version", version)
    whole = (repository / ".git/index").read_bytes()
    assert entries(whole) == 7
    chance = random.Random(4)
    damaged = [whole[:length] for length in range(0, len(whole), 3)]
    for _ in range(1500):
        bent = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            bent[chance.randrange(len(bent))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        damaged.append(bytes(bent))
    for data in damaged:
        try:
            entries(data)
        except UnreadableIndex:
            continue
    for data in damaged[::40]:
        (repository / ".git/index").write_bytes(data)
        changed(repository)


def test_numbers_that_an_index_makes_up_cost_nothing() -> None:
    """Four thousand million entries, a path without an end, directories without number."""
    with pytest.raises(UnreadableIndex):
        entries(forged(b"a", count=2**32 - 1))
    with pytest.raises(UnreadableIndex):
        entries(forged(b"a" * 5000))
    with pytest.raises(UnreadableIndex):
        entries(forged(b"a", extensions=struct.pack(">4sI", b"TREE", 2**31) + b"a\x00-1 9\n" * 200_000))
    with pytest.raises(UnreadableIndex):
        entries(forged(b"a", extensions=struct.pack(">4sI", b"newx", 0)))
    # Version 4: each path is the one before and a little more.
    data = struct.pack(">4sII", b"DIRC", 4, 10_000)
    data += (struct.pack(">10I20sH", *[0] * 10, b"x" * 20, 0) + b"\0aaaaaaaa\0") * 10_000
    with pytest.raises(UnreadableIndex):
        entries(data + b"x" * 20)
