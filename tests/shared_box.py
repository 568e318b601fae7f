"""A machine that the tests of a file share: for those that read, or write what no other test of the file looks at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from box import Box


def started(machine: Box) -> Iterator[Box]:
    """A machine with the worker up, and nothing left of it in the end."""
    machine.home.mkdir()
    machine.project.mkdir()
    try:
        machine.start()
        yield machine
    finally:
        machine.clean_up()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A worker, started once for the file. A test names its sessions, and asks for them by name."""
    yield from started(Box(tmp_path_factory.mktemp("shared")))
