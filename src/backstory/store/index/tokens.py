"""Text as tokens: what is indexed and what is looked for are cut up here, in the same way for every engine.

A token is made of letters and digits of any script, so that no engine's own rules see anything in it but a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from backstory.store.index.stem import stem

#: Longer texts are indexed by their beginning; the whole stays in its own table.
INDEXED_CHARS = 20_000
#: Nobody looks for a longer word; of a blob of letters the beginning is kept.
LONGEST = 64
#: Characters of a query that are read.
ASKED_CHARS = 4000
#: Terms of a query that are looked for.
ASKED_TERMS = 40
#: Scripts that write a word of several signs without a joint to cut at: letters whose marks Python calls no letters.
_MARKED = "\u0900-\u0963\u0966-\u0dff\u0e00-\u0e4f\u0e80-\u0ece\u1000-\u1049\u1780-\u17d3"
_ACCENT = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670]")
_JOINT = r"(?:::|->|[-./\\:@#'\u2019])"
#: Words, and words joined to a name: `src/cart.py`, `foo::bar->baz`, `re-index`, `Cart.apply_discount`.
_NAME = re.compile(rf"[0-9A-Za-z_\w{_MARKED}]+(?:{_JOINT}[0-9A-Za-z_\w{_MARKED}]+)*")
#: The same for plain letters, which most texts are made of, and several times as fast.
_PLAIN_NAME = re.compile(r"[0-9A-Za-z_]+(?:(?:[-./\\:@#']|::|->)[0-9A-Za-z_]+)*")
_CUT = re.compile(_JOINT)
_HUMP = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|[^\x00-\x7f]+")
#: Scripts without spaces between words: cut into pairs of signs.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_QUOTED = re.compile(r'"([^"]*)"')
#: Words that say nothing about what is looked for.
_COMMON = frozenset(
    "a an and are as at be but by did do does for from had has have he her him his how i if in into is it its me my "  # noqa: SIM905 - a list of words reads as one
    "of on or our she so that the their them then there these they this to was we were what when where which who why "
    "will with you your".split()
)
#: The same, as they are indexed.
COMMON = frozenset(map(stem, _COMMON))


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that is looked for: a token, several in a row, or the beginning of one."""

    tokens: tuple[str, ...]
    is_prefix: bool = False


def plain(text: str) -> str:
    """Without accents, and every letter in its plain form: `café` is found by `cafe`."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _ACCENT.sub("", unicodedata.normalize("NFKD", text)))


def of_text(text: str) -> str:
    """A text as it is indexed: its tokens in their order, and behind them the names that were taken apart, whole."""
    text = plain(text[:INDEXED_CHARS])
    found = list(map(_taken_apart, (_PLAIN_NAME if text.isascii() else _NAME).findall(text)))
    names = dict.fromkeys(whole for _, wholes in found if wholes for whole in wholes)
    return " ".join([*(token for parts, _ in found for token in parts), *names])


def of_query(query: str) -> list[Term]:
    """Any text as what is looked for: its words without the commonest, "phrases" and beginnings*."""
    asked = plain(query[:ASKED_CHARS])
    found = [_phrase(phrase) for phrase in _QUOTED.findall(asked)]
    rest = _QUOTED.sub(" ", asked)
    common: list[Term] = []
    for match in _NAME.finditer(rest):
        name = match[0]
        if rest[match.end() : match.end() + 1] == "*" and len(name) > 1:
            found.append(Term((name.casefold(),), is_prefix=True))
            continue
        parts, wholes = _looked_for(name)
        terms = [Term((token,)) for token in (*parts, *wholes)]
        (common if name.casefold() in _COMMON else found).extend(terms)
    return [term for term in dict.fromkeys(found or common) if term.tokens][:ASKED_TERMS]


def of_every_word(query: str) -> list[Term]:
    """Each word as it stands, a name's parts in a row: for what must have all of them."""
    return [term for word in words_of(query)[:ASKED_TERMS] if (term := _phrase(word)).tokens]


def words_of(query: str) -> list[str]:
    """The words and quoted phrases of a query, as they stand."""
    query = plain(query)
    phrases = [" ".join(phrase.split()) for phrase in _QUOTED.findall(query)]
    return [term for term in (*phrases, *re.sub(r'"[^"]*"?', " ", query).split()) if _NAME.search(term)]


def _phrase(text: str) -> Term:
    tokens = tuple(token for name in _NAME.findall(text) for token in _looked_for(name)[0])
    is_sign = len(tokens) == 1 and len(tokens[0]) == 1 and _UNSPACED.match(tokens[0]) is not None
    return Term(tokens, is_prefix=is_sign)


def _looked_for(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """As it is indexed, without the last sign of a run by itself, which only the index needs."""
    if name.isascii() or len(name) == 1 or not _UNSPACED.search(name):
        return _taken_apart(name)
    return tuple(_tokens(_segments(name), is_query=True)), ()


@lru_cache(maxsize=16384)  # a few thousand words are most of what is ever said
def _taken_apart(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A name's tokens, and the forms in which it is known whole, without its joints: `cartpy`, `applydiscount`."""
    if name.isascii() and name.isalpha() and (name[1:].islower() or name.islower() or name.isupper()):
        return (stem(name[:LONGEST].lower()),), ()
    segments = _segments(name)
    wholes = [_whole(pieces) for pieces in segments if len(pieces) > 1]
    if len(segments) > 1:
        wholes.append(_whole([piece for pieces in segments for piece in pieces]))
        if len(segments) > 2 and "." in name:
            wholes.append(_whole([piece for pieces in segments[-2:] for piece in pieces]))
    parts = tuple(_tokens(segments))
    return parts, tuple(stem(whole) for whole in wholes if len(whole) <= LONGEST and stem(whole) not in parts)


def _segments(name: str) -> list[list[str]]:
    """What stands between the joints, each cut at its humps and underscores."""
    segments = []
    for segment in _CUT.split(re.sub(r"['\u2019](?:s\b)?", "", name)):
        pieces = [piece for word in segment.split("_") for piece in _pieces(word)]
        if pieces:
            segments.append(pieces)
    return segments


def _pieces(word: str) -> list[str]:
    if word.islower() or word.isupper() or word.isdigit() or len(word) > 2 * LONGEST:
        return [word] if word else []
    return _HUMP.findall(word)


def _whole(pieces: list[str]) -> str:
    """Numbers keep their joints: 2.10 is not 21.0."""
    joint = "_" if all(piece.isdigit() for piece in pieces) else ""
    return joint.join(piece.casefold() for piece in pieces)


def _tokens(segments: Iterable[list[str]], is_query: bool = False) -> Iterable[str]:
    for pieces in segments:
        for piece in pieces:
            word = piece.casefold()
            if word.isascii():
                yield stem(word[:LONGEST])
                continue
            at = 0
            for run in _UNSPACED.finditer(word):
                if run.start() > at:
                    yield stem(word[at : run.start()][:LONGEST])
                signs, at = run[0], run.end()
                yield from (signs[i : i + 2] for i in range(len(signs) - 1))
                if len(signs) == 1 or not is_query:
                    yield signs[-1]
            if at < len(word):
                yield stem(word[at:][:LONGEST])


def neighbours(word: str) -> list[str]:
    """Every word that is one slip away: a letter too few or too many, another one, or two that changed places."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    made = [a + b[1:] for a, b in cuts if b]
    made += [a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1]
    made += [a + letter + b[1:] for a, b in cuts if b for letter in letters]
    made += [a + letter + b for a, b in cuts for letter in letters]
    return [other for other in dict.fromkeys(made) if other != word]
