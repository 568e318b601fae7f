"""Kept transcripts: the agent's own entries of a conversation, each once and in order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backstory import gate, ids, transcript_gate
from backstory.model import Session
from backstory.store import forgotten
from backstory.store.db import Row, Tx

#: Rows that are read at once, at most.
PAGE_ROWS = 100
#: Characters of the entries in a page. A larger entry is alone in its page.
PAGE_CHARS = 2 << 20
#: The mark of an entry without an id begins with this.
_NO_ID = "line "


@dataclass(frozen=True, slots=True)
class KeptTranscript:
    """A kept transcript, of a session or of one of its subagents."""

    id: int
    session_id: int
    project_key: str
    subpath: str  #: empty for the session's own
    source: str  #: "file" or "sdk"
    is_private: bool  #: whether its last round is
    changed_at: str


@dataclass(frozen=True, slots=True)
class TranscriptKey:
    """What a kept transcript is found by."""

    session: Session
    project_key: str
    subpath: str = ""


@dataclass(slots=True)
class TranscriptEntry:
    """A clean entry of a transcript."""

    entry: Mapping[str, Any]
    nth: int | None = None  #: how many entries of its file say the same and come before it; None if that is not known
    payload: str = field(init=False)
    mark: str = field(init=False)  #: the agent's id, or the beginning of a mark

    def __post_init__(self) -> None:
        self.payload = transcript_gate.dumped(self.entry)
        uuid = self.entry.get("uuid")
        is_id = isinstance(uuid, str) and 0 < len(uuid) <= 512
        self.mark = gate.identifier(str(uuid)) if is_id else _NO_ID + _digest(self.entry)

    def replace(self, entry: Mapping[str, Any]) -> None:
        """Change what the entry says. It is still recognised as the same."""
        if entry is not self.entry:
            self.entry, self.payload = entry, transcript_gate.dumped(entry)

    @property
    def has_id(self) -> bool:
        return not self.mark.startswith(_NO_ID)


def clean(payload: str) -> str:
    """Clean an entry that is JSON already."""
    entry = json.loads(payload)
    clean = transcript_gate.clean(entry)
    return payload if clean == entry else transcript_gate.dumped(clean)


def _digest(entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()[:32]


def _from_row(row: Row) -> KeptTranscript:
    return KeptTranscript(
        id=row["id"],
        session_id=row["session_id"],
        project_key=row["project_key"],
        subpath=row["subpath"],
        source=row["source"],
        is_private=bool(row["is_private"]),
        changed_at=row["changed_at"],
    )


def find(tx: Tx, key: TranscriptKey) -> KeptTranscript | None:
    row = tx.one("kept_find", session_id=key.session.id, project_key=key.project_key, subpath=key.subpath)
    return _from_row(row) if row else None


def of_session(tx: Tx, session_id: int) -> list[KeptTranscript]:
    """Return the kept transcripts of a session: its own first, then those of its subagents. One for each subpath."""
    by_subpath: dict[str, KeptTranscript] = {}
    for row in tx.all("kept_of_session", session_id=session_id):
        by_subpath.setdefault(row["subpath"], _from_row(row))
    return list(by_subpath.values())


def listed(
    tx: Tx, after: int, limit: int, *, project_key: str = "", agent: str = "", content_id: str = "", is_whole: bool
) -> list[Row]:
    """Return kept transcripts as the API shows them, oldest first; with `is_whole` none of subagents."""
    about = {"project_key": project_key, "agent": agent, "content_id": content_id, "is_whole": int(is_whole)}
    return tx.all("kept_list", after=after, limit=limit, **about)


def content_ids(tx: Tx, agent: str) -> set[str]:
    """Return the agent's ids of the sessions whose transcripts are kept."""
    return {row["content_session_id"] for row in listed(tx, 0, 2**31, agent=agent, is_whole=True)}


def append(
    tx: Tx, key: TranscriptKey, source: str, entries: Sequence[TranscriptEntry], is_private: bool, secret: bytes
) -> int:
    """Add the entries that are new. Return how many.

    Nothing is added to a session of which something was forgotten, or if the entries repeat what was forgotten. That
    is recognised by digests with the key `secret`.
    """
    if not entries or is_refused(tx, key.session):
        return 0
    if forgotten.is_any(tx):
        tool_uses = _forgotten_tool_uses(tx, key.session.id)
        for each in entries:
            each.replace(transcript_gate.changed(each.entry, lambda text: text, tool_uses))
        if _hold_forgotten(tx, entries, secret):
            forget(tx, key.session.id)
            return 0
        for each in entries:
            each.replace(_without_forgotten(tx, each.entry, (), secret))
    kept = _hold(tx, key, source)
    added = 0
    for entry in entries:
        mark = entry.mark if entry.has_id else f"{entry.mark} {_nth(tx, kept, entry)}"
        added += tx.run("entry_add", transcript_id=kept.id, mark=mark, payload=entry.payload)
    if kept.is_private != is_private:
        tx.run("kept_set_private", id=kept.id, is_private=int(is_private))
    return added


def _hold(tx: Tx, key: TranscriptKey, source: str) -> KeptTranscript:
    about = {"session_id": key.session.id, "project_key": key.project_key, "subpath": key.subpath, "at": ids.now()}
    row = tx.one("kept_hold", **about) or tx.one("kept_add", **about, source=source) or tx.one("kept_hold", **about)
    assert row is not None  # noqa: S101 - another writer has just added it
    return _from_row(row)


def _nth(tx: Tx, kept: KeptTranscript, entry: TranscriptEntry) -> int:
    if entry.nth is not None:
        return entry.nth
    row = tx.one("entries_like", transcript_id=kept.id, first=f"{entry.mark} ", last=f"{entry.mark} ~")
    return int(row["count"]) if row else 0


def _hold_forgotten(tx: Tx, entries: Iterable[TranscriptEntry], secret: bytes) -> bool:
    """Whether an entry says what was forgotten, in this session or in another copy of it."""
    for each in entries:
        at = each.entry.get("timestamp")
        values = {str(number): value for number, value in enumerate(transcript_gate.values(each.entry))}
        if forgotten.without(tx, secret, values, at if isinstance(at, str) else ids.now()) is not values:
            return True
    return False


def _without_forgotten(
    tx: Tx, entry: Mapping[str, Any], tool_uses: Collection[str], secret: bytes
) -> Mapping[str, Any]:
    """Return an entry without forgotten sentences and tool uses; the same object if it has none."""
    at = entry.get("timestamp")
    texts = {text: text for text in transcript_gate.values(entry) if isinstance(text, str)}
    left = forgotten.redacted(tx, secret, texts, at if isinstance(at, str) else ids.now())
    changed = transcript_gate.changed(entry, lambda text: left.get(text, text), tool_uses)
    return entry if changed == entry else changed


def clean_forgotten(tx: Tx, session_id: int, secret: bytes) -> None:
    """Remove forgotten sentences and tool uses from the kept transcripts of a session and of those that repeat it."""
    others = [row["session_id"] for row in tx.all("kept_with_same_entries", session_id=session_id)]
    tool_uses = _forgotten_tool_uses(tx, session_id)
    for number in (session_id, *others):
        for row in tx.all("kept_of_session", session_id=number):
            after = 0
            while rows := tx.all("entries_page", transcript_id=row["id"], after=after, limit=PAGE_ROWS):
                for each in rows:
                    entry = json.loads(each["payload"])
                    left = _without_forgotten(tx, entry, tool_uses, secret)
                    if left is not entry:
                        tx.run("entry_put_payload", id=each["id"], payload=transcript_gate.dumped(left))
                after = rows[-1]["id"]


def _forgotten_tool_uses(tx: Tx, session_id: int) -> set[str]:
    return {row["tool_use_id"] for row in tx.all("forgotten_tool_uses", session_id=session_id)}


def is_refused(tx: Tx, session: Session) -> bool:
    """Whether nothing of a session is kept, because it or a part of it was forgotten."""
    mark = {"session_id": session.id, "kind": "transcript", "mark": ""}
    return session.forgotten_at is not None or tx.one("forgotten_has", **mark) is not None


def forget(tx: Tx, session_id: int) -> int:
    """Remove the transcripts of a session and of those that repeat it. None is kept again. Return how many went."""
    others = [row["session_id"] for row in tx.all("kept_with_same_entries", session_id=session_id)]
    removed = 0
    for number in (session_id, *others):
        removed += tx.run("kept_remove_of_session", session_id=number)
        tx.run("forgotten_add", session_id=number, kind="transcript", mark="", at=ids.now())
    return removed


def containing(tx: Tx, needles: Iterable[str], project: str) -> set[int]:
    """Return the sessions with an entry that contains every needle. They are in lower case, and escaped as in JSON."""
    found: dict[int, int] | None = None
    for needle in needles:
        rows = tx.all("kept_containing", in_json=needle, project=project)
        found = {row["id"]: row["session_id"] for row in rows if found is None or row["id"] in found}
    return set((found or {}).values())


def remove(tx: Tx, key: TranscriptKey) -> int:
    """Remove a transcript; that of a session with those of its subagents. Return how many were removed."""
    about = {"session_id": key.session.id, "project_key": key.project_key, "subpath": key.subpath}
    return tx.run("kept_remove", **about)


def page(tx: Tx, transcript_id: int, after: int) -> tuple[list[str], int | None]:
    """Return entries after an id as JSON, in their order, and the id to continue after; None at the end."""
    rows = tx.all("entries_page", transcript_id=transcript_id, after=after, limit=PAGE_ROWS)
    taken: list[Row] = []
    size = 0
    for row in rows:
        size += len(row["payload"])
        if taken and size > PAGE_CHARS:
            break
        taken.append(row)
    is_end = len(taken) == len(rows) < PAGE_ROWS
    return [row["payload"] for row in taken if row["payload"]], None if is_end else taken[-1]["id"]


def private_prompt_ids(tx: Tx, session_id: int) -> frozenset[str]:
    """Return the agent's ids of the prompts that are private."""
    return frozenset(row["prompt_id"] for row in tx.all("private_prompt_ids", session_id=session_id))
