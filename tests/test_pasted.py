"""What of a prompt was pasted from the output of a program."""

from __future__ import annotations

import pytest

from backstory.pasted import without_output

RUN = "\n".join(
    (
        "Building the shop from: /home/ann/shop",
        "Built: /tmp/shop.1",
        *(f"=== Step {number}" for number in range(7)),
        "Keeping the shop at: /tmp/shop.1",
    )
)


def test_a_run_that_begins_and_ends_with_paths_is_output() -> None:
    assert without_output(RUN).strip() == ""
    assert without_output(f"Why does it keep this?\n\n{RUN}").strip() == "Why does it keep this?"


@pytest.mark.parametrize("end", [", keep the rest.", ""])
def test_a_task_that_names_paths_is_no_output(end: str) -> None:
    task = "\n".join(f"{number}. Rewrite the part about prices in docs/part_{number}.md{end}" for number in range(9))
    assert without_output(f"{task}\nThen read /home/ann/notes.md") == f"{task}\nThen read /home/ann/notes.md"
