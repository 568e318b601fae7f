"""Removes forgotten text from the session.json files of the Python API, and from archives and transcripts of groups."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any

from backstory.agents import DEFAULT_AGENT
from backstory.errors import BadInput, SessionBusy, SessionUnreadable
from backstory.groups import forgotten_transcripts
from backstory.groups.forgotten_archives import ForgottenArchives
from backstory.groups.names import GroupPaths
from backstory.model import ContentId, Session
from backstory.paths import Paths
from backstory.project import group_of
from backstory.sessions import lock, session_file
from backstory.store import events, forgotten, sessions
from backstory.store.db import Store, Tx
from backstory.store.forget_rows import Forgotten
from backstory.worker.session_archives import SessionArchives

log = logging.getLogger(__name__)
#: A message or a block, as it is in the file.
Json = dict[str, Any]


class ForgottenFiles:
    """The files that may hold forgotten text. One whose session is in use is marked, and cleaned when it is free."""

    def __init__(
        self, paths: Paths, store: Store, key: bytes, archives: ForgottenArchives, session_archives: SessionArchives
    ) -> None:
        self._paths, self._store, self._key, self._archives = paths, store, key, archives
        self._session_archives = session_archives
        self._words: list[Forgotten] = []  #: texts with the words of one of these were forgotten

    def clean(self, gone: Forgotten) -> None:
        """Clean every file, or mark it to be cleaned later."""
        if gone.needles:
            self._words.append(gone)
        words = [gone.needles] if gone.needles else []
        # Archives are written again from transcripts, so they come first.
        self._archives.clean((lambda text: _has_words({"text": text}, words)) if words else None)
        for name in session_file.names(self._paths):
            self._clean(name)

    def clean_marked(self) -> bool:
        """Clean the files that are marked. Return whether none is left."""
        left = [name for name in session_file.marked(self._paths) if not self._clean(name)]
        if not left:
            self._words.clear()
        return not left

    def _clean(self, name: str) -> bool:
        session = self._store.read(lambda tx: sessions.by_content_id(tx, DEFAULT_AGENT, ContentId(name)))
        if session and session.forgotten_at:
            session_file.forget(self._paths, name)
            return True
        try:
            with lock.hold(self._paths, name, wait_s=0):
                try:
                    session_file.change(
                        self._paths,
                        name,
                        lambda messages: self._store.read(lambda tx: self._kept(tx, session, messages)),
                    )
                finally:
                    self._clean_copies(name)
                if session and (group := group_of(session.project_key)):
                    self._clean_transcript(session, GroupPaths(self._paths.data, group))
        except SessionBusy:
            session_file.mark(self._paths, name)
            return False
        except (SessionUnreadable, BadInput, OSError, *events.DAMAGE_ERRORS) as error:
            log.warning("session.json of %s may hold forgotten text: %s", name, type(error).__name__)
        session_file.unmark(self._paths, name)
        return True

    def _clean_copies(self, name: str) -> None:
        """Clean what was written from session.json: its archive, and what was set aside because it is damaged."""
        if len(self._words) > 0 or self._store.read(forgotten.is_any):
            session_file.remove_damaged(self._paths, name)
        self._session_archives.rewrite(name)

    def _kept(self, tx: Tx, session: Session | None, messages: Iterable[Json]) -> list[Json]:
        """Return the messages without the blocks that were forgotten."""
        tool_uses = events.forgotten_tool_uses(tx, session.id) if session else set()
        words, kept = self._words_for(session), []
        for message in messages:
            at = str(message.get("timestamp") or "")
            blocks = [
                left
                for block in message["content"]
                if not (_has_words(block, words) or self._is_forgotten(tx, block, at, tool_uses))
                and (left := forgotten.redacted(tx, self._key, block, at)).get("text") != ""
            ]
            if blocks:
                kept.append(message | {"content": blocks})
        return kept

    def _words_for(self, session: Session | None) -> list[tuple[str, ...]]:
        """Return the words that texts of a session must not have."""
        projects = ("", session.project, session.project_key) if session else ("",)
        return [gone.needles for gone in self._words if gone.project in projects]

    def _clean_transcript(self, session: Session, paths: GroupPaths) -> None:
        """Remove what was forgotten from the transcript that the agent of a group resumes."""
        words = self._words_for(session)

        def has_words(text: str) -> bool:
            return _has_words({"text": text}, words)

        def work(tx: Tx) -> None:
            if words or forgotten.is_any_of(tx, session.id):
                tool_uses = events.forgotten_tool_uses(tx, session.id)
                change = forgotten_transcripts.without_forgotten(tx, self._key, tool_uses, has_words)
                forgotten_transcripts.clean(paths, session.content_session_id, change)

        self._store.read(work)

    def _is_forgotten(self, tx: Tx, block: Json, at: str, tool_uses: set[str]) -> bool:
        use, result = block.get("tool_use") or {}, block.get("tool_result") or {}
        if {use.get("id"), result.get("tool_use_id")} & tool_uses:
            return True
        values = {"text": block.get("text"), "input": use.get("input"), "content": result.get("content")}
        return forgotten.without(tx, self._key, values, at) is not values


def _has_words(block: Json, words: Iterable[tuple[str, ...]]) -> bool:
    text = json.dumps(block, ensure_ascii=False).lower()
    return any(all(needle in text for needle in needles) for needles in words)
