"""Changes are told by symbols, lines and reasons, one observation per file or group."""

from __future__ import annotations

import pytest
from acted import a_round, edited, later, only, ran, read, stopped, told, used, words, wrote

from backstory.observe.offline import tell

DATES = '''"""Dates."""

import re


class Calendar:
    def parse_date(self, text):
        parts = text.split("-")
        return tuple(int(part) for part in parts)

    def show(self):
        return "x"


def today():
    return 1
'''


def test_an_edit_names_the_method_around_it_and_its_lines() -> None:
    """An edit inside a method is told by the method's full name, its file and the lines."""
    old = '        parts = text.split("-")'
    new = '        if "W" in text:\n            return week(text)\n        parts = text.split("-")'
    observation = only(told("make dates nicer", edited("src/dates.py", old, new, DATES)))
    assert observation.title == "Change `Calendar.parse_date` in src/dates.py:8-10"
    assert observation.type == "change"
    assert observation.files_modified == ("src/dates.py",)
    assert "edited" not in words(observation).lower()


def test_new_definitions_are_named_with_their_lines() -> None:
    """A function that an edit adds is named, and a prompt that asks for it makes it a feature."""
    old = "def today():\n    return 1"
    new = "def _week_start(year, week):\n    return year, week\n\n\ndef today():\n    return 1"
    observation = only(told("add support for ISO weeks", edited("src/dates.py", old, new, DATES)))
    assert observation.type == "feature"
    assert "`_week_start`" in observation.title
    assert any("`_week_start` (line 15)" in fact for fact in observation.facts)
    assert "Asked: add support for ISO weeks" in observation.narrative


def test_removed_definitions_are_named() -> None:
    """What is gone is said to be gone."""
    observation = only(told("drop today()", edited("src/dates.py", "def today():\n    return 1\n", "", DATES)))
    assert observation.title == "Remove `today` from src/dates.py"


def test_one_line_for_another_shows_both() -> None:
    """A setting that changed is told with its old and its new value."""
    observation = only(told("raise it", edited("conf.py", "timeout = 30", "timeout = 60")))
    assert observation.title == "Change conf.py: `timeout = 30` → `timeout = 60`"


def test_all_edits_of_a_file_are_one_observation() -> None:
    """Five edits of one file are told once, from all their events."""
    events = [edited("src/dates.py", f"x{n} = 1", f"x{n} = 2") for n in range(5)]
    observation = only(told("tune", *events))
    assert observation.event_ids == tuple(event.id for event in events)


def test_a_source_and_its_tests_belong_together() -> None:
    """The tests of a changed file are told with it."""
    source = edited("src/dates.py", "def today():\n    return 1", "def today():\n    return 2", DATES)
    tests = edited("tests/test_dates.py", "import dates", "import dates\n\n\ndef test_today():\n    assert 1")
    observation = only(told("make today right", source, tests))
    assert observation.title.endswith("(+ tests)")
    assert observation.files_modified == ("src/dates.py", "tests/test_dates.py")
    assert "`test_today`" in words(observation)


def test_a_rename_across_files_is_one_refactor() -> None:
    """A name replaced in many files is one observation, not one per file."""
    events = [edited(f"pkg/m{n}.go", "\tfetchUser(ctx)", "\tloadUser(ctx)") for n in range(8)]
    observation = only(told("rename fetchUser to loadUser", *events))
    assert observation.type == "refactor"
    assert observation.title == "Replace `fetchUser` by `loadUser` in 8 files"
    assert len(observation.files_modified) == 8


def test_a_symbol_that_moves_is_told_as_moved() -> None:
    """Removed here and added there is a move."""
    out = edited("a.py", "def helper():\n    return 1\n", "")
    home = edited("b.py", "import os", "import os\n\n\ndef helper():\n    return 1\n")
    observation = only(told("tidy up", out, home))
    assert observation.title == "Move `helper` from a.py to b.py"
    assert observation.type == "refactor"


def test_many_files_are_merged_and_none_is_lost() -> None:
    """Twenty changed files give few observations, and every path is in one of them."""
    events = [wrote(f"src/part{n}.py", f"def part_{n}():\n    return {n}\n" * (n + 1)) for n in range(20)]
    reply = told("create the parts", *events)
    assert len(reply.observations) <= 8
    paths = {path for one in reply.observations for path in one.files_modified}
    assert paths == {f"src/part{n}.py" for n in range(20)}


def test_a_failed_edit_changed_nothing() -> None:
    """An edit that was refused is not told as done."""
    from acted import failed

    given = {"file_path": "/home/ada/shop/a.py", "old_string": "x", "new_string": "y"}
    assert told("do it", failed("Edit", given, "String to replace not found in file.")).observations == ()


def test_a_bug_in_the_request_makes_a_bugfix_and_a_document_never_is_one() -> None:
    """The type follows what was asked, where the file can be that."""
    code = edited("a.py", "def f():\n    return 1", "def f():\n    return 2")
    assert only(told("fix the broken total", code)).type == "bugfix"
    assert only(told("fix the broken total", edited("README.md", "a b c", "a b d"))).type == "change"


def test_the_reason_comes_from_the_last_message() -> None:
    """What the assistant said about a file is its why; reads of a changed file make no observation of their own."""
    message = "Done!\n\n- `src/dates.py`: **parse_date** now accepts ISO weeks because the importer sends them\n"
    change = edited("src/dates.py", '        return "x"', '        return "y"', DATES)
    observation = only(told("accept weeks", read("src/dates.py", DATES), change, stopped(message)))
    assert "because the importer sends them" in observation.narrative
    assert "**" not in observation.narrative


def test_an_edit_without_surroundings_is_placed_by_what_was_read() -> None:
    """Agents that send only the two strings still get the name of the function around them."""
    change = used("replace", {"file_path": "src/dates.py", "old_string": "    return 1", "new_string": "    return 2"})
    observation = only(told("make it two", read("src/dates.py", DATES), change))
    assert observation.title == "Change `today` in src/dates.py"


def test_what_was_told_before_is_not_told_again() -> None:
    """Events observed earlier are context only."""
    first = a_round("tune", edited("a.py", "x = 1", "x = 2"))
    second = later(first, edited("b.py", "y = 1", "y = 2"))
    observation = only(tell(second))
    assert observation.files_modified == ("b.py",)
    assert set(observation.event_ids) <= {event.id for event in second.events}


@pytest.mark.parametrize(
    ("path", "content", "names"),
    [
        ("a.ts", "export interface Cart {}\nexport const total = (x: number) => x\nclass Shop {}\n", "Cart total Shop"),
        ("a.go", "package a\n\nfunc (s *Store) Get() {}\n\ntype Store struct{}\n", "Store.Get Store"),
        ("a.rs", "pub struct Cart;\nimpl Cart {\n    pub fn total(&self) {}\n}\nfn main() {}\n", "Cart main"),
        ("A.java", "public class Cart {\n    public int total(int a) {\n", "Cart"),
        ("a.kt", "data class Cart(val a: Int)\nfun total(): Int {\n", "Cart total"),
        ("a.c", "#define MAX 3\nstatic int total(int a)\n{\n}\n", "MAX total"),
        ("a.rb", "module Shop\n  def self.total\n  end\nend\n", "Shop"),
        ("a.php", "class Cart {\n}\nfunction total() {\n", "Cart total"),
        ("a.sh", "deploy() {\n  true\n}\n", "deploy"),
        ("a.sql", "CREATE TABLE IF NOT EXISTS carts (\n  id int\n);\n", "carts"),
        ("a.css", ".cart .total {\n  color: red;\n}\n", ".cart .total"),
        ("a.toml", "[tool.shop]\nlimit = 3\n", "tool.shop limit"),
        ("a.yml", "services:\n  web:\n    image: x\n", "services"),
        ("a.md", "# Guide\n\n## Install\n", "Guide"),
    ],
)
def test_new_files_are_told_by_what_they_define(path: str, content: str, names: str) -> None:
    """A new file's definitions are named, in every family of languages."""
    observation = only(told("create it", wrote(path, content)))
    assert observation.title.startswith(f"Add {path}: ")
    for name in [names] if path == "a.css" else names.split():
        assert f"`{name}`" in observation.title


def test_a_patch_envelope_is_read_like_edits() -> None:
    """Agents that send one patch for several files are understood, too."""
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n@@ def total():\n def total():\n-    return 1\n+    return 2\n"
        "*** Add File: src/b.py\n+def brand_new():\n+    return 1\n*** End Patch\n"
    )
    titles = [one.title for one in told("change totals", used("apply_patch", {"input": patch}, "Done")).observations]
    assert titles == ["Change `total` in src/a.py", "Add src/b.py: `brand_new`"]


def test_lines_are_those_of_the_new_file() -> None:
    """Of two stretches in one hunk, each is placed where it stands after the change."""
    lines = [
        " def a():",
        "-    x = 1",
        "+    x = 2",
        "+    y = 3",
        "     return x",
        " ",
        " def b():",
        "-    z = 1",
        "+    z = 2",
    ]
    patch = [{"oldStart": 10, "oldLines": 7, "newStart": 10, "newLines": 8, "lines": lines}]
    given = {"file_path": "/home/ada/shop/m.py", "old_string": "x", "new_string": "y"}
    observation = only(told("tune", used("Edit", given, {"structuredPatch": patch, "originalFile": ""})))
    assert observation.title == "Change `a`, `b` in m.py"
    assert "m.py: changed `a` at 11-12, `b` at 16" in observation.facts


def test_methods_are_named_with_their_class_and_inner_functions_are_not() -> None:
    """What a new class can do is told; how it does it is not."""
    content = "class Cart:\n    def total(self):\n        def add(x):\n            return x\n        return add(1)\n"
    change = edited("a.py", "import os", f"import os\n\n\n{content}")
    observation = only(told("add a cart", change))
    assert observation.title == "Add `Cart`, `Cart.total` to a.py"


def test_a_made_file_says_what_it_is_even_without_definitions() -> None:
    """Makefiles by their targets, others by their size."""
    assert only(told("add it", wrote("Makefile", "test: build\n\tpytest\n"))).title == "Add Makefile: `test`"
    assert only(told("add it", wrote("LICENSE", "MIT\n\nfree"))).title == "Add LICENSE (3 lines)"


def test_a_fix_that_still_fails_is_only_a_change() -> None:
    """Asked for a fix, edited, and the tests fail all the same: not told as fixed."""
    failing = "FAILED tests/test_a.py::test_x - assert 1 == 2\n1 failed in 0.1s"
    reply = told(
        "Fix the total.", edited("a.py", "def f():\n    return 1", "def f():\n    return 3"), ran("pytest", failing, 1)
    )
    assert "bugfix" not in {o.type for o in reply.observations}
    passing = told(
        "Fix the total.",
        edited("a.py", "def f():\n    return 1", "def f():\n    return 3"),
        ran("pytest", "1 passed in 0.1s"),
    )
    assert "bugfix" in {o.type for o in passing.observations}
