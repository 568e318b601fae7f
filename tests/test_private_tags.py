"""Private tags as people mistype them, and code that only looks like one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstory import plain_tags, prefilter
from backstory.privacy import strip_bytes, strip_json, strip_text, untag_bytes

CANARY = "canary7f3a"
#: How `<` and `>` may be written.
SIGNS = [("<", ">"), ("&lt;", "&gt;"), ("&LT;", "&GT;"), ("&#60;", "&#62;"), ("&#x3c;", "&#X3E;")]
SIGNS += [("&#0060;", "&#062;"), ("&amp;lt;", "&amp;gt;"), ("\uff1c", "\uff1e"), ("\ufe64", "\ufe65"), ("<", "\uff1e")]
UNSEEN = ["\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u200e", "\u202e", "\ufe0f", "\u2063"]
SPACES = ["", " ", "   ", "\u00a0", "\u3000"]


def wide(text: str) -> str:
    return "".join(chr(ord(sign) + 0xFEE0) for sign in text)


NAMES = ["private", "Private", "PRIVATE", wide("private"), wide("PRIVATE"), wide("Private")]
NAMES += [f"{wide('p')}rivate", f"PRI{wide('Vate')}"]
NAMES += [f"pri{sign}vate" for sign in UNSEEN] + [f"{sign}private{sign}" for sign in UNSEEN]


def assert_hidden(text: str) -> None:
    """In the text, in a payload however it is written, and seen by the cheap look."""
    assert CANARY not in strip_text(text)
    for ascii_only in (True, False):
        raw = json.dumps({"prompt": text, "nested": json.dumps({"a": text}, ensure_ascii=ascii_only)}).encode()
        assert prefilter.tagged(raw)
        assert prefilter.suspicious(raw)
        assert CANARY.encode() not in strip_bytes(raw)
        assert CANARY.encode() not in untag_bytes(raw)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("left", "right"), SIGNS)
def test_a_mistyped_tag_hides_too(left: str, right: str, name: str) -> None:
    """Signs as entities or wide, letters wide or split, spaces in each place; and what follows its end is kept."""
    for before in SPACES:
        for after in SPACES:
            closing = f"{left}{before}/{after}{name}{before}{right}"
            text = f"one {left}{before}{name}{after}{right}{CANARY}{closing} two"
            assert strip_text(text) == "one  two"
    assert_hidden(f"one {left} {name} {right}{CANARY}")
    assert_hidden(f"one {left}{name}{right}{CANARY}{left}/{name}{right} two")


@given(
    st.sampled_from(SIGNS),
    st.sampled_from(SPACES),
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from(UNSEEN)), max_size=6),
    st.sampled_from(SPACES),
    st.sampled_from(SIGNS),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_of_it_together_hides(
    left: tuple[str, str], before: str, split: list[tuple[int, str]], after: str, right: tuple[str, str]
) -> None:
    """The signs of one way with those of another, and several unseen characters in the name."""
    letters = [*"private"]
    for at, sign in split:
        letters[at] = sign + letters[at]
    assert_hidden(f"x {left[0]}{before}{''.join(letters)}{after}{right[1]} {CANARY}")


@pytest.mark.parametrize(
    "text",
    [
        "/private/tmp/x",
        "cat < /private/tmp/x > /private/tmp/y",
        "<private-key>",
        "&lt;private-key&gt;",
        "< private-key >",
        "<private_key>",
        "&lt;privates&gt;",
        "private: int x;",
        "class A { private: List<int> y; };",
        "if (a < private && b > 0)",
        "List< private Foo>",
        "Map<String, private>",
        "x &private y",
        "return 0;private int x",
        "result; private int x",
        "#include <private/qobject_p.h>\n#include <private/a/b-c.hpp>",
        "<span>private</span>",
        "a <\nprivate int x>",
        "＜注意＞ private なコード",
        "pri\u200bvate",
    ],
)
def test_code_that_speaks_of_private_things_is_kept(text: str) -> None:
    """What is no tag stays as it is."""
    assert strip_text(text) == text
    assert strip_json({"a": [text]}) == {"a": [text]}


PARTS = ["<", "&", "&lt;", "&amp;", "lt;", "#60;", ";", "\uff1c", "/", "\uff0f", "\\", " ", "\t", "\u200b", "\\u200b"]
PARTS += [
    "private",
    "pri",
    "vate",
    wide("private"),
    wide("PRI"),
    wide("v"),
    "ate",
    ">",
    "&gt;",
    "\uff1e",
    "\\uff1c",
    "\\u003c",
    "\n",
    "é",
    '"',
]
PARTS += [wide("PRI"), wide("v"), "ate"]
PARTS += ["claude-mem-context", "-context", "backstory-context", "x", ".h"]
pieces = st.sampled_from(PARTS)
texts = st.lists(pieces, max_size=10).map("".join)


@given(texts, st.booleans())
@settings(max_examples=settings().max_examples * 3, deadline=None)
def test_stripped_once_is_stripped_and_was_seen(text: str, ascii_only: bool) -> None:
    """A second time changes nothing, and whatever is changed the cheap look has seen."""
    once = strip_text(text)
    assert strip_text(once) == once
    value: Any = {"a": text, "b": [text]}
    raw = json.dumps(value, ensure_ascii=ascii_only).encode()
    if strip_json(value) != value:
        assert prefilter.tagged(raw)
        assert prefilter.suspicious(raw)


plain_texts = st.lists(st.sampled_from(["<private>", "</private>", *PARTS, "\\\\", '\\"', "word"]), max_size=12).map(
    "".join
)


@given(st.lists(st.tuples(plain_texts, plain_texts), max_size=4), st.booleans(), st.booleans())
@settings(max_examples=settings().max_examples * 5, deadline=None)
def test_tags_are_removed_from_bytes_as_from_the_document(
    fields: list[tuple[str, str]], ascii_only: bool, spaced: bool
) -> None:
    """What is left of the bytes is what is left of the parsed document, or the bytes are left to the parser."""
    value: Any = dict(fields) | {"list": [text for pair in fields for text in pair]}
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=1 if spaced else None).encode()
    shown = plain_tags.remove(raw)
    if shown is not None and not prefilter.tagged(shown):
        assert json.loads(shown) == strip_json(value, secrets=False)


def test_plain_tags_take_no_parser() -> None:
    """The usual cases, so that the hook need not parse them; the unusual ones are left to the parser."""
    value = {
        "prompt": 'Do <private>my \\ "own" thing\n</private>it',
        "b": ["<private>x</private>", "<private></private>"],
    }
    shown = plain_tags.remove(json.dumps(value).encode())
    assert shown is not None
    assert json.loads(shown) == {"prompt": "Do it", "b": ["", ""]}
    for text in ("<private>x", "<private>a<private>b</private>c</private>", "<private>&lt;private></private>"):
        assert plain_tags.remove(json.dumps({"a": text}).encode()) is None
    assert plain_tags.remove(b'{"<private>k</private>": "<private>v</private>"}') is None
    assert plain_tags.remove(b'{"a": "<private>x", "b": "y</private>"}') is None


@pytest.mark.timeout(60)
def test_time_is_in_proportion_on_any_input() -> None:
    """A quadratic walk would take minutes."""
    units = [
        "&",
        "&amp;",
        "&amp;lt;",
        "< ",
        "<\u200b",
        "\uff1c",
        "&lt;private",
        "<pri\u200b",
        "<private/",
        "<private/a.",
    ]
    units += ["&#0", "<private/" + "a" * 200, "</ ", "< private ", "\\uff1c", "\\u200b", wide("private")]
    for unit in units:
        text = unit * (200_000 // len(unit))
        strip_text(f"<private-x> {text}")
        strip_bytes(json.dumps({"a": text}).encode())
