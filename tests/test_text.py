"""Text for people and agents."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backstory.text import cut, escaped, fit, harmless, tokens, width


@given(st.text(), st.integers(1, 50))
def test_a_cut_text_is_never_too_long(text: str, limit: int) -> None:
    """In characters, and in columns."""
    assert len(cut(text, limit)) <= limit
    assert width(fit(text, limit)) <= limit


@given(st.text())
def test_stored_text_is_harmless(text: str) -> None:
    """Nothing in it closes a fence or drives a terminal."""
    for tag in ("</backstory-context>", "<system-reminder>", "</ Private >"):
        assert tag not in harmless(text + tag)
    assert "\x1b" not in escaped(text + "\x1b[2J")


def test_tokens_are_counted_rather_high_than_low() -> None:
    """About four characters a token for prose; a character each for scripts without spaces."""
    prose = "The discount was applied twice because the cart did not remember codes. " * 10
    assert len(prose) / 5 < tokens(prose) < len(prose) / 2
    assert tokens("割引コード") == 5
