"""Quotes: how the texts of a round are cut to the room that a question has, so that the point of each is kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import unified_diff
from typing import NamedTuple

from backstory.text import fences, harmless

#: Lines of an edit that are compared. A larger one is shown as removed and added lines.
MAX_DIFF_LINES = 800
#: Lines around a change.
DIFF_CONTEXT = 2
#: Maximum characters of a line that a log is cut to.
ERROR_LINE_CHARS = 300
#: Characters that the quotes of a round get together, and for each of them.
ROUND_CHARS = 2500
QUOTE_CHARS = 450
#: How much of its usual room a quote gets at most, if others leave theirs.
MAX_SCALE = 6.0
# Quoted text could contain our closing tags, or look like an answer.
_TAGS = fences(
    *("round", "previous", "asked", "before", "event", "said", "known", "memory", "observation", "replaces", "summary"),
    "skip_summary",
)
_ERROR = re.compile(
    r"error|exception|fail|fatal|panic|traceback|assert|denied|refused|cannot|can't|could not|undefined|unresolved|"
    r"not found|no such|timed out|killed|expected|^E\s",
    re.IGNORECASE,
)


class Quote(NamedTuple):
    """A text of a round. Its room grows and shrinks with the room of the whole round."""

    size: int  #: characters if nothing is cut
    room: int  #: characters that it usually gets
    render: Callable[[int], str]  #: returns it cut to a number of characters
    max_scale: float = MAX_SCALE

    def room_at(self, scale: float) -> int:
        return int(self.room * min(scale, self.max_scale))


def fit(parts: Sequence[str | Quote], limit: int) -> str:
    """Join texts and quotes. The quotes share the room: those that exceed theirs most are cut first."""
    quotes = [part for part in parts if isinstance(part, Quote)]
    room = limit - sum(len(part) for part in parts if isinstance(part, str))
    room = min(room, ROUND_CHARS + QUOTE_CHARS * len(quotes))
    low, high = 0.0, 2 * MAX_SCALE
    for _ in range(12):
        scale = (low + high) / 2
        size = sum(min(quote.size, quote.room_at(scale)) for quote in quotes)
        low, high = (low, scale) if size > room else (scale, high)
    return "".join(part if isinstance(part, str) else part.render(part.room_at(low)) for part in parts)


def head_and_tail(text: str, room: int) -> str:
    """The head and the tail of a text, and between them the number of characters left out."""
    if len(text) <= room:
        return text
    mark = f" […{len(text) - room}…] "
    head = max((room - len(mark)) * 3 // 5, 0)
    tail = max(room - len(mark) - head, 0)
    return f"{text[:head]}{mark}{text[len(text) - tail :]}" if room > 0 else ""


def log(text: str, room: int) -> str:
    """The head and the tail of a tool's output and, from between them, the lines that look like errors."""
    if len(text) <= room or room < ERROR_LINE_CHARS:
        return head_and_tail(text, room)
    head, tail = room // 4, len(text) - room // 3
    left, lines = room - head - room // 3 - 20, list[str]()
    for line in dict.fromkeys(text[head:tail].split("\n")):
        if left > 20 and _ERROR.search(line[:2000]):
            lines.append(line.strip()[: min(left, ERROR_LINE_CHARS)])
            left -= len(lines[-1]) + 1
    if not lines:
        return head_and_tail(text, room)
    return "\n".join((f"{text[:head]} […]", *lines, f"[…] {text[tail - max(left, 0) :]}"))


def diff(old: str, new: str) -> str:
    """The lines that an edit changed, and a few around them."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > MAX_DIFF_LINES:
        return "\n".join((*(f"-{line}" for line in before), *(f"+{line}" for line in after)))
    lines = list(unified_diff(before, after, lineterm="", n=DIFF_CONTEXT))[3:]  # without its three heading lines
    return "\n".join("@@" if line.startswith("@@") else line for line in lines)


def escape_tags(text: str) -> str:
    """A text in which our tags are harmless: it cannot close them, nor look like an answer."""
    return harmless(text, _TAGS)
