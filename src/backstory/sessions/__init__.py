"""Sessions of agents that you build: run them, resume them, and go on when something was lost. See docs/sessions.md."""

from __future__ import annotations

from backstory.errors import ImpossibleMove, SessionBusy
from backstory.sessions.options import ALLOWED_ENV, Options, Sandbox
from backstory.sessions.record import TurnState
from backstory.sessions.recovery import SessionRecovered
from backstory.sessions.run import Run, execute
from backstory.sessions.saved import history, metadata, restore
from backstory.sessions.session_file import Message, Metadata

__all__ = [
    "ALLOWED_ENV",
    "ImpossibleMove",
    "Message",
    "Metadata",
    "Options",
    "Run",
    "Sandbox",
    "SessionBusy",
    "SessionRecovered",
    "TurnState",
    "execute",
    "history",
    "metadata",
    "restore",
]
