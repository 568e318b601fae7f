"""A session that has expired, and what becomes of its archive when something in it is forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from box import Box
from claude import binary
from claude_agent_sdk import ResultError
from desk import Desk, at
from endpoint import Step, text, tool_use

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")
LOOK = {"command": "true", "description": "Look"}


@pytest.fixture
def desk(box: Box, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    box.start()
    machine = at(box, monkeypatch)
    yield machine
    machine.until_no_agent_runs()


def test_forgetting_reaches_the_archive_of_an_expired_session(desk: Desk) -> None:
    """What has the words goes, the rest stays under its date. With the session goes all of it."""
    steps: list[Step] = [[text("The walrus opens the vault."), tool_use("Bash", LOOK)]]
    with desk.model(steps), pytest.raises(ResultError):
        desk.run("Count the prices.", max_turns=1, max_continuations=0)
    (folder,) = (desk.box.data / "agent-sessions").iterdir()
    desk.box.settle()
    desk.sweep(6)
    desk.sweep(31)
    (archive,) = (folder / "conversations").iterdir()
    before = archive.read_text()
    assert "The walrus opens the vault." in before
    (folder / "session.json.damaged").write_text("The walrus opens")
    desk.box.cli("forget", "--matching", "walrus", "--yes")
    desk.box.settle()
    assert "walrus" not in archive.read_text()
    assert "Count the prices." in archive.read_text()
    assert archive.read_text().splitlines()[2] == before.splitlines()[2]
    assert not (folder / "session.json.damaged").exists()
    desk.box.cli("forget", "--session", folder.name, "--yes")
    assert not (folder / "conversations").exists()
    assert not (folder / "session.json").exists()
