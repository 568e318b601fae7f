"""Commands are told by what they did or how they failed, and looking around is not told."""

from __future__ import annotations

import pytest
from acted import a_round, edited, failed, later, only, ran, told, used, words

from backstory.observe.offline import tell

PYTEST = """\
============================= test session starts ==============================
collected 34 items

tests/test_dates.py .F                                                   [100%]

=================================== FAILURES ===================================
__________________________________ test_week ___________________________________

    def test_week():
>       assert parse_date("2026-W07") == (2026, 7)
E       AssertionError: assert None == (2026, 7)

tests/test_dates.py:12: AssertionError
=========================== short test summary info ============================
FAILED tests/test_dates.py::test_week - AssertionError: assert None == (2026, 7)
========================= 1 failed, 33 passed in 0.42s =========================
"""
JEST = """\
FAIL src/cart.test.ts
  Cart
    ✓ starts empty (2 ms)
    ✕ adds up (5 ms)

  ● Cart › adds up

    expect(received).toBe(expected) // Object.is equality

    Expected: 3
    Received: 2

Test Suites: 1 failed, 1 total
Tests:       1 failed, 12 passed, 13 total
"""
GO = """\
--- FAIL: TestCart (0.00s)
    --- FAIL: TestCart/adds_up (0.00s)
        cart_test.go:31: total = 2, want 3
FAIL
FAIL\tshop/cart\t0.012s
ok  \tshop/users\t0.008s
FAIL
"""
CARGO = """\
running 3 tests
test cart::tests::empty ... ok
test cart::tests::adds_up ... FAILED

failures:

---- cart::tests::adds_up stdout ----
thread 'cart::tests::adds_up' panicked at src/cart.rs:44:9:
assertion `left == right` failed
  left: 2

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
"""
VITEST = """\
 FAIL  src/cart.test.ts > Cart > adds up
AssertionError: expected 2 to be 3 // Object.is equality

 Test Files  1 failed (1)
      Tests  1 failed | 12 passed (13)
"""
UNITTEST = """\
FAIL: test_adds_up (tests.test_cart.CartTest)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/home/ada/shop/tests/test_cart.py", line 9, in test_adds_up
    self.assertEqual(2, 3)
AssertionError: 2 != 3

----------------------------------------------------------------------
Ran 13 tests in 0.010s

FAILED (failures=1)
"""
MOCHA = "  Cart\n    1) adds up\n\n  12 passing (9ms)\n  1 failing\n\n  1) Cart adds up:\n     AssertionError: 2 == 3\n"
RSPEC = "Failures:\n\n  1) Cart adds up\n\n13 examples, 1 failure\n\nrspec ./spec/cart_spec.rb:4 # Cart adds up\n"
PHPUNIT = "1) CartTest::testAddsUp\nFailed asserting that 2 is 3.\n\nTests: 13, Assertions: 20, Failures: 1.\n"
MAVEN = "[ERROR] Tests run: 13, Failures: 1, Errors: 0, Skipped: 0\n[ERROR]   CartTest.addsUp:31 expected: <3>\n"
CTEST = "92% tests passed, 1 tests failed out of 13\n\nThe following tests FAILED:\n\t  7 - adds_up (Failed)\n"


@pytest.mark.parametrize(
    ("command", "output", "expected"),
    [
        ("pytest -q", PYTEST, ["`test_week` fails", "AssertionError: assert None == (2026, 7)", "1 failed, 33 passed"]),
        ("npx jest", JEST, ["Cart › adds up", "Expected: 3; Received: 2", "1 failed, 12 passed"]),
        ("go test ./...", GO, ["TestCart/adds_up", "cart_test.go:31", "total = 2, want 3", "1 failed"]),
        ("cargo test", CARGO, ["cart::tests::adds_up", "assertion `left == right` failed", "1 failed, 2 passed"]),
        ("npx vitest run", VITEST, ["adds up", "expected 2 to be 3", "1 failed, 12 passed"]),
        ("python -m unittest", UNITTEST, ["CartTest.test_adds_up", "AssertionError: 2 != 3", "1 failed, 12 passed"]),
        ("npm test", MOCHA, ["Cart adds up", "AssertionError: 2 == 3", "1 failed, 12 passed"]),
        ("bundle exec rspec", RSPEC, ["Cart adds up", "1 failed, 12 passed"]),
        ("vendor/bin/phpunit", PHPUNIT, ["CartTest::testAddsUp", "1 failed, 12 passed"]),
        ("./mvnw test", MAVEN, ["CartTest.addsUp:31", "1 failed, 12 passed"]),
        ("ctest --output-on-failure", CTEST, ["adds_up", "1 failed, 12 passed"]),
    ],
)
@pytest.mark.parametrize("code", [0, 1])
def test_a_failing_run_says_which_test_and_why(command: str, output: str, expected: list[str], code: int) -> None:
    """Runner by runner, whether the exit code was reported or hidden by a pipe: names, first errors, counts."""
    reply = told("run the tests", ran(command, output, code))
    observation = only(reply)
    assert observation.type == "discovery"
    assert "gotcha" in observation.concepts
    for part in expected:
        assert part in words(observation)


def test_a_failure_that_an_edit_fixed_is_one_bugfix() -> None:
    """Fail, edit, pass is one observation: the error, the edit, and that it passes now."""
    edit = edited(
        "src/dates.py", "def parse_date(text):\n    return None", "def parse_date(text):\n    return (2026, 7)"
    )
    events = [ran("pytest -q", PYTEST, 1), edit, ran("pytest -q", "34 passed in 0.4s")]
    observation = only(told("tests are red, have a look", *events))
    assert observation.type == "bugfix"
    assert observation.title == "Fix `test_week`: AssertionError: assert None == (2026, 7)"
    assert "problem-solution" in observation.concepts
    assert "`parse_date`" in words(observation)
    assert observation.facts[-1] == "`pytest` passes now: 34 passed"
    assert observation.files_modified == ("src/dates.py",)
    assert observation.event_ids == tuple(event.id for event in events)


def test_a_chain_is_mended_when_its_checks_pass() -> None:
    """The formatter in front of a failing linter need not be seen again."""
    error = "a.py:3:1: F401 `os` imported but unused"
    events = [
        ran("npm run fmt && npm run lint", error, 1),
        edited("a.py", "import os\nx = 1", "x = 1"),
        ran("npm run lint"),
    ]
    observation = only(told("clean up", *events))
    assert observation.type == "bugfix"
    assert observation.facts[-1] == "`npm run lint` passes now"


def test_a_narrower_run_does_not_prove_the_fix() -> None:
    """Another test's success says nothing about the one that failed."""
    edit = edited("src/dates.py", "x = 1", "x = 2")
    narrow = ran("pytest tests/test_cart.py", "3 passed in 0.1s")
    reply = told("fix it", ran("pytest -q", PYTEST, 1), edit, narrow)
    titles = [one.title for one in reply.observations]
    assert "`test_week` fails: AssertionError: assert None == (2026, 7)" in titles
    assert not any(title.startswith("Fix") for title in titles)


def test_the_same_test_run_alone_proves_the_fix() -> None:
    """A run narrowed to the test that failed does count."""
    edit = edited("src/dates.py", "x = 1", "x = 2")
    again = ran("pytest tests/test_dates.py::test_week", "1 passed in 0.1s")
    observation = only(told("fix it", ran("pytest -q", PYTEST, 1), edit, again))
    assert observation.title.startswith("Fix `test_week`")


def test_a_test_that_passes_without_an_edit_is_not_called_fixed() -> None:
    """Flaky is not fixed."""
    observation = only(told("run them", ran("pytest", PYTEST, 1), ran("pytest", "34 passed in 0.4s")))
    assert observation.title.startswith("`test_week` failed, then passed without an edit")
    assert observation.type == "discovery"


def test_a_failure_told_before_and_fixed_now_is_told_as_fixed() -> None:
    """The earlier events explain the fix; only the new ones are named as its source."""
    first = a_round("fix dates", ran("pytest -q", PYTEST, 1))
    second = later(first, edited("src/dates.py", "x = 1", "x = 2"), ran("pytest -q", "34 passed in 0.4s"))
    observation = only(tell(second))
    assert observation.title.startswith("Fix `test_week`")
    assert set(observation.event_ids) == {event.id for event in second.events}


def test_tests_written_first_do_not_make_a_bug() -> None:
    """A new test that fails until the feature is there leaves the feature as the main thing."""
    test = edited("tests/test_dates.py", "import dates", "import dates\n\n\ndef test_week():\n    assert 1")
    code = edited("src/week.py", "x = 1", "x = 1\n\n\ndef week():\n    return 1")
    reply = told("add weeks", test, ran("pytest -q", PYTEST, 1), code, ran("pytest -q", "35 passed in 0.4s"))
    assert "feature" in {one.type for one in reply.observations}


@pytest.mark.parametrize(
    ("command", "output", "expected"),
    [
        (
            "npm run build",
            "src/cart.ts(12,5): error TS2322: Type 'string' is not assignable.",
            ["src/cart.ts:12", "TS2322"],
        ),
        ("go build ./...", "# shop/cart\ncart/cart.go:14:2: undefined: Total", ["cart/cart.go:14", "undefined: Total"]),
        (
            "cargo build",
            "error[E0425]: cannot find value `x`\n  --> src/main.rs:3:5\n",
            ["src/main.rs:3", "cannot find value"],
        ),
        ("make", "main.c:7:3: error: expected ';' before 'return'", ["main.c:7", "expected ';'"]),
        (
            "python run.py",
            'Traceback (most recent call last):\n  File "/home/ada/shop/run.py", line 3, in <module>\n    go()\n'
            '  File "/home/ada/shop/src/go.py", line 9, in go\n    x()\n'
            '  File "/usr/lib/python3.11/site-packages/x.py", line 2, in x\nValueError: bad cart\n',
            ["src/go.py:9", "ValueError: bad cart"],
        ),
        ("terraform-docs .", "bash: terraform-docs: command not found", ["terraform-docs: command not found"]),
    ],
)
def test_errors_name_what_and_where(command: str, output: str, expected: list[str]) -> None:
    """Compilers, tracebacks and missing programs: the message and the place in the project."""
    observation = only(told("go", ran(command, output, 1)))
    for part in expected:
        assert part in words(observation)


def test_a_missing_module_and_the_install_that_fixed_it() -> None:
    """The install between the failure and the success is the fix."""
    error = (
        'Traceback (most recent call last):\n  File "/home/ada/shop/run.py", line 1, in <module>\n'
        "ModuleNotFoundError: No module named 'yaml'\n"
    )
    events = [
        ran("python run.py", error, 1),
        ran("pip install pyyaml", "Successfully installed pyyaml-6.0.2"),
        ran("python run.py", "ok"),
    ]
    reply = told("run it", *events)
    fix = only(reply, "bugfix")
    assert "No module named 'yaml'" in fix.title
    assert "pip install pyyaml" in words(fix)
    assert any("`pyyaml-6.0.2`" in words(one) for one in reply.observations)


def test_commits_are_told_with_hash_branch_message_and_size() -> None:
    """A commit is never lost."""
    output = "[main 3f2a91c] Accept ISO weeks\n 2 files changed, 40 insertions(+), 3 deletions(-)\n"
    observation = only(told("commit it", ran('git add -A && git commit -m "Accept ISO weeks"', output)))
    assert observation.title == "Commit 3f2a91c: Accept ISO weeks"
    assert observation.facts == ("Commit 3f2a91c on main: Accept ISO weeks, 2 files",)


def test_push_and_pull_request_are_told() -> None:
    """What left the machine is told with its names."""
    push = ran("git push -u origin weeks", "To github.com:ada/shop.git\n * [new branch]      weeks -> weeks\n")
    request = ran('gh pr create --title "Weeks" --body x', "https://github.com/ada/shop/pull/7\n")
    observation = only(told("push and open a PR", push, request))
    assert observation.title == "Open pull request #7: Weeks"
    assert "Pushed weeks" in observation.facts


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "cd src && pwd",
        "git status",
        "git diff HEAD~1",
        "cat a.py",
        "sleep 5",
        "which node",
        "mkdir -p x",
        "echo hi",
        "grep -rn x .",
    ],
)
def test_looking_around_is_not_told(command: str) -> None:
    """Noise leaves nothing, and neither does noise that fails."""
    assert told("look", ran(command, "something\nFAILED\nError: x")).observations == ()
    assert told("look", ran(command, "ls: x: No such file or directory", 1)).observations == ()


def test_what_the_user_refused_did_not_happen() -> None:
    """A refused command is neither a deed nor a failure."""
    error = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    assert told("go", failed("Bash", {"command": "git push --force"}, error)).observations == ()


def test_other_agents_shells_are_read_the_same() -> None:
    """A command as a list, and a response as a string, are understood."""
    shell = used("shell", {"command": ["bash", "-lc", "pytest -q"]}, PYTEST)
    assert only(told("test", shell)).title.startswith("`test_week` fails")


def test_deleted_and_moved_files_are_told() -> None:
    """Files that go away are changes, scratch files are not."""
    observation = only(told("clean", ran("git rm src/old.py && rm -rf /tmp/x dist")))
    assert observation.title == "Delete src/old.py"
    assert observation.files_modified == ("src/old.py",)


@pytest.mark.parametrize(
    ("command", "output", "title", "fact"),
    [
        ("git checkout -b weeks", "Switched to a new branch 'weeks'", "Create branch weeks", "Created branch `weeks`"),
        ("git merge main", "Merge made by the 'ort' strategy.", "Merged main", "Merged `main`"),
        ("git tag v1.2.0", "", "Tag v1.2.0", "Created tag `v1.2.0`"),
        ("npm install zod@3", "added 1 package in 2s", "Installed zod@3", "Installed `zod@3` (npm install)"),
        ("uv run alembic upgrade head", "Running upgrade -> 9f1", "Run migrations: uv run alembic upgrade head", "9f1"),
        ("npm run dev &", "Local: http://localhost:5173/", "Start npm run dev at http://localhost:5173", "Started"),
        ("node --version", "v20.11.1", "node: v20.11.1", "`node` is version `v20.11.1`"),
        ("cargo build --release", "Finished `release` profile", "cargo build passes", "`cargo build --release` passed"),
        ("mypy src", "Success: no issues found", "mypy passes", "`mypy src` passed"),
        ("pytest -q", "34 passed in 0.4s", "pytest passes: 34 passed", "`pytest -q` passed: 34 passed"),
    ],
)
def test_lasting_effects_are_told(command: str, output: str, title: str, fact: str) -> None:
    """Branches, merges, tags, installs, migrations, servers, versions, and checks where they are all there is."""
    observation = only(told("do it", ran(command, output)))
    assert observation.title == title
    assert any(fact in told_fact for told_fact in observation.facts)


def test_a_merge_that_had_nothing_to_do_is_not_told() -> None:
    """Only what happened is told."""
    assert told("merge main", ran("git merge main", "Already up to date.")).observations == ()


def test_two_commands_with_the_same_program_are_two_things() -> None:
    """The success of one script does not mend another."""
    error = "bash: line 1: Error: no carts"
    reply = told("run both", ran("python a.py", error, 1), ran("python b.py", "ok"))
    assert only(reply).title.startswith("`python a.py` fails")


def test_checks_that_pass_after_a_change_belong_to_it() -> None:
    """A green run is a sentence of the change, not an observation."""
    edit = edited("a.py", "def f():\n    return 1", "def f():\n    return 2")
    observation = only(told("make it two", edit, ran("pytest -q", "34 passed in 0.4s")))
    assert "Afterwards pytest: 34 passed." in observation.narrative
