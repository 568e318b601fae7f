"""The route that imports conversations of other programs: turns as they are, many per request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Annotated, Literal

import msgspec

from backstory import ids
from backstory.capture import bodies
from backstory.capture.intake import Intake
from backstory.exchange import turn_lines
from backstory.exchange.turn_lines import Said
from backstory.model import ContentId, Report
from backstory.project import Project
from backstory.store import forgotten
from backstory.store.db import Tx
from backstory.worker.endpoints import Call, Endpoint, needs_capture, to_body
from backstory.worker.routes.hooks import Id, Name, parse_time
from backstory.worker.routes.hooks import Path as PathText

#: Turns in one request, at most.
TURNS = 1000
#: Turns in one transaction, so that other writers do not wait long.
STORED = 50


class SaidTurn(msgspec.Struct):
    """One message of a conversation."""

    session: Id
    number: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    role: Literal["user", "assistant"]
    text: str
    at: Annotated[str, msgspec.Meta(max_length=40)]
    project: PathText = ""
    speaker: Annotated[str, msgspec.Meta(max_length=100)] | None = None


class Conversation(msgspec.Struct):
    """Turns. Those of one session follow each other."""

    turns: Annotated[list[SaidTurn], msgspec.Meta(max_length=TURNS)]
    agent: Name = turn_lines.NAME


class CleanConversation(msgspec.Struct):
    """A conversation that was read: private text and secrets are removed."""

    turns: list[Said]
    agent: str


class Taken(msgspec.Struct):
    """How many turns were new, were known, and belong to excluded projects."""

    added: int = 0
    known: int = 0
    skipped: int = 0


class TurnImports:
    """The route that imports turns."""

    def __init__(self, intake: Intake, wake: Callable[[], None], key: bytes) -> None:
        self._intake, self._wake, self._key = intake, wake, key

    def table(self) -> list[Endpoint]:
        return [needs_capture("POST", "/api/import/turns", self.take, Taken, Conversation, read=_read)]

    async def take(self, call: Call) -> Taken:
        """Store turns of conversations. Each is stored once, by its session and number."""
        conversation: CleanConversation = call.body
        agent, turns = conversation.agent, conversation.turns
        wanted = [turn for turn in turns if not await self._is_excluded(agent, turn)]
        added = 0
        for start in range(0, len(wanted), STORED):
            batch = wanted[start : start + STORED]
            added += await self._intake.write(lambda tx, batch=batch: self._store(tx, agent, batch))  # type: ignore[misc]
        if added:
            self._wake()
        return Taken(added, len(wanted) - added, len(turns) - len(wanted))

    def _store(self, tx: Tx, agent: str, turns: Sequence[Said]) -> int:
        # A turn that was private from the beginning keeps its number; one that was forgotten does not come back.
        cut = ((replace(turn, text=forgotten.cut(tx, self._key, turn.text, turn.at)), turn.text) for turn in turns)
        remembered = (
            turn for turn, text in cut if not text or (turn.text and not forgotten.has(tx, self._key, text, turn.at))
        )
        by_session = groupby(remembered, lambda turn: turn.session)
        return sum(turn_lines.store(tx, agent, list(group)) for _, group in by_session)

    async def _is_excluded(self, agent: str, turn: Said) -> bool:
        report = Report(agent, "prompt", ContentId(turn.session), "", turn.at)
        return await self._intake.unwanted(report, Project(turn.project, turn.project)) is not None


def _read(raw: bytes) -> CleanConversation:
    """Read a body. Each turn is stripped separately, so that an open private tag hides no other turn."""
    conversation = to_body(bodies.whole(raw), Conversation)
    return CleanConversation([_to_said(turn) for turn in conversation.turns], conversation.agent)


def _to_said(turn: SaidTurn) -> Said:
    at = min(parse_time(turn.at, "at"), ids.now())
    return Said(turn.project, turn.session, turn.number, turn.role, turn.text, at, turn.speaker or None)
