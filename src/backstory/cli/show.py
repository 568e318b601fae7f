"""Output of the commands: fits text to the terminal, escapes control characters, colours it, prints JSON."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TextIO

from backstory.cli.spinner import Spinner, moves_cursor
from backstory.labels import labelled
from backstory.model import ClaimMark
from backstory.settings import environment
from backstory.text import escaped, fit, json_escaped, local, width

#: Seconds between two lines of progress if standard error is not a terminal.
LINE_S = 2.0
#: Parameters of a terminal's colour codes.
BOLD = "1"
DIM = "2"
RED = "31"
GREEN = "32"
YELLOW = "33"
CYAN = "36"


class Escaping:
    """A stream for all output of a command. It escapes control characters, so that no text controls the terminal."""

    def __init__(self, out: TextIO, spinner: Spinner | None = None) -> None:
        self._out, self.spinner = out, spinner

    def write(self, text: str) -> int:
        return self.write_codes(escaped(text))

    def write_codes(self, text: str) -> int:
        """Write text with colour codes. The caller has escaped everything else in it."""
        if self.spinner:
            self.spinner.clear(is_line_start=text.endswith("\n"))
        return self._out.write(text)

    def flush(self) -> None:
        self._out.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


def terminal() -> TextIO:
    """Standard error without `Escaping`, for progress bars, which move the cursor."""
    return sys.__stderr__ or sys.stderr


@dataclass(frozen=True, slots=True)
class Styled:
    """A part of a line in a colour."""

    text: str
    code: str

    def __str__(self) -> str:
        return self.text


def is_coloured(out: Any) -> bool:
    """Whether to print colours: to a terminal, unless the user wants none (https://no-color.org)."""
    return moves_cursor(out) and not environment().get("NO_COLOR")


def coloured(text: str, code: str, out: Any) -> str:
    """Add colour codes to a text that is escaped already."""
    return f"\x1b[{code}m{text}\x1b[0m" if text and code and is_coloured(out) else text


def put(text: str, out: IO[str] | None = None) -> None:
    """Write a text in which everything but our colour codes is escaped."""
    stream: Any = out or sys.stdout
    getattr(stream, "write_codes", stream.write)(text)


class ProgressBar:
    """A progress bar on the terminal. Without a terminal, a line every two seconds."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet, self._printed_at = quiet, time.monotonic()
        self._is_bar = moves_cursor(sys.stderr) and not quiet

    def show(self, done: int, total: int, text: str) -> None:
        share = min(done / max(total, 1), 1.0)
        if self._is_bar:
            if spinner := getattr(sys.stderr, "spinner", None):
                spinner.end()
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


def can_ask() -> bool:
    """Whether somebody sees a question and can answer it."""
    return sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())


def ask(question: str) -> str | None:
    """Ask the user and return the line that is typed, None at the end of the input. Everything that asks calls this:
    the spinner would erase the question."""
    sys.stdout.flush()
    with typing():
        print(f"{question} ", end="", file=sys.stdout if sys.stdout.isatty() else sys.stderr, flush=True)
        line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def confirmed(question: str) -> bool:
    """Ask the user a question whose answer is no by default."""
    return (ask(f"{question} [y/N]") or "").strip().lower() in ("y", "yes")


def given_text(text: str) -> str:
    """Return the text of an argument; - stands for standard input, at which somebody may type."""
    if text != "-":
        return text
    with typing():
        return sys.stdin.buffer.read().decode("utf-8", "replace")


def typing() -> contextlib.AbstractContextManager[None]:
    """Keep the spinner away while somebody uses the terminal."""
    spinner: Spinner | None = getattr(sys.stderr, "spinner", None)
    return spinner.paused() if spinner else contextlib.nullcontext()


def columns() -> int:
    """Return the width of the terminal. `shutil` can tell it too, but takes long to import."""
    try:
        return int(environment().get("COLUMNS", "")) or 80
    except ValueError:
        pass
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or 80
    except (OSError, ValueError):
        return 80


def line(*parts: str | Styled) -> None:
    """Print one line. It is cut to the width of a terminal, but not if the output is piped."""
    left, shown = columns() if sys.stdout.isatty() else sys.maxsize, ""
    for part in parts:
        text = fit(escaped(str(part)).replace("\n", " "), left)
        left -= width(text)
        shown += coloured(text, part.code, sys.stdout) if isinstance(part, Styled) else text
        if left <= 0 or (text.endswith("…") and not str(part).endswith("…")):
            break
    put(shown + "\n")


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: 1 session, 2 sessions, 3 summaries."""
    plural = plural or (f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s")
    return f"{number:,} {noun if number == 1 else plural}"


def paragraph(text: str, indent: str = "", hang: str = "", code: str = "") -> None:
    """Print text wrapped between words, in a colour if `code` is given."""
    import textwrap

    limit = max(min(columns(), 100), 30)
    wrapper = textwrap.TextWrapper(limit, indent, indent + hang, break_on_hyphens=False)  # an option stays whole
    filled = wrapper.fill(escaped(text))
    lines = [coloured(each, code, sys.stdout) for each in filled.split("\n")]
    put(("\n".join(lines) or indent.rstrip()) + "\n")


def wrapped(text: str) -> None:
    """Print a line of a text. It is wrapped between words on a terminal, but not if the output is piped."""
    if sys.stdout.isatty():
        paragraph(text)
    else:
        print(text)


def block(label: str, text: str) -> None:
    """Print a label and, indented below it, wrapped text. Print nothing if there is no text."""
    if not text:
        return
    print(f"{label}:")
    for part in text.split("\n"):
        paragraph(part, "  ", "  " if part.startswith("- ") else "")


def as_json(value: Any) -> None:
    print(json_escaped(json.dumps(value, ensure_ascii=False, indent=2)))


def printed_json(options: Any, value: Any) -> bool:
    """Print the result of a command as JSON if --json was given. Return whether it was."""
    if options.json:
        as_json(value)
    return bool(options.json)


def mark(item: dict[str, Any]) -> str:
    """The id to pass to the next command: #12 is an observation, S3 a session."""
    return f"#{item['id']}" if item["kind"] == "observation" else f"S{item['session_id']}"


def padded(text: str, columns: int) -> str:
    """Return a text that takes so many columns of a terminal, cut or filled up with blanks."""
    cut = fit(text, columns) if columns else ""
    return cut + " " * (columns - width(cut))


def path(file: Path) -> str:
    """A path as people write it."""
    home = Path.home()
    return f"~/{file.relative_to(home)}" if file.is_relative_to(home) else str(file)


def when(stamp: str | None) -> str:
    """A stored time in the local time zone."""
    return local(stamp) if stamp else "-"


def titled(item: dict[str, Any]) -> str:
    """Return the title of a row after its mark."""
    return labelled(ClaimMark(item.get("mark") or ""), item["title"] or "")


def age(stamp: str) -> str:
    """Return how long ago a stored time was, in three columns: now, 5m, 14h, 3d, 11w, 2y."""
    from backstory import ids

    minutes = max(ids.now_ms() - ids.stored_ms(stamp), 0) // 60_000
    if not minutes:
        return "now"
    for unit, length, most in (("m", 1, 60), ("h", 60, 24), ("d", 1440, 14), ("w", 10_080, 100)):
        if minutes < length * most:
            return f"{minutes // length}{unit}"
    return f"{min(minutes // 525_600, 99)}y"


def duration(seconds: float) -> str:
    """Return a time span in its largest unit: 5 minutes, 3 days."""
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return count(int(seconds // length), unit)
    return "less than a minute"


def add_times(parser: Any) -> None:
    """Add --since and --until."""
    text = "not before: yesterday, 3d, 2026-11-01, 2026-11, ..."
    parser.add_argument("--since", default="", metavar="TIME", help=text)
    parser.add_argument("--until", default="", metavar="TIME", help="not after; a day is meant as a whole")


def size(count: int) -> str:
    number = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError
