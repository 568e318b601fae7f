"""How well a text answers: BM25 over its tokens, and a little more where the words stand close together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from backstory.store.tokens import Term

#: How soon a word that is repeated says nothing new, how much a long text is held back, and how long one usually is.
K1, B, USUAL = 1.2, 0.75, 100
#: A shorter text counts as one of this length: three words are not the better answer for being few.
SHORT = 40
#: A word in a title counts as so many.
TITLE = 3
#: How much words that stand close together add, and up to how many words apart.
CLOSE, APART = 0.5, 6


def weight(total: int, having: int) -> float:
    """A rare word says more than a common one."""
    having = min(having, total)
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


def score(title: str, body: str, weights: Mapping[Term, float]) -> float:
    """A text's score for terms of these weights."""
    words = {term.tokens[0]: each for term, each in weights.items() if len(term.tokens) == 1 and not term.is_prefix}
    first, rest = title.split(), body.split()
    length = max(len(first) + len(rest), SHORT)
    counts: dict[str, int] = {}
    near = _walk(first, words, counts, TITLE) + _walk(rest, words, counts, 1)
    found = [(words[word], count) for word, count in counts.items()]
    found += [
        (each, count)
        for term, each in weights.items()
        if (len(term.tokens) > 1 or term.is_prefix) and (count := TITLE * _count(title, term) + _count(body, term))
    ]
    slow = K1 * (1 - B + B * length / USUAL)
    return sum(each * count * (K1 + 1) / (count + slow) for each, count in found) + CLOSE * near


def _walk(tokens: Sequence[str], words: Mapping[str, float], counts: dict[str, int], each: int) -> float:
    """Count the words, and add up which stand close to which, a pair once."""
    near, last, last_at = 0.0, "", 0
    pairs: set[tuple[str, str]] = set()
    for at, token in enumerate(tokens):
        if token not in words:
            continue
        counts[token] = counts.get(token, 0) + each
        if last and token != last and at - last_at <= APART:
            pair = (token, last) if token < last else (last, token)
            if pair not in pairs:
                pairs.add(pair)
                near += min(words[token], words[last]) / (at - last_at)
        last, last_at = token, at
    return near


def _count(text: str, term: Term) -> int:
    """How often a phrase, or a word that begins so, is in a text."""
    return (
        f" {text}".count(" " + " ".join(term.tokens))
        if term.is_prefix
        else f" {text} ".count(f" {' '.join(term.tokens)} ")
    )
