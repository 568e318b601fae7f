"""Passages: a sentence is found in what was written, and goes without the rest."""

from __future__ import annotations

import pytest

from backstory import passages

TEXT = """I looked into it. **Cause:** `Cart.apply` in [cart](shop/cart.py) added the amount
(on every call), so 20.00 was off.

What I did:
- Renamed the old
  helper. It was misleading.
- Told Mr. Smith about it.
1. Ok, so the total is right now, whatever is typed.

Next: the page is stale."""


@pytest.mark.parametrize(
    ("quotation", "removed"),
    [
        ("Cause: `Cart.apply` in cart added the amount, so 20.00 was off", "**Cause:**"),
        ("Renamed the old helper", "Renamed the old"),
        ("Told Mr. Smith about it", "Told Mr."),
        ("The total is right now, whatever…", "Ok, so the total"),
        ("the page is stale", "Next:"),
    ],
)
def test_a_quotation_takes_its_sentence(quotation: str, removed: str) -> None:
    """Whatever markdown, asides, line breaks and cut ends are between."""
    cut = passages.cut_quoted(TEXT, [quotation])
    assert cut.removed and cut.removed[0].startswith(removed)
    assert not passages.cut_quoted(cut.text, [quotation]).removed
    names = ("looked", "Cause", "Renamed", "misleading", "Told", "Smith", "total", "Next")
    gone = {name.lower() for name in names if name not in cut.text}
    assert gone <= set(passages.words(" ".join(cut.removed)))
    assert "\n- \n" not in cut.text and "\n1.\n" not in cut.text


@pytest.mark.parametrize("quotation", ["", "Done", "it", "The total was never right in this shop", "cart total page"])
def test_nothing_else_is_taken(quotation: str) -> None:
    """A short quotation must be a whole passage, and shared words are not enough."""
    assert passages.cut_quoted(TEXT, [quotation]) == passages.Cut(TEXT)


def test_a_text_of_nothing_else_is_empty() -> None:
    assert passages.cut_quoted("- Done.\n", ["Done"]) == passages.Cut("", ("Done.",))
    assert passages.cut_quoted("总价错了。折扣加了两次。已修复。", ["折扣加了两次"]).text == "总价错了。已修复。"
