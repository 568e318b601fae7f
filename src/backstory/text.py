"""Text for people and agents: cut, counted, and harmless wherever it is shown."""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import datetime

# Characters that a reader does not see. Control characters except tab and newline; format characters (category Cf);
# surrogates; private use; noncharacters; and what Unicode says to ignore where it can't be shown, among it the tag
# characters (U+E0000) and the variation selectors.
_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_FORMAT = (
    r"\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
#: Parts of emoji and of words in some scripts. They hide nothing on a terminal, but they can split a tag's name.
_JOINERS = (
    r"\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u200c\u200d\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
)
_NO_TEXT = (
    r"\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\U000f0000-\U0010ffff"
    + r"\ufffe\uffff"
    + "".join(rf"\U{plane:04x}fffe\U{plane:04x}ffff" for plane in range(1, 15))
)
_INVISIBLE = re.compile(f"[{_CONTROL}{_FORMAT}{_JOINERS}{_NO_TEXT}]")
_OBEYED = re.compile(f"[{_CONTROL}{_FORMAT}]")
_TOKEN = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z\d]|\n")


def tokens(text: str) -> int:
    """About how many tokens a model counts; rather too many than too few."""
    return len(_TOKEN.findall(text))


def local(stamp: str) -> str:
    """A stored time as a clock on this machine showed it: 2026-02-21 04:39. What is no time is "?"."""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return "?"


def json_list(stored: str) -> list[str]:
    """A stored list of texts. What is none is empty: a row may have been edited by hand."""
    try:
        found = json.loads(stored)
    except (ValueError, TypeError, RecursionError):
        return []
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def cut(text: str, limit: int) -> str:
    """At most so many characters, ended at a word, with a sign that there was more."""
    if len(text) <= limit:
        return text
    head = text[: max(limit - 1, 0)]
    at = head.rfind(" ")
    return (head[:at] if at > limit * 0.6 else head).rstrip() + "…"


def one_line(text: str) -> str:
    return " ".join(text.split())


def fences(*names: str) -> re.Pattern[str]:
    """A pattern for `harmless`: the signs that stand before one of these names of tags."""
    # The run of signs is matched only from where it begins, so that the time is linear.
    words = "|".join(name.replace("-", r"[\W_]") for name in names)
    return re.compile(rf"(?<![\W_])[\W_]++(?=(?:{words})\b)", re.IGNORECASE)


_FENCES = fences("backstory-context", "claude-mem-context", "private", "system-reminder")


def harmless(text: str, *more: re.Pattern[str]) -> str:
    """Stored text as data: it can't close the fence around it, nor hide anything from a reader.

    Invisible characters are removed first, because they could split a tag. Then the `<` of a fence, opening or
    closing, becomes `‹`; `more` are patterns of other `fences`.
    """
    text = _INVISIBLE.sub("", text)
    for pattern in (_FENCES, *more):
        text = _blunted(text, pattern)
    return text


def _blunted(text: str, pattern: re.Pattern[str]) -> str:
    """The text with `‹` for each `<` that the pattern finds, also where it is in fullwidth or styled letters."""
    plain = text if text.isascii() else unicodedata.normalize("NFKD", text)
    if not any("<" in found[0] for found in pattern.finditer(plain)):
        return text
    # Letter by letter, so that each place in the plain text is known in the given one.
    places = [at for at, sign in enumerate(text) for _ in unicodedata.normalize("NFKD", sign)]
    plain = "".join(unicodedata.normalize("NFKD", sign) for sign in text)
    signs = list(text)
    for found in pattern.finditer(plain):
        for at in range(found.start(), found.end()):
            if plain[at] == "<":
                signs[places[at]] = "‹"
    return "".join(signs)


def escaped(text: str) -> str:
    """Stored text for a terminal: control and format characters are shown, not obeyed."""
    return _OBEYED.sub(_escape, text)


def json_escaped(document: str) -> str:
    """The same for a JSON document, which stays one: there, such characters stand in strings only."""
    return _OBEYED.sub(lambda found: json.dumps(found[0])[1:-1], document)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


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
