"""Chunks: pieces of conversations that search finds. A chunk has turns, and the input of the tools between them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from backstory.model import Session, Turn
from backstory.store import sessions
from backstory.store.db import Row, Tx
from backstory.store.index.hits import item_of
from backstory.store.index.indexing import put_words, remove_words
from backstory.store.payloads import read_or_nothing
from backstory.store.turns import of_session, with_speaker

#: Approximate characters of a chunk.
SIZE = 900
#: Characters of a long text that are worth adding to an open chunk, at least.
MIN_PIECE = 200
#: Characters of each argument of a tool that are kept, at most. The output of a tool is in no chunk.
MAX_ARGUMENT = 300
#: Rows that are read at once.
PAGE = 50


@dataclass(slots=True)
class _OpenChunk:
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
    """Make chunks of the new turns of a session, and the last one again, or all if the first new turn precedes it."""
    open_chunk = tx.one("chunks_redo_from", session_id=session.id)
    number = open_chunk["number"] if open_chunk and open_chunk["number"] is not None else 0
    _make(tx, session, number if first is None or first > number else 0)


def rebuild(tx: Tx, session_id: int) -> None:
    """Make all chunks of a session again."""
    if session := sessions.by_id(tx, session_id):
        _make(tx, session, 0)


def _make(tx: Tx, session: Session, first: int) -> None:
    for row in tx.all("chunks_from", session_id=session.id, number=first):
        remove_words(tx, "chunk", row["id"])
        tx.run("chunk_remove", id=row["id"])
    chunk = _OpenChunk()
    for turn, text in _units(tx, session.id, first):
        if len(text) > chunk.room and (len(text) <= SIZE or chunk.room < MIN_PIECE):
            _put(tx, session, chunk)
            chunk = _OpenChunk()
        if len(text) <= chunk.room:
            chunk.add(turn, text)
            continue
        # The text is longer than a chunk. Its first piece goes into the open chunk.
        for piece in _pieces(text, chunk.room):
            chunk.add(turn, piece)
            _put(tx, session, chunk)
            chunk = _OpenChunk()
    _put(tx, session, chunk)


def _put(tx: Tx, session: Session, chunk: _OpenChunk) -> None:
    if not chunk.text:
        return
    values = {"first_turn": chunk.first, "last_turn": chunk.last, "text": chunk.text, "at": chunk.at}
    row = tx.one("chunk_add", session_id=session.id, **values)
    assert row is not None  # noqa: S101 - an insert returns its id
    put_words(tx, item_of("chunk", row["id"], session, chunk.at), "", chunk.text)


def _units(tx: Tx, session_id: int, first: int) -> Iterator[tuple[Turn, str]]:
    """Yield the turns from a number on, each with its text and the input of the tools before the next turn."""
    turns = _turns(tx, session_id, first - 1)
    turn = next(turns, None)
    tools = _tools(tx, session_id, turn, first == 0) if turn else iter(())
    use = next(tools, None)
    while turn:
        after = next(turns, None)
        parts = [with_speaker(turn)] if turn.text else []
        while use and (after is None or use["occurred_at"] < after.at):
            parts += _input_lines(use)
            use = next(tools, None)
        if parts:
            yield turn, "\n".join(parts)
        turn = after


def _turns(tx: Tx, session_id: int, after: int) -> Iterator[Turn]:
    while page := of_session(tx, session_id, after, PAGE):
        yield from page
        after = page[-1].number


def _tools(tx: Tx, session_id: int, turn: Turn, is_first: bool) -> Iterator[Row]:
    """Yield tool uses. Few are read at a time, because each may hold a whole file. Some precede the first turn."""
    at, number = "" if is_first else turn.at, 0
    while rows := tx.all("tools_since", session_id=session_id, at=at, after=number, limit=PAGE):
        yield from rows
        at, number = rows[-1]["occurred_at"], rows[-1]["id"]


def _input_lines(use: Row) -> list[str]:
    """Return the name and the input of a tool; nothing for a tool of a subagent."""
    payload = read_or_nothing(use["payload"])
    tool_input = payload.get("tool_input")
    if payload.get("agent_id") or not isinstance(tool_input, dict):
        return []
    values = " ".join(str(value)[:MAX_ARGUMENT] for value in tool_input.values() if value not in (None, "", [], {}))
    return [f"{use['tool_name'] or ''} {values}".strip()[:SIZE]]


def _pieces(text: str, room: int) -> Iterator[str]:
    """Split a long text into parts of about the same length, at the end of a line, a sentence or a word."""
    while text:
        parts = 1 + math.ceil(max(len(text) - room, 0) / SIZE)
        size = room if room < SIZE else min(SIZE, math.ceil(len(text) / parts) + MIN_PIECE // 4)
        end = _end(text, size) if len(text) > size else len(text)
        yield text[:end].strip()
        text, room = text[end:].strip(), SIZE


def _end(text: str, size: int) -> int:
    for separator in ("\n", ". ", " "):
        at = text.rfind(separator, size // 2, size)
        if at > 0:
            return at + len(separator)
    return size
