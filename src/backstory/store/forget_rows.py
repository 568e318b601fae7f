"""Deletes single rows for `forget`, and records how to recognise copies of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from backstory import ids, passages
from backstory.model import Prompt, Summary, Turn
from backstory.store import forgotten, observations, turns
from backstory.store.db import Row, Tx
from backstory.store.index import indexing
from backstory.store.payloads import read_or_nothing
from backstory.store.tables import NATURAL

#: Characters. A shorter value of a payload means little by itself and may come back.
MIN_KEPT_OUT = 16
#: Columns with the texts of an observation and of a summary.
OBSERVED = ("title", "subtitle", "narrative")
SUMMARY = tuple(each.name for each in fields(Summary))


@dataclass(frozen=True, slots=True)
class Passage:
    """A sentence or an item that was removed from a text. The rest of the text stays."""

    kind: str  #: prompt, reply or summary
    session_id: int
    prompt_number: int
    text: str


@dataclass(slots=True)
class Forgotten:
    """What was deleted so far, and how to recognise copies of it."""

    observations: list[int] = field(default_factory=list)
    summaries: int = 0
    prompts: int = 0
    events: int = 0
    turns: int = 0
    sessions: int = 0
    transcripts: int = 0  #: kept ones, of sessions and subagents
    passages: list[Passage] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)  #: the observations, as they were
    beside: set[int] = field(default_factory=set)  #: observations of the same events that stay
    changed_sessions: set[int] = field(default_factory=set)  #: sessions whose chunks must be rebuilt
    unkept_sessions: set[int] = field(default_factory=set)  #: sessions whose transcripts must not be kept any more
    cleaned_sessions: set[int] = field(default_factory=set)  #: sessions whose kept transcripts lose what was forgotten
    names: set[str] = field(default_factory=set)  #: ids by which copies outside of the database are found
    key: bytes = b""  #: the key of the digests by which texts are recognised; empty to recognise none
    needles: tuple[str, ...] = ()  #: a text with all of these words is kept out at any time
    project: str = ""  #: the project in which the needles were looked for; empty for all

    @property
    def size(self) -> int:
        counts = self.summaries + self.prompts + self.events + self.turns
        return len(self.observations) + len(self.passages) + counts


def digest_of(row: Row) -> str:
    """Return the digest by which an observation is recognised."""
    values = [row[name] for name in NATURAL["observations"] if name != "session_id"]
    return hashlib.sha256(json.dumps(values, ensure_ascii=False).encode()).hexdigest()


def mark(tx: Tx, session_id: int, kind: str, mark: str) -> None:
    """Keep something of a session from coming back."""
    tx.run("forgotten_add", session_id=session_id, kind=kind, mark=mark, at=ids.now())


def observation(tx: Tx, row: Row, gone: Forgotten) -> None:
    mark(tx, row["session_id"], "observation", digest_of(row))
    _keep_out_always(tx, [row[name] for name in OBSERVED], row["session_id"], gone)
    observations.remove(tx, row["id"])
    gone.observations.append(row["id"])
    gone.rows.append(row)


def summary(tx: Tx, row: Row, gone: Forgotten) -> None:
    mark(tx, row["session_id"], "summary", f"{row['prompt_number']}:{row['source']}")
    _keep_out_always(tx, [row[name] for name in SUMMARY], row["session_id"], gone)
    indexing.remove_words(tx, "summary", row["id"])
    gone.summaries += tx.run("summary_remove", id=row["id"])


def prompt(tx: Tx, known: Prompt, gone: Forgotten) -> None:
    if known.prompt:
        keep_out(tx, known.prompt, known.created_at, known.session_id, gone)
    indexing.remove_words(tx, "prompt", known.id)
    gone.prompts += tx.run("prompt_forget", id=known.id)


def events(tx: Tx, rows: Iterable[Row], gone: Forgotten) -> None:
    for row in rows:
        event = tx.one("event_payload", id=row["id"]) or {}
        for value in read_or_nothing(event["payload"]).values() if event.get("payload") else ():
            if isinstance(value, str | dict) and len(value) >= (MIN_KEPT_OUT if isinstance(value, str) else 1):
                keep_out(tx, value, event["occurred_at"], event["session_id"], gone)
        tx.run("observations_forget_source", id=row["id"])
        gone.events += tx.run("event_forget", id=row["id"])
        gone.names |= {name for name in (row["event_id"], row["tool_use_id"]) if name}


def blank_turns(tx: Tx, known: Iterable[Turn], gone: Forgotten) -> None:
    for each in known:
        if each.text:
            keep_out(tx, each.text, each.at, each.session_id, gone)
        gone.turns += turns.blank(tx, each)
        gone.changed_sessions.add(each.session_id)


def titles(tx: Tx, removed: Iterable[str], gone: Forgotten) -> None:
    """Keep the titles of an agent from coming back. Its transcript repeats them."""
    for title in removed:
        forgotten.add(tx, gone.key, title, forgotten.ALWAYS)


def keep_out(tx: Tx, value: Any, at: str, session_id: int, gone: Forgotten) -> None:
    """Keep a text from coming back in any session: at that moment, or at any time if it has all needles.

    A copy may have it as it was before something was cut from it, or as a part of a longer text. So each passage of a
    text that may have been cut, and each that has all needles, is kept out, too.
    """
    moment = _moment(value, at, gone)
    forgotten.add(tx, gone.key, value, moment)
    is_cut = tx.one("forgotten_cut", session_id=session_id) is not None
    if isinstance(value, str) and (is_cut or moment == forgotten.ALWAYS):
        parts = passages.cut(value, lambda each: is_cut or _moment(each, at, gone) == forgotten.ALWAYS)
        keep_out_passages(tx, parts, at, gone)


def _keep_out_always(tx: Tx, texts: Iterable[str], session_id: int, gone: Forgotten) -> None:
    """Keep texts with all needles out of other copies of a memory. Others may be repeated: a request is a prompt."""
    for text in texts:
        if _moment(text, "at", gone) == forgotten.ALWAYS:
            keep_out(tx, text, forgotten.ALWAYS, session_id, gone)


def _moment(value: Any, at: str, gone: Forgotten) -> str:
    """Return when a text is kept out."""
    text = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).lower()
    always = bool(gone.needles) and all(needle in text or in_json(needle) in text for needle in gone.needles)
    return forgotten.ALWAYS if always else at


def passage(tx: Tx, removed: passages.Cut, at: str, about: tuple[str, int, int], gone: Forgotten) -> None:
    """Record the passages that were removed from a text, and keep them out of copies of that text."""
    keep_out_passages(tx, removed, at, gone)
    gone.passages += [Passage(*about, text) for text in removed.removed]


def keep_out_passages(tx: Tx, removed: passages.Cut, at: str, gone: Forgotten) -> None:
    """Keep the passages that were removed from a text out of copies of that text."""
    for text in removed.removed:
        forgotten.add_passage(tx, gone.key, text, _moment(text, at, gone))


def in_json(text: str) -> str:
    """Return a text as it is escaped inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
