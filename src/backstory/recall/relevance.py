"""Which observations a new session is told of: what is recent, what matters, and what is about the work under way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backstory import ids
from backstory.store.memories import ObservationEntry

#: What an observation is worth by its type. A decision matters longer than what was looked up.
WEIGHTS = {"decision": 1.0, "bugfix": 0.8, "feature": 0.8, "discovery": 0.6, "refactor": 0.5, "change": 0.4}
#: What the project's newest observation is worth in addition.
RECENT = 2.0
#: Days after which this is half as much. They count from the newest observation, so that a break ages nothing.
HALF_LIFE_DAYS = 7.0
#: What an observation about a file with uncommitted changes is worth in addition.
TOUCHED = 1.5
#: What an observation of the current branch is worth in addition.
SAME_BRANCH = 0.5
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class SessionStart:
    """Where a session starts."""

    branch: str | None = None
    changed: frozenset[str] = frozenset()  #: files with changes that are not committed, from the repository's root


def by_use(observations: Sequence[ObservationEntry], scene: SessionStart) -> list[ObservationEntry]:
    """The same observations, the most useful first."""
    newest = max((ids.stored_ms(one.created_at) for one in observations), default=0)
    return sorted(observations, key=lambda one: (-_use(one, scene, newest), -one.id))


def _use(observation: ObservationEntry, scene: SessionStart, newest: int) -> float:
    age = (newest - ids.stored_ms(observation.created_at)) / DAY_MS
    use = WEIGHTS.get(observation.type, 0.4) + RECENT * math.exp2(-age / HALF_LIFE_DAYS)
    if scene.changed and touches(observation, scene.changed):
        use += TOUCHED
    if scene.branch and observation.git_branch == scene.branch:
        use += SAME_BRANCH
    return use


def touches(observation: ObservationEntry, changed: Iterable[str]) -> bool:
    """Whether an observation is about one of these files. Its paths may begin elsewhere: at a folder of the
    repository, or at the disk's root."""
    files = (*observation.files_modified, *observation.files_read)
    return any(a == b or a.endswith("/" + b) or b.endswith("/" + a) for a in files for b in changed)
