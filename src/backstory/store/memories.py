"""Reads observations and summaries, as typed records or as rows for the API. `observations` writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from backstory.model import ClaimMark, Session, with_marks
from backstory.store import marked, observations, sessions
from backstory.store.db import Row, Tx
from backstory.text import json_list


@dataclass(frozen=True, slots=True)
class StoredObservation:
    """A stored observation."""

    id: int
    session_id: int
    agent: str
    project: str
    type: str
    title: str
    subtitle: str
    narrative: str
    facts: Sequence[str]
    concepts: Sequence[str]
    files_read: Sequence[str]
    files_modified: Sequence[str]
    created_at: str
    pinned_at: str | None
    superseded_by: int | None
    importance: int  #: how likely a later session needs it, in percent
    times_learned: int  #: in how many sessions
    git_branch: str | None = None  #: of its session; only lists of a project have it
    mark: ClaimMark = ClaimMark.NONE  #: of the title
    fact_marks: Sequence[ClaimMark] = ()  #: of each fact; empty if none has one

    @property
    def marked_facts(self) -> Sequence[tuple[ClaimMark, str]]:
        return with_marks(self.facts, self.fact_marks)


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


@dataclass(frozen=True, slots=True)
class ObservedFile:
    """A file that an observation is about, with its digest at that time."""

    observation_id: int
    cwd: str
    root: str  #: the top directory of the working tree; empty if it is not known
    path: str  #: relative to the root; if it is older than that, to the working directory
    digest: str


_LISTS = ("facts", "concepts", "files_read", "files_modified")
_OBSERVATION = tuple(each.name for each in fields(StoredObservation) if each.name != "git_branch")
_SUMMARY = tuple(each.name for each in fields(StoredSummary))


def observation(tx: Tx, number: int) -> StoredObservation | None:
    row = observations.by_id(tx, number)
    return _observation(row) if row else None


def project_observations(tx: Tx, project_key: str, recent: int, important: int) -> list[StoredObservation]:
    """Return the newest observations of a project and the most important of any age, without superseded ones."""
    rows = [
        *tx.all("observations_recent", project_key=project_key, limit=recent),
        *tx.all("observations_important", project_key=project_key, limit=important),
    ]
    return [_observation(row) for row in {row["id"]: row for row in rows}.values()]


def pinned_observations(tx: Tx, project_key: str, limit: int) -> list[StoredObservation]:
    """Return the pinned observations of a project, the latest pin first."""
    return [_observation(row) for row in tx.all("observations_pinned", project_key=project_key, limit=limit)]


@dataclass(frozen=True, slots=True)
class SessionNotes:
    """What is remembered of a session."""

    session: Session
    prompts: Sequence[str]  #: what was asked, in its order, without private prompts
    observations: Sequence[StoredObservation]  #: those that stand, oldest first
    summary: StoredSummary | None  #: of its last round
    hidden: Sequence[str] = ()  #: titles of its observations that are hidden


def session_ages(tx: Tx, project_key: str, limit: int) -> dict[int, int]:
    """Return how many sessions of a project are newer than each of its latest ones."""
    rows = tx.all("sessions_by_age", project_key=project_key, limit=limit)
    return {row["id"]: age for age, row in enumerate(rows)}


def stopped_at(tx: Tx, session_id: int) -> str | None:
    """Return when something was last said in a session."""
    row = tx.one("session_stopped_at", session_id=session_id)
    return row["at"] if row else None


def recent_sessions(tx: Tx, project_key: str, limit: int, branch: str = "") -> list[SessionNotes]:
    """Return the sessions of a project, or of one of its branches, that left something, the latest first."""
    rows = tx.all("sessions_with_notes", project_key=project_key, branch=branch, limit=limit)
    return [notes_of(tx, sessions.from_row(row)) for row in rows]


def notes_of(tx: Tx, session: Session) -> SessionNotes:
    """Return what is remembered of a session."""
    rows = tx.all("observations_standing", session_id=session.id)
    observed = [_observation(row) for row in rows if not row["hidden_at"]]
    asked = [row["prompt"] for row in tx.all("prompts_of_session", session_id=session.id) if row["prompt"]]
    summaries = summaries_of_session(tx, session.id, limit=1)
    hidden = [row["title"] for row in rows if row["hidden_at"]]
    return SessionNotes(session, asked, observed, summaries[0] if summaries else None, hidden)


def summaries_of_session(tx: Tx, session_id: int, limit: int) -> list[StoredSummary]:
    """Return the newest summaries of a session."""
    return [_summary(row) for row in tx.all("summaries_of_session", session_id=session_id, limit=limit)]


def left_open(tx: Tx, session_id: int, prompt_number: int) -> str:
    """Return what the last summary of a session before a round names as open."""
    rows = tx.all("summaries_of_whole_session", session_id=session_id)
    before = [row for row in rows if row["prompt_number"] < prompt_number and row["source"] == "stop"]
    return max(before, key=lambda row: row["prompt_number"])["next_steps"] or "" if before else ""


def observed_files(tx: Tx, observation_ids: Sequence[int]) -> list[ObservedFile]:
    """Return the files of some observations."""
    rows = tx.all("observation_file_digests", ids=json.dumps(observation_ids)) if observation_ids else []
    return [ObservedFile(row["observation_id"], row["cwd"], row["root"], row["path"], row["mark"]) for row in rows]


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


def standing_observations(tx: Tx, session_id: int) -> list[Row]:
    """Return the observations of a session that stand as the API shows them, newest first."""
    return [observations.decode(row) for row in reversed(tx.all("observations_standing", session_id=session_id))]


def listed_summaries(tx: Tx, project: str, before: int, limit: int, *, session_id: int = 0) -> list[Row]:
    """Return summaries with a smaller id than `before` as the API shows them, newest first."""
    return tx.all("summaries_list", project=project, session_id=session_id, before=before, limit=limit)


def _observation(row: Row) -> StoredObservation:
    values = {name: row[name] for name in _OBSERVATION}
    values |= {name: json_list(row[name]) for name in _LISTS}
    values |= {"mark": ClaimMark(row["mark"]), "fact_marks": marked.fact_marks(row)}
    return StoredObservation(**values, git_branch=row.get("git_branch"))


def _summary(row: Row) -> StoredSummary:
    return StoredSummary(**{name: row[name] for name in _SUMMARY})
