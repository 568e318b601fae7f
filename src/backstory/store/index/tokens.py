"""Splits texts and queries into tokens, in the same way for every engine.

A token consists of letters and digits of any script, so that the rules of an engine do not split it further.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from backstory.store.index.stem import stem

#: Characters of a text that are indexed.
MAX_TEXT_CHARS = 20_000
#: Characters of a token. The rest of a longer word is ignored.
MAX_TOKEN_CHARS = 64
#: Characters of a query that are read.
MAX_QUERY_CHARS = 4000
#: Terms of a query that are searched: of a longer one, the rarest.
MAX_QUERY_TERMS = 40
#: Terms of a query that are counted to find the rarest.
MAX_COUNTED_TERMS = 160
#: Characters by which a commit is known. Git prints as many, but a longer form may be stored or asked for.
HASH_CHARS = 7
#: Scripts with vowel signs that `\w` does not match.
_MARKED = "\u0900-\u0963\u0966-\u0dff\u0e00-\u0e4f\u0e80-\u0ece\u1000-\u1049\u1780-\u17d3"
_ACCENT = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670]")
_JOINT = r"(?:::|->|[-./\\:@#'\u2019])"
#: Words, and names that consist of several words: `src/cart.py`, `foo::bar->baz`, `re-index`, `Cart.apply_discount`.
_NAME = re.compile(rf"[0-9A-Za-z_\w{_MARKED}]+(?:{_JOINT}[0-9A-Za-z_\w{_MARKED}]+)*")
#: The same for ASCII. Most texts are ASCII, and this is several times as fast.
_PLAIN_NAME = re.compile(r"[0-9A-Za-z_]+(?:(?:[-./\\:@#']|::|->)[0-9A-Za-z_]+)*")
_CUT = re.compile(_JOINT)
_HUMP = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|[^\x00-\x7f]+")
#: Scripts without spaces between words. They are split into pairs of characters.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_QUOTED = re.compile(r'"([^"]*)"')
#: The hash of a commit, or its beginning.
_HASH = re.compile(rf"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{{HASH_CHARS},40}}")
#: Words that are too common to search for.
_COMMON = frozenset(
    "a an and are as at be but by did do does for from had has have he her him his how i if in into is it its me my "  # noqa: SIM905 - a list of words reads as one
    "of on or our she so that the their them then there these they this to was we were what when where which who why "
    "will with you your".split()
)
#: The same words as tokens.
COMMON = frozenset(map(stem, _COMMON))


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a query: a token, a phrase of several tokens, or the beginning of a token."""

    tokens: tuple[str, ...]
    is_prefix: bool = False


def plain(text: str) -> str:
    """Remove accents and normalise letters, so that `cafe` matches `café`."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _ACCENT.sub("", unicodedata.normalize("NFKD", text)))


def of_text(text: str) -> str:
    """Return the tokens of a text in their order, followed by the joined forms of its names."""
    text = plain(text[:MAX_TEXT_CHARS])
    names = list(map(_split_name, (_PLAIN_NAME if text.isascii() else _NAME).findall(text)))
    joined = dict.fromkeys(form for _, forms in names if forms for form in forms)
    return " ".join([*(token for parts, _ in names for token in parts), *joined])


def of_query(query: str) -> list[Term]:
    """Return the terms of a query: its words without the commonest, "phrases" and prefixes*."""
    query = plain(query[:MAX_QUERY_CHARS])
    wanted = [_phrase(phrase) for phrase in _QUOTED.findall(query)]
    rest = _QUOTED.sub(" ", query)
    common: list[Term] = []
    for match in _NAME.finditer(rest):
        name = match[0]
        if rest[match.end() : match.end() + 1] == "*" and len(name) > 1:
            wanted.append(Term((name.casefold(),), is_prefix=True))
            continue
        if _HASH.fullmatch(name):
            wanted.append(Term((name[:HASH_CHARS],), is_prefix=True))
            continue
        parts, joined = _split_query_name(name)
        terms = [Term((token,)) for token in (*parts, *joined)]
        (common if name.casefold() in _COMMON else wanted).extend(terms)
    return [term for term in dict.fromkeys(wanted or common) if term.tokens][:MAX_COUNTED_TERMS]


def of_every_word(query: str) -> list[Term]:
    """Return a term for each word of a query, for items that must have all of them. A name is a phrase of its parts."""
    return [term for word in words_of(query)[:MAX_QUERY_TERMS] if (term := _phrase(word)).tokens]


def words_of(query: str) -> list[str]:
    """Return the words and quoted phrases of a query, unchanged."""
    query = plain(query)
    phrases = [" ".join(phrase.split()) for phrase in _QUOTED.findall(query)]
    return [term for term in (*phrases, *re.sub(r'"[^"]*"?', " ", query).split()) if _NAME.search(term)]


def _phrase(text: str) -> Term:
    tokens = tuple(token for name in _NAME.findall(text) for token in _split_query_name(name)[0])
    is_one_character = len(tokens) == 1 and len(tokens[0]) == 1 and _UNSPACED.match(tokens[0]) is not None
    return Term(tokens, is_prefix=is_one_character)


def _split_query_name(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a name as in a text, but leave out the single last character of a run in a script without spaces."""
    if name.isascii() or len(name) == 1 or not _UNSPACED.search(name):
        return _split_name(name)
    return tuple(_tokens(_segments(name), is_query=True)), ()


@lru_cache(maxsize=16384)  # most texts consist of a few thousand different words
def _split_name(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tokens of a name, and its joined forms, such as `cartpy` and `applydiscount`."""
    if name.isascii() and name.isalpha() and (name[1:].islower() or name.islower() or name.isupper()):
        return (stem(name[:MAX_TOKEN_CHARS].lower()),), ()
    segments = _segments(name)
    joined = [_join(pieces) for pieces in segments if len(pieces) > 1]
    if len(segments) > 1:
        joined.append(_join([piece for pieces in segments for piece in pieces]))
        if len(segments) > 2 and "." in name:
            joined.append(_join([piece for pieces in segments[-2:] for piece in pieces]))
    parts = tuple(_tokens(segments))
    return parts, tuple(stem(form) for form in joined if len(form) <= MAX_TOKEN_CHARS and stem(form) not in parts)


def _segments(name: str) -> list[list[str]]:
    """Split a name at its joints, and each segment at capitals and underscores."""
    segments = []
    for segment in _CUT.split(re.sub(r"['\u2019](?:s\b)?", "", name)):
        pieces = [piece for word in segment.split("_") for piece in _pieces(word)]
        if pieces:
            segments.append(pieces)
    return segments


def _pieces(word: str) -> list[str]:
    if word.islower() or word.isupper() or word.isdigit() or len(word) > 2 * MAX_TOKEN_CHARS:
        return [word] if word else []
    return _HUMP.findall(word)


def _join(pieces: list[str]) -> str:
    """Join pieces. Numbers keep a joint: 2.10 is not 21.0."""
    joint = "_" if all(piece.isdigit() for piece in pieces) else ""
    return joint.join(piece.casefold() for piece in pieces)


def _tokens(segments: Iterable[list[str]], is_query: bool = False) -> Iterable[str]:
    for pieces in segments:
        for piece in pieces:
            word = piece.casefold()
            if word.isascii():
                yield stem(word[:MAX_TOKEN_CHARS])
                continue
            at = 0
            for run in _UNSPACED.finditer(word):
                if run.start() > at:
                    yield stem(word[at : run.start()][:MAX_TOKEN_CHARS])
                characters, at = run[0], run.end()
                yield from (characters[i : i + 2] for i in range(len(characters) - 1))
                if len(characters) == 1 or not is_query:
                    yield characters[-1]
            if at < len(word):
                yield stem(word[at:][:MAX_TOKEN_CHARS])


def neighbours(word: str) -> list[str]:
    """Return every word that differs by a letter: one missing, added or replaced, or two swapped."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    words = [a + b[1:] for a, b in cuts if b]
    words += [a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1]
    words += [a + letter + b[1:] for a, b in cuts if b for letter in letters]
    words += [a + letter + b for a, b in cuts for letter in letters]
    return [other for other in dict.fromkeys(words) if other != word]
