"""How text is cut up: the same way for every engine, and for what is indexed and what is asked."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.store.index import tokens
from backstory.store.index.stem import stem
from backstory.store.index.tokens import Term


def test_stems_are_those_of_fts5() -> None:
    """Word by word over the vocabulary of the standard library: an index by the one is an index by the other."""
    text = "".join(file.read_text("utf-8", "replace") for file in Path(os.__file__).parent.glob("*.py"))
    words = sorted({word for word in re.findall(r"[a-z]+", text.lower()) if 3 < len(word) <= 64})
    assert len(words) > 10_000
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE t USING fts5 (word, tokenize = 'porter ascii')")
        db.execute("CREATE VIRTUAL TABLE v USING fts5vocab (t, 'instance')")
        db.executemany("INSERT INTO t (rowid, word) VALUES (?, ?)", enumerate(words))
        theirs = dict(db.execute("SELECT doc, term FROM v").fetchall())
    assert {word: stem(word) for word in words} == {word: theirs[at] for at, word in enumerate(words)}


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("Discounts discounted", "discount discount"),
        ("parseWeekDate", "pars week date parseweekd"),
        ("apply_discount XMLParser", "appli discount xml parser applydiscount xmlparser"),
        ("src/shop/cart.py", "src shop cart py srcshopcartpi cartpi"),
        ("foo::bar->baz", "foo bar baz foobarbaz"),
        ("v2.10.1 and 3.14", "v2 10 1 and 3 14 v2101 10_1 3_14"),
        ("the user's café, don't", "the user cafe dont"),
        ("cf17253 sha256", "cf17253 sha256"),
        ("日本語の検索", "日本 本語 語の の検 検索 索"),
        ("検", "検"),
        ("Ünïcödé ＡＢＣ straße", "unicod abc strass"),
        ("🎉 %_*\" -> :: '", ""),
        ("x" * 500, "x" * 64),
    ],
)
def test_a_text_becomes_tokens(text: str, cut: str) -> None:
    """Words by their stems, names in parts and whole, scripts without spaces by pairs; nothing else is left."""
    assert tokens.of_text(text) == cut


def test_a_query_becomes_terms() -> None:
    """Common words are left out where there are others; phrases and beginnings stay what they are."""
    assert tokens.of_query("what is the discount") == [Term(("discount",))]
    assert tokens.of_query("the") == [Term(("the",))]
    assert tokens.of_query('"used twice" disc*') == [Term(("us", "twice")), Term(("disc",), is_prefix=True)]
    assert tokens.of_query("日本語") == [Term(("日本",)), Term(("本語",))]
    assert tokens.of_query('"検"') == [Term(("検",), is_prefix=True)]
    assert len(tokens.of_query(" ".join(f"w{n}" for n in range(9999)))) == tokens.MAX_COUNTED_TERMS


@given(st.text(max_size=300))
def test_no_token_has_anything_in_it_that_an_engine_reads(text: str) -> None:
    """Neither of what is indexed nor of what is asked: letters, digits, marks of letters, and `_` between digits."""
    found = [*tokens.of_text(text).split(" "), *(t for term in tokens.of_query(text) for t in term.tokens)]
    for token in found:
        assert not re.search(r"[\x00-\x2f\x3a-\x5e\x60\x7b-\x7f\s]", token), token
