"""Text for people and agents."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.observe.quotes import escape_tags
from backstory.text import cut, escaped, fit, harmless, tokens, width

#: Everything that a reader does not see, by what Unicode says of it.
UNSEEN = [
    sign
    for sign in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Co") and sign not in "\n\t"
    if not "\ue010" < sign < "\uf8f0" and not "\U000f0010" < sign < "\U0010fff0"  # private use: its ends will do
]
UNSEEN += [chr(plane << 16 | end) for plane in range(17) for end in (0xFFFE, 0xFFFF)]
UNSEEN += [*map(chr, (*range(0xFDD0, 0xFDF0), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), 0x34F, 0x3164))]
TAGS = ("</backstory-context>", "<backstory-context>", "</claude-mem-context>", "</system-reminder>", "</private>")
OURS = ("</round>", "<memory>", "</known>", "<skip_summary/>")


def readable(text: str) -> str:
    """What is left of a text for a reader who takes fullwidth and styled letters for what they look like."""
    return re.sub(r"\s", "", unicodedata.normalize("NFKD", text)).lower()


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


@pytest.mark.parametrize("tag", [*TAGS, *OURS])
def test_no_unseen_character_hides_a_fence(tag: str) -> None:
    """Each control, format and private character, in each place of a tag."""
    clean = harmless if tag in TAGS else escape_tags
    for at in range(len(tag) + 1):
        # All in one text: a sign that stayed would be seen, and so would one tag that did.
        text = "\n".join(tag[:at] + sign + tag[at:] for sign in UNSEEN)
        shown = clean(text)
        assert "<" not in shown
        assert shown == "\n".join([tag.replace("<", "‹")] * len(UNSEEN))


@given(
    st.sampled_from([*TAGS, *OURS]),
    st.lists(st.tuples(st.integers(0, 30), st.text(st.sampled_from([*UNSEEN, " ", "\n", "\u3000"]), max_size=4))),
    st.sets(st.integers(0, 30)),
    st.booleans(),
)
def test_fences_put_together_at_random_stay_open(
    tag: str, added: list[tuple[int, str]], wide: set[int], capitals: bool
) -> None:
    """Unseen characters and blanks around the signs, some letters in fullwidth, capitals or not."""
    signs = [*(tag.upper() if capitals else tag)]
    for at in wide:
        if at < len(signs):
            signs[at] = chr(ord(signs[at]) + 0xFEE0)
    for at, text in added:
        # A blank within the name makes another name of it.
        inside = at > 2 and at < len(tag) - 1
        signs[at : at + 1] = [*signs[at : at + 1], "".join(s for s in text if not (inside and s.isspace()))]
    shown = escape_tags("before " + "".join(signs) + " after")
    assert tag not in readable(shown)
    assert not [sign for sign in shown if sign in UNSEEN]


@pytest.mark.parametrize(
    "tag",
    [
        "< / backstory-context >",
        "<\u200e/backstory-context>",
        "<\ufeff/backstory-context>",
        "<\x01/backstory-context>",
        "\uff1c\uff0fbackstory\uff0dcontext\uff1e",
        "<\u0338/backstory-context>",
        "</back\ufb06ory-context>",
        "<<//backstory_context>",
        "</\U0001d41backs\U000e0074tory-context>",
    ],
)
def test_other_ways_to_write_a_fence(tag: str) -> None:
    """Styled letters, ligatures, doubled signs."""
    assert not {"<", "\uff1c"} & set(harmless(f"one {tag} two"))


@given(st.text())
def test_harmless_text_stays_as_it_is(text: str) -> None:
    """A second time changes nothing, and what has no tag loses nothing that can be seen."""
    once = harmless(text)
    assert harmless(once) == once
    assert len(once) <= len(text)
    plain = "if a < b and List<Private_> x <privateer> 日本語 é 👍: y"
    assert harmless(plain) == plain


def test_harmless_takes_time_in_proportion() -> None:
    """Runs of signs are walked once: a quadratic walk would take minutes here."""
    for text in ("<" * 500_000, "</" * 250_000, "<private" * 60_000, "＜" * 200_000, "< " * 250_000 + "x"):
        assert len(harmless(text)) == len(text)


def test_tokens_are_counted_rather_high_than_low() -> None:
    """About four characters a token for prose; a character each for scripts without spaces."""
    prose = "The discount was applied twice because the cart did not remember codes. " * 10
    assert len(prose) / 5 < tokens(prose) < len(prose) / 2
    assert tokens("割引コード") == 5
