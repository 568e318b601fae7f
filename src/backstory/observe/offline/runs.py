"""Test runs: what is known of one, whatever runner it was."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

#: How many failing tests of one run are kept by name.
NAMES_LIMIT = 40


@dataclass(frozen=True, slots=True)
class FailedTest:
    """One failing test: its name, the first line of why, and where."""

    name: str
    message: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of one test run."""

    runner: str
    passed: int
    failed: int
    failures: tuple[FailedTest, ...] = ()
    unit: str = "test"

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return self.failed == 0

    @property
    def tally(self) -> str:
        """`3 failed, 12 passed`, with the unit where it is not tests."""
        parts = [f"{self.failed} failed"] if self.failed else []
        passed = (
            f"{self.passed} {self.unit}{'s' if self.passed != 1 else ''}" if self.unit != "test" else str(self.passed)
        )
        return ", ".join([*parts, f"{passed} passed"] if self.passed or not self.failed else parts)


def number(pattern: str, text: str) -> int:
    """The number that a pattern finds, else 0."""
    found = re.search(pattern, text)
    return int(found.group(1)[:9]) if found else 0


def last(lines: Sequence[str], pattern: re.Pattern[str]) -> re.Match[str] | None:
    """The last line that matches."""
    return next((match for line in reversed(lines) if (match := pattern.search(line))), None)
