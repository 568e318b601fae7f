"""The agents that run in groups, without one: what is refused, and what is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from group_desk import Desk, run

from backstory.errors import NotFound
from backstory.groups.runs import GroupRuns, Surroundings
from backstory.settings import Settings
from backstory.store.db import Store


def test_a_group_that_is_being_deleted_takes_no_message(store: Store, tmp_path: Path) -> None:
    """Else its agent would make its directories anew."""
    desk = Desk(store, tmp_path)
    desk.create("family")

    async def unused(*words: str) -> Any:
        raise AssertionError

    async def work() -> None:
        around = Surroundings(desk.pointers, desk.archives, unused, unused, unused, unused)
        runs = GroupRuns(Settings(data_dir=desk.data), around)
        async with runs.deleting("family"):
            for sending in (
                runs.send("family", "Hello.", {"ANTHROPIC_API_KEY": "x"}),
                runs.follow_up("family", "Hello."),
            ):
                with pytest.raises(NotFound, match="is being deleted"):
                    await sending
        assert not desk.paths("family").ipc.exists()
        assert not await runs.follow_up("family", "Hello.")
        assert len(list(desk.paths("family").input.iterdir())) == 1

    run(work())
