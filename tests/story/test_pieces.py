"""A round that lasts longer than the pause after which it is observed: its pieces are one observation."""

from __future__ import annotations

from typing import Any

import pytest
from box import Box

SAID = "`add_tax` in `cart.py` now rounds the sum, because a tax on each row was off by a cent."


def use(box: Box, number: int, tool: str = "Edit", **payload: Any) -> None:
    file = {"file_path": str(box.project / f"part{number}.py"), "old_string": "a = 9", "new_string": f"a = {number}"}
    given = {"tool_name": tool, "tool_use_id": f"use-{number}", "tool_input": file, "tool_response": {"ok": True}}
    box.hook("PostToolUse", {"session_id": "s-one"} | given | payload)
    box.settle()


@pytest.mark.parametrize("said", ["", SAID])
def test_a_round_that_is_observed_in_pieces_is_one_observation(box: Box, said: str) -> None:
    """It keeps its id, and tells all of the round."""
    box.tuning["settle_seconds"] = 0.05
    box.start()
    box.hook("UserPromptSubmit", {"session_id": "s-one", "prompt": "Please go on with it"})
    numbers = set()
    for number in range(5):
        use(box, number, "Read" if number == 3 else "Edit")
        numbers |= {row["id"] for row in box.rows("SELECT id FROM observations")}
    box.hook("Stop", {"session_id": "s-one", "last_assistant_message": said or "Done."})
    box.settle()
    (row,) = box.rows("SELECT id, title, files_modified FROM observations")
    assert numbers == {row["id"]}
    if said:
        assert row["title"] == SAID.rstrip(".")
    else:
        assert all(f"part{number}.py" in row["files_modified"] for number in (0, 1, 2, 4))
        events = box.rows("SELECT event_id FROM observation_events WHERE observation_id = ?", row["id"])
        assert len(events) >= 4


def test_what_the_user_chose_in_an_earlier_piece_stands(box: Box) -> None:
    box.tuning["settle_seconds"] = 0.05
    box.start()
    box.hook("UserPromptSubmit", {"session_id": "s-one", "prompt": "Please go on with it"})
    question = {"question": "Which store should the cart use?"}
    response = {"answers": {question["question"]: "SQLite, because the till is offline"}}
    use(box, 0, "AskUserQuestion", tool_input={"questions": [question]}, tool_response=response)
    use(box, 1)
    box.hook("Stop", {"session_id": "s-one", "last_assistant_message": SAID})
    box.settle()
    standing = box.rows("SELECT title FROM observations WHERE superseded_by IS NULL ORDER BY id")
    assert [row["title"][:11] for row in standing] == ["Which store", "`add_tax` i"]
