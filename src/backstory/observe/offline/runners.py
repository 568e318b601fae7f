"""Runners: a test run read from its output: how many passed and failed, which failed, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from backstory.observe.offline.counts import COUNTED, counted
from backstory.observe.offline.runs import NAMES_LIMIT, FailedTest, Run, last, number

_LINES_LIMIT = 6000


def read_run(output: str) -> Run | None:
    """The test run that an output shows, if it shows one."""
    if not output.strip():
        return None
    lines = [line[:500].rstrip() for line in output.split("\n")]
    if len(lines) > _LINES_LIMIT:
        lines = lines[: _LINES_LIMIT // 2] + lines[-_LINES_LIMIT // 2 :]
    for mark, reader in _READERS:
        if mark.search(output) and (run := reader(lines)):
            return run
    return None


_PYTEST_END = re.compile(
    r"(?:^|=+ |^!+ )((?:\d+ (?:failed|passed|errors?|skipped|xfailed|xpassed|deselected|warnings?)(?:, )?)+) in [\d.]+"
)
_PYTEST_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - (.*))?$")
_PYTEST_HEAD = re.compile(r"^_{3,} (?:ERROR (?:at \w+ of|collecting) )?(\S.*?) _{3,}$")
_PYTEST_WHERE = re.compile(r"^([\w./\\-]+\.py):(\d+): ")


def _pytest(lines: Sequence[str]) -> Run | None:
    end = last(lines, _PYTEST_END)
    if end is None:
        return None
    tally = end.group(1)
    failed = number(r"(\d+) failed", tally) + number(r"(\d+) error", tally)
    reasons = _pytest_reasons(lines) if failed else {}
    failures = []
    for line in lines:
        if match := _PYTEST_FAILED.match(line):
            name = match.group(1)
            message, where = reasons.get(name.split("::")[-1], reasons.get(name, ("", "")))
            failures.append(FailedTest(name, message or match.group(2) or "", where))
    if not failures:
        failures = [FailedTest(name, message, where) for name, (message, where) in reasons.items()]
    return Run("pytest", number(r"(\d+) passed", tally), failed, tuple(failures[:NAMES_LIMIT]))


def _pytest_reasons(lines: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The first `E` line and the last place of each failure's section."""
    reasons: dict[str, tuple[str, str]] = {}
    name = ""
    for line in lines:
        if head := _PYTEST_HEAD.match(line):
            name = head.group(1).replace(".", "::").split("::")[-1] if "/" not in head.group(1) else head.group(1)
            reasons[name] = ("", "")
        elif name and line.startswith("E  ") and not reasons[name][0]:
            reasons[name] = (line[1:].strip(), reasons[name][1])
        elif name and (place := _PYTEST_WHERE.match(line)):
            reasons[name] = (reasons[name][0], f"{place.group(1)}:{place.group(2)}")
        elif line.startswith(("====", "---- Captured")):
            name = name if line.startswith("-") else ""
    return reasons


_UNITTEST_NAME = re.compile(r"^(?:FAIL|ERROR): (\w+) \(([\w.]+)\)")


def _unittest(lines: Sequence[str]) -> Run | None:
    ran = last(lines, re.compile(r"^Ran (\d+) tests? in"))
    if ran is None:
        return None
    end = last(lines, re.compile(r"^FAILED \((.*)\)|^OK\b"))
    tally = (end.group(1) or "") if end else ""
    failed = number(r"failures=(\d+)", tally) + number(r"errors=(\d+)", tally)
    failures = []
    for at, line in enumerate(lines):
        if match := _UNITTEST_NAME.match(line):
            message = next(
                (
                    x
                    for x in lines[at + 2 : at + 60]
                    if re.match(r"[A-Za-z_][\w.]*(?:Error|Exception|Failure|Warning|Exit)\b", x)
                ),
                "",
            )
            failures.append(FailedTest(f"{match.group(2).split('.')[-1]}.{match.group(1)}", message))
    return Run("unittest", max(int(ran.group(1)) - failed, 0), failed, tuple(failures[:NAMES_LIMIT]))


_GO_FAIL = re.compile(r"^\s*--- FAIL: (\S+)")
_GO_LOG = re.compile(r"^\s+(?:([\w./-]+\.go:\d+): )?(?!\s*---)(\S.*)$")
_GO_PACKAGE = re.compile(r"^(?:\[\w+\] )?(ok|FAIL)\s+(\S+)\s+(?:[\d.]+s|\(cached\)|\[(?:build|setup) failed\])")


def _go(lines: Sequence[str]) -> Run | None:
    states = [match.groups() for line in lines if (match := _GO_PACKAGE.match(line))]
    failures = []
    for at, line in enumerate(lines):
        if match := _GO_FAIL.match(line):
            failures.append(_go_failure(match.group(1), lines, at))
    if not states and not failures and not any(line in ("PASS", "FAIL") for line in lines):
        return None
    # A parent fails with its subtest: only the leaf is told.
    names = {failure.name for failure in failures}
    parents = {name.rsplit("/", depth)[0] for name in names for depth in range(1, name.count("/") + 1)}
    failures = [failure for failure in failures if failure.name not in parents]
    passed_tests = sum(line.lstrip().startswith("--- PASS: ") for line in lines)
    packages = len({name for state, name in states if state == "ok"})
    failed = len(failures) or len({name for state, name in states if state == "FAIL"}) or int("FAIL" in lines)
    if passed_tests:
        return Run("go test", passed_tests, failed, tuple(failures[:NAMES_LIMIT]))
    if failed:
        return Run("go test", 0, failed, tuple(failures[:NAMES_LIMIT]))
    return Run("go test", packages, 0, (), "package" if packages else "test")


def _go_failure(name: str, lines: Sequence[str], at: int) -> FailedTest:
    """Why a Go test failed: logged after its line, or before it where the run is verbose."""
    following = []
    for line in lines[at + 1 : at + 40]:
        if not _GO_LOG.match(line) or _GO_FAIL.match(line):
            break
        following.append(line)
    logged = following or [line for line in lines[max(at - 12, 0) : at] if re.match(r"\s+[\w./-]+\.go:\d+: ", line)]
    found = []
    for line in logged:
        if (match := _GO_LOG.match(line)) and not match.group(2).startswith("Error Trace:"):
            found.append((match.group(1) or "", match.group(2).removeprefix("Error:").strip()))
    # Logs come before the verdict: the last placed line that reads like one wins, else any such line, else the last.
    placed = [item for item in found if item[0]]
    verdicts = [item for item in placed if _VERDICT.search(item[1])][-1:]
    verdicts += [item for item in found if _VERDICT.search(item[1])] + placed[-1:]
    verdict = verdicts[0] if verdicts else ("", "")
    return FailedTest(name, verdict[1], verdict[0] or (placed[0][0] if placed else ""))


_VERDICT = re.compile(
    r"\b(?:expected|want(?:ed)?|got|should|shouldn't|unexpected|not equal|failed|cannot|must)\b", re.I
)
_CARGO_END = re.compile(r"^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed")
_CARGO_FAILED = re.compile(r"^test (\S+)(?: - .*?)? \.\.\. FAILED")
_CARGO_PANIC = re.compile(r"^thread '([^']+)'.* panicked at (?:'(.*)', )?(\S+?):?$")


def _cargo(lines: Sequence[str]) -> Run | None:
    ends = [match for line in lines if (match := _CARGO_END.match(line))]
    if not ends:
        return None
    why: dict[str, tuple[str, str]] = {}
    for at, line in enumerate(lines):
        if panic := _CARGO_PANIC.match(line):
            message = panic.group(2) or next((x.strip() for x in lines[at + 1 : at + 3] if x.strip()), "")
            why[panic.group(1)] = (message, panic.group(3))
    names = dict.fromkeys(match.group(1) for line in lines if (match := _CARGO_FAILED.match(line)))
    failures = tuple(FailedTest(name, *why.get(name, ("", ""))) for name in names)
    return Run(
        "cargo test",
        sum(int(end.group(1)) for end in ends),
        sum(int(end.group(2)) for end in ends),
        failures[:NAMES_LIMIT],
    )


_JEST_END = re.compile(r"^\s*Tests:?\s+(?=.*\d)(.*?(?:total|\(\d+\)|passed|failed|skipped).*)$")
_JEST_FAILED = re.compile(r"^\s*(?:● (.+ › .+|[^›]{3,})|(?:FAIL|×|❯) +(?:\|[^|]+\| )?(\S+\.\w+ > .+?)(?: \d+ms)?)$")


def _jest(lines: Sequence[str]) -> Run | None:
    end = last(lines, _JEST_END)
    if end is None:
        return None
    tally = end.group(1)
    failures: dict[str, FailedTest] = {}
    for at, line in enumerate(lines):
        match = _JEST_FAILED.match(line)
        name = (match.group(1) or match.group(2)).strip() if match else ""
        if not name or name in failures or name.startswith(("Console", "Test suite failed")):
            continue
        following = [x.strip() for x in lines[at + 1 : at + 12] if x.strip()]
        error = re.compile(r"[\w.]*(?:Error|Exception)\b|expect\(|Expected|expected")
        message = next((x for x in following if error.match(x)), following[0] if following else "")
        failures[name] = FailedTest(name, _expectation(message, following))
    runner = "jest" if "total" in tally else "vitest"
    found = tuple(failures.values())[:NAMES_LIMIT]
    return Run(runner, number(r"(\d+) passed", tally), number(r"(\d+) failed", tally), found)


def _expectation(message: str, following: Sequence[str]) -> str:
    """A matcher's call says little: what it expected and received says why."""
    if not message.startswith("expect("):
        return message
    values = [line for line in following if line.startswith(("Expected", "Received"))][:2]
    return "; ".join(values) if values else message


# A cheap look decides whether a reader is tried at all.
_READERS: tuple[tuple[re.Pattern[str], Callable[[Sequence[str]], Run | None]], ...] = (
    (re.compile(r"\d+ (?:passed|failed|errors?|skipped)\b[^\n]{0,200} in \d"), _pytest),
    (re.compile(r"^Ran \d+ tests? in", re.M), _unittest),
    (re.compile(r"^test result: ", re.M), _cargo),
    (re.compile(r"^\s*Tests:?\s+\d+ ", re.M), _jest),
    (re.compile(r"^(?:\[\w+\] )?(?:ok|FAIL|---|=== RUN|PASS)(?:\s|$)", re.M), _go),
    *((re.compile(row[1], re.M), counted(row)) for row in COUNTED),
)
