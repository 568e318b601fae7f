"""Checks are told by what their output shows, runner by runner. What it does not show is not told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from acted import a_round, edited, ran, stopped, told, used

from backstory.model import Event
from backstory.observe.offline import tell
from backstory.observe.offline.checks import read_result

#: What each runner prints when something fails, and when all is well.
OUTPUTS = {
    "pytest -q": (
        "=================================== FAILURES ===================================\n"
        "__________________________________ test_week ___________________________________\n"
        "E       AssertionError: assert None == (2026, 7)\n\ntests/test_dates.py:12: AssertionError\n"
        "=========================== short test summary info ============================\n"
        "FAILED tests/test_dates.py::test_week - AssertionError: assert None == (2026, 7)\n"
        "ERROR tests/test_users.py\n"
        "=================== 1 failed, 33 passed, 1 error in 0.42s ====================\n",
        "pytest fails (2 failed, 33 passed: tests/test_dates.py::test_week, tests/test_users.py)",
        "..................................                          [100%]\n34 passed, 2 warnings in 0.40s\n",
        "pytest passes (34 passed)",
    ),
    "python -m unittest": (
        "FAIL: test_adds_up (tests.test_cart.CartTest.test_adds_up)\n-----\nAssertionError: 2 != 3\n\n"
        "-----\nRan 13 tests in 0.010s\n\nFAILED (failures=1, expected failures=1)\n",
        "unittest fails (1 failed, 12 passed: test_adds_up (tests.test_cart.CartTest.test_adds_up))",
        ".............\n-----\nRan 13 tests in 0.010s\n\nOK (expected failures=1)\n",
        "unittest passes (13 passed)",
    ),
    "go test ./...": (
        "--- FAIL: TestCart (0.00s)\n    --- FAIL: TestCart/adds_up (0.00s)\n        cart_test.go:31: want 3\n"
        "FAIL\nFAIL\tshop/cart\t0.012s\nok  \tshop/users\t0.008s\nFAIL\n",
        "go test fails (1 failed: TestCart/adds_up)",
        "ok  \tshop/cart\t0.012s\nok  \tshop/users\t(cached)\n?   \tshop/main\t[no test files]\n",
        "go test passes",
    ),
    "cargo test": (
        "running 3 tests\ntest cart::tests::empty ... ok\ntest cart::tests::adds_up ... FAILED\n\nfailures:\n\n"
        "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        "cargo test fails (1 failed, 2 passed: cart::tests::adds_up)",
        "test result: ok. 3 passed; 0 failed; 0 ignored\n\n   Doc-tests shop\n\ntest result: ok. 1 passed; 0 failed\n",
        "cargo test passes (4 passed)",
    ),
    "npx jest": (
        "FAIL src/cart.test.ts\n  Cart\n    ✓ starts empty (2 ms)\n    ✕ adds up (5 ms)\n\n  ● Cart › adds up\n\n"
        "    Expected: 3\n    Received: 2\n\nTest Suites: 1 failed, 2 passed, 3 total\n"
        "Tests:       1 failed, 12 passed, 13 total\n",
        "jest fails (1 failed, 12 passed: Cart › adds up)",
        "PASS src/cart.test.ts\n\nTest Suites: 3 passed, 3 total\nTests:       13 passed, 13 total\n",
        "jest passes (13 passed)",
    ),
    "npx vitest run": (
        " FAIL  src/cart.test.ts > Cart > adds up\nAssertionError: expected 2 to be 3\n\n"
        " Test Files  1 failed (1)\n      Tests  1 failed | 12 passed (13)\n",
        "vitest fails (1 failed, 12 passed: src/cart.test.ts > Cart > adds up)",
        " ✓ src/cart.test.ts (13)\n\n Test Files  1 passed (1)\n      Tests  13 passed (13)\n",
        "vitest passes (13 passed)",
    ),
    "npm test": (
        "  Cart\n    1) adds up\n\n  12 passing (9ms)\n  1 failing\n\n  1) Cart adds up:\n     AssertionError\n",
        "npm test fails (1 failed, 12 passed: Cart adds up)",
        "  Cart\n    ✔ adds up\n\n  13 passing (9ms)\n  1 pending\n",
        "npm test passes (13 passed)",
    ),
    "bundle exec rspec": (
        "Failures:\n\n  1) Cart adds up\n\n13 examples, 1 failure\n\nrspec ./spec/cart_spec.rb:4 # Cart adds up\n",
        "rspec fails (1 failed, 12 passed: Cart adds up)",
        "Finished in 0.01 seconds\n13 examples, 0 failures\n",
        "rspec passes (13 passed)",
    ),
    "vendor/bin/phpunit": (
        "1) CartTest::testAddsUp\nFailed asserting that 2 is 3.\n\nFAILURES!\n"
        "Tests: 13, Assertions: 20, Errors: 1, Failures: 1.\n",
        "phpunit fails (2 failed, 11 passed: CartTest::testAddsUp)",
        ".............  13 / 13 (100%)\n\nOK (13 tests, 20 assertions)\n",
        "phpunit passes (13 passed)",
    ),
    "./mvnw test": (
        "[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.1 s <<< FAILURE! - in CartTest\n"
        "[ERROR] Failures: \n[ERROR]   CartTest.addsUp:31 expected: <3> but was: <2>\n"
        "[ERROR] Tests run: 13, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE\n",
        "mvnw test fails (1 failed, 12 passed: CartTest.addsUp:31)",
        "[INFO] Tests run: 13, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS\n",
        "mvnw test passes (13 passed)",
    ),
    "./gradlew test": (
        "CartTest > addsUp() FAILED\n    org.opentest4j.AssertionFailedError at CartTest.java:31\n\n"
        "13 tests completed, 1 failed\n\nBUILD FAILED in 3s\n",
        "gradlew test fails (1 failed, 12 passed: CartTest > addsUp())",
        "> Task :test\n\nBUILD SUCCESSFUL in 3s\n4 actionable tasks: 4 executed\n",
        "gradlew test passes",
    ),
    "dotnet test": (
        "  Failed Shop.CartTest.AddsUp [5 ms]\n  Error Message:\n\n"
        "Failed!  - Failed:     1, Passed:    12, Skipped:     0, Total:    13, Duration: 9 ms - Shop.dll\n",
        "dotnet test fails (1 failed, 12 passed: Shop.CartTest.AddsUp)",
        "Passed!  - Failed:     0, Passed:    13, Skipped:     0, Total:    13, Duration: 9 ms - Shop.dll\n",
        "dotnet test passes (13 passed)",
    ),
    "ctest": (
        "92% tests passed, 1 tests failed out of 13\n\nThe following tests FAILED:\n\t  7 - adds_up (Failed)\n",
        "ctest fails (1 failed, 12 passed: adds_up)",
        "100% tests passed, 0 tests failed out of 13\n",
        "ctest passes (13 passed)",
    ),
    "node --test": (
        "not ok 2 - adds up\n# tests 13\n# pass 12\n# fail 1\n",
        "node --test fails (1 failed, 12 passed: adds up)",
        "ℹ tests 13\nℹ pass 13\nℹ fail 0\n",
        "node --test passes (13 passed)",
    ),
    "bun test": (
        "(fail) Cart > adds up [0.10ms]\n\n 12 pass\n 1 fail\n",
        "bun test fails (1 failed, 12 passed: Cart > adds up)",
        " 13 pass\n 0 fail\n",
        "bun test passes (13 passed)",
    ),
    "npx playwright test": (
        "  1 failed\n    [chromium] › cart.spec.ts:3:1 › adds up ─────\n  12 passed (2.1s)\n",
        "playwright test fails (1 failed, 12 passed: cart.spec.ts:3:1 › adds up)",
        "  13 passed (2.1s)\n",
        "playwright test passes (13 passed)",
    ),
    "npx tsc --noEmit": (
        "src/cart.ts(12,5): error TS2322: Type 'string' is not assignable.\n"
        "src/users.ts:3:1 - error TS2304: Cannot find name 'x'.\n",
        "tsc fails (2 errors: src/cart.ts(12,5), src/users.ts:3:1)",
        "Found 0 errors. Watching for file changes.\n",
        "tsc passes",
    ),
    "uv run --frozen mypy src": (
        "src/a.py:1: error: Name 'x' is not defined\nFound 1 error in 1 file (checked 3 source files)\n",
        "mypy fails (1 error: src/a.py:1)",
        "Success: no issues found in 3 source files\n",
        "mypy passes",
    ),
    "ruff check .": (
        "F401 [*] `os` imported but unused\n --> a.py:1:8\n  |\n\nFound 3 errors (2 fixed, 1 remaining).\n",
        "ruff fails (1 error: a.py:1)",
        "All checks passed!\n",
        "ruff passes",
    ),
    "golangci-lint run ./...": (
        "cart.go:31:5: G104: Errors unhandled (gosec)\n\tf.Close()\n\t^\n1 issues:\n* gosec: 1\n",
        "golangci-lint fails (1 error: cart.go:31)",
        "0 issues.\n",
        "golangci-lint passes",
    ),
    "npx eslint src": (
        "/shop/a.js\n  1:7  error  'x' is not defined  no-undef\n\n✖ 3 problems (2 errors, 1 warning)\n",
        "eslint fails (2 errors)",
        "✖ 1 problem (0 errors, 1 warning)\n",
        "eslint passes",
    ),
}


def told_of(run: Event) -> str:
    """What is told of a check."""
    summary = told("Check it.", edited("cart.py", "a", "b"), run, stopped("")).summary
    return f"{summary.completed}{summary.next_steps}" if summary else ""


@pytest.mark.parametrize("command", OUTPUTS)
@pytest.mark.parametrize("hidden", [False, True], ids=["", "piped"])
def test_a_check_is_told_by_its_output(command: str, hidden: bool) -> None:
    """Whether its exit code is known or hidden by a pipe."""
    failing, fails, passing, passes = OUTPUTS[command]
    line = f"{command} 2>&1 | tail -30" if hidden else command
    assert told_of(ran(line, failing, 0 if hidden else 1)) == f"{fails}."
    assert told_of(ran(line, passing)) == f"{passes}."


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("pytest -q | tail -1", ""),
        ("pytest -q; ls", "cart.py"),
        ("pytest -q\nls", "cart.py"),
        ("pytest -q & sleep 1", ""),
        ("pytest -q || true", "no tests ran in 0.01s"),
        ("pytest -q | tail -1; ruff check .", "All checks passed!"),
        ("pytest --collect-only", "13 tests collected in 0.1s"),
        ("pytest --version", "pytest 8.4.0"),
        ("python -m unittest | head -5", "Ran 13 tests in 0.010s"),
        ("python -m unittest | tail -3", "Ran 0 tests in 0.000s\n\nOK"),
        ("go test ./... | head -2", "ok  \tshop/cart\t0.012s\nok  \tshop/users\t0.008s"),
        ("go test ./... | grep ok", "ok  \tshop/cart\t0.012s"),
        ("npx jest | grep Tests", "Tests:       13 passed, 13 total"),
        ("make test | tail -1", "All checks passed!"),
        ("ruff format .", "3 files reformatted"),
    ],
)
def test_what_an_output_does_not_show_is_not_told(command: str, output: str) -> None:
    assert told_of(ran(command, output)) == ""


def cuts(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Every way to show a part of an output: the rest of the command line, and the part."""
    for number in range(1, len(lines) + 1):
        yield f" 2>&1 | tail -{number}", "\n".join(lines[-number:])
        yield f" | head -n {number}", "\n".join(lines[:number])
        yield " | grep -i a", lines[number - 1]
        yield f" | sed -n '{number},$p'", "\n".join(lines[number - 1 :])
        yield f" | tail -n{number} || true", "\n".join(lines[-number:])
    yield " || true", "\n".join(lines)
    yield "; echo done", "\n".join([*lines, "done"])
    yield "", "\n".join(lines)


@pytest.mark.parametrize("command", OUTPUTS)
def test_no_part_of_a_failing_output_passes(command: str) -> None:
    """Cut, piped, coloured, behind what hides the exit code, and with an exit code of 0. By a script that calls it,
    too, which prints `ok` at the end."""
    lines = OUTPUTS[command][0].strip("\n").split("\n")
    for rest, part in cuts(lines):
        assert "passes" not in told_of(ran(command + rest, part)), (rest, part)
        coloured = "\n".join(f"\x1b[1m\x1b[31m{line}\x1b[0m" for line in part.split("\n"))
        assert "passes" not in told_of(ran(command + rest, coloured)), (rest, part)
        assert "passes" not in told_of(ran(f"make test{rest}", f"{part}\nok")), (rest, part)


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_check_that_prints_nothing_is_told_by_its_own_exit_code_only(command: str) -> None:
    name = OUTPUTS[command][3].partition(" passes")[0]
    assert told_of(ran(command, "")) == f"{name} passes."
    assert told_of(ran(f"cd shop && {command} && echo ok", "ok")) == f"{name} passes."
    assert told_of(ran(f"cd shop && {command}", "", 1)) == f"{name} fails."
    hiding = (
        "{} | tail -1",
        "{} || true",
        "{}; echo ok",
        "{} & wait",
        "! {}",
        "if {}; then echo ok; fi",
        "{}\necho ok",
    )
    for line in hiding:
        for code in (0, 1):
            assert told_of(ran(line.format(command), "ok", code)) == "", (line, code)
    for before in ("npm ci", "./setup.sh"):
        assert told_of(ran(f"{before} && {command}", "", 1)) == "", before
    for code in (124, 126, 127, 137):
        assert told_of(ran(command, "", code)) == "", code


@pytest.mark.parametrize("agent_tells", ["ok", "Done.", {"output": "ok"}, [{"type": "text", "text": "ok"}]])
@pytest.mark.parametrize("command", ["pytest -q", "make test", "ruff check ."])
def test_an_exit_code_that_is_not_told_is_not_known(command: str, agent_tells: Any) -> None:
    """Other agents tell only what a command printed. Claude Code reports what failed as a failure."""
    events = (edited("cart.py", "a", "b"), used("Bash", {"command": command}, agent_tells), stopped(""))
    summary = tell(replace(a_round("Check it.", *events), agent="another")).summary
    assert summary and f"{summary.completed}{summary.next_steps}" == ""
    summary = tell(a_round("Check it.", *events)).summary
    assert summary and " passes" in summary.completed


@pytest.mark.parametrize(
    ("command", "output", "told"),
    [
        (
            "pytest -q",
            "FAILED tests/a.py::test_x - AssertionError\n1 failed",
            "pytest fails (1 failed: tests/a.py::test_x).",
        ),
        (
            "pytest -q | tail -2",
            "FAILED tests/a.py::test_x - Error\n1 failed",
            "pytest fails (1 failed: tests/a.py::test_x).",
        ),
        ("pytest -qq || true", "FAILED tests/a.py::test_x", "pytest fails (1 failed: tests/a.py::test_x)."),
        ("pytest | tail -1 | cut -d' ' -f2-", "1 failed, 3 passed", "pytest fails (1 failed, 3 passed)."),
        ("pytest -q | tail -1 | cut -c1-9", "34 passed", ""),
        ("pytest -q | grep -o '[0-9]* passed.*'", "34 passed in 0.1s", ""),
        ("pytest -q | head -c 20", "34 passed in 0.1s", ""),
        ("npx playwright test | tail -1", "  12 passed (2.1s)", ""),
        ("npx playwright test | tail -9", "  12 passed (2.1s)", "playwright test passes (12 passed)."),
        ("dotnet test | tail -1", "Passed!  - Failed:     0, Passed:    13, Skipped:     0, Total:    13", ""),
        ("flake8 --exit-zero", "", ""),
        ("npm run test --if-present", "", ""),
        ("make -i test", "", ""),
        ("cargo test --no-run", "", ""),
        ("mypy .", "app.py:3: error: Name 'x' is not defined", ""),
        ("flake8", "./a.py:1:1: F401 'os' imported but unused\n1 error", ""),
        ("npm test", "not ok 2 - adds up", ""),
        ("pytest -q", "bash: pytest: command not found", ""),
    ],
)
def test_a_short_output_tells_what_it_shows(command: str, output: str, told: str) -> None:
    assert told_of(ran(command, output)) == told


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("pytest -q", "bash: pytest: command not found"),
        ("cd nowhere && pytest -q", "bash: cd: nowhere: No such file or directory"),
        ("python -m pytest", "/usr/bin/python: No module named pytest"),
        ("pytest -q", "Command timed out after 2m 0.0s"),
        ("pytest -q | grep -c ERROR", "0"),
    ],
)
def test_a_check_that_did_not_run_has_not_failed(command: str, output: str) -> None:
    assert told_of(ran(command, output, 1)) == ""


def test_a_command_that_was_moved_to_the_background_has_not_passed() -> None:
    response = {"stdout": "", "stderr": "", "interrupted": False, "backgroundTaskId": "b1"}
    assert told_of(used("Bash", {"command": "pytest"}, response)) == ""
    assert told_of(used("Bash", {"command": "pytest"}, "Command running in background with ID: b1")) == ""


def test_a_check_in_the_background_has_not_passed() -> None:
    started = used("Bash", {"command": "pytest", "run_in_background": True}, {"stdout": "", "stderr": ""})
    assert told_of(started) == ""


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("pytest -q && ruff check .", "13 passed in 0.1s\nFound 1 error."),
        ("pytest -q && git push", "13 passed in 0.1s\nerror: failed to push some refs"),
        ("go build -o shop . && ./shop serve", "panic: no address"),
    ],
)
def test_a_check_does_not_fail_with_what_follows_it(command: str, output: str) -> None:
    assert "pytest" not in told_of(ran(command, output, 1))
    assert "go build" not in told_of(ran(command, output, 1))


def test_a_suite_that_does_not_start_is_a_failure() -> None:
    """Jest then counts no failed test."""
    result = read_result("Test Suites: 1 failed, 2 passed, 3 total\nTests:       12 passed, 12 total\n", "jest")
    assert result and not result.passed


@pytest.mark.parametrize("letter", ["[", "1 failed, ", "a.", "=", " ", "error ", "FAILED [", "\n1 passing"])
def test_hostile_output_is_read_soon(letter: str) -> None:
    assert read_result(letter * 20_000, "make") is None or "passing" in letter
