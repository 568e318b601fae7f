"""Reads observations and summaries, as typed records or as rows for the API. `observations` writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from backstory.store import observations
from backstory.store.db import LAST, Row, Tx
from backstory.text import json_list


@dataclass(frozen=True, slots=True)
class ObservationEntry:
    """An observation as a line of a context. It has few fields, because every session start reads many."""

    id: int
    type: str
    title: str
    files_read: Sequence[str]
    files_modified: Sequence[str]
    created_at: str
    git_branch: str | None = field(default=None, kw_only=True)  #: of its session; only `recent_observations` reads it


@dataclass(frozen=True, slots=True)
class StoredObservation(ObservationEntry):
    """An observation with all its texts."""

    agent: str
    project: str
    subtitle: str
    narrative: str
    facts: Sequence[str]
    pinned_at: str | None
    superseded_by: int | None


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A stored summary."""

    id: int
    agent: str
    project: str
    source: str  #: "stop", or "compact" for a summary by the agent itself
    request: str
    investigated: str
    learned: str
    completed: str
    next_steps: str
    notes: str
    created_at: str
    git_branch: str | None = None  #: of its session; only `recent_summaries` reads it


@dataclass(frozen=True, slots=True)
class ObservedFile:
    """A file that an observation is about, with its digest at that time."""

    observation_id: int
    cwd: str
    path: str  #: relative to the working directory
    digest: str


_LISTS = ("facts", "files_read", "files_modified")
_OBSERVATION = tuple(each.name for each in fields(StoredObservation) if each.name != "git_branch")
_SUMMARY = tuple(each.name for each in fields(StoredSummary) if each.name != "git_branch")


def observation(tx: Tx, number: int) -> StoredObservation | None:
    row = observations.by_id(tx, number)
    return _observation(row) if row else None


def newest_observations(tx: Tx, limit: int) -> list[StoredObservation]:
    """Return the newest observations of all projects."""
    rows = tx.all("observations_list", project="", type="", session_id=0, before=LAST, limit=limit)
    return [_observation(row) for row in rows]


def recent_observations(tx: Tx, project_key: str, limit: int) -> list[ObservationEntry]:
    """Return the newest observations of a project, without superseded ones."""
    return [_entry(row) for row in tx.all("observations_recent", project_key=project_key, limit=limit)]


def pinned_observations(tx: Tx, project_key: str, limit: int) -> list[StoredObservation]:
    """Return the pinned observations of a project, the latest pin first."""
    return [_observation(row) for row in tx.all("observations_pinned", project_key=project_key, limit=limit)]


def observations_of_session(tx: Tx, session_id: int, limit: int) -> list[ObservationEntry]:
    """Return the newest observations of a session, without superseded ones."""
    return [_entry(row) for row in tx.all("observations_of_session", session_id=session_id, limit=limit)]


def newest_summaries(tx: Tx, limit: int) -> list[StoredSummary]:
    """Return the newest summaries of all projects."""
    rows = tx.all("summaries_list", project="", session_id=0, before=LAST, limit=limit)
    return [_summary(row) for row in rows]


def recent_summaries(tx: Tx, project_key: str, limit: int) -> list[StoredSummary]:
    """Return the newest summaries of a project."""
    return [_summary(row) for row in tx.all("summaries_recent", project_key=project_key, limit=limit)]


def summaries_of_session(tx: Tx, session_id: int, limit: int) -> list[StoredSummary]:
    """Return the newest summaries of a session."""
    return [_summary(row) for row in tx.all("summaries_of_session", session_id=session_id, limit=limit)]


def observed_files(tx: Tx, observation_ids: Sequence[int]) -> list[ObservedFile]:
    """Return the files of some observations."""
    rows = tx.all("observation_file_digests", ids=json.dumps(observation_ids)) if observation_ids else []
    return [ObservedFile(row["observation_id"], row["cwd"], row["path"], row["mark"]) for row in rows]


def shown_observation(tx: Tx, number: int) -> Row:
    """Return an observation as the API shows it, with the ids of its events."""
    events = tx.all("observation_event_ids", id=number)
    return observations.decode(observations.get(tx, number)) | {"event_ids": [row["event_id"] for row in events]}


def shown_summary(tx: Tx, number: int) -> Row | None:
    """Return a summary as the API shows it."""
    return tx.one("summary_by_id", id=number)


def listed_observations(
    tx: Tx, project: str, before: int, limit: int, *, type: str = "", session_id: int = 0
) -> list[Row]:
    """Return observations with a smaller id than `before` as the API shows them, newest first."""
    values: dict[str, Any] = {"project": project, "type": type, "session_id": session_id}
    return [observations.decode(row) for row in tx.all("observations_list", before=before, limit=limit, **values)]


def listed_summaries(tx: Tx, project: str, before: int, limit: int, *, session_id: int = 0) -> list[Row]:
    """Return summaries with a smaller id than `before` as the API shows them, newest first."""
    return tx.all("summaries_list", project=project, session_id=session_id, before=before, limit=limit)


def _entry(row: Row) -> ObservationEntry:
    return ObservationEntry(
        row["id"],
        row["type"],
        row["title"],
        json_list(row["files_read"]),
        json_list(row["files_modified"]),
        row["created_at"],
        git_branch=row.get("git_branch"),
    )


def _observation(row: Row) -> StoredObservation:
    values = {name: row[name] for name in _OBSERVATION}
    values |= {name: json_list(row[name]) for name in _LISTS}
    return StoredObservation(**values)


def _summary(row: Row) -> StoredSummary:
    return StoredSummary(**{name: row[name] for name in _SUMMARY}, git_branch=row.get("git_branch"))
