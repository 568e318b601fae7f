"""Agents of several groups that start at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from office import Office, needs_sandbox, office_fixture

pytestmark = needs_sandbox
office = office_fixture
GROUPS = ("one", "two", "three", "four")


def test_agents_of_several_groups_start_together(office: Office) -> None:
    office.box.settings["BACKSTORY_GROUP_LIMIT"] = str(len(GROUPS))
    with office.model(lambda _: "Done."):
        office.box.start()
        office.create(*GROUPS)
        with ThreadPoolExecutor(len(GROUPS)) as pool:
            ran = list(pool.map(lambda group: office.run(group, "Work."), GROUPS))
    assert [(each.ended, each.texts) for each in ran] == [("done", ["Done."])] * len(GROUPS)
    left = sorted(path.name for path in (office.box.data / "agent-runs").iterdir())
    assert left == ["passwd", "shell"]
