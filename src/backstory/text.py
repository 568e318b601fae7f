"""Text for people and agents: cut, counted, and harmless wherever it is shown."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_TOKEN = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z\d]|\n")
_FENCES = re.compile(r"<(?=/?\s*(?:backstory-context|claude-mem-context|private|system-reminder)\b)", re.IGNORECASE)


def tokens(text: str) -> int:
    """About how many tokens a model counts; rather too many than too few."""
    return len(_TOKEN.findall(text))


def local(stamp: str) -> str:
    """A stored time as a clock on this machine showed it: 2026-02-21 04:39."""
    return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")


def cut(text: str, limit: int) -> str:
    """At most so many characters, ended at a word, with a sign that there was more."""
    if len(text) <= limit:
        return text
    head = text[: max(limit - 1, 0)]
    at = head.rfind(" ")
    return (head[:at] if at > limit * 0.6 else head).rstrip() + "…"


def one_line(text: str) -> str:
    return " ".join(text.split())


def harmless(text: str) -> str:
    """Stored text as data: it can't close the fence around it, nor hide anything from a reader."""
    return _CONTROL.sub("", _FENCES.sub("‹", text))


def escaped(text: str) -> str:
    """Stored text for a terminal: control characters are shown, not obeyed."""
    return _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text)


def width(text: str) -> int:
    """How many columns a text takes in a terminal."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


def fit(text: str, columns: int) -> str:
    """At most so many columns of a line."""
    if width(text) <= columns:
        return text
    kept, used = [], 0
    for char in text:
        used += width(char)
        if used > columns - 1:
            break
        kept.append(char)
    return "".join(kept).rstrip() + "…"
