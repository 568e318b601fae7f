"""Where conversations of other programs come in: turns as they are, many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Annotated, Literal

import msgspec

from backstory import ids
from backstory.capture.intake import Intake
from backstory.errors import BadInput
from backstory.exchange import turn_lines
from backstory.exchange.turn_lines import Said
from backstory.model import ContentId, Report
from backstory.project import Project
from backstory.store import forgotten
from backstory.store.db import Tx
from backstory.worker.endpoints import Call, Endpoint, needs_capture, read_whole
from backstory.worker.routes.hooks import Id, Name
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
    """Turns, those of a session one after the other."""

    turns: Annotated[list[SaidTurn], msgspec.Meta(max_length=TURNS)]
    agent: Name = turn_lines.NAME


class Taken(msgspec.Struct):
    """How many turns were new, were known already, and are of projects that are excluded."""

    added: int = 0
    known: int = 0
    skipped: int = 0


class TurnImports:
    """The route of an import."""

    def __init__(self, intake: Intake, wake: Callable[[], None], key: bytes) -> None:
        self._intake, self._wake, self._key = intake, wake, key

    def table(self) -> list[Endpoint]:
        route = "/api/import/turns"
        says = "Store turns of conversations; each is kept once, by its session and number."
        return [needs_capture("POST", route, self.take, says, Taken, Conversation, read=read_whole)]

    async def take(self, call: Call) -> Taken:
        asked: Conversation = call.body
        said = await asyncio.to_thread(lambda: [_said(one) for one in asked.turns])
        wanted = [one for one in said if not await self._unwanted(asked.agent, one)]
        added = 0
        for start in range(0, len(wanted), STORED):
            piece = wanted[start : start + STORED]
            added += await self._intake.write(lambda tx, piece=piece: self._store(tx, asked.agent, piece))  # type: ignore[misc]
        if added:
            self._wake()
        return Taken(added, len(wanted) - added, len(said) - len(wanted))

    def _store(self, tx: Tx, agent: str, said: Sequence[Said]) -> int:
        left = (one for one in said if not forgotten.has(tx, self._key, one.text, one.at))
        groups = groupby(left, lambda one: one.session)
        return sum(turn_lines.store(tx, agent, list(group)) for _, group in groups)

    async def _unwanted(self, agent: str, said: Said) -> bool:
        report = Report(agent, "prompt", ContentId(said.session), "", said.at)
        return await self._intake.unwanted(report, Project(said.project, said.project)) is not None


def _said(told: SaidTurn) -> Said:
    """A turn; each is stripped by itself, so that a tag that is left open hides no other."""
    try:
        at = min(ids.from_ms(ids.at_ms(told.at)), ids.now())
    except (ValueError, OverflowError, OSError):
        raise BadInput("`at` is not a time.", "Send it like 2026-02-21T03:39:07.123Z.") from None
    return Said(told.project, told.session, told.number, told.role, told.text, at, told.speaker or None)
