"""Finds the output of programs that was pasted into a prompt."""

from __future__ import annotations

import re

#: A line that a program wrote: progress, a prompt of a shell, a log, a stack, a diff, a path.
_OUTPUT = re.compile(
    r"\s*(?:===|\+\+\+ |>>>|❯|⏺|⎿|[✓✔✗✘⨯●]|\$ |#!|@@|at \S+\(|File \"|Traceback|diff --git|index [0-9a-f]{7}|"
    r"create mode|\d+ files? changed|(?:PASS|FAIL|ok|INFO|WARN|ERROR|DEBUG)\b[:\s]|\d{4}-\d\d-\d\dT?|\d\d:\d\d:\d\d|"
    r"\[[^\]\n]{1,40}\]\s|[^\s/]*/\S*\s*$|[^/\n]{1,60}: /\S+\s*$|[\w./-]+:\d+|drwx|-rw)"
)
#: Lines of output that a prompt with a paste has at least.
OUTPUT_LINES = 8
#: The same as a share of its lines.
OUTPUT_SHARE = 0.2


def without_output(prompt: str) -> str:
    """Return a prompt without the output of a program that was pasted into it: the lines from the first to the last
    one that a program wrote. A few such lines among many others are no paste."""
    lines = prompt.splitlines()
    written = [at for at, line in enumerate(lines) if _OUTPUT.match(line[:300])]
    if len(written) < OUTPUT_LINES or len(written) < OUTPUT_SHARE * sum(map(bool, map(str.strip, lines))):
        return prompt
    return "\n".join([*lines[: written[0]], "", *lines[written[-1] + 1 :]])
