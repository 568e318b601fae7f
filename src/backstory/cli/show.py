"""How things are printed: fitted to the terminal, stored text made harmless, or as JSON."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

from backstory.text import escaped, fit


def columns() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def line(text: str) -> None:
    """One line, cut to the terminal if there is one; piped output is whole."""
    text = " ".join(escaped(text).split("\n"))
    print(fit(text, columns()) if sys.stdout.isatty() else text)


def block(label: str, text: str) -> None:
    """A labelled paragraph, wrapped."""
    import textwrap

    if not text:
        return
    width = max(min(columns(), 100) - 2, 30)
    print(f"{label}:")
    for paragraph in escaped(text).split("\n"):
        print(textwrap.fill(paragraph, width, initial_indent="  ", subsequent_indent="  ", break_long_words=False))


def as_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def when(stamp: str | None) -> str:
    """A stored time as people here read it: local."""
    from datetime import datetime

    return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M") if stamp else "-"


def size(count: int) -> str:
    number = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError
