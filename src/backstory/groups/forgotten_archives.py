"""Removes forgotten text from the archives of groups, and forgotten sessions from their groups."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from backstory.agents import DEFAULT_AGENT
from backstory.errors import BadInput
from backstory.files import open_directory, remove
from backstory.groups import names, snapshots
from backstory.groups.archive import Archives
from backstory.groups.ipc_files import IpcFiles
from backstory.groups.names import GroupPaths
from backstory.groups.pointers import entries_of, resumable
from backstory.model import ContentId
from backstory.store import forgotten, groups, sessions
from backstory.store.db import Store, Tx
from backstory.store.groups import UNTITLED, Archive, HistoryRow
from backstory.text import one_line

log = logging.getLogger(__name__)


class ForgottenArchives:
    """The archives that may hold forgotten text."""

    def __init__(self, store: Store, data: Path, archives: Archives, moved: Callable[[str], None]) -> None:
        self._store, self._data, self._archives = store, data, archives
        self._moved = moved  #: called with a group whose pointer was changed

    def clean(self, has_words: Callable[[str], bool] | None = None) -> None:
        """Write archives again without what was forgotten. Remove those of forgotten sessions.

        With `has_words`, all archives are read, and lose the messages for which it is true.
        """
        before = self._store.read(_resumable)
        for group in sorted(before, key=names.is_main):  # last the main group, which knows the sessions of all
            try:
                self._clean_group(group, has_words)
                self._write_snapshot(group, before[group])
            except (OSError, ValueError, BadInput) as error:  # imported rows can have any names
                log.warning("archives of the group %s may hold forgotten text: %s", group, type(error).__name__)

    def _clean_group(self, group: str, has_words: Callable[[str], bool] | None) -> None:
        paths = GroupPaths(self._data, group)
        for session_id in self._store.read(lambda tx: _forgotten_sessions(tx, group)):
            self._remove_session(paths, session_id)
        for archive in self._store.read(lambda tx: groups.archives(tx, group)):
            if not archive.file or (not has_words and not self._is_touched(archive)):
                continue
            if title := self._new_title(paths, archive, has_words or (lambda text: False)):
                self._remove_file(paths, archive.file)
                self._store.write(lambda tx, each=archive, title=title: groups.retitle_archive(tx, each, title))  # type: ignore[misc]
        self._archives.write_requested_now(group)

    def _write_snapshot(self, group: str, before: list[HistoryRow]) -> None:
        """Write what the agent of a group reads of its history again, if that has changed."""
        paths = GroupPaths(self._data, group)
        after = self._store.read(lambda tx: resumable(tx, group))
        if after != before and (paths.ipc / snapshots.HISTORY).exists():
            snapshots.write_history(IpcFiles(paths), entries_of(self._data, after))

    def _new_title(self, paths: GroupPaths, archive: Archive, has_words: Callable[[str], bool]) -> str | None:
        """Return the title under which an archive is written again; None if it holds nothing that was forgotten."""
        if next(self._archives.messages(paths, archive), None) is None:
            return UNTITLED if self._is_touched(archive) else None  # it cannot be written again, so all of it goes

        said = self._archives.messages(paths, archive)

        def changed(tx: Tx) -> list[str]:
            return [
                one_line(each.text)
                for each in said
                if has_words(each.text) or self._archives.redacted(tx, each) is not each
            ]

        texts = self._store.read(changed)
        beginning = archive.title.rstrip("…")
        is_telling = has_words(archive.title) or any(text.startswith(beginning) for text in texts)
        return (UNTITLED if is_telling else archive.title) if texts or is_telling else None

    def _is_touched(self, archive: Archive) -> bool:
        """Whether something of its session was forgotten, at any time."""

        def work(tx: Tx) -> bool:
            session = sessions.by_content_id(tx, DEFAULT_AGENT, ContentId(archive.session_id))
            return session is not None and forgotten.is_any_of(tx, session.id)

        return self._store.read(work)

    def _remove_session(self, paths: GroupPaths, session_id: str) -> None:
        """Remove a forgotten session: its archives, its transcript, and what its group knows of it."""
        for archive in self._store.read(lambda tx: groups.archives(tx, paths.group)):
            if archive.session_id == session_id and archive.file:
                self._remove_file(paths, archive.file)
        self._store.write(lambda tx: groups.forget_session(tx, paths.group, session_id))
        self._moved(paths.group)
        for path in list(_named_after(paths.state, session_id)):
            remove(path)

    def _remove_file(self, paths: GroupPaths, name: str) -> None:
        with suppress(FileNotFoundError):
            _unlink(paths.data, paths.conversations / name)


def _unlink(base: Path, path: Path) -> None:
    """Remove a file below `base`, without following links on the way to it."""
    *folders, name = path.relative_to(base).parts
    handle = open_directory(base, *folders)
    try:
        os.unlink(name, dir_fd=handle)
    finally:
        os.close(handle)


def _named_after(folder: Path, session_id: str, depth: int = 2) -> Iterator[Path]:
    """Yield what an agent keeps of a session: its transcript, those of its subagents, results of tools, its tasks."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(session_id) and entry.name[len(session_id) :][:1] in ("", ".", "-"):
                yield Path(entry.path)
            elif depth and entry.is_dir(follow_symlinks=False):
                yield from _named_after(Path(entry.path), session_id, depth - 1)


def _resumable(tx: Tx) -> dict[str, list[HistoryRow]]:
    """Return name of a group -> the sessions that it may resume."""
    return {name: resumable(tx, name) for name in (str(row["name"]) for row in groups.listed(tx))}


def _forgotten_sessions(tx: Tx, group: str) -> set[str]:
    known = {archive.session_id for archive in groups.archives(tx, group)}
    known |= {row.session_id for row in groups.history(tx, group)}
    known |= {now} if (now := groups.pointer(tx, group).session_id) else set()
    found = ((name, sessions.by_content_id(tx, DEFAULT_AGENT, ContentId(name))) for name in known)
    return {name for name, session in found if session and session.forgotten_at}
