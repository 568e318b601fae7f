"""What sessions were told: when, how many tokens, and which observations. Their text is not kept."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field

from backstory import ids
from backstory.store import sessions
from backstory.store.db import Row, Tx


@dataclass(frozen=True, slots=True)
class DeliveredContext:
    """A context that an agent was given for a session."""

    session_id: int
    cause: str  #: how the session started, or `prompt`
    tokens: int  #: estimated
    observation_ids: tuple[int, ...]


@dataclass(slots=True)
class ToldObservation:
    """An observation that a session was told, as it is called now."""

    id: int
    type: str
    mark: str  #: of its title
    title: str


@dataclass(slots=True)
class ToldContext:
    """What a session was told at a moment. What is hidden or forgotten since is only counted."""

    cause: str
    at: str
    tokens: int
    gone: int  #: observations that are hidden or forgotten since
    observations: list[ToldObservation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ToldHour:
    """How much all sessions were told in an hour."""

    hour: str  #: in UTC: 2026-02-21T03
    contexts: int
    tokens: int


def add(tx: Tx, delivered: DeliveredContext) -> None:
    """Store what a session was told. Nothing is stored of one that was forgotten in the meantime."""
    session = sessions.by_id(tx, delivered.session_id)
    if session is None or session.forgotten_at:
        return
    numbers = list(dict.fromkeys(delivered.observation_ids))
    about = {"session_id": session.id, "cause": delivered.cause, "at": ids.now(), "tokens": delivered.tokens}
    if row := tx.one("context_add", **about, observations=len(numbers)):
        for number in numbers:
            tx.run("context_observation_add", context_id=row["id"], observation_id=number)


def of_session(tx: Tx, session_id: int) -> list[Row]:
    """Return what a session was told, oldest first."""
    told: dict[int, list[ToldObservation]] = defaultdict(list)
    for row in tx.all("context_observations_of_session", session_id=session_id):
        told[row["context_id"]].append(ToldObservation(row["id"], row["type"], row["mark"], row["title"]))
    found = []
    for row in tx.all("contexts_of_session", session_id=session_id):
        known = told[row["id"]]
        found.append(ToldContext(row["cause"], row["at"], row["tokens"], row["observations"] - len(known), known))
    return [asdict(one) for one in found]


def by_hour(tx: Tx, project: str, since: str) -> list[ToldHour]:
    """Return how much the sessions of all projects or of one were told in each hour."""
    return [ToldHour(**row) for row in tx.all("hours_of_contexts", project=project, since=since)]


def forget(tx: Tx, session_id: int) -> None:
    tx.run("contexts_forget", session_id=session_id)
