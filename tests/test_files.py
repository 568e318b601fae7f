"""Directories that an agent has made hard to remove."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import unprivileged
from unprivileged import needs_bubblewrap

from backstory import files

#: Puts a link in the place of a directory when its mode is about to be changed.
SWAPPED = """
import os, sys
from backstory import files

folder, outside = sys.argv[1:]

def swap(event, _):
    if event == "os.chmod" and not os.path.islink(folder):
        os.rmdir(folder)
        os.symlink(outside, folder)

sys.addaudithook(swap)
try:
    files.open_up(folder)
except OSError:
    sys.exit(0)
sys.exit("the link was followed")
"""


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
    files.remove(folder)
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
    folder.chmod(0o000)
    unprivileged.run("import sys; from backstory import files; files.remove(sys.argv[1])", folder)
    assert not folder.exists()


@needs_bubblewrap
def test_the_mode_of_what_a_link_points_to_is_not_changed(tmp_path: Path) -> None:
    """The directory becomes a link at the last moment."""
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir(mode=0o000)
    outside.mkdir(mode=0o755)
    unprivileged.run(SWAPPED, folder, outside)
    assert outside.stat().st_mode & 0o777 == 0o755
    assert folder.is_symlink()


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
