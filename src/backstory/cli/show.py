"""Output of the commands: fits text to the terminal, escapes control characters, prints JSON."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import Any, TextIO

from backstory.text import escaped, fit, json_escaped, local

#: Seconds between two lines of progress if standard error is not a terminal.
LINE_S = 2.0


class Escaping:
    """A stream for all output of a command. It escapes control characters, so that no text controls the terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        return self._out.write(escaped(text))

    def flush(self) -> None:
        self._out.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


def terminal() -> TextIO:
    """Standard error without `Escaping`, for progress bars, which move the cursor."""
    return sys.__stderr__ or sys.stderr


class ProgressBar:
    """A progress bar on the terminal. Without a terminal, a line every two seconds."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet, self._printed_at = quiet, time.monotonic()
        self._is_bar = sys.stderr.isatty() and not quiet

    def show(self, done: int, total: int, text: str) -> None:
        share = min(done / max(total, 1), 1.0)
        if self._is_bar:
            width = max(min(columns() - len(text) - 10, 40), 10)
            terminal().write(f"\r{'█' * int(width * share):░<{width}} {share:4.0%} {text}\x1b[K")
            terminal().flush()
        elif not self._quiet and time.monotonic() - self._printed_at > LINE_S:
            self._printed_at = time.monotonic()
            print(f"{share:4.0%} {text}", file=sys.stderr)

    def end(self) -> None:
        if self._is_bar:
            terminal().write("\r\x1b[K")
            terminal().flush()


def columns() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def line(text: str) -> None:
    """Print one line. It is cut to the width of a terminal, but not if the output is piped."""
    text = escaped(text).replace("\n", " ")
    print(fit(text, columns()) if sys.stdout.isatty() else text)


def paragraph(text: str, indent: str = "", hang: str = "") -> None:
    """Print text wrapped between words."""
    import textwrap

    width = max(min(columns(), 100), 30)
    print(
        textwrap.fill(escaped(text), width, initial_indent=indent, subsequent_indent=indent + hang) or indent.rstrip()
    )


def block(label: str, text: str) -> None:
    """Print a label and, indented below it, wrapped text. Print nothing if there is no text."""
    if not text:
        return
    print(f"{label}:")
    for part in text.split("\n"):
        paragraph(part, "  ", "  " if part.startswith("- ") else "")


def as_json(value: Any) -> None:
    print(json_escaped(json.dumps(value, ensure_ascii=False, indent=2)))


def mark(item: dict[str, Any]) -> str:
    """The id to pass to the next command: #12 is an observation, S3 a session."""
    return f"#{item['id']}" if item["kind"] == "observation" else f"S{item['session_id']}"


def when(stamp: str | None) -> str:
    """A stored time in the local time zone."""
    return local(stamp) if stamp else "-"


def size(count: int) -> str:
    number = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError
