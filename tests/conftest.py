"""What every test may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box


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
