"""Passages: the sentences and list items of a text. Finds and removes those that say what an observation says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

#: Words between two words of a quotation that were left out of it: an aside, the address of a link.
MAX_GAP = 12
#: A shorter quotation must be a whole passage: `Done` occurs in many sentences.
MIN_QUOTED_WORDS = 3
MIN_QUOTED_CHARS = 12
#: Characters of a text that are read.
MAX_CHARS = 100_000
_WORD = re.compile(r"\w+")
_MARKER = r"(?:[-*+•‣]|\d{1,3}[.)]|#{1,6}|>)"
#: Where a passage begins: at a paragraph, an item or a heading, after its marker, and after the end of a sentence.
_BOUNDARY = re.compile(
    rf"\n[ \t]*(?:\n\s*(?:{_MARKER}[ \t]+)?|{_MARKER}[ \t]+)|"
    r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bcf\.)(?<!\b\d\.)(?<=[.!?…])[\"'”’)*`]{0,2}\s+(?=\S)|(?<=[。！？])"
)
_FIRST_MARKER = re.compile(rf"\s*{_MARKER}[ \t]+")
_BARE_MARKER = re.compile(rf"^[ \t]*{_MARKER}[ \t]*$\n?", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")


@dataclass(frozen=True, slots=True)
class Cut:
    """A text from which passages were removed."""

    text: str  #: what is left; empty if no word is
    removed: tuple[str, ...] = ()


def words(text: str) -> list[str]:
    """Return the words by which passages are compared."""
    return _WORD.findall(text.lower())


def cut(text: str, is_removed: Callable[[str], bool]) -> Cut:
    """Remove the passages for which a condition holds."""
    spans = _spans(text)
    return _without(text, [span for span in spans if is_removed(text[slice(*span)])])


def cut_quoted(text: str, quotations: Iterable[str]) -> Cut:
    """Remove the passages that say one of these texts. Markdown, asides and a cut end make no difference."""
    spans = _spans(text)
    tokens = [(match[0].lower(), match.start(), match.end()) for match in _WORD.finditer(text[:MAX_CHARS])]
    quoted = [place for each in quotations for place in _places(tokens, each, text, spans)]
    return _without(text, [(a, b) for a, b in spans if any(start < b and end > a for start, end in quoted)])


def _spans(text: str) -> list[tuple[int, int]]:
    """Return where each passage begins and ends."""
    first = _FIRST_MARKER.match(text)
    spans, start = [], first.end() if first else 0
    for boundary in _BOUNDARY.finditer(text[:MAX_CHARS], start):
        spans.append((start, boundary.start()))
        start = boundary.end()
    spans.append((start, len(text)))
    return [(a, b) for a, b in spans if _WORD.search(text, a, b)]


def _without(text: str, spans: Sequence[tuple[int, int]]) -> Cut:
    if not spans:
        return Cut(text)
    kept, at = "", 0
    for start, end in (*spans, (len(text), len(text))):
        piece = text[at:start]
        kept, at = (kept.rstrip(" \t") if piece[:1].isspace() else kept) + piece, end
    left = _BLANK_LINES.sub("\n\n", _BARE_MARKER.sub("", kept))
    return Cut(left.strip() if _WORD.search(left) else "", tuple(text[a:b].strip() for a, b in spans))


def _places(
    tokens: Sequence[tuple[str, int, int]], quotation: str, text: str, spans: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return where a quotation begins and ends in a text."""
    wanted, is_cut = words(quotation), quotation.rstrip("`\"' ").endswith("…")
    if not wanted:
        return []
    if len(wanted) < MIN_QUOTED_WORDS or sum(map(len, wanted)) < MIN_QUOTED_CHARS:
        return [span for span in spans if words(text[slice(*span)]) == wanted]
    start_of: dict[int, int] = {}  # the end of a place -> its beginning; the last one is the shortest place
    for first, (word, start, _) in enumerate(tokens):
        if word == wanted[0] and (last := _follow(tokens, first, wanted, is_cut)) is not None:
            start_of[tokens[last][2]] = start
    return [(start, end) for end, start in start_of.items()]


def _follow(tokens: Sequence[tuple[str, int, int]], first: int, wanted: Sequence[str], is_cut: bool) -> int | None:
    """Return the token that ends a quotation which begins at `first`; None if the words do not follow one another."""
    at = first
    for place, word in enumerate(wanted[1:], 2):
        end = min(len(tokens), at + MAX_GAP + 2)
        is_last = is_cut and place == len(wanted)
        for later in range(at + 1, end):
            known = tokens[later][0]
            if known == word or (is_last and known.startswith(word)):
                at = later
                break
        else:
            return None
    # More words between than quoted ones: these are other sentences that share a few words.
    return at if at - first < 2 * len(wanted) else None
