"""Errors in a command's output: what went wrong, and where in the project."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """The first error that an output shows."""

    message: str
    where: str = ""
    count: int = 1
    missing: str = ""  #: the module or program that was not there


_FRAME = re.compile(r'^\s*File "([^"\n]{1,300})", line (\d+)(?:, in (\S+))?')
_EXCEPTION = re.compile(
    r"^(?:E\s+)?((?:[A-Za-z_][\w.]{0,80}\.)?[A-Z]\w{0,60}(?:Error|Exception|Warning|Exit|Interrupt|Timeout|"
    r"Failure|NotFound|Refused))(?:: (.*))?$"
)
_FOREIGN = (
    "site-packages",
    "dist-packages",
    "node_modules",
    "<frozen",
    "/lib/python",
    "node:internal",
    "/usr/lib",
    "<string>",
    ".cargo/registry",
)
_COMPILER = re.compile(
    r"^\s*(?:\[\w+\]\s+)?(?:\./)?(?P<file>[\w./\\@+-]{1,200}\.\w{1,8})(?::(?P<line>\d+)(?::\d+)?|"
    r"\((?P<line2>\d+),\d+\)):?\s+"
    r"(?:-\s+)?(?:(?P<level>fatal error|error|warning|note)(?=[:\s\[(])[:\s]{0,3})?(?P<text>[^\s#:].*)$"
)
_RUST = re.compile(r"^error(?:\[E\d+\])?: (?P<text>.+)$")
_RUST_WHERE = re.compile(r"^\s*--> ([\w./\\-]+:\d+)")
_STACK = re.compile(r"^\s+at (?:.{0,120}\()?((?:file://)?[\w./\\@~-]+:\d+):\d+\)?$")
_NOT_FOUND = re.compile(
    r"(?:^|: )(?:line \d+: )?([\w./+-]{1,60}): (?:command )?not found$|command not found: ([\w./+-]{1,60})"
)
_NO_MODULE = re.compile(
    r"No module named '?([\w.]+)|Cannot find (?:module|package) '([^'\n]{1,120})'|"
    r"cannot find package \"([^\"\n]{1,120})\"|Could not resolve \"([^\"\n]{1,120})\""
)
_PLAIN = re.compile(
    r"^\s*(?:\[\w+\]\s+)?(?:npm ERR! |npm error |ERROR: |✖ |FATAL: )?(?P<text>(?:fatal|error|panic|Error|ERROR|"
    r"FAILED|failed|Fatal error|usage error|Uncaught|"
    r"CONFLICT[^:]{0,40}|zsh|bash|sh|\(eval\))\b[^\n]{0,20}?: \S.*|.*(?:No such file or directory|"
    r"Permission denied|Connection refused|Address already in use|cannot open|"
    r"ECONNREFUSED|timed out).*)$"
)


def read_problem(output: str) -> Problem | None:
    """The error that an output shows, by the most telling form that it has."""
    lines = [line[:500].rstrip() for line in output.split("\n")[:4000]]
    found = _traceback(lines) or _compiler(lines) or _plain(lines)
    if found is None:
        return None
    return Problem(found.message, found.where, found.count, _missing(output) or found.missing)


def _missing(output: str) -> str:
    for pattern in (_NO_MODULE, _NOT_FOUND):
        if match := pattern.search(output[:20_000]):
            return next(filter(None, match.groups()), "")
    return ""


def _traceback(lines: Sequence[str]) -> Problem | None:
    """A traceback's exception with the innermost frame of the project, or a thrown JavaScript error with its first."""
    where = frame_seen = ""
    for at, line in enumerate(lines):
        if frame := _FRAME.match(line):
            frame_seen = line
            if not any(part in frame.group(1) for part in _FOREIGN):
                where = f"{frame.group(1)}:{frame.group(2)}"
        elif error := _EXCEPTION.match(line):
            stack = [
                m.group(1)
                for x in lines[at + 1 : at + 15]
                if (m := _STACK.match(x)) and not any(part in x for part in _FOREIGN)
            ]
            if frame_seen or stack:
                message = error.group(1) + (f": {error.group(2)}" if error.group(2) else "")
                return Problem(message, where or (stack[0] if stack else ""))
    return None


def _compiler(lines: Sequence[str]) -> Problem | None:
    first: Problem | None = None
    count = 0
    for at, line in enumerate(lines):
        if match := _RUST.match(line):
            place = next((m.group(1) for x in lines[at + 1 : at + 4] if (m := _RUST_WHERE.match(x))), "")
            if place or first is None:
                first = first or Problem(match["text"], place)
                count += bool(place)
        elif (match := _COMPILER.match(line)) and match["level"] not in ("note", "warning"):
            if line[:1].isspace() and not match["level"]:
                continue  # what a test logged
            first = first or Problem(match["text"], f"{match['file']}:{match['line'] or match['line2']}")
            count += 1
    return Problem(first.message, first.where, max(count, 1)) if first else None


def _plain(lines: Sequence[str]) -> Problem | None:
    for line in lines:
        if _NOT_FOUND.search(line) or _NO_MODULE.search(line):
            return Problem(line.strip())
    for line in lines:
        if match := _PLAIN.match(line):
            return Problem(match["text"].strip())
        if match := _EXCEPTION.match(line):
            return Problem(line.strip())
    return None
