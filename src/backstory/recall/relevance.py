"""Ranks observations for a new session: by importance, by age, and by the branch and the files it works on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from backstory.store.memories import StoredObservation

#: How much likelier a decision, or what was done for a reason, is needed than its importance says. It holds until
#: something replaces it.
DECISION_ODDS = 6.0
#: The same for a cause, a reason or a constraint of an older session, and for a change, which the code shows.
GOTCHA_ODDS = 1.5
CHANGE_ODDS = 0.8
#: How fast importance fades with the number of newer sessions: 1 / (1 + newer sessions) ** AGE_POWER.
AGE_POWER = 0.6
#: How much less the further observations of one session count, so that all sessions have their say.
PLACE_POWER = 0.5
#: How much less a long line counts, per character.
LENGTH_POWER = 0.3
#: Factor for an observation about a file with uncommitted changes.
CHANGED_FILE_FACTOR = 6.0
#: Factor for an observation from the current branch.
SAME_BRANCH_FACTOR = 1.3
#: Factor for each further session that learned the same, and how many of them count.
REPEATED_FACTOR = 1.3
MAX_REPEATED = 3


@dataclass(frozen=True, slots=True)
class SessionStart:
    """The state of the repository when a session starts."""

    branch: str | None = None
    changed: frozenset[str] | None = None  #: files with uncommitted changes, from the repository's root, if known

    @property
    def is_clean(self) -> bool:
        """Whether nothing is uncommitted."""
        return self.branch is not None and self.changed is not None and not self.changed


@dataclass(frozen=True, slots=True)
class Ranked:
    """An observation with its worth for a session that starts."""

    observation: StoredObservation
    worth: float
    reasons: tuple[str, ...]


def by_worth(observations: Iterable[StoredObservation], ages: Mapping[int, int], start: SessionStart) -> list[Ranked]:
    """The observations, the most useful first. `ages` says how many sessions are newer than that of an observation."""
    by_session: dict[int, list[StoredObservation]] = {}
    for one in sorted(observations, key=lambda one: (-_weight(one, ages.get(one.session_id, len(ages))), -one.id)):
        by_session.setdefault(one.session_id, []).append(one)
    ranked = [
        _ranked(one, place, ages.get(number, len(ages)), start)
        for number, ours in by_session.items()
        for place, one in enumerate(ours, 1)
    ]
    return sorted(ranked, key=lambda one: (-one.worth, -one.observation.id))


def _weight(observation: StoredObservation, age: int) -> float:
    """How likely the observation is needed by what it says. What changed in the latest session is of interest still."""
    likely = min(observation.importance, 100) / 100
    odds = _odds(observation) if age or "why-it-exists" in observation.concepts else 1.0
    return likely * odds / (1 - likely + likely * odds)


def _odds(observation: StoredObservation) -> float:
    if observation.type == "decision" or "why-it-exists" in observation.concepts:
        return DECISION_ODDS
    if not {"gotcha", "problem-solution", "why-it-exists"}.isdisjoint(observation.concepts):
        return GOTCHA_ODDS
    return CHANGE_ODDS if "what-changed" in observation.concepts else 1.0


def _ranked(observation: StoredObservation, place: int, age: int, start: SessionStart) -> Ranked:
    reasons = list(_reasons(observation, start))
    worth = _weight(observation, age) * place**-PLACE_POWER * (1 + age) ** -AGE_POWER
    worth *= max(len(observation.title), 20) ** -LENGTH_POWER
    for factor, _ in reasons:
        worth *= factor
    known = f"importance {observation.importance} %", _age_in_words(age)
    return Ranked(observation, worth, (*known, *(reason for _, reason in reasons)))


def _reasons(observation: StoredObservation, start: SessionStart) -> Iterator[tuple[float, str]]:
    """What makes an observation more useful here: a factor and the reason."""
    if observation.type == "decision":
        yield 1.0, "a decision"
    if start.changed and touches(observation, start.changed):
        yield CHANGED_FILE_FACTOR, "about a file with uncommitted changes"
    if start.branch and observation.git_branch == start.branch:
        yield SAME_BRANCH_FACTOR, "from this branch"
    if observation.times_learned > 1:
        further = min(observation.times_learned - 1, MAX_REPEATED)
        yield REPEATED_FACTOR**further, f"learned in {observation.times_learned} sessions"


def _age_in_words(age: int) -> str:
    return "of the latest session" if age == 0 else f"{age} session{'s' if age > 1 else ''} before the latest"


def touches(observation: StoredObservation, changed: Iterable[str]) -> bool:
    """Whether an observation is about one of these files. Its paths may be absolute, or relative to a folder of the
    repository."""
    files: Sequence[str] = (*observation.files_modified, *observation.files_read)
    return any(a == b or a.endswith("/" + b) or b.endswith("/" + a) for a in files for b in changed)
