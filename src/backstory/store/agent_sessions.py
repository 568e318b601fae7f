"""Sessions that are driven through the Python API: their model and their totals."""

from __future__ import annotations

from dataclasses import dataclass, fields

from backstory.sessions.states import SessionKind
from backstory.store.db import Tx


@dataclass(frozen=True, slots=True)
class AgentSession:
    """A row of `agent_sessions`. The fields are its columns, in their order."""

    session_id: int
    model: str
    message_count: int
    turn_count: int
    input_tokens: int
    output_tokens: int
    cost_micros: int  #: millionths of a dollar
    last_stop_reason: str | None


_COLUMNS = tuple(each.name for each in fields(AgentSession))
#: The columns that a caller reports, as totals of the whole session.
TOTALS = _COLUMNS[2:]


def get(tx: Tx, session_id: int) -> AgentSession | None:
    row = tx.one("agent_session", session_id=session_id)
    return AgentSession(**{name: row[name] for name in _COLUMNS}) if row else None


def put(tx: Tx, session_id: int, model: str = "", **totals: int | str | None) -> None:
    """Make a session one of the Python API, and set its model and the totals that are given."""
    given = dict.fromkeys(TOTALS) | totals
    tx.run("agent_session_put", session_id=session_id, model=model, **given)


def kind_of(tx: Tx, session_id: int) -> SessionKind:
    return SessionKind.AGENT if get(tx, session_id) else SessionKind.HOOK


def forget(tx: Tx, session_id: int) -> None:
    tx.run("agent_session_forget", session_id=session_id)
