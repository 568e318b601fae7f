"""How an observation is told in one line."""

from __future__ import annotations

import pytest

from backstory.recall.hand_off import told
from backstory.store.memories import StoredObservation


def observation(title: str, *facts: str, narrative: str = "") -> StoredObservation:
    none: tuple[str, ...] = ()
    about = ("discovery", title, "", narrative, facts, none, none, none)
    return StoredObservation(1, 1, "claude-code", "shop", *about, "2026-01-01T00:00:00Z", None, None, 50, 1)


@pytest.mark.parametrize(
    ("title", "facts", "line"),
    [
        ("One", ("Two.", "Three"), "One. Two. Three"),
        ("One", ("Two", "Earlier: Three", "Earlier: Four"), "One. Two. Earlier: Three. Four"),
        ("Earlier: One", ("Earlier: Two", "User: Three"), "Earlier: One. Two. User: Three"),
        ("One", ("Is it two?", "Cut off…", "Three"), "One. Is it two? Cut off… Three"),
    ],
)
def test_a_mark_is_told_once_for_the_facts_that_have_it(title: str, facts: tuple[str, ...], line: str) -> None:
    assert told(observation(title, *facts), 200) == line


@pytest.mark.parametrize("mark", ["", "Earlier: "])
def test_a_title_that_was_cut_is_told_whole_with_its_mark(mark: str) -> None:
    cut = observation("Earlier: The till rounds…", narrative=f"{mark}The till rounds every row")
    assert told(cut, 200) == "Earlier: The till rounds every row"
