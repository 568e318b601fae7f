"""Titles that are made by rules: short, and telling to somebody who was not there."""

from __future__ import annotations

import pytest

from backstory.recall import session_title

DONE = "`Cart.apply_discount` added the amount on every call."


@pytest.mark.parametrize(
    ("prompts", "title"),
    [
        (["The cart total is wrong. Find out why."], "The cart total is wrong. Find out why"),
        (["Can you please make the start command hidden?"], "Make the start command hidden"),
        (["ok, let's add a discount code to the cart"], "Add a discount code to the cart"),
        (["I'd like to rename `clean` to `cleanup` everywhere"], "Rename clean to cleanup everywhere"),
        (["Implement the following plan:\n\n# Plan: Round prices once\n\n## Context\n"], "Round prices once"),
        (["/review https://example.org/shop/pull/7 now"], "/review https://example.org/shop/pull/7 now"),
        (["# Discounts\n\nAdd a second discount code."], "Add a second discount code"),
        (["I just got this\n❯ git rebase main\n$ make discount codes"], "I just got this"),
        (["manual_commit.go drops `**bold**` trailers"], "manual_commit.go drops bold trailers"),
        (["```\nTraceback\n```\nwhy does the invoice import fail?"], "Why does the invoice import fail"),
        (["can you look at this? The cart total is wrong"], "Look at this? The cart total is wrong"),
        (["I got this feedback on the branch, can you check: prices are rounded twice"], "Prices are rounded twice"),
        (
            ["please fix\n\n- the first thing: the invoice import drops a line"],
            "The first thing: the invoice import drops a line",
        ),
        (["yes", "push it", "Add a discount code to the cart"], "Add a discount code to the cart"),
        (["请检查购物车的总价"], "请检查购物车的总价"),
        (["yes"], "Yes"),
        (["", "   "], ""),
        ([], ""),
    ],
)
def test_the_title_is_what_was_asked(prompts: list[str], title: str) -> None:
    """Without politeness, markup and pasted output."""
    assert session_title.make(prompts, "") == title


def test_a_vague_request_is_followed_by_what_was_done() -> None:
    """`Review the changes` fits any session."""
    title = session_title.make(["can you review the changes in this branch?"], DONE)
    assert title.startswith("Review the changes in this branch: `Cart.apply_discount` added")
    assert session_title.make(["yes", "go on"], DONE) == DONE.rstrip(".")
    assert session_title.make(["The cart total is wrong"], DONE) == "The cart total is wrong"


def test_a_title_is_short() -> None:
    """Whatever was pasted, in linear time."""
    for prompt in ("word " * 50_000, "x" * 200_000, "please " * 50_000, "`" * 100_000, "#" * 100_000, "a. " * 50_000):
        assert len(session_title.make([prompt], "")) <= session_title.MAX_TITLE
