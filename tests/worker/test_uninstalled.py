"""A worker whose package is removed ends itself, and nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from box import Box, until

import backstory
from backstory.worker.jobs.maintenance import CHECK_S

SOURCE = Path(backstory.__file__).parent
#: Seconds for the end of a worker on a busy machine, after it has noticed.
STOP_S = 30


def uninstall(package: Path) -> None:
    shutil.rmtree(package)


def move(package: Path) -> None:
    package.parent.rename(package.parent.with_name("moved"))


def delete_environment(package: Path) -> None:
    """The package is somewhere else, as that of an editable installation."""
    shutil.rmtree(package.parent.parent / "venv")


@pytest.mark.parametrize("remove", [uninstall, move, delete_environment], ids=lambda remove: remove.__name__)
def test_a_worker_whose_package_was_removed_ends(box: Box, remove: Callable[[Path], None]) -> None:
    """Within an interval of its checks. What it had acknowledged is stored, and what hooks of another installation
    report afterwards waits for the next worker."""
    package = box.root / "copy" / "backstory"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = box.root / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    paths = [str(package.parent), *(path for path in sys.path if path.endswith("site-packages"))]
    shim = box.shim  # of the installation that stays
    shim.with_name("backstory-worker").write_text("#!/bin/sh\nexit 1\n")
    worker = subprocess.Popen(
        [environment / "bin" / "python", "-P", "-m", "backstory", "worker"],
        env=box.env | {"PYTHONPATH": ":".join(paths)},
        cwd=box.home,
        stderr=subprocess.PIPE,
    )
    box.processes.append(worker)
    until(box.health, "the worker to start")
    box.hook("UserPromptSubmit", {"session_id": "s", "prompt": "Mend the cart.", "prompt_id": "p"})
    use = {"session_id": "s", "prompt_id": "p", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    box.hook("PostToolUse", use | {"tool_use_id": "before"})
    remove(package)
    assert worker.wait(CHECK_S + STOP_S) == 0
    assert not (box.data / "worker.sock").exists() and not (box.data / "worker.json").exists()
    log = (box.data / "worker.log").read_text()
    assert "backstory was uninstalled: " in log and "Traceback" not in log
    box.hook("PostToolUse", use | {"tool_use_id": "after"})
    assert len(box.spooled()) == 1
    box.start()
    box.settle()
    assert [row["prompt"] for row in box.rows("SELECT prompt FROM user_prompts")] == ["Mend the cart."]
    stored = box.rows("SELECT tool_use_id FROM events WHERE tool_use_id IS NOT NULL ORDER BY id")
    assert [row["tool_use_id"] for row in stored] == ["before", "after"]
