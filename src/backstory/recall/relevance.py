"""Which observations a new session is told of: what is recent, what matters, and what is about the work under way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backstory import ids
from backstory.store.db import Row
from backstory.text import json_list

#: What is decided lasts longer than what was looked up.
WEIGHTS = {"decision": 1.0, "bugfix": 0.8, "feature": 0.8, "discovery": 0.6, "refactor": 0.5, "change": 0.4}
#: Half as recent counts half as much; measured from the project's newest, so that a rest ages nothing.
HALF_LIFE_DAYS = 7.0
RECENT, TOUCHED, SAME_BRANCH = 2.0, 1.5, 0.5
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class SessionStart:
    """Where a session starts."""

    branch: str | None = None
    changed: frozenset[str] = frozenset()  #: files with changes that are not committed, from the repository's root


def by_use(rows: Sequence[Row], scene: SessionStart) -> list[Row]:
    """The same observations, the most useful first."""
    newest = max((ids.stored_ms(row["created_at"]) for row in rows), default=0)
    return sorted(rows, key=lambda row: (-_use(row, scene, newest), -row["id"]))


def _use(row: Row, scene: SessionStart, newest: int) -> float:
    age = (newest - ids.stored_ms(row["created_at"])) / DAY_MS
    use = WEIGHTS.get(row["type"], 0.4) + RECENT * math.exp2(-age / HALF_LIFE_DAYS)
    if scene.changed and touches(row, scene.changed):
        use += TOUCHED
    if scene.branch and row.get("git_branch") == scene.branch:
        use += SAME_BRANCH
    return use


def touches(row: Row, changed: Iterable[str]) -> bool:
    """Whether an observation is about one of these files. Its paths may begin elsewhere: at a folder of the
    repository, or at the disk's root."""
    files = [*json_list(row["files_modified"]), *json_list(row["files_read"])]
    return any(a == b or a.endswith("/" + b) or b.endswith("/" + a) for a in files for b in changed)
