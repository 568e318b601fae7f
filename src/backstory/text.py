"""Text for people and agents: truncation, token counts, and escaping for terminals, prompts and JSON."""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import datetime

# Invisible characters: control characters except tab and newline, format characters (category Cf), surrogates, private
# use, noncharacters, and characters that Unicode marks as default-ignorable, such as tag characters (U+E0000) and
# variation selectors.
_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_FORMAT = (
    r"\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
#: Parts of emoji and of words in some scripts. Harmless on a terminal, but they can split the name of a tag.
_JOINERS = (
    r"\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u200c\u200d\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
)
_NOT_TEXT = (
    r"\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\U000f0000-\U0010ffff"
    + r"\ufffe\uffff"
    + "".join(rf"\U{plane:04x}fffe\U{plane:04x}ffff" for plane in range(1, 15))
)
_INVISIBLE = re.compile(f"[{_CONTROL}{_FORMAT}{_JOINERS}{_NOT_TEXT}]")
_TERMINAL_CODES = re.compile(f"[{_CONTROL}{_FORMAT}]")
_TOKEN = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z\d]|\n")


def tokens(text: str) -> int:
    """Estimate how many tokens a model counts in a text. The estimate is rather too high than too low."""
    return len(_TOKEN.findall(text))


def local(stamp: str) -> str:
    """Format a stored timestamp in local time: 2026-02-21 04:39. Returns "?" if it is not a timestamp."""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return "?"


def json_list(stored: str) -> list[str]:
    """Parse a stored list of strings. Returns [] for anything else: a row may have been edited by hand."""
    if stored == "[]":  # common, and much cheaper to compare than to parse
        return []
    try:
        value = json.loads(stored)
    except (ValueError, TypeError, RecursionError):
        return []
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def cut(text: str, limit: int) -> str:
    """Truncate a text to `limit` characters, at a word boundary if possible, and append an ellipsis."""
    if len(text) <= limit:
        return text
    head = text[: max(limit - 1, 0)]
    last_space = head.rfind(" ")
    return (head[:last_space] if last_space > limit * 0.6 else head).rstrip() + "…"


_WORD = re.compile(r"\w{3,}|[⺀-鿿぀-ヿ가-힯]{2}")
#: Words that two texts have in common without having anything in common.
_COMMON = frozenset(
    "the and for that this with from are was were has have had not but its can will would should which when where what "  # noqa: SIM905
    "because into than then now all any also only just there their they them you your our been being does did "
    "und der die das nicht ist ein eine que los las una por para del les des est pas".split()
)


def words_of(text: str) -> frozenset[str]:
    """The words by which two texts are compared. Scripts without spaces count by pairs of characters."""
    return frozenset(_WORD.findall(text.lower())) - _COMMON


def is_same(one: frozenset[str], other: frozenset[str], share: float) -> bool:
    """Whether more than this share of the words of the shorter text is in both."""
    return len(one & other) > share * min(len(one), len(other))


def one_line(text: str) -> str:
    return " ".join(text.split())


def fences(*names: str) -> re.Pattern[str]:
    """Compile a pattern for `harmless`. It matches the punctuation before any of these tag names."""
    # The lookbehind lets a match start only at the first character of the run, which keeps the time linear.
    words = "|".join(name.replace("-", r"[\W_]") for name in names)
    return re.compile(rf"(?<![\W_])[\W_]++(?=(?:{words})\b)", re.IGNORECASE)


_FENCES = fences("backstory-context", "claude-mem-context", "private", "system-reminder")


def visible(text: str) -> str:
    """Return a text without the characters that nobody sees."""
    return text if text.isascii() and text.isprintable() else _INVISIBLE.sub("", text)


def harmless(text: str, *more: re.Pattern[str]) -> str:
    """Make stored text safe to embed in a prompt: it can't close the tag around it, nor hide anything from a reader.
    `more` are further patterns, made by `fences`."""
    text = visible(text)  # first, because invisible characters could split a tag
    for pattern in (_FENCES, *more):
        text = _defuse_tags(text, pattern)
    return text


def _defuse_tags(text: str, pattern: re.Pattern[str]) -> str:
    """Replace each `<` that the pattern matches by `‹`, including fullwidth and styled variants of it."""
    plain = text if text.isascii() else unicodedata.normalize("NFKD", text)
    if not any("<" in match[0] for match in pattern.finditer(plain)):
        return text
    # Normalise one character at a time, to map each position in `plain` back to its position in `text`.
    origins = [position for position, char in enumerate(text) for _ in unicodedata.normalize("NFKD", char)]
    plain = "".join(unicodedata.normalize("NFKD", char) for char in text)
    chars = list(text)
    for match in pattern.finditer(plain):
        for position in range(match.start(), match.end()):
            if plain[position] == "<":
                chars[origins[position]] = "‹"
    return "".join(chars)


def escaped(text: str) -> str:
    """Escape control and format characters, so that a terminal shows them instead of executing them."""
    return _TERMINAL_CODES.sub(_escape, text)


def json_escaped(document: str) -> str:
    """The same for a JSON document. It stays valid, because such characters occur only inside its strings."""
    return _TERMINAL_CODES.sub(lambda match: json.dumps(match[0])[1:-1], document)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


def fit(text: str, columns: int) -> str:
    """Truncate a line to a number of terminal columns."""
    if width(text) <= columns:
        return text
    kept, used = [], 0
    for char in text:
        used += width(char)
        if used > columns - 1:
            break
        kept.append(char)
    return "".join(kept).rstrip() + "…"
