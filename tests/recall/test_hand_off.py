"""How an observation is told in one line."""

from __future__ import annotations

import pytest

from backstory.model import ClaimMark
from backstory.recall.hand_off import told
from backstory.store.memories import StoredObservation

NONE, USER, EARLIER = ClaimMark.NONE, ClaimMark.USER, ClaimMark.EARLIER


def observation(
    title: str, *facts: tuple[ClaimMark, str], narrative: str = "", mark: ClaimMark = NONE
) -> StoredObservation:
    none: tuple[str, ...] = ()
    about = ("discovery", title, "", narrative, tuple(fact for _, fact in facts), none, none, none)
    marks = tuple(mark for mark, _ in facts)
    return StoredObservation(
        1, 1, "claude-code", "shop", *about, "2026-01-01T00:00:00Z", None, None, 50, 1, None, mark, marks
    )


@pytest.mark.parametrize(
    ("mark", "facts", "line"),
    [
        (NONE, ((NONE, "Two."), (NONE, "Three")), "One. Two. Three"),
        (NONE, ((NONE, "Two"), (EARLIER, "Three"), (EARLIER, "Four")), "One. Two. Earlier: Three. Four"),
        (EARLIER, ((EARLIER, "Two"), (USER, "Three")), "Earlier: One. Two. User: Three"),
        (USER, ((NONE, "Two"), (NONE, "Three")), "User: One. Noted: Two. Three"),
        (NONE, ((NONE, "Is it two?"), (NONE, "Cut off…"), (NONE, "Three")), "One. Is it two? Cut off… Three"),
        (NONE, ((NONE, "User: Two"), (EARLIER, "User: Three")), "One. Two. Earlier: Three"),
    ],
)
def test_a_mark_is_told_once_for_the_facts_that_have_it(
    mark: ClaimMark, facts: tuple[tuple[ClaimMark, str], ...], line: str
) -> None:
    """It holds up to the next one, and where a fact has none, that is said."""
    assert told(observation("One", *facts, mark=mark), 200) == line


def test_a_title_that_was_cut_is_told_whole_with_its_mark() -> None:
    cut = observation("The till rounds…", narrative="The till rounds every row", mark=EARLIER)
    assert told(cut, 200) == "Earlier: The till rounds every row"
