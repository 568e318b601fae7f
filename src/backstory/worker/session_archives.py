"""Archives of expired sessions outside of groups, as markdown: `agent-sessions/{content id}/conversations/NAME.md`."""

from __future__ import annotations

import os
from pathlib import Path

from backstory import files, ids
from backstory.agents import DEFAULT_AGENT
from backstory.errors import SessionUnreadable
from backstory.groups import saved_messages
from backstory.groups.archive import MAX_TITLE, file_names, rendered
from backstory.groups.saved_messages import ArchivedMessage
from backstory.model import ContentId
from backstory.paths import Paths, write_private
from backstory.sessions import session_file
from backstory.store import sessions, titles
from backstory.store.db import Store, Tx
from backstory.store.groups import UNTITLED, Archive
from backstory.text import cut, one_line


class SessionArchives:
    """One file for each session, with all of its messages. It is replaced when the session expires again."""

    def __init__(self, paths: Paths, store: Store, assistant_name: str) -> None:
        self._paths, self._store, self._assistant = paths, store, assistant_name

    def write(self, content_id: str, at: str = "") -> Path | None:
        """Write the archive of a session that the caller has locked. Return the file; None if nothing was said."""
        said, title = self._store.read(lambda tx: self._said(tx, content_id))
        folder = session_file.archives_of(self._paths, content_id)
        if not said:
            if folder.exists():
                files.remove(folder)
            return None
        made = Archive(0, "", content_id, title, "expire", None, "", at or ids.now(), None)
        path = folder / next(file_names(made))
        write_private(path, "".join(rendered(made, iter(said), self._assistant)).encode(errors="replace"))
        moment = ids.at_ms(made.archived_at) / 1000
        os.utime(path, (moment, moment))
        for other in folder.iterdir():
            if other != path:
                files.remove(other)
        return path

    def rewrite(self, content_id: str) -> None:
        """Write the archive of a session again, after text was forgotten and session.json was cleaned."""
        folder = session_file.archives_of(self._paths, content_id)
        for left in folder.glob(".*"):
            files.remove(left)  # of a worker that was killed
        if written := list(folder.glob("*.md")):
            self.write(content_id, ids.from_ms(round(max(path.stat().st_mtime for path in written) * 1000)))

    def _said(self, tx: Tx, content_id: str) -> tuple[list[ArchivedMessage], str]:
        """Return the messages of a session and its title: from session.json, else from the store."""
        session = sessions.by_content_id(tx, DEFAULT_AGENT, ContentId(content_id))
        try:
            file = session_file.read(self._paths, content_id)
        except SessionUnreadable:
            file = None
        said = saved_messages.of_file(file) if file else saved_messages.of_store(tx, session) if session else []
        rows = titles.of_session(tx, session.id) if session else []
        asked = next((each.text for each in said if each.role == "user"), "")
        return said, (rows[0]["title"] if rows else cut(one_line(asked), MAX_TITLE)) or UNTITLED
