"""Ranks observations for a new session by age, by type and by the files and the branch it works on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backstory import ids
from backstory.store.memories import ObservationEntry

#: Score of an observation by its type. Decisions matter longer than discoveries.
TYPE_SCORES = {"decision": 1.0, "bugfix": 0.8, "feature": 0.8, "discovery": 0.6, "refactor": 0.5, "change": 0.4}
#: Added for the newest observation of the project. It halves with age.
RECENT_SCORE = 2.0
#: The age in days at which that score is halved. It counts from the newest observation, so that a break ages nothing.
HALF_LIFE_DAYS = 7.0
#: Added for an observation about a file with uncommitted changes.
CHANGED_FILE_SCORE = 1.5
#: Added for an observation from the current branch.
SAME_BRANCH_SCORE = 0.5
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class SessionStart:
    """The state of the repository when a session starts."""

    branch: str | None = None
    changed: frozenset[str] = frozenset()  #: files with uncommitted changes, relative to the repository's root


def by_usefulness(observations: Sequence[ObservationEntry], start: SessionStart) -> list[ObservationEntry]:
    """The observations sorted by score, the highest first."""
    newest = max((ids.stored_ms(one.created_at) for one in observations), default=0)
    return sorted(observations, key=lambda one: (-_score(one, start, newest), -one.id))


def _score(observation: ObservationEntry, start: SessionStart, newest: int) -> float:
    age = (newest - ids.stored_ms(observation.created_at)) / DAY_MS
    score = TYPE_SCORES.get(observation.type, 0.4) + RECENT_SCORE * math.exp2(-age / HALF_LIFE_DAYS)
    if start.changed and touches(observation, start.changed):
        score += CHANGED_FILE_SCORE
    if start.branch and observation.git_branch == start.branch:
        score += SAME_BRANCH_SCORE
    return score


def touches(observation: ObservationEntry, changed: Iterable[str]) -> bool:
    """Whether an observation is about one of these files. Its paths may be absolute, or relative to a folder of the
    repository."""
    files = (*observation.files_modified, *observation.files_read)
    return any(a == b or a.endswith("/" + b) or b.endswith("/" + a) for a in files for b in changed)
