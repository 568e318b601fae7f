"""Directories that an agent has made hard to remove."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backstory import files

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not here")


def test_a_deep_directory_is_removed_and_links_are_not_followed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(1100):  # deeper than Python recurses, and longer than a path may be
        os.mkdir("deep", dir_fd=handle)
        inner = os.open("deep", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.symlink(outside, "link", dir_fd=handle)
    os.mkfifo("pipe", dir_fd=handle)
    os.close(handle)
    files.remove_tree(folder)
    assert not folder.exists()
    assert (outside / "kept").read_text() == "kept"


@needs_bubblewrap
def test_modes_do_not_keep_a_directory_from_being_removed(tmp_path: Path) -> None:
    """Like a cache of modules that Go has made. The owner has no privileges here, whoever runs the tests."""
    folder = tmp_path / "folder"
    (folder / "cache" / "module").mkdir(parents=True)
    (folder / "cache" / "module" / "file").write_text("x")
    (folder / "cache" / "module").chmod(0o555)
    (folder / "cache").chmod(0o000)
    work = f"from pathlib import Path; from backstory import files; files.remove_tree(Path({str(folder)!r}))"
    sandbox = ["bwrap", "--bind", "/", "/", "--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    subprocess.run([*sandbox, sys.executable, "-c", work], check=True, timeout=120)
    assert not folder.exists()


def test_a_file_is_created_once_and_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").write_text("mine")
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        for name in ("link", "file"):
            with pytest.raises(FileExistsError):
                files.create_regular(name, handle)
        os.close(files.create_regular("new", handle))
    finally:
        os.close(handle)
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
