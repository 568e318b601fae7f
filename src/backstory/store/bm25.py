"""How well a text answers: BM25 over its tokens, and a little more where the words stand close together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

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


def scorer(weights: Mapping[Term, float]) -> Callable[[str, str], float]:
    """What gives a title and a body their score for terms of these weights."""
    words = {term.tokens[0]: each for term, each in weights.items() if len(term.tokens) == 1 and not term.is_prefix}
    others = [(term, each) for term, each in weights.items() if len(term.tokens) > 1 or term.is_prefix]

    def score(title: str, body: str) -> float:
        first, rest = title.split(), body.split()
        slow = K1 * (1 - B + B * max(len(first) + len(rest), SHORT) / USUAL)
        # Most tokens are not asked for: they are passed over here, as fast as can be.
        in_title = [(at, token) for at, token in enumerate(first) if token in words]
        in_body = [(at, token) for at, token in enumerate(rest) if token in words]
        counts: dict[str, int] = {}
        for _, token in in_title:
            counts[token] = counts.get(token, 0) + TITLE
        for _, token in in_body:
            counts[token] = counts.get(token, 0) + 1
        total = sum(words[token] * count * (K1 + 1) / (count + slow) for token, count in counts.items())
        for term, each in others:
            if count := TITLE * _count(title, term) + _count(body, term):
                total += each * count * (K1 + 1) / (count + slow)
        return total + CLOSE * (_near(in_title, words) + _near(in_body, words)) if len(counts) > 1 else total

    return score


def _near(found: Sequence[tuple[int, str]], words: Mapping[str, float]) -> float:
    """Which words stand close to which, a pair once."""
    near = 0.0
    pairs: set[tuple[str, str]] = set()
    for (last_at, last), (at, token) in pairwise(found):
        if token != last and at - last_at <= APART:
            pair = (token, last) if token < last else (last, token)
            if pair not in pairs:
                pairs.add(pair)
                near += min(words[token], words[last]) / (at - last_at)
    return near


def _count(text: str, term: Term) -> int:
    """How often a phrase, or a word that begins so, is in a text."""
    return (
        f" {text}".count(" " + " ".join(term.tokens))
        if term.is_prefix
        else f" {text} ".count(f" {' '.join(term.tokens)} ")
    )
