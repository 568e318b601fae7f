"""Runners that print their counts in words: one row for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from backstory.observe.offline.runs import NAMES_LIMIT, FailedTest, Run, last

COUNTED: tuple[tuple[str, str, str, str, str], ...] = (
    # runner, its line of counts, passed, failed, a failing test's line
    ("mocha", r"^\s*\d+ passing", r"^\s*(\d+) passing", r"^\s*(\d+) failing", r"^\s{2,4}\d+\) (.+?):?$"),
    ("rspec", r"^\d+ examples?, \d+ failures?", r"^(\d+) examples?", r"(\d+) failures?", r"^rspec \S+ # (.+)$"),
    (
        "phpunit",
        r"^OK \(\d+ tests?|^Tests: \d+, Assertions",
        r"(?:OK \(|Tests: )(\d+)",
        r"(?:Failures|Errors): (\d+)",
        r"^\d+\) (\S+::\S+)",
    ),
    (
        "maven",
        r"Tests run: \d+, Failures: \d+",
        r"Tests run: (\d+)",
        r"(?:Failures|Errors): (\d+)",
        r"^\[ERROR\] {2,3}(\S+:\d+.*)$",
    ),
    ("gradle", r"^\d+ tests? completed", r"^(\d+) tests? completed", r"(\d+) failed", r"^(\S+ > .+) FAILED$"),
    (
        "ctest",
        r"\d+% tests passed",
        r"out of (\d+)",
        r"(\d+) tests failed",
        r"^\s+\d+ - (\S+) \((?:Failed|Timeout|.*Exception.*)\)",
    ),
    (
        "dotnet test",
        r"(?:Failed|Passed)!\s+- Failed:",
        r"Passed:\s+(\d+)",
        r"Failed:\s+(\d+)",
        r"^\s+(?:X|Failed) (\S+)",
    ),
    (
        "node test",
        r"^(?:#|ℹ) pass \d+",
        r"^(?:#|ℹ) pass (\d+)",
        r"^(?:#|ℹ) fail (\d+)",
        r"^\s*not ok \d+ (?:- )?(.+?)(?: # .*)?$",
    ),
    ("bun test", r"^\s*\d+ pass$", r"^\s*(\d+) pass$", r"^\s*(\d+) fail$", r"^\(fail\) (.+?)(?: \[.*\])?$"),
    (
        "playwright",
        r"^\s+\d+ passed \([\d.]+m?s\)",
        r"^\s+(\d+) passed",
        r"^\s+(\d+) failed",
        r"^\s+\[\w+\] › (.+?)\s*$",
    ),
)
#: Runners whose first number counts all tests, not the passed ones.
_COUNT_ALL = ("rspec", "phpunit", "maven", "gradle", "ctest")
_WHY = re.compile(
    r"\s*(?:\d+\) )?((?:[\w.]*(?:Error|Exception|Failure|Failed)\b|[Ee]xpected|Failure/Error|AssertionError|error:).*)"
)


def counted(row: tuple[str, str, str, str, str]) -> Callable[[Sequence[str]], Run | None]:
    """A reader for a runner that prints its counts in words."""
    runner, *sources = row
    counts, passes, fails, names = (re.compile(source) for source in sources)

    def read(lines: Sequence[str]) -> Run | None:
        if last(lines, counts) is None:
            return None
        end = "\n".join(
            line for line in lines[-400:] if counts.search(line) or passes.search(line) or fails.search(line)
        ).split("\n")[-6:]
        total = next((int(m.group(1)[:9]) for line in reversed(end) if (m := passes.search(line))), 0)
        failed = max((sum(int(n[:9]) for n in fails.findall(line)) for line in end), default=0)
        found: dict[str, FailedTest] = {}
        for at, line in enumerate(lines):
            if failed and (match := names.match(line)) and match.group(1) not in found:
                why = next((m.group(1) for x in lines[at + 1 : at + 12] if (m := _WHY.match(x))), "")
                found[match.group(1)] = FailedTest(match.group(1), why)
        passed = max(total - failed, 0) if runner in _COUNT_ALL else total
        return Run(runner, passed, failed, tuple(found.values())[:NAMES_LIMIT])

    return read
