"""Results of checks, read from their output: whether a check passed, a tally, and the names of what failed.

A row describes what one runner prints. The numbers in a result are read the same way for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from backstory.observe.offline.text import joined, plural

#: Characters of a line that are read.
LINE = 500
#: Names of failures that are told, and characters of each.
NAMES = 3
NAME = 160
_FAILED = re.compile(
    r"\b(\d+)(?: tests?)? (?:failed|failing|fail|failures?|errors?|remaining|issues)\b"
    r"|(?<!expected )\b(?:fail|failures=|errors=|failures:|errors:|failed:)\s*(\d+)",
    re.IGNORECASE,
)
_PASSED = re.compile(r"\b(\d+) pass(?:ed|ing)?\b|\b(?:pass|passed:)\s*(\d+)", re.IGNORECASE)
_ALL = re.compile(r"(?:Ran |Tests run: |Tests: |OK \(|out of )(\d+)|\b(\d+) (?:examples?|runs|tests? completed)\b")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What the output of a check shows."""

    passed: bool
    detail: str  #: `1 failed, 3 passed: test_cart`
    is_last: bool = True  #: nothing above it, which `tail` may have cut off, can say otherwise


@dataclass(frozen=True, slots=True)
class Runner:
    """A program that checks something. In `result`, `bad` is a failure and `tally` is where the numbers stand."""

    programs: str
    result: re.Pattern[str]
    name: re.Pattern[str]  #: the line of a failure
    counts_errors: bool  #: and not tests
    is_last: bool  #: what passed is told after all that failed
    part: re.Pattern[str]  #: a result of which the rest was cut off: a failure


def _runner(
    programs: str,
    result: str,
    name: str = r"(?!)",
    counts_errors: bool = False,
    is_last: bool = True,
    part: str = r"(?!)",
) -> Runner:
    patterns = [re.compile(pattern, re.M) for pattern in (result, name, part)]
    return Runner(programs, patterns[0], patterns[1], counts_errors, is_last, patterns[2])


RUNNERS = (
    _runner(
        "pytest py.test",
        r"^(?:[=!]+ )?(?:\d+ [a-z]+, ){0,6}\d+ (?:passed|failed|errors?)\b.* in \d.*",
        r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - .*)?$",
        part=r"^(?:[=!]+ )?(?:\d+ [a-z]+, ){0,6}\d+ (?:failed|errors?)\b(?:, \d+ [a-z]+)*[ =]*$",
    ),
    _runner(
        "unittest manage.py trial",
        r"^Ran \d+ tests? in .*\n+(?:OK|(?P<bad>FAILED)).*",
        r"^(?:FAIL|ERROR): (\w+ \([\w.]+\))",
    ),
    _runner(
        "jest vitest",
        r"^[ \t]*Test (?:Suites|Files):?[ \t]+(?P<bad>\d+ failed)?.*\n[ \t]*(?P<tally>Tests:?[ \t].*)",
        r"^[ \t]*(?:● (?!Console)(.+ › .+)|(?:FAIL|×) +(\S+\.\w+ > .+?)(?: \d+ms)?)$",
    ),
    _runner(
        "cargo",
        r"^test result: .*|^[ \t]*Summary \[.*|^(?P<bad>error: (?:could not compile|test failed|\d+ targets? failed))",
        r"^test (\S+)(?: - .*?)? \.\.\. FAILED",
        is_last=False,
    ),
    _runner(
        "go gotestsum",
        r"^(?:ok[ \t]+\S+[ \t]+(?:[\d.]+s|\(cached\))|(?P<bad>--- FAIL: |FAIL$|FAIL\t))",
        r"^[ \t]*--- FAIL: (\S+)",
    ),
    _runner("mocha", r"^[ \t]*\d+ passing.*(?:\n[ \t]*\d+ (?:pending|failing).*)*", r"^[ ]{2,4}\d+\) (.+?):$"),
    _runner("rspec", r"^\d+ (?:examples?|runs), .*\d+ failures?.*", r"^rspec \S+ # (.+)$"),
    _runner("phpunit pest", r"^OK \(\d+ tests?|^Tests: \d+, Assertions.*", r"^\d+\) (\S+::\S+)"),
    _runner(
        "mvn mvnw",
        r"^(?:\[\w+\] )?(?:Tests run: \d+, Failures: .*Skipped: \d+$|BUILD SUCCESS|(?P<bad>BUILD FAILURE))",
        r"^\[ERROR\] {2,3}(\S+:\d+)",
    ),
    _runner(
        "gradle gradlew",
        r"^\d+ tests? completed.*|^BUILD (?:SUCCESSFUL|(?P<bad>FAILED))",
        r"^(\S+ > .+) FAILED$",
    ),
    _runner("dotnet", r"^(?:Failed|Passed)! +- Failed:.*", r"^[ \t]*(?:X|Failed) (\S+)(?= \[|$)", is_last=False),
    _runner("ctest", r"\d+% tests passed, .*", r"^[ \t]+\d+ - (\S+) \("),
    _runner("node", r"^(?:#|ℹ) (?:pass|fail) \d+", r"^[ \t]*not ok \d+ (?!.* # (?:TODO|SKIP))(?:- )?(.+?)(?: # .*)?$"),
    _runner("bun", r"^[ \t]*\d+ (?:pass|fail)$", r"^\(fail\) (.+?)(?: \[.*\])?$"),
    _runner("playwright", r"^[ \t]*\d+ (?:passed \(|failed$).*", r"^[ \t]+\[\w+\] › (.+?)[ \t─]*$", is_last=False),
    _runner("mypy", r"^Found \d+ errors? in .*|^Success: no issues", r"^(\S+?:\d+)(?::\d+)?: error: ", True),
    _runner(
        "ruff",
        r"^Found (?:\d+ errors? \(\d+ fixed, )?(?P<tally>\d+ (?:errors?|remaining)).*|^All checks passed!",
        r"^(?: *--> )?([^\s:]+:\d+):\d+",
        True,
    ),
    _runner("golangci-lint", r"^(?P<tally>\d+ issues)[.:]", r"^(\S+:\d+):\d+: ", True),
    _runner("eslint", r"^✖ \d+ problems? \(\d+ errors?", counts_errors=True),
    _runner("pyright", r"^\d+ errors?, \d+ warnings?", r"^ *(\S+?:\d+):\d+ - error", True),
    _runner(
        "tsc vue-tsc",
        r"^Found 0 errors|^\S+(?:\(\d+,\d+\):| -|:\d+:\d+ -) (?P<bad>error TS)\d+",
        r"^(\S+?(?:\(\d+,\d+\)|:\d+:\d+))(?::| -) error TS",
        True,
    ),
)


#: What hardly any check prints if all is well. A passing exit code beside it may be that of something else.
_DOUBT = re.compile(
    r"\b[1-9]\d* (?:tests? |checks? )?(?:failed|failing|failures?|errors?|problems?)\b"
    r"|^[ \t]*(?:FAIL|FAILED|FAILURES?|ERRORS?)\b|\bFAILED(?:[ \t]*$|[ \t]*[\[(])|\.\.\. (?:FAIL|ERROR)"
    r"|^[ \t]*not ok\b|^[ \t]*[✕✗✘✖×]|AssertionError|^panic: |^Traceback |\bBUILD FAIL"
    r"|^(?:\S+: )?(?:fatal )?error\b[:\[ ]|: (?:fatal )?error\b|[ -]error TS\d",
    re.MULTILINE,
)


def is_doubtful(output: str) -> bool:
    """Whether an output without a result has something of a failure."""
    lines = "\n".join(line[:LINE].rstrip() for line in output.split("\n"))
    return _DOUBT.search(lines) is not None


def read_result(output: str, program: str) -> CheckResult | None:
    """Return the result that an output shows; None if it shows none.

    A program that is no runner may have started any of them. Then a linter that passes says nothing about the rest.
    """
    output = "\n".join(line[:LINE].rstrip() for line in output.split("\n"))
    known = [one for one in RUNNERS if program in one.programs.split()]
    results = [(one, result) for one in known or RUNNERS if (result := _read(one, output, bool(known)))]
    certain = [result for one, result in results if known or not (one.counts_errors and result.passed)]
    return min(certain, key=lambda result: result.passed, default=None)


def _read(runner: Runner, output: str, is_known: bool) -> CheckResult | None:
    results = list(runner.result.finditer(output)) or (list(runner.part.finditer(output)) if is_known else [])
    if not results:
        # A summary that was cut off, or left out to be quiet: the failures are named above it.
        names = _names(runner, output) if is_known and not runner.counts_errors else []
        return CheckResult(False, f"{len(names)} failed: {joined(names, NAMES)}") if names else None
    groups = [result.groupdict() for result in results]
    tally = "\n".join(group.get("tally") or result[0] for group, result in zip(groups, results, strict=True))
    names = _names(runner, output)
    failed, passed, total = (_sum(pattern, tally) for pattern in (_FAILED, _PASSED, _ALL))
    if not failed and any(group.get("bad") for group in groups):
        failed = len(names) or 1
    if passed is None and total is not None:
        passed = max(total - (failed or 0), 0)
    if not failed:
        return None if passed == 0 else CheckResult(True, f"{passed} passed" if passed else "", runner.is_last)
    numbers = [plural(failed, "error") if runner.counts_errors else f"{failed} failed"]
    tally = ", ".join([*numbers, f"{passed} passed"] if passed else numbers)
    return CheckResult(False, f"{tally}: {joined(names, NAMES)}" if names else tally)


def _names(runner: Runner, output: str) -> Sequence[str]:
    """The names of what failed. A test that failed only with its subtests is left out."""
    names = dict.fromkeys(str(match[match.lastindex or 0])[:NAME] for match in runner.name.finditer(output))
    parents = {name.rsplit("/", depth)[0] for name in names for depth in range(1, min(name.count("/"), 9) + 1)}
    return [name for name in names if name not in parents]


def _sum(pattern: re.Pattern[str], text: str) -> int | None:
    numbers = [int(match[match.lastindex or 0][:9]) for match in pattern.finditer(text)]
    return sum(numbers) if numbers else None
