"""What happened when: counts by hour, files of observations, and how long rounds waited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from backstory.store import projects
from backstory.store.db import Tx
from backstory.text import json_list

_HOURS = {
    "sessions": "hours_of_sessions",
    "prompts": "hours_of_prompts",
    "observations": "hours_of_observations",
    "summaries": "hours_of_summaries",
}


@dataclass(frozen=True, slots=True)
class HourCount:
    """How many rows an hour has."""

    hour: str  #: in UTC: 2026-02-21T03
    count: int


@dataclass(frozen=True, slots=True)
class DayCost:
    """What models cost on a day."""

    day: str
    tokens: int
    cost_micros: int | None  #: of the calls whose price is known; None if there are none
    calls_without_price: int


@dataclass(frozen=True, slots=True)
class ObservedFiles:
    """The files of an observation."""

    project: str
    paths: frozenset[str]
    created_at: str


def rows(tx: Tx, kind: str, project: str, since: str) -> list[HourCount]:
    """Count sessions, prompts, observations or summaries of all projects or of one, by hour."""
    return [HourCount(**row) for row in tx.all(_HOURS[kind], project=project, since=since)]


def costs(tx: Tx, project: str, since: str) -> list[DayCost]:
    """Return the costs of models from a day on."""
    return [DayCost(**row) for row in tx.all("ledger_days", project=project, since=since)]


def files(tx: Tx, project: str, limit: int) -> Iterator[ObservedFiles]:
    """Yield the files of the newest observations that stand, of a project or of all. A group must be named."""
    keys = projects.keys(tx, project) if project else []
    found = [tx.all("observed_files_of_project", project_key=key, limit=limit) for key in keys]
    for row in chain(*found) if project else tx.all("observed_files", limit=limit):
        paths = frozenset((*json_list(row["files_read"]), *json_list(row["files_modified"])))
        yield ObservedFiles(row["project"], paths, row["created_at"])


def rounds(tx: Tx, limit: int, among: int) -> list[tuple[str, str]]:
    """Return when each of the last rounds ended, and when it was observed, oldest first. Only the latest events are
    read."""
    found = tx.all("observed_rounds", limit=limit, among=among)
    return [(row["created_at"], row["observed_at"]) for row in reversed(found)]
