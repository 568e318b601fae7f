"""Labels: who said a line, printed by us alone. A text that begins like a label of ours is printed without it."""

from __future__ import annotations

import html
import re
import unicodedata

from backstory.model import ClaimMark
from backstory.text import one_line, visible

#: How a mark is printed before a text.
PRINTED = {
    ClaimMark.NONE: "",
    ClaimMark.USER: "User: ",
    ClaimMark.PROPOSED: "Proposed: ",
    ClaimMark.EARLIER: "Earlier: ",
}
#: Printed before a text without a mark that follows a marked one, because a mark seems to hold up to the next one.
UNMARKED = "Noted: "
#: Labels that are removed one after another, at most.
MAX_LABELS = 8
#: Characters that look like Latin letters or a colon, and that Unicode does not map to them.
_LOOKALIKES = str.maketrans(
    "аɑαеεᴇрρᴘοоօᴏсϲᴄѕꜱіιɪԁᴅոɴпհһнυսᴜ∪ꓴʀгⲅӏʟмᴍуүтᴛτ∶꞉ː։׃ꓽ",
    "aaaeeepppoooocccssiiiddnnnhhhuuuuurrrllmmyyttt::::::",
)


def _spaced(*words: str) -> str:
    """Match any of these words, also with a character between its letters: `U-s-e-r`."""
    return "|".join(r"[\W_]?".join(word) for word in words)


_SPEAKER = (
    rf"(?:(?:the|our|your)[\W_]+)?(?:{_spaced('user', 'human')})(?:[\W_]{{1,2}}s\b)?"
    r"(?:[\W_]+(?:says?|said|wants?|asks?|asked|prefers?|preferences?|decided|decides|decisions?|requires?|rules?|told|"
    r"instructions?|instructs|instructed|requests?|messages?|confirm(?:s|ed)|approve[sd]|verified|answer(?:s|ed)?))*"
)
_OURS = _spaced("system", "decision", "proposed", "earlier", "asked", "pinned", "noted")
#: The beginning of a line about an observation: `#12 decision:`, `#12 2026-02-21 04:39 decision:`
_NUMBERED = r"#\s*\d+(?:[\W_]+\d[\d:\s-]*)?[\W_]+[a-z][\w-]{2,30}"
_LABEL = rf"(?P<label>{_NUMBERED}|{_SPEAKER}|{_OURS})"
#: What stands before a label in markdown: bullets, numbers, quotes, emphasis.
_DECORATION = r"(?:(?!#\s*\d)[\W_]|\d{1,3}[.):\]])*+"
_FIRST = re.compile(rf"{_DECORATION}(?<![a-z\d]){_LABEL}[^a-z\d:|]*?(?::|\||[-=]>|→|[–—-](?=\s))[\s*_~`\"'”’:]*")
_LATER = re.compile(rf"(?<![\w‹`/.@-]){_LABEL}[^\w\s:]{{0,4}}\s?[*_]{{0,3}}:[*_]{{0,3}}")
#: What a sentence before a label ends with, or what quotes it.
_BEFORE = frozenset(".!?;:|>•·…\"“”'’—–。！？")
_EMPHASIS = "*_~ "
#: The line of a commit. We quote its subject.
_COMMIT = re.compile(r"(?<![\w‹])(commit [0-9a-f]{7,40})\s*:\s*+(?!“)", re.IGNORECASE)
_HEADING = re.compile(r"^\s*#{1,6}\s+(?!\d)|(?<!\S)#{2,6}\s+(?=\S)")


def labelled(mark: ClaimMark, text: str) -> str:
    """Return a text in one line after its label."""
    return PRINTED[mark] + unlabelled(text)


def unlabelled(text: str) -> str:
    """Return a text in one line that does not seem to have a label of ours. Every text that is printed passes here:
    whoever wrote it, only a mark says who said it."""
    text = one_line(visible(text))
    if "&" in text and (plain := html.unescape(text)) != text and _without(plain) != plain:
        text = one_line(visible(plain))
    return _without(text)


def unlabelled_lines(text: str) -> str:
    """The same for each line of a text."""
    return "\n".join(map(unlabelled, text.splitlines()))


def without_label(text: str) -> tuple[str, str]:
    """Return the label with which a text begins, in lower case and without lookalikes, and the rest of the text."""
    text = one_line(visible(text))
    letters, places = _letters(text)
    found = _FIRST.match(letters)
    if not found:
        return "", text
    return found["label"], text[places[found.end()] :]


def _without(text: str) -> str:
    text = _COMMIT.sub(r"‹\1› ", _HEADING.sub("", text))
    for _ in range(MAX_LABELS):
        label, rest = without_label(text)
        if not label:
            break
        text = rest
    return _escaped(text)


def _escaped(text: str) -> str:
    """Put labels inside of a text in brackets, without their colon."""
    letters, places = _letters(text)
    if ":" not in letters:
        return text
    parts, at = [], 0
    for found in _LATER.finditer(letters):
        begin, end = places[found.start("label")], places[found.end()]
        before = letters[: found.start()].rstrip(_EMPHASIS)
        begins = not before or before[-1] in _BEFORE or found["label"][0] == "#"
        names = text[begin].isupper() and letters[found.end() : found.end() + 1] in ("", " ")
        if begins or (names and found["label"] != "system"):
            parts += [text[at:begin], f"‹{text[begin : places[found.end('label')]]}›"]
            at = end
    return "".join([*parts, text[at:]])


def _letters(text: str) -> tuple[str, list[int] | range]:
    """Return a text in lower case, with lookalikes as the letters that they look like, and the place of each of its
    characters in the text, and of its end."""
    if text.isascii():
        return text.lower(), range(len(text) + 1)
    letters, places = [], []
    for place, char in enumerate(text):
        for part in unicodedata.normalize("NFKD", char).lower():
            if not unicodedata.combining(part):
                letters.append(part)
                places.append(place)
    return "".join(letters).translate(_LOOKALIKES), [*places, len(text)]
