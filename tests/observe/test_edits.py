"""A change of which nothing was said is told by its files and by the definitions that it touched."""

from __future__ import annotations

import pytest
from acted import HOME, edited, stopped, told, used

from backstory.model import Event

CART = "class Cart:\n    def total(self):\n        x = 1\n        return x\n\n    def empty(self):\n        ...\n"
GO = "func (s *Store) Get(\n\tid string,\n) error {\n\treturn nil\n}\n"
PATCH = (
    "*** Begin Patch\n*** Add File: b.ts\n+export const load = async () => 1\n*** Update File: a.ts\n"
    "@@ function total() {\n-  return 1\n+  return 2\n-  return 3\n+  return 4\n*** End Patch"
)


@pytest.mark.parametrize(
    ("change", "title"),
    [
        (edited("cart.py", "        return x", "        return 2", CART), "Change `total` in cart.py"),
        (edited("cart.py", "        return x", "        return 2"), "Change cart.py"),
        (
            edited("cart.py", "    def empty(self):", "    def is_empty(self):", CART),
            "Add `is_empty` in cart.py",
        ),
        (edited("a.py", "def f():\n    pass\n", "", "def f():\n    pass\n"), "Remove `f` in a.py"),
        (edited("a.py", "x = 1", "x = 1\n\nLIMIT = 3\n\nasync def g():\n    pass"), "Add `LIMIT`, `g` in a.py"),
        (edited("store.go", "\treturn nil", "\treturn err", GO), "Change `Get` in store.go"),
        (edited("a.go", "x", "type Kind string\ntype Item struct {\n"), "Add `Kind`, `Item` in a.go"),
        (edited("a.rs", "x", "pub(crate) async fn load<T>(x: T) {"), "Add `load` in a.rs"),
        (edited("A.java", "x", "    public static int total(List<Item> items) {"), "Add `total` in A.java"),
        (edited("a.js", "x", "  total(items) {\n    if (items) {\n    return new Sum(items)"), "Add `total` in a.js"),
        (edited("a.sh", "x", "cleanup() {\n  LIMIT=3"), "Add `cleanup` in a.sh"),
        (edited("README.md", "one\ntwo", "one\nthree", "# Use\n\none\ntwo"), "Change `Use` in README.md"),
        (edited("a.toml", 'version = "1"', 'version = "2"'), "Change `version` in a.toml"),
        (edited("a.txt", "x", "class of problems:\ntype (x)"), "Change a.txt"),
        (used("apply_patch", {"input": PATCH}), "Change `total` in a.ts and 1 more file"),
    ],
)
def test_a_change_is_told_by_what_it_touched(change: Event, title: str) -> None:
    observation = told("go on", change, stopped("")).observations[0]
    assert observation.title == title


def test_an_edit_that_changes_nothing_is_no_change() -> None:
    same = used("Edit", {"file_path": f"{HOME}/a.py", "old_string": "x", "new_string": "x"})
    assert told("go on", same, stopped("")).observations == ()


def test_what_comes_and_goes_in_a_round_is_not_told() -> None:
    come, gone = edited("a.py", "x = 1", "x = 1\ndef f(): ..."), edited("a.py", "x = 1\ndef f(): ...", "x = 2")
    assert told("go on", come, gone, stopped("")).observations[0].title == "Change a.py"
