"""`make` takes the interpreter that it is given, or none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What `make` needs for setting up, with an environment that claims to be ready."""
    (tmp_path / "scripts").mkdir()
    for name in ("Makefile", "pyproject.toml", "hatch_build.py", "scripts/setup"):
        shutil.copy2(ROOT / name, tmp_path / name)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / ".venv" / ".dev").touch()
    return tmp_path


def make(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"]}
    return subprocess.run(["make", *words], cwd=clone, env=env, capture_output=True, text=True, check=False)


def test_another_python_makes_the_environment_anew(clone: Path) -> None:
    """`make test PYTHON=…` tests that Python, also where .venv was made with another."""
    other = clone / "python-of-tomorrow"
    other.write_text("#!/bin/sh\necho Python 3.99.0\n")
    other.chmod(0o755)
    assert "scripts/setup dev" in make(clone, "-n", "lint", f"PYTHON={other}").stdout
    assert "scripts/setup dev" not in make(clone, "-n", "lint", f"PYTHON={sys.executable}").stdout
    assert "scripts/setup dev" not in make(clone, "-n", "lint").stdout


def test_a_python_that_is_not_there_is_refused(clone: Path) -> None:
    """Nothing else is taken in its place, and what was made before is left alone."""
    answer = make(clone, "lint", "PYTHON=/no/such/python")
    assert answer.returncode and "needs Python 3.11 or newer" in answer.stderr
    assert (clone / ".venv" / ".dev").exists()
