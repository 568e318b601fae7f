"""Where a transcript is read on: a mark that was damaged costs a reading from the beginning, and no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backstory.agents.transcripts import Mark, file_state
from backstory.capture.reconcile import _mark
from backstory.store.transcripts import ReadTranscript


@pytest.mark.parametrize(
    ("changed", "offset"),
    [
        ({}, 5),
        ({"size": 10}, 5),
        ({"inode": 0}, 0),
        ({"size": 99}, 0),
        ({"size": "many"}, 0),
        ({"mark_offset": "five"}, 0),
        ({"mark_offset": -1}, 0),
        ({"mark_offset": 11}, 0),
        ({"mark_offset": None}, 0),
        ({"mark_prompt": 7}, 0),
        ({"mark_prompt": b"x"}, 0),
    ],
)
def test_a_damaged_mark_is_no_mark(tmp_path: Path, changed: dict[str, Any], offset: int) -> None:
    """Of a file of ten bytes, five of which were read."""
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"0123456789")
    state = file_state(file)
    known = ReadTranscript("reconcile", str(file), state.inode, 10, 0, 5, "u p")
    assert _mark(replace(known, **changed), state) == (Mark(offset, "u p") if offset else Mark())
