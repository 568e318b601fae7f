"""What every test may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box
from hypothesis import settings

# The same examples every time, so that a landing never hangs on a throw of the dice; `make soak` throws them.
settings.register_profile("steady", derandomize=True, database=None, deadline=None)
settings.register_profile("deep", max_examples=5000, database=None, deadline=None)
settings.load_profile("steady")


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """A machine of its own, with nothing running."""
    machine = Box(tmp_path)
    machine.home.mkdir()
    machine.project.mkdir()
    yield machine
    machine.clean_up()


@pytest.fixture
def running(box: Box) -> Box:
    """The same with the worker up."""
    box.start()
    return box
