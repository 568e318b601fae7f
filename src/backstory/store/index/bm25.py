"""Scores texts by BM25, with a bonus for words that are close together."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

from backstory.store.index.tokens import Term

#: BM25's k1: how soon further occurrences of a word stop counting.
K1 = 1.2
#: BM25's b: how much the length of a text lowers its score, from 0 to 1.
B = 0.75
#: Tokens of an average text. A constant, so that scores do not change with the index.
AVERAGE_LENGTH = 100
#: Tokens. A shorter text counts as one of this length, because brevity alone does not make it better.
MIN_LENGTH = 40
#: Occurrences in the body that one in the title counts for.
TITLE = 3
#: Share of a word's weight that is added if another word of the query is next to it.
CLOSE = 0.5
#: Tokens between two words that count as close, at most.
MAX_DISTANCE = 6


def weight(total: int, having: int) -> float:
    """Return the weight of a word that `having` of `total` texts have: the rarer, the greater."""
    having = min(having, total)
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


def scorer(
    weights: Mapping[Term, float], shares: Mapping[Term, float] | None = None
) -> Callable[[str, str], tuple[float, float]]:
    """Return a function that scores a title and a body by terms of these weights. It also returns the sum of the
    `shares` of those terms that the text has."""
    share_of = {term.tokens: each for term, each in (shares or weights).items()}
    words = {term.tokens[0]: each for term, each in weights.items() if len(term.tokens) == 1 and not term.is_prefix}
    others = [(term, each) for term, each in weights.items() if len(term.tokens) > 1 or term.is_prefix]
    # The expression skips tokens that are not searched. Splitting the text would take three times as long.
    places = re.compile(f" ({'|'.join(map(re.escape, words)) or '(?!)'})(?= )").finditer

    def score(title: str, body: str) -> tuple[float, float]:
        first, rest = f" {title} ", f" {body} "
        length = first.count(" ") - (1 if title else 2) + rest.count(" ") - (1 if body else 2)
        length_factor = K1 * (1 - B + B * max(length, MIN_LENGTH) / AVERAGE_LENGTH)
        in_title = [(place.start(), place[1]) for place in places(first)]
        in_body = [(place.start(), place[1]) for place in places(rest)]
        counts: dict[str, int] = {}
        for _, token in in_title:
            counts[token] = counts.get(token, 0) + TITLE
        for _, token in in_body:
            counts[token] = counts.get(token, 0) + 1
        total = sum(words[token] * count * (K1 + 1) / (count + length_factor) for token, count in counts.items())
        had = sum(share_of[token,] for token in counts)
        for term, each in others:
            if occurrences := TITLE * count(title, term) + count(body, term):
                total += each * occurrences * (K1 + 1) / (occurrences + length_factor)
                had += share_of[term.tokens]
        if len(counts) > 1:
            total += CLOSE * (_closeness(first, in_title, words) + _closeness(rest, in_body, words))
        return total, had

    return score


def estimate(words: Sequence[tuple[str, float]], title: Collection[str], length: int) -> float:
    """Estimate the score of a text of some length that has each word, perhaps in its title."""
    length_factor = K1 * (1 - B + B * max(length, MIN_LENGTH) / AVERAGE_LENGTH)
    total = 0.0
    for word, each in words:
        count = TITLE if word in title else 1
        total += each * count * (K1 + 1) / (count + length_factor)
    return total


def _closeness(text: str, places: Sequence[tuple[int, str]], words: Mapping[str, float]) -> float:
    """Return a bonus for each pair of words that are close together. A pair counts once."""
    bonus = 0.0
    pairs: set[tuple[str, str]] = set()
    for (last_at, last), (at, token) in pairwise(places):
        if token != last and (distance := text.count(" ", last_at, at)) <= MAX_DISTANCE:
            pair = (token, last) if token < last else (last, token)
            if pair not in pairs:
                pairs.add(pair)
                bonus += min(words[token], words[last]) / distance
    return bonus


def count(text: str, term: Term) -> int:
    """Return how often a text contains a phrase or a prefix."""
    phrase = " ".join(term.tokens)
    return f" {text}".count(f" {phrase}") if term.is_prefix else f" {text} ".count(f" {phrase} ")
