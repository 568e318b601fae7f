"""The real client: a session of the `claude` binary is captured, and the next one is told."""

from __future__ import annotations

import subprocess

import pytest
from box import Box
from claude import Claude, binary
from endpoint import Endpoint, Kind, Step, text, tool_use

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")

TEST = {"command": "python3 -m unittest -q test_money", "description": "Run the tests"}
BROKEN = "def total(prices):\n    return sum(prices) + 1\n"


@pytest.fixture
def shop(box: Box) -> Box:
    """A repository with a function and a test that fails, and backstory installed."""
    (box.project / "money.py").write_text(BROKEN)
    (box.project / "test_money.py").write_text(
        "import unittest\nfrom money import total\n\n\nclass Total(unittest.TestCase):\n"
        "    def test_nothing_costs_nothing(self):\n        self.assertEqual(total([]), 0)\n"
    )
    subprocess.run(["git", "init", "-q"], cwd=box.project, check=True)
    box.cli("install", "--agent", "claude-code")
    return box


def fix_it(shop: Box) -> str:
    """A session that reads, runs the tests, edits and runs them again; its id."""
    money = str(shop.project / "money.py")
    steps: list[Step] = [
        [text("I'll look."), tool_use("Read", {"file_path": money})],
        tool_use("Bash", TEST),
        tool_use("Edit", {"file_path": money, "old_string": "sum(prices) + 1", "new_string": "sum(prices)"}),
        tool_use("Bash", TEST),
        text("Fixed: `total` added one to every sum. Next step: check the invoices of last week."),
    ]
    with Endpoint(steps) as endpoint:
        return (
            Claude(shop.home, shop.project, endpoint, env=settings(shop)).run("Nothing should cost nothing.").session_id
        )


def settings(box: Box) -> dict[str, str]:
    return {name: value for name, value in box.env.items() if name.startswith("BACKSTORY_")}


def test_a_fork_and_a_clear_are_linked_to_their_parent(shop: Box) -> None:
    """The client gives them new ids and names no parent."""
    parent = fix_it(shop)
    for prompt, *options in (
        ("Another way.", f"--resume={parent}", "--fork-session"),
        ("/clear", f"--resume={parent}"),
    ):
        with Endpoint(["Yes."]) as endpoint:
            client = Claude(shop.home, shop.project, endpoint, env=settings(shop))
            client.run(prompt, *options, check=prompt != "/clear")
            if not endpoint.of(Kind.MAIN):
                client.run("Begin.")
    shop.settle()
    rows = shop.rows("SELECT id, parent_id, start_source FROM sdk_sessions ORDER BY id")
    assert (rows[0]["start_source"], rows[0]["parent_id"]) == ("startup", None)
    linked = {row["start_source"]: row["parent_id"] for row in rows[1:] if row["parent_id"]}
    assert linked == {"fork": rows[0]["id"], "clear": rows[0]["id"]}


def test_the_client_runs_as_ever_with_the_worker_gone_and_the_events_are_kept(shop: Box) -> None:
    """The worker can't start; the session works, and what happened is in the spool for the next start."""
    start = shop.data / "bin" / "backstory-worker"
    program = start.read_bytes()
    start.write_text("#!/bin/sh\nexit 1\n")
    fix_it(shop)
    assert len(shop.spooled()) >= 6
    start.write_bytes(program)
    shop.cli("start")
    shop.settle()
    assert shop.rows("SELECT 1 FROM session_summaries")
    assert {r["tool_name"] for r in shop.rows("SELECT tool_name FROM events WHERE tool_name IS NOT NULL")} == {
        "Read",
        "Bash",
        "Edit",
    }
    shop.cli("stop")
