"""What was saved of a session, by its id. A damaged session.json is rebuilt from the transcript, or from the store."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from backstory import agents, settings
from backstory.agents.claude_code import resumable
from backstory.client import Client
from backstory.errors import BackstoryError, NotFound, SessionUnreadable
from backstory.model import ContentId, SessionStatus
from backstory.paths import Paths
from backstory.sessions import lock, session_file
from backstory.sessions.capture import ANSWER_S, Worker
from backstory.sessions.record import Record, TurnState
from backstory.sessions.session_file import Message, Metadata, SessionFile

log = logging.getLogger("backstory.sessions")
#: The totals that the worker has, too. Messages are counted.
TOTALS = ("turn_count", "input_tokens", "output_tokens", "cost_micros", "last_stop_reason")


def history(session_id: str) -> tuple[Message, ...]:
    """Return the messages of a session, oldest first."""
    paths = settings.bare().paths
    try:
        found = session_file.read(paths, session_id)
    except SessionUnreadable as error:
        found = _or_raise(error, rebuilt(paths, session_id, transcript_of(session_id, settings.environment())))
    return found.messages if found else ()


def metadata(session_id: str) -> Metadata | None:
    """Return model, times, totals and state of a session."""
    paths = settings.bare().paths
    try:
        return session_file.read_metadata(paths, session_id)
    except SessionUnreadable as error:
        found = rebuilt(paths, session_id, transcript_of(session_id, settings.environment()))
        return _or_raise(error, found).metadata


async def restore(session_id: str) -> None:
    """Open an expired session again. In any other state it changes nothing."""
    import anyio

    paths = settings.bare().paths
    with ExitStack() as stack:
        await anyio.to_thread.run_sync(stack.enter_context, lock.hold(paths, session_id))
        transcript = transcript_of(session_id, settings.environment())
        found, _ = await anyio.to_thread.run_sync(taken, paths, session_id, transcript)
        if found is None:
            raise NotFound(f"There is no session {session_id}.")
        record = Record(paths, found, TurnState(0))
        await Worker(paths).move(record, "restore")
        record.save()


def transcript_of(content_id: str, env: Mapping[str, str]) -> Path | None:
    """Return the transcript of a session of an agent with these variables."""
    roots = agents.AGENTS[agents.DEFAULT_AGENT].transcripts.roots(Path(env.get("HOME") or Path.home()), env)
    return resumable.find(roots, content_id)


def taken(
    paths: Paths, content_id: str, transcript: Path | None, given: tuple[Message, ...] = ()
) -> tuple[SessionFile | None, bool]:
    """Read a session that the caller has locked, and whether its file was damaged. Blocks.

    A damaged file is set aside, and the session is rebuilt: from `given` messages if nothing else is whole. Raises
    SessionUnreadable if there are none either.
    """
    try:
        return session_file.read(paths, content_id), False
    except SessionUnreadable as error:
        found = _or_raise(error, rebuilt(paths, content_id, transcript, given))
        aside = session_file.set_aside(paths, content_id)
        log.warning("%s It is kept as %s, and was rebuilt.", error, aside.name)
        session_file.mark(paths, content_id)  # a transcript may have what was forgotten
        return found, True


def rebuilt(
    paths: Paths, content_id: str, transcript: Path | None, given: tuple[Message, ...] = ()
) -> SessionFile | None:
    """Make a session from its transcript if that is whole, else from what the worker has stored. Blocks."""
    known, client = resumable.read(transcript) if transcript else None, Client(paths.socket, ANSWER_S)
    messages = tuple(map(session_file.from_json, known.news)) if known else ()
    row, parent, totals = {}, None, {}
    try:
        row = _session(client, content_id)
        totals = _totals(client, content_id) if row else {}
        if row and not messages:
            turns = client.items(f"/api/sessions/{row['id']}/turns")
            messages = tuple(_message(turn["role"], turn["text"], turn["at"]) for turn in turns if turn["text"])
        if row.get("parent_id"):
            parent = client.get(f"/api/sessions/{row['parent_id']}")["content_session_id"]
    except BackstoryError as error:
        if error.status != 404:
            log.warning("What is stored of session %s could not be read: %s", content_id, error)
    if not (messages := messages or given):
        return None
    about = _metadata(row, totals, messages, known.cwd if known else "")
    return SessionFile(ContentId(content_id), replace(about, parent_id=parent), messages)


def _session(client: Client, content_id: str) -> dict[str, Any]:
    """Return what the worker tells of a session; empty if it does not know it."""
    row: dict[str, Any] = client.get(f"/api/sessions/{quote(content_id, safe='')}")
    return row if row["content_session_id"] == content_id else {}


def _totals(client: Client, content_id: str) -> dict[str, Any]:
    """Return the totals that runs reported of a session; empty if none did."""
    try:
        totals: dict[str, Any] = client.get(f"/api/agent-sessions/{quote(content_id, safe='')}")
    except BackstoryError as error:
        if error.status != 404:
            raise
        return {}
    return totals


def _message(role: str, text: str, at: str) -> Message:
    return Message(role, ({"type": "text", "text": text},), at)


def _metadata(row: Mapping[str, Any], totals: Mapping[str, Any], messages: tuple[Message, ...], cwd: str) -> Metadata:
    """Return what is known about a session, from its row in the store."""
    return Metadata(
        model=totals.get("model") or "",
        cwd=row.get("cwd") or cwd,
        created_at=min(filter(None, (row.get("created_at"), messages[0].timestamp)), default=""),
        last_message_at=messages[-1].timestamp,
        message_count=len(messages),
        status=SessionStatus(row.get("status") or SessionStatus.CREATED),
        **{name: totals[name] for name in TOTALS if name in totals},
    )


def _or_raise(error: SessionUnreadable, found: SessionFile | None) -> SessionFile:
    """Return what was rebuilt. A file that only could not be opened is not damaged, and is not replaced."""
    if found is None or not error.is_damaged:
        raise error
    return found
