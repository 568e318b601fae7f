"""Hides observations and sessions from context and search, and shows them again. Nothing is destroyed."""

from __future__ import annotations

from backstory import ids
from backstory.errors import NotFound
from backstory.model import Session
from backstory.store import observations, repeated, sessions, turns
from backstory.store.db import LAST, Row, Tx
from backstory.store.index import chunks, indexing


def hide_observation(tx: Tx, number: int) -> list[Row]:
    """Hide an observation and earlier ones that say the same. Return them."""
    row = observations.get(tx, number)
    rows = [row, *repeated.earlier(tx, row)]
    for each in rows:
        if not each["hidden_at"]:
            tx.run("observation_hide", id=each["id"], at=ids.now())
            indexing.remove_words(tx, "observation", each["id"])
    return rows


def show_observation(tx: Tx, number: int) -> list[Row]:
    """Show an observation again, and earlier ones that say the same. Return them."""
    row = observations.get(tx, number)
    rows = [row, *repeated.earlier(tx, row)]
    for each in rows:
        if each["hidden_at"]:
            tx.run("observation_hide", id=each["id"], at=None)
            session = sessions.get(tx, each["session_id"])
            observations.index_row(tx, "observation", each | {"hidden_at": None}, session)
    return rows


def hide_session(tx: Tx, number: int) -> Session:
    """Hide a session and everything in it, also what comes later."""
    session = _session(tx, number)
    if not session.hidden_at:
        tx.run("session_hide", id=number, at=ids.now())
        for row in tx.all("word_rows_of_session", session_id=number):
            indexing.remove_words(tx, row["kind"], row["item_id"])
    return session


def show_session(tx: Tx, number: int) -> Session:
    """Show a session again. Observations that were hidden by themselves stay hidden."""
    if not _session(tx, number).hidden_at:
        return _session(tx, number)
    tx.run("session_hide", id=number, at=None)
    session = _session(tx, number)
    for kind, query in (("observation", "observations_of_whole_session"), ("summary", "summaries_of_whole_session")):
        for row in tx.all(query, session_id=number):
            observations.index_row(tx, kind, row, session)
    for row in tx.all("prompts_list", project="", session_id=number, before=LAST, limit=2**31):
        observations.index_row(tx, "prompt", row, session)
    for turn in turns.of_session(tx, number):
        turns.index(tx, session, turn)
    chunks.rebuild(tx, number)
    return session


def _session(tx: Tx, number: int) -> Session:
    session = sessions.hold(tx, number) if sessions.by_id(tx, number) else None
    if session is None or session.forgotten_at:
        raise NotFound(f"There is no session {number}.", "`backstory sessions` lists them.")
    return session


def listed(tx: Tx, project: str, limit: int) -> tuple[list[Row], list[Session]]:
    """Return the hidden observations as the API shows them, and the hidden sessions, the last hidden first. Those of a
    group are listed for who names its project."""
    about = {"project": project, "limit": limit}
    seen = [observations.decode(row) for row in tx.all("observations_hidden", **about)]
    return seen, [sessions.from_row(row) for row in tx.all("sessions_hidden", **about)]
