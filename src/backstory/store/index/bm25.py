"""How well a text answers: BM25 over its tokens, and a little more where the words stand close together."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from backstory.store.index.tokens import Term

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
    # Most of a text is not asked for, and is passed over by the expression: taking it apart takes three times as long.
    places = re.compile(f" ({'|'.join(map(re.escape, words)) or '(?!)'})(?= )").finditer

    def score(title: str, body: str) -> float:
        first, rest = f" {title} ", f" {body} "
        length = first.count(" ") - (1 if title else 2) + rest.count(" ") - (1 if body else 2)
        slow = K1 * (1 - B + B * max(length, SHORT) / USUAL)
        in_title = [(place.start(), place[1]) for place in places(first)]
        in_body = [(place.start(), place[1]) for place in places(rest)]
        counts: dict[str, int] = {}
        for _, token in in_title:
            counts[token] = counts.get(token, 0) + TITLE
        for _, token in in_body:
            counts[token] = counts.get(token, 0) + 1
        total = sum(words[token] * count * (K1 + 1) / (count + slow) for token, count in counts.items())
        for term, each in others:
            if often := TITLE * count(title, term) + count(body, term):
                total += each * often * (K1 + 1) / (often + slow)
        if len(counts) < 2:
            return total
        return total + CLOSE * (_near(first, in_title, words) + _near(rest, in_body, words))

    return score


def _near(text: str, found: Sequence[tuple[int, str]], words: Mapping[str, float]) -> float:
    """Which words stand close to which, a pair once."""
    near = 0.0
    pairs: set[tuple[str, str]] = set()
    for (last_at, last), (at, token) in pairwise(found):
        if token != last and (apart := text.count(" ", last_at, at)) <= APART:
            pair = (token, last) if token < last else (last, token)
            if pair not in pairs:
                pairs.add(pair)
                near += min(words[token], words[last]) / apart
    return near


def count(text: str, term: Term) -> int:
    """How often a phrase, or a word that begins so, is in a text."""
    return (
        f" {text}".count(" " + " ".join(term.tokens))
        if term.is_prefix
        else f" {text} ".count(f" {' '.join(term.tokens)} ")
    )
