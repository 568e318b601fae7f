"""Quotes: what a message repeats of others. It is not what its author says, and no statement of theirs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from backstory.labels import names_decision, names_user, without_label

_SOURCE = (
    r"(?:issues?|tickets?|page|(?:web)?site|articles?|posts?|blog|comment(?:s|ers?)?|review(?:s|ers?)?|readme(?:\.md)?|"
    r"documentation|docs?|docstring|e-?mails?|messages?|threads?|discussion|prs?|pull requests?|changelog|"
    r"(?:sub)?agents?|assistant|it|he|she|they|user|authors?|maintainers?|one|someone|colleagues?|plan|"
    r"description|transcript|instructions?|\S+\.(?:md|txt|rst|html?|org)`?)"
)
_SAYS = (
    r"(?:says?|said|reads?|states?|stated|reports?|reported|tells? \w+|told \w+|asks?|asked|suggests?|suggested|"
    r"claims?|claimed|wrote|writes|instructs?|instructed|demands?|quotes?|replied|answered|requests?|requested)"
)
#: A sentence that tells what somebody else says, up to the words of the other: `The issue says: …`
_REPORTS = re.compile(
    rf"\b{_SOURCE}\b[^.:;!?]{{0,40}}?\b{_SAYS}\b[^.:!?\"“«]{{0,40}}(?P<opens>:(?=\s|$)|：|[\"“«])|"
    r"\b(?:comments?|messages?|quotes?|instructions?|replies)\b[^.:;!?]{0,30}\b(?:is|are|was|were)(?P<lists>:(?=\s|$))",
    re.IGNORECASE,
)
_WHOLE = re.compile(r"[\"“«].*[\"”»][.!]?$")
#: Labels under which an agent may speak for itself, besides `Decision: …`
_OWN_LABELS = ("proposed", "earlier", "asked", "pinned", "noted", "system")
_OPENS, _CLOSES = re.compile(r"<blockquote\b[^>]{0,200}>", re.IGNORECASE), re.compile(r"</blockquote>", re.IGNORECASE)


def own_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a paragraph that stand before a quote in it. A quote goes on to the end of its paragraph."""
    for line in lines:
        if line.lstrip().startswith((">", "＞")) or _OPENS.search(line):
            return
        yield line


def is_quote_open(line: str, was_open: bool) -> bool:
    """Whether an HTML quote goes on after a line."""
    opened = [found.start() for found in _OPENS.finditer(line)]
    closed = [found.start() for found in _CLOSES.finditer(line)]
    if not opened and not closed:
        return was_open
    return max(opened, default=-1) > max(closed, default=-1)


def speaks_for_another(sentence: str) -> bool:
    """Whether a sentence stands under the name of another speaker, or is a quote as a whole."""
    return _has_speaker(sentence) or bool(_WHOLE.match(sentence.strip()))


def _has_speaker(sentence: str) -> bool:
    label, _ = without_label(sentence)
    is_own = names_decision(label) or (label.startswith(_OWN_LABELS) and not names_user(label))
    return bool(label) and not is_own


def reported(sentences: Iterable[str]) -> Iterator[tuple[str, bool, bool]]:
    """Yield each sentence of a paragraph, whether somebody else says it, and whether the words of the other go on."""
    goes_on = False
    for sentence in sentences:
        found = _REPORTS.search(sentence)
        if goes_on:
            yield sentence, True, True
        elif found:
            # Words in quotation marks end with them; after a colon, the rest of the paragraph may be quoted.
            goes_on = not (found["opens"] and found["opens"] not in ":：") and not _is_closed(sentence, found.end())
            yield sentence, True, goes_on
        else:
            goes_on = _has_speaker(sentence)
            yield sentence, goes_on or speaks_for_another(sentence), goes_on


def _is_closed(sentence: str, at: int) -> bool:
    """Whether the words after a colon are in quotation marks and end in this sentence."""
    return bool(_WHOLE.match(sentence[at:].strip()))
