"""Chunks: conversations in pieces to search by. They hold turns, and the input of the tools between them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from backstory.model import Session, Turn
from backstory.store import sessions
from backstory.store.db import Row, Tx
from backstory.store.index.hits import item_of
from backstory.store.index.search import put_words, remove_words
from backstory.store.payloads import read_or_nothing
from backstory.store.turns import of_session, with_speaker

#: Characters of a chunk, about.
SIZE = 900
#: Characters of a text that are worth adding to a chunk, at least.
LEAST = 200
#: Characters of each argument of a tool that are kept, at most. Its output is not.
ARGUMENT = 300
#: Rows that are read at once.
PAGE = 50


@dataclass(slots=True)
class _Open:
    """The chunk that is being filled."""

    first: int = 0
    last: int = 0
    at: str = ""
    text: str = ""

    def add(self, turn: Turn, text: str) -> None:
        if not self.text:
            self.first, self.at = turn.number, turn.at
        self.last = turn.number
        self.text = f"{self.text}\n{text}" if self.text else text

    @property
    def room(self) -> int:
        return SIZE - len(self.text) - bool(self.text)


def extend(tx: Tx, session: Session, first: int | None = None) -> None:
    """Make the chunks of what is new in a session.

    The last chunk is made again. The others stay, unless the first new turn comes before it.
    """
    redo = tx.one("chunks_redo_from", session_id=session.id)
    number = redo["number"] if redo and redo["number"] is not None else 0
    _make(tx, session, number if first is None or first > number else 0)


def rebuild(tx: Tx, session_id: int) -> None:
    """Make all chunks of a session again."""
    if session := sessions.by_id(tx, session_id):
        _make(tx, session, 0)


def _make(tx: Tx, session: Session, first: int) -> None:
    for row in tx.all("chunks_from", session_id=session.id, number=first):
        remove_words(tx, "chunk", row["id"])
        tx.run("chunk_remove", id=row["id"])
    chunk = _Open()
    for turn, text in _units(tx, session.id, first):
        if len(text) > chunk.room and (len(text) <= SIZE or chunk.room < LEAST):
            _put(tx, session, chunk)
            chunk = _Open()
        if len(text) <= chunk.room:
            chunk.add(turn, text)
            continue
        # It is longer than a chunk: its beginning joins the open chunk, and its end closes one.
        for piece in _pieces(text, chunk.room):
            chunk.add(turn, piece)
            _put(tx, session, chunk)
            chunk = _Open()
    _put(tx, session, chunk)


def _put(tx: Tx, session: Session, chunk: _Open) -> None:
    if not chunk.text:
        return
    row = tx.one(
        "chunk_add",
        session_id=session.id,
        first_turn=chunk.first,
        last_turn=chunk.last,
        text=chunk.text,
        at=chunk.at,
    )
    assert row is not None  # noqa: S101 - an insert answers with its id
    put_words(tx, item_of("chunk", row["id"], session, chunk.at), "", chunk.text)


def _units(tx: Tx, session_id: int, first: int) -> Iterator[tuple[Turn, str]]:
    """Yield each turn from a number on, with the input of the tools until the next."""
    turns = _turns(tx, session_id, first - 1)
    turn = next(turns, None)
    tools = _tools(tx, session_id, turn, first == 0) if turn else iter(())
    use = next(tools, None)
    while turn:
        after = next(turns, None)
        parts = [with_speaker(turn)] if turn.text else []
        while use and (after is None or use["occurred_at"] < after.at):
            parts += _asked(use)
            use = next(tools, None)
        if parts:
            yield turn, "\n".join(parts)
        turn = after


def _turns(tx: Tx, session_id: int, after: int) -> Iterator[Turn]:
    while page := of_session(tx, session_id, after, PAGE):
        yield from page
        after = page[-1].number


def _tools(tx: Tx, session_id: int, turn: Turn, is_first: bool) -> Iterator[Row]:
    """Yield the uses of tools, a few at a time: each may hold a whole file. Some may come before the first turn."""
    at, number = "" if is_first else turn.at, 0
    while rows := tx.all("tools_since", session_id=session_id, at=at, after=number, limit=PAGE):
        yield from rows
        at, number = rows[-1]["occurred_at"], rows[-1]["id"]


def _asked(use: Row) -> list[str]:
    """Return a tool and its input. Tools of subagents are left out: they say little about the conversation."""
    payload = read_or_nothing(use["payload"])
    given = payload.get("tool_input")
    if payload.get("agent_id") or not isinstance(given, dict):
        return []
    values = " ".join(str(value)[:ARGUMENT] for value in given.values() if value not in (None, "", [], {}))
    return [f"{use['tool_name'] or ''} {values}".strip()[:SIZE]]


def _pieces(text: str, room: int) -> Iterator[str]:
    """Split a long text into parts of about the same length, at the end of a line, a sentence or a word."""
    while text:
        parts = 1 + math.ceil(max(len(text) - room, 0) / SIZE)
        size = room if room < SIZE else min(SIZE, math.ceil(len(text) / parts) + LEAST // 4)
        end = _end(text, size) if len(text) > size else len(text)
        yield text[:end].strip()
        text, room = text[end:].strip(), SIZE


def _end(text: str, size: int) -> int:
    for sign in ("\n", ". ", " "):
        at = text.rfind(sign, size // 2, size)
        if at > 0:
            return at + len(sign)
    return size
