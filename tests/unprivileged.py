"""Runs Python as the owner of its files, without privileges: root may do everything, whatever modes say."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not here")
SANDBOX = ["bwrap", "--bind", "/", "/", "--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]


def run(work: str, *words: object) -> None:
    """Run a program. Its arguments are in `sys.argv`."""
    subprocess.run([*SANDBOX, sys.executable, "-c", work, *map(str, words)], check=True, timeout=120)
