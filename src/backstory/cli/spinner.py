"""A spinner on the terminal while a command takes longer than a second."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from backstory.settings import environment

#: Seconds without output after which the spinner appears.
DELAY_S = 1.0
#: Seconds between two of its pictures.
STEP_S = 0.1
PICTURES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def moves_cursor(out: Any) -> bool:
    """Whether a stream is a terminal that moves its cursor."""
    return bool(out.isatty()) and environment().get("TERM") != "dumb"


class Spinner:
    """Shows how long a command takes. It is removed before anything else is printed."""

    def __init__(self, text: str) -> None:
        import threading  # only for a terminal

        self._text, self._lock, self._ended = text, threading.Lock(), threading.Event()
        self._quiet_since, self._is_shown = time.monotonic(), False
        self._is_line_start = True  #: False after a question, whose line must stay
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._ended.wait(STEP_S):
            with self._lock:
                is_quiet = self._is_line_start and time.monotonic() - self._quiet_since >= DELAY_S
                if is_quiet and not self._ended.is_set():
                    seconds = time.monotonic() - began
                    picture = PICTURES[int(seconds / STEP_S) % len(PICTURES)]
                    self._write(f"\r{picture} {self._text} … {seconds:.0f} s\x1b[K")
                    self._is_shown = True

    def clear(self, is_line_start: bool = True) -> None:
        """Remove the spinner. It appears again after a while without output."""
        with self._lock:
            self._is_line_start = is_line_start
            self._quiet_since = time.monotonic()
            if self._is_shown:
                self._write("\r\x1b[K")
                self._is_shown = False

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Keep the spinner away while a user types."""
        self.clear(is_line_start=False)
        try:
            yield
        finally:
            self.clear()

    def end(self) -> None:
        """Remove the spinner for good."""
        self._ended.set()
        self.clear()

    @staticmethod
    def _write(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone
            out = sys.__stderr__ or sys.stderr
            out.write(text)
            out.flush()


@contextlib.contextmanager
def spinning(text: str, is_wanted: bool) -> Iterator[Spinner | None]:
    """Show a spinner during a block, on a terminal that can erase it."""
    if not is_wanted or not moves_cursor(sys.stderr):
        yield None
        return
    spinner = Spinner(text)
    try:
        yield spinner
    finally:
        spinner.end()
