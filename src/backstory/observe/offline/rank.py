"""Ranks statements by how much a later session needs to know them: a linear model over cues, structure and place.

The weights were fitted on recorded sessions by a logistic regression. `bench/fit_ranking.py` fits them anew, and prints
figures for sessions that were left out of the fit.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import resources

from backstory.observe.offline.cues import CUES, HEADINGS
from backstory.observe.offline.statements import STATEMENTS_REMEMBERED, Statement

_CODE = re.compile(r"`[^`]+`")
_NAME = re.compile(r"\b(?:[a-z]+[A-Z]\w+|[A-Z][a-z]+[A-Z]\w+|\w+_\w+|\w+\(\))")
_PATH = re.compile(r"[\w-]+\.(?:go|py|ts|tsx|js|rs|md|ya?ml|json|toml|sh|java|rb|c|h|cpp|sql|css|html)\b|\w+/\w+")
_NUMBER = re.compile(r"\b\d+\b")
#: Lengths that make a difference, in characters.
_LENGTHS = (30, 45, 60, 80, 110, 150, 200, 280, 400)
#: Features that count together.
_PAIRS = (
    ("prompt", "wish"),
    ("prompt", "limit"),
    ("prompt", "heading"),
    ("last", "open"),
    ("last", "done"),
    ("last", "question"),
    ("between", "cause"),
    ("between", "limit"),
    ("decision", "cause"),
    ("decision", "limit"),
)


def score_all(statements: Sequence[Statement]) -> list[float]:
    """Return the score of each statement of a session: higher is better, and 0 is about as likely as not."""
    weights = _weights()
    rounds = sorted({statement.round for statement in statements})
    place = {number: at for at, number in enumerate(rounds)}
    return [
        own_score(one)
        + sum(weights.get(name, 0.0) * value for name, value in _placed(one, place[one.round], len(rounds)))
        for one in statements
    ]


@lru_cache(STATEMENTS_REMEMBERED)
def own_score(statement: Statement) -> float:
    """Return the score of a statement wherever it stands in its session."""
    weights = _weights()
    return math.fsum([weights[""], *(weights.get(name, 0.0) for name in _own_features(statement))])


@cache
def _weights() -> dict[str, float]:
    text = resources.files("backstory.observe.offline").joinpath("weights.json").read_text(encoding="utf-8")
    weights: dict[str, float] = json.loads(text)
    return weights


def width(text: str) -> int:
    """Return the length of a text as if it were English: scripts without spaces say three times as much."""
    return len(text) if text.isascii() else len(text) + 2 * sum(letter > "⺀" for letter in text)


def features(statement: Statement, place: int, rounds: int) -> list[tuple[str, float]]:
    """Return what is true of a statement in the round at this place, of so many; the rest is 0."""
    return [*((name, 1.0) for name in _own_features(statement)), *_placed(statement, place, rounds)]


def _placed(statement: Statement, place: int, rounds: int) -> list[tuple[str, float]]:
    """Return what the place of a statement in its session adds."""
    is_final = place == rounds - 1
    placed = {
        "final round": is_final,
        "final message": is_final and statement.source == "last",
        "long session": rounds > 6,
        "first prompt": place == 0 and statement.source == "prompt",
    }
    return [*((name, 1.0) for name, fact in placed.items() if fact), ("how late", place / max(1, rounds - 1))]


def _own_features(statement: Statement) -> set[str]:
    """Return what is true of a statement wherever it stands in its session."""
    text, length = statement.text, width(statement.text)
    over = f"{statement.heading} {statement.label}"
    codes, names = len(_CODE.findall(text)), len(set(_NAME.findall(text)))
    facts = {
        **{f"longer than {limit}": length > limit for limit in _LENGTHS},
        **{name: cue.search(text) for name, cue in CUES.items()},
        **{name: cue.search(over) for name, cue in HEADINGS.items()},
        statement.source: True,
        "label": statement.label,
        "heading": statement.heading,
        "item": statement.is_item,
        "code": codes,
        "much code": codes > 2,
        "name": names,
        "many names": names > 2,
        "path": _PATH.search(text),
        "number": _NUMBER.search(text),
        "colon": text.endswith((":", "：")),
        "question": text.endswith(("?", "？")),
        "exclamation": text.endswith("!"),
        "lower case": text[:1].islower(),
        "first": statement.position == 0,
        "second": statement.position == 1,
        "after 8": statement.position > 8,
        "after 20": statement.position > 20,
        "long message": statement.count > 10,
    }
    held = {name for name, fact in facts.items() if fact}
    return held | {f"{one} and {other}" for one, other in _PAIRS if one in held and other in held}
