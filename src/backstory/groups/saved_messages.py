"""What is saved of a session whose transcript is gone: its messages, its name, and when it began."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from backstory.agents import DEFAULT_AGENT
from backstory.errors import BadInput, SessionUnreadable
from backstory.groups.names import GroupPaths, project_key
from backstory.model import ContentId, Session
from backstory.paths import Paths
from backstory.sessions import session_file
from backstory.sessions.recovery import continued_as, text_of
from backstory.sessions.session_file import SessionFile
from backstory.store import groups, sessions, titles, turns
from backstory.store.db import Tx
from backstory.store.groups import UNTITLED, Archive

#: Why a session went into the history, under the name of its archive.
_NAMED = ("clear", "resume", "replaced")


@dataclass(frozen=True, slots=True)
class ArchivedMessage:
    """A message of a conversation."""

    mark: str
    role: str  #: "user" or "assistant"
    text: str
    at: str


#: Returns a message without what was forgotten: the same if nothing was, None if nothing is left.
Redact = Callable[[ArchivedMessage], ArchivedMessage | None]


@dataclass(frozen=True, slots=True)
class Began:
    """What a session has of the one that it goes on from, because that one's transcript was lost."""

    name: str = ""
    created_at: str = ""


def messages(tx: Tx, paths: GroupPaths, session_id: str) -> list[ArchivedMessage]:
    """Return the messages of a session as session.json has them, else as the store has them. Those of private rounds
    are left out, and so are those of the session that it goes on from: they are in the archives of that one."""
    file, session = _file(paths, session_id), sessions.by_content_id(tx, DEFAULT_AGENT, ContentId(session_id))
    if file and (found := of_file(file, file.metadata.created_at if file.metadata.parent_id else "")):
        return found
    is_own = session is not None and session.project_key == project_key(paths.group)
    return of_store(tx, session) if session and is_own else []


def part(tx: Tx, paths: GroupPaths, archive: Archive) -> list[ArchivedMessage]:
    """Return the messages of an archive: what was said since the one before it. Marks of transcripts are unknown here,
    so this goes by time."""
    before = [each for each in groups.archives(tx, archive.group_folder) if each.session_id == archive.session_id]
    since = max((each.archived_at for each in before if each.id < archive.id), default="")
    found = messages(tx, paths, archive.session_id)
    return [each for each in found if since < each.at <= archive.archived_at]


def title(tx: Tx, paths: GroupPaths, session_id: str) -> str:
    """Return the name that a session had in the history, else its title; empty if it has none."""
    own = (each for each in groups.archives(tx, paths.group) if each.session_id == session_id)
    if name := next((each.title for each in own if each.cause in _NAMED and each.title != UNTITLED), ""):
        return name
    session = sessions.by_content_id(tx, DEFAULT_AGENT, ContentId(session_id))
    rows = titles.of_session(tx, session.id) if session else []
    return str(rows[0]["title"]) if rows else ""


def began(tx: Tx, paths: GroupPaths, session_id: str) -> Began:
    """Return the name and the date that a session keeps, because it goes on with a conversation that was lost."""
    parent_id, older = _lost(tx, paths, session_id)
    rows = [row for row in groups.history(tx, paths.group) if row.session_id == parent_id]
    if not rows:
        return Began(created_at=older)
    return Began("" if rows[0].name == UNTITLED else rows[0].name, rows[0].created_at)


def created_at(tx: Tx, session_id: str) -> str:
    """Return when a session began, as the store knows it; empty if it does not."""
    session = sessions.by_content_id(tx, DEFAULT_AGENT, ContentId(session_id))
    return session.created_at if session else ""


def _file(paths: GroupPaths, session_id: str) -> SessionFile | None:
    with suppress(SessionUnreadable, BadInput):
        found = session_file.read(Paths(paths.data), session_id)
        return found if found and found.metadata.cwd == str(paths.folder) else None  # else it is another group's
    return None


def _lost(tx: Tx, paths: GroupPaths, session_id: str) -> tuple[str | None, str]:
    """Return the session that this one goes on from because it was lost, and when that began. One that was cleared is
    none: nothing of it is in the next one."""
    file = _file(paths, session_id)
    if file and file.metadata.parent_id and file.messages:
        first = file.messages[0].timestamp
        return (file.metadata.parent_id, first) if first < file.metadata.created_at else (None, "")
    session = sessions.by_content_id(tx, DEFAULT_AGENT, ContentId(session_id))
    parent = sessions.by_id(tx, session.parent_id) if session and session.parent_id else None
    if parent is None or parent.end_reason != continued_as(session_id):
        return None, ""
    return parent.content_session_id, parent.created_at


def of_file(file: SessionFile, since: str = "") -> list[ArchivedMessage]:
    """Return the messages of a session.json since a moment, without private rounds."""
    return list(
        _public(
            ArchivedMessage(f"at {one.timestamp}", one.role, text_of(one).strip(), one.timestamp)
            for one in file.messages
            if one.timestamp >= since and any(block.get("type") == "text" for block in one.content)
        )
    )


def of_store(tx: Tx, session: Session) -> list[ArchivedMessage]:
    """Return the turns of a session, without private rounds."""
    found = turns.of_session(tx, session.id) if not session.forgotten_at else []
    return list(_public(ArchivedMessage(f"at {one.at}", one.role, (one.text or "").strip(), one.at) for one in found))


def _public(said: Iterable[ArchivedMessage]) -> Iterator[ArchivedMessage]:
    is_private = False
    for each in said:
        if each.role == "user":
            is_private = not each.text
        if each.text and not is_private:
            yield each
