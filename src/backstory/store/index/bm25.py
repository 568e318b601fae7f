"""How well a text answers: BM25 over its tokens, and a little more where the words stand close together."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from backstory.store.index.tokens import Term

#: BM25's k1: how soon repeating a word adds nothing more.
K1 = 1.2
#: BM25's b: how much a long text is held back, from 0 to 1.
B = 0.75
#: Tokens of a usual text. A constant, so that scores do not change with the index.
USUAL_LENGTH = 100
#: Tokens. A shorter text counts as one of this length: three words are not a better answer for being few.
SHORTEST = 40
#: A word in a title counts as this many words in the body.
TITLE = 3
#: The share of a word's weight that is added where another word of the query is next to it.
CLOSE = 0.5
#: Tokens between two words that still count as close.
APART = 6


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
        slow = K1 * (1 - B + B * max(length, SHORTEST) / USUAL_LENGTH)
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
