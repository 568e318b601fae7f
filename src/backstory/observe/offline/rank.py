"""Ranks statements by how much a later session needs to know them: a linear model over cues, structure and place.

The weights were fitted on recorded sessions by a logistic regression. `bench/fit_ranking.py` fits them anew, and prints
figures for sessions that were left out of the fit.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


def score_all(statements: Sequence[Statement], changed: frozenset[int] = frozenset()) -> list[float]:
    """Return the score of each statement of a session: higher is better, and 0 is about as likely as not. `changed` are
    the rounds in which files were changed."""
    weights = _weights()
    rounds = SessionRounds.of(statements, changed)
    placed: dict[tuple[str, int], float] = {}
    for source, number in {(one.source, one.round) for one in statements}:
        pairs = rounds.features(source, number)
        placed[source, number] = math.fsum(weights.get(name, 0.0) * value for name, value in pairs)
    return [own_score(one) + placed[one.source, one.round] for one in statements]


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


@dataclass(frozen=True, slots=True)
class SessionRounds:
    """The rounds of a session, in their order, and those in which files were changed."""

    numbers: Sequence[int]
    changed: frozenset[int]

    @classmethod
    def of(cls, statements: Iterable[Statement], changed: frozenset[int]) -> SessionRounds:
        return cls(sorted({one.round for one in statements}), changed)

    def features(self, source: str, number: int) -> list[tuple[str, float]]:
        """Return what the place of a statement in its session adds. What is said in a round that changed files tells
        what was done; what is said before later changes may be overtaken by them."""
        place, final = self.numbers.index(number), len(self.numbers) - 1
        changes, changes_later = number in self.changed, any(one > number for one in self.changed)
        facts = {
            "final round": place == final,
            "final message": place == final and source == "last",
            "long session": final > 5,
            "first prompt": place == 0 and source == "prompt",
            f"{source}: changes files": changes,
            f"{source}: files change later": changes_later,
            f"{source}: files change next": number + 1 in self.changed,
            f"{source}: only talks before changes": changes_later and not changes,
            f"{source}: no files change": not self.changed,
        }
        return [*((name, 1.0) for name, fact in facts.items() if fact), ("how late", place / max(1, final))]


def features(statement: Statement, rounds: SessionRounds) -> list[tuple[str, float]]:
    """Return what is true of a statement; the rest is 0."""
    own = ((name, 1.0) for name in _own_features(statement))
    return [*own, *rounds.features(statement.source, statement.round)]


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
