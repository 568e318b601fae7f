"""Puts the newer of two results first if both say something about the same thing, as an amended fact does. Pure.

Only questions for the current state of something are answered so, and only results that are near each other move. A
search for words, such as the subject of a commit, and a question for events have no newest answer.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backstory.recall.fuse import LONG, Candidate
from backstory.store.index.tokens import COMMON

#: Number of top results that may change their places.
TOP = 5
#: Tokens of a statement, about a long sentence.
STATEMENT = 30
_DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
#: A question, by its first words or its last sign. `Can you …` is none.
_QUESTION = re.compile(
    r"^\W*(?:and |so |but )?(?:what|which|who|whose|where|how|do|does|did|is|are|am|has|have)\b|\?\s*$", re.IGNORECASE
)
_REQUEST = re.compile(r"\b(?:can|could|would|will) (?:you|we|i)\b|\bplease\b|\blet['\u2019]?s\b", re.IGNORECASE)
#: A question for events: how long ago, in which order, how many altogether. No event supersedes another.
_EVENTS = re.compile(
    r"\bhow (?:many|much) (?:more |total )?(?:seconds|minutes|hours|days|weeks|months|years|time)\b"
    r"(?! (?:a|per|each|do)\b)|"
    r"\bhow (?:long|old) (?:did|was|were|had|will)\b|\bwhen (?:did|was|were)\b|\bwhich\b.*\bfirst\b|"
    r"\b(?:ago|passed|elapsed|order|total|combined|altogether|average|different|compared|earliest|latest|between)\b|"
    rf"\b(?:date|day) on which\b|\blast (?:week|month|year|{_DAYS})\b",
    re.IGNORECASE,
)
_ASKS_FOR_WORD = re.compile(r"\b(?:what|which|who|whose|where|when|why|how)\b", re.IGNORECASE)
#: `How long have I had it?` is no past tense.
_PAST = re.compile(r"\b(?:did|was|were)\b|^(?!.*\b(?:have|has)\b).*\bhad\b", re.IGNORECASE | re.DOTALL)
#: Tokens that say that something changed.
_CHANGED = re.compile(
    r"now|instead|chang|renam|replac|mov|switch|longer|anymor|rais|lower|increas|decreas|updat|stop|gave|new|actual|"
    r"sinc|migrat|drop|remov|gone|bump|upgrad|revert|correct"
)


def asks_for_state(query: str) -> bool:
    """Whether a query asks how something is, so that the newest answer counts."""
    if len(query) > LONG or not _QUESTION.search(query):
        return False
    # `What did …` asks for an event. `Did I finish it?` asks for a state.
    is_past = bool(_ASKS_FOR_WORD.search(query) and _PAST.search(query))
    return not (is_past or _REQUEST.search(query) or _EVENTS.search(query))


@dataclass(frozen=True, slots=True)
class Rule:
    """When two results are about the same thing."""

    near: float  #: minimum score of the newer one, as a share of the older one's
    near_if_changed: float  #: the same if the newer one says that something changed
    about: float  #: share of the query, by rarity, that both must have in common
    alike: float  #: minimum cosine similarity of their words
    same_text: float  #: a similarity that is enough, whatever they have of the query


#: A turn or an observation is a statement itself.
STATEMENTS = Rule(near=0.7, near_if_changed=0.6, about=0.3, alike=0.2, same_text=math.inf)
#: A session says more than its best item, by which it is compared.
SESSIONS = Rule(near=0.65, near_if_changed=0.5, about=0.3, alike=0.16, same_text=0.4)


@dataclass(frozen=True, slots=True)
class SaidAbout:
    """What a result says."""

    about: frozenset[str]  #: words of the query in the statement that has most of them
    is_change: bool  #: the statement says that something changed
    words: frozenset[str]  #: all words, without the commonest


def said_in(tokens: Sequence[str], weights: Mapping[str, float]) -> SaidAbout:
    """Return what a text says about a query. `weights` maps the tokens of the query to their rarity."""
    inside: Counter[str] = Counter()
    best, end, weight = 0.0, 0, 0.0
    for at, token in enumerate(tokens):
        if token in weights:
            weight += 0.0 if inside[token] else weights[token]
            inside[token] += 1
        if at >= STATEMENT and (gone := tokens[at - STATEMENT]) in weights:
            inside[gone] -= 1
            weight -= 0.0 if inside[gone] else weights[gone]
        if weight > best:
            best, end = weight, at + 1
    statement = tokens[max(0, end - STATEMENT) : end]
    is_change = any(map(_CHANGED.fullmatch, tokens[max(0, end - STATEMENT) : end + STATEMENT // 2]))
    return SaidAbout(frozenset(weights.keys() & set(statement)), is_change, frozenset(tokens) - COMMON)


def newest_first(
    best: Sequence[Candidate], tokens: Mapping[tuple[str, int], Sequence[str]], weights: Mapping[str, float]
) -> list[Candidate]:
    """Move a newer result before an older one about the same thing. Turns of one session stay in their order. `tokens`
    maps the key of a result to the tokens of its text."""
    head, reordered = best[:TOP], list[Candidate]()
    said = {(item.kind, item.id): said_in(tokens.get(item.best or (item.kind, item.id), ()), weights) for item in head}
    for item in head:
        own, rule = said[item.kind, item.id], SESSIONS if item.kind == "session" else STATEMENTS
        near = rule.near_if_changed if own.is_change else rule.near
        positions = (
            position
            for position, other in enumerate(reordered)
            if item.at > other.at
            and (item.session_id != other.session_id or item.kind == "observation")
            and item.score >= near * other.score
            and _is_same(own, said[other.kind, other.id], weights, rule)
        )
        reordered.insert(next(positions, len(reordered)), item)
    return [*reordered, *best[len(head) :]]


def _is_same(new: SaidAbout, old: SaidAbout, weights: Mapping[str, float], rule: Rule) -> bool:
    """Whether two texts are about the same thing: the newer one has every word of the query that the older one has."""
    alike = len(new.words & old.words) / math.sqrt(max(1, len(new.words)) * max(1, len(old.words)))
    is_about = sum(weights[token] for token in old.about) >= rule.about * sum(weights.values())
    return alike >= rule.same_text or (old.about <= new.about and is_about and alike >= rule.alike)
