"""Groups: which session each has active, which it had before, and what of them was written as markdown."""

from __future__ import annotations

from dataclasses import dataclass, fields

from backstory import gate, ids
from backstory.errors import BadInput, NotFound, PointerMoved
from backstory.store.db import Row, Tx
from backstory.text import cut, one_line

#: Characters of the name of a session in the history.
MAX_NAME = 200
#: The name of a session that says nothing about itself.
UNTITLED = "Conversation"


@dataclass(frozen=True, slots=True)
class Pointer:
    """The active session of a group."""

    session_id: str | None  #: the agent's id; None if the next message starts a session
    generation: int  #: a clear, a resume and a deletion start a new one


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A session that a group had. The fields are the columns of `session_history`."""

    id: int
    group_folder: str
    session_id: str
    name: str
    created_at: str
    archived_at: str


@dataclass(frozen=True, slots=True)
class Archive:
    """A part of a conversation that is written as markdown. The fields are the columns of `archives`."""

    id: int
    group_folder: str
    session_id: str
    title: str
    cause: str  #: clear, resume, compact, expire, replaced or asked
    after_mark: str | None  #: the message before its first one; None if the conversation begins with it
    last_mark: str
    archived_at: str
    file: str | None  #: None until it is written


@dataclass(frozen=True, slots=True)
class Leaving:
    """What is kept of a session when its group moves on to another."""

    session_id: str
    name: str
    created_at: str
    cause: str
    last_mark: str | None  #: its last message; None if there is none
    after_mark: str | None = None  #: the last message of the archive before


def create(tx: Tx, name: str, folded: str) -> None:
    """Create a group. Raise BadInput if there is one with this name, or with the same in another case."""
    if not _add(tx, name, folded):
        known = tx.one("group_by_fold", folded=folded) or {"name": name}
        raise BadInput(f"There is a group {known['name']} already.", "Choose another name for the group.")


def ensure(tx: Tx, name: str, folded: str) -> None:
    """Create a group unless it exists."""
    if tx.one("group_by_name", name=name) is None:
        _add(tx, name, folded)


def _add(tx: Tx, name: str, folded: str) -> bool:
    about = {"name": name, "folded": folded, "at": ids.now()}
    return bool(tx.run("group_add", **about) or tx.run("group_restore", **about))


def listed(tx: Tx) -> list[Row]:
    """Return the groups as the API shows them: main first, then by name."""
    return tx.all("groups_list")


def _hold(tx: Tx, group: str, seen: int | None = None) -> Pointer:
    """Lock a group until the transaction ends. Raise PointerMoved if its generation is not the one that was seen."""
    row = tx.one("group_hold", name=group)
    if row is None:
        raise NotFound(f"There is no group {group}.", "`backstory groups list` shows all groups.")
    if seen is not None and row["generation"] != seen:
        raise PointerMoved
    return _pointer(tx, group, row["generation"])


def _pointer(tx: Tx, group: str, generation: int) -> Pointer:
    row = tx.one("pointer", group_folder=group)
    return Pointer(row["session_id"] if row else None, generation)


def pointer(tx: Tx, group: str) -> Pointer:
    row = tx.one("group_by_name", name=group)
    if row is None:
        raise NotFound(f"There is no group {group}.", "`backstory groups list` shows all groups.")
    return _pointer(tx, group, row["generation"])


def set_session(tx: Tx, group: str, session_id: str, seen: int, leaving: Leaving | None) -> Pointer:
    """Make a session the active one. The one before goes into the history, so `leaving` must describe it.

    Raise PointerMoved if the generation has moved on, or if another session is active than the one that leaves.
    """
    now = _hold(tx, group, seen)
    if now.session_id == session_id:
        return now
    if now.session_id != (leaving.session_id if leaving else None):
        raise PointerMoved
    if any(row["group_folder"] != group for row in tx.all("group_of_session", session_id=session_id)):
        raise PointerMoved("This session belongs to another group.")
    if leaving:
        _leave(tx, group, leaving)
    tx.run("history_remove_session", group_folder=group, session_id=session_id)
    _put(tx, group, session_id, now.generation)
    return Pointer(session_id, now.generation)


def clear(tx: Tx, group: str, seen: int, leaving: Leaving) -> HistoryRow:
    """Move the active session into the history. The next message starts a new one."""
    now = _hold(tx, group, seen)
    if now.session_id != leaving.session_id:
        raise PointerMoved
    row = _leave(tx, group, leaving)
    tx.run("pointer_remove", group_folder=group)
    tx.run("group_next", name=group)
    return row


def resume(tx: Tx, group: str, history_id: int, seen: int, leaving: Leaving | None) -> Pointer:
    """Make a session of the history the active one again. The one before goes into the history."""
    now = _hold(tx, group, seen)
    if now.session_id != (leaving.session_id if leaving else None):
        raise PointerMoved
    wanted = history_entry(tx, group, history_id)
    if leaving:
        _leave(tx, group, leaving)
    tx.run("history_remove", id=wanted.id, group_folder=group)
    following = tx.one("group_next", name=group)
    assert following is not None  # noqa: S101 - the group is locked
    _put(tx, group, wanted.session_id, following["generation"])
    return Pointer(wanted.session_id, following["generation"])


def _leave(tx: Tx, group: str, leaving: Leaving) -> HistoryRow:
    row = tx.one(
        "history_put",
        group_folder=group,
        session_id=leaving.session_id,
        name=clean_name(leaving.name),
        created_at=leaving.created_at,
        archived_at=ids.now(),
    )
    assert row is not None  # noqa: S101 - an upsert always answers
    request_archive(tx, group, leaving)
    return _history_row(row)


def _put(tx: Tx, group: str, session_id: str, generation: int) -> None:
    tx.run("pointer_put", group_folder=group, session_id=session_id, generation=generation, at=ids.now())


def clean_name(name: str) -> str:
    """Return the name of a session as it is stored: one line, without private text, secrets and what is no text."""
    return cut(one_line(gate.ODD.sub("", gate.text(name))), MAX_NAME) or UNTITLED


def history(tx: Tx, group: str) -> list[HistoryRow]:
    """Return the sessions that a group had, the last one first."""
    return [_history_row(row) for row in tx.all("history_list", group_folder=group)]


def histories(tx: Tx) -> list[HistoryRow]:
    """Return the sessions that the groups had, the last one first."""
    found = [each for row in listed(tx) for each in history(tx, str(row["name"]))]
    return sorted(found, key=lambda each: each.archived_at, reverse=True)


def history_entry(tx: Tx, group: str, history_id: int) -> HistoryRow:
    """Return an entry of the group's own history."""
    row = tx.one("history_entry", id=history_id, group_folder=group)
    if row is None:
        raise NotFound(f"There is no session {history_id} in the history of {group}.", "Its history shows the numbers.")
    return _history_row(row)


def _history_row(row: Row) -> HistoryRow:
    return HistoryRow(**{each.name: row[each.name] for each in fields(HistoryRow)})


def request_archive(tx: Tx, group: str, leaving: Leaving) -> Archive | None:
    """Note that a part of a conversation is to be written. Return None if there is nothing new since the last one.

    The file is written afterwards, so that a worker that is killed in between writes it at its next start.
    """
    before = last_mark(tx, group, leaving.session_id)
    if leaving.last_mark is None or before == leaving.last_mark or before != leaving.after_mark:
        return None
    row = tx.one(
        "archive_add",
        group_folder=group,
        session_id=leaving.session_id,
        title=clean_name(leaving.name),
        cause=leaving.cause,
        after_mark=leaving.after_mark,
        last_mark=leaving.last_mark,
        archived_at=ids.now(),
    )
    assert row is not None  # noqa: S101 - an insert always answers
    return _archive(row)


def last_mark(tx: Tx, group: str, session_id: str) -> str | None:
    """Return the last message of a session that is archived."""
    row = tx.one("archive_last", group_folder=group, session_id=session_id)
    return row["last_mark"] if row else None


def archives(tx: Tx, group: str) -> list[Archive]:
    """Return the archives of a group, the newest first."""
    return [_archive(row) for row in tx.all("archives_list", group_folder=group)]


def unwritten_archives(tx: Tx, group: str) -> list[Archive]:
    return [_archive(row) for row in tx.all("archives_unwritten", group_folder=group)]


def archive_id(tx: Tx, group: str, file: str) -> int | None:
    """Return the archive that a file is noted for."""
    row = tx.one("archive_by_file", group_folder=group, file=file)
    return row["id"] if row else None


def with_unwritten_archives(tx: Tx) -> list[str]:
    """Return the groups whose archives are not all written."""
    return [row["group_folder"] for row in tx.all("groups_unwritten")]


def retitle_archive(tx: Tx, archive: Archive, title: str) -> None:
    """Have an archive written again, under another title. Its session has that name in the history, too."""
    tx.run("archive_rewrite", id=archive.id, title=title)
    about = {"group_folder": archive.group_folder, "session_id": archive.session_id}
    tx.run("history_rename", **about, old=archive.title, name=title)


def forget_session(tx: Tx, group: str, session_id: str) -> None:
    """Remove a session from its group: the pointer to it, its entry in the history, and the rows of its archives."""
    if _hold(tx, group).session_id == session_id:
        tx.run("pointer_remove", group_folder=group)
        tx.run("group_next", name=group)
    for name in ("history_remove_session", "archives_remove_session"):
        tx.run(name, group_folder=group, session_id=session_id)


def set_archive_file(tx: Tx, archive: Archive, file: str | None) -> None:
    tx.run("archive_set_file", id=archive.id, file=file)


def remove_archive(tx: Tx, archive: Archive) -> None:
    tx.run("archive_remove", id=archive.id, group_folder=archive.group_folder)


def _archive(row: Row) -> Archive:
    return Archive(**{each.name: row[each.name] for each in fields(Archive)})


def delete(tx: Tx, group: str) -> None:
    """Delete a group: its pointer, its history, and the rows of its archives."""
    _hold(tx, group)
    for name in ("pointer_remove", "history_remove_all", "archives_remove_all"):
        tx.run(name, group_folder=group)
    tx.run("group_delete", name=group, at=ids.now())
