"""The pages of a conversation: all of it, once, in order, each page of a bounded size; and a tool use in one line."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from backstory.model import Event
from backstory.recall.turn_pages import pages, tool_line

SIZE = 400
TEXTS = st.lists(st.text("ab \n", min_size=1, max_size=1500), max_size=12)


@given(TEXTS)
def test_pages_hold_all_of_it_once_and_in_order(texts: list[str]) -> None:
    """Whatever its length; and nothing but labels is added."""
    found = list(pages(((f"[{number}] user", text) for number, text in enumerate(texts)), SIZE))
    assert all(0 < len(page) <= SIZE for page in found)
    said = "".join(line for page in found for line in page.split("\n") if not line.startswith("["))
    assert said.replace(" ", "") == "".join(texts).replace(" ", "").replace("\n", "")


def test_a_text_is_divided_only_if_it_is_longer_than_a_page() -> None:
    """It goes on under its own label; a shorter one begins the next page instead."""
    short, long = "word " * 60, "line of words\n" * 60
    first, second, *rest = pages([("[0] user", short), ("[1] assistant", short), ("[2] assistant", long)], SIZE)
    assert first == f"[0] user\n{short}".rstrip("\n")
    assert second.startswith("[1] assistant\nword")
    assert all(page.startswith("[2] assistant") for page in rest)
    assert all(page.startswith("[2] assistant (goes on)\nline of words\n") for page in rest[1:])
    assert sum(page.count("line of words") for page in rest) == 60
    assert list(pages([])) == []


def use(name: str, given: Any, **more: Any) -> str:
    return tool_line(Event(1, 1, 1, "tool", "", name, None, {"tool_input": given} | more), "/home/me/shop")


def test_a_tool_use_is_one_line() -> None:
    """Its name, what it was used for and how it failed, whatever an agent sends."""
    assert use("Bash", {"description": "Run the tests", "command": "pytest\n  -q"}) == "Bash pytest -q"
    assert use("Edit", {"old_string": "a", "file_path": "/home/me/shop/cart.py"}) == "Edit cart.py"
    assert use("Grep", {"path": "/home/me/shop", "pattern": "total"}) == "Grep total"
    assert use("lookup", {"limit": 3, "words": "red cars"}) == "lookup red cars"
    assert use("odd", "a text") == "odd a text"
    assert use("odd", None) == use("odd", ["x"]) == use("odd", {}) == use("odd", {"n": 1}) == "odd"
    assert use("Bash", {"command": "make"}, error="Exit code 2\nno rule") == "Bash make (failed: Exit code 2 no rule)"
    failed = use("Bash", {"command": "x" * 9000}, error="Exit code 1 " + "y" * 9000 + " 3 failed")
    assert len(failed) < 400 and "Exit code 1" in failed and failed.endswith("3 failed)")
