"""Agents that several threads start at the same time, on a machine that has started none before."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from box import Box
from claude import binary
from desk import Desk, at

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")
AGENTS = 6


@pytest.fixture
def desk(box: Box, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    machine = at(box, monkeypatch)
    yield machine
    machine.until_no_agent_runs()


def test_sessions_of_several_threads_begin_together(desk: Desk) -> None:
    """The first run of all makes the directories and the launcher, and starts the worker; here all of them are."""
    with desk.model(lambda _: "Done."), ThreadPoolExecutor(AGENTS) as pool:
        done = list(pool.map(desk.run, [f"Task {number}." for number in range(AGENTS)]))
    assert len({each.id for each in done}) == AGENTS
    assert all(desk.about(each.id).status == "completed" for each in done)
    assert [path.name for path in (desk.box.data / "agent-runs").iterdir()] == ["launch"]
