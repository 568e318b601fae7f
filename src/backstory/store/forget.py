"""Forgetting: deletes rows, payloads and indexed words. Ids and digests stay, so that nothing comes back."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from backstory import ids
from backstory.errors import NotFound
from backstory.model import OURSELVES, Prompt, Turn
from backstory.store import agent_sessions, forgotten, kept, ledger, observations, prompts, sessions, titles, turns
from backstory.store.db import LAST, Row, Tx
from backstory.store.index import bm25, chunks, search, tokens
from backstory.store.payloads import read_or_nothing
from backstory.store.tables import NATURAL

#: Rows that are searched in one pass, at most.
PAGE = 200
#: Characters. A shorter value of a payload means little by itself and may come back.
MIN_KEPT_OUT = 16
_WORD = re.compile(r'"([^"]+)"?|(\S+)')


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
    beside: set[int] = field(default_factory=set)  #: observations of the same events that stay
    changed_sessions: set[int] = field(default_factory=set)  #: sessions whose chunks must be rebuilt
    unkept_sessions: set[int] = field(default_factory=set)  #: sessions whose transcripts must not be kept any more
    names: set[str] = field(default_factory=set)  #: ids by which copies outside of the database are found
    key: bytes = b""  #: the key of the digests by which texts are recognised; empty to recognise none
    needles: tuple[str, ...] = ()  #: a text with all of these words is kept out at any time
    project: str = ""  #: the project in which the needles were looked for; empty for all


@dataclass(frozen=True, slots=True)
class Matches:
    """Items and events that contain given words."""

    items: list[Row]
    events: list[Row]


def digest_of(row: Row) -> str:
    """Return the digest by which an observation is recognised."""
    values = [row[name] for name in NATURAL["observations"] if name != "session_id"]
    return hashlib.sha256(json.dumps(values, ensure_ascii=False).encode()).hexdigest()


def is_forgotten(tx: Tx, session_id: int, kind: str, mark: str) -> bool:
    return tx.one("forgotten_has", session_id=session_id, kind=kind, mark=mark) is not None


def is_forgotten_observation(tx: Tx, row: Row) -> bool:
    """Tell whether an observation was forgotten in any session. Its session may be a copy."""
    return tx.one("forgotten_anywhere", kind="observation", mark=digest_of(row)) is not None


def keep_out_version(tx: Tx, row: Row) -> None:
    """Keep this version of an observation from coming back with an older export."""
    _mark(tx, row["session_id"], "observation", digest_of(row))


def observation(tx: Tx, number: int, gone: Forgotten) -> None:
    """Forget an observation, the events that it came from, and the summary and replies of its round."""
    row = tx.one("observation_by_id", id=number)
    if row is None:
        if number in gone.observations:
            return
        raise NotFound(f"There is no observation {number}.", "Search gives the ids.")
    gone.unkept_sessions.add(row["session_id"])
    gone.beside |= {other["id"] for other in tx.all("observations_of_same_events", id=number)}
    _events(tx, tx.all("observation_sources", id=number), gone)
    _summary_and_replies(tx, row["session_id"], row["prompt_number"], gone)
    _observation(tx, row, gone)
    gone.beside -= set(gone.observations)


def summary(tx: Tx, number: int, gone: Forgotten) -> None:
    if row := tx.one("summary_by_id", id=number):
        gone.unkept_sessions.add(row["session_id"])
        _summary_and_replies(tx, row["session_id"], row["prompt_number"], gone)


def prompt(tx: Tx, number: int, gone: Forgotten) -> None:
    """Forget a prompt, and the summary and replies of its round."""
    known = prompts.by_id(tx, number)
    if known is None:
        return
    session_id, prompt_number = known.session_id, known.prompt_number
    gone.unkept_sessions.add(session_id)
    _prompt(tx, known, gone)
    _events(tx, tx.all("events_of_prompt", session_id=session_id, prompt_number=prompt_number), gone)
    _turns(tx, turns.of_round(tx, session_id, prompt_number, "user"), gone)
    tx.run("session_forget_first_prompt", id=session_id)
    _summary_and_replies(tx, session_id, prompt_number, gone)


def turn(tx: Tx, number: int, gone: Forgotten) -> None:
    """Forget a turn, with its prompt or with the summary and replies of its round."""
    known = turns.by_id(tx, number)
    if known is None:
        return
    gone.unkept_sessions.add(known.session_id)
    known_prompt = prompts.by_number(tx, known.session_id, known.prompt_number)
    if known.role == "user" and known_prompt:
        prompt(tx, known_prompt.id, gone)
    else:
        _summary_and_replies(tx, known.session_id, known.prompt_number, gone)
    if left := turns.by_id(tx, number):
        _turns(tx, [left], gone)


def session(tx: Tx, number: int, gone: Forgotten) -> None:
    """Forget a whole session. Later reports of it are not stored either."""
    known = sessions.by_id(tx, number)
    if known is None:
        raise NotFound(f"There is no session {number}.", "`backstory sessions` lists them.")
    gone.unkept_sessions.add(number)
    for row in tx.all("observations_of_whole_session", session_id=number):
        _observation(tx, row, gone)
    for row in tx.all("summaries_of_whole_session", session_id=number):
        _summary(tx, row, gone)
    for row in tx.all("prompts_list", project="", session_id=number, before=LAST, limit=2**31):
        _prompt(tx, prompts.from_row(row), gone)
    _events(tx, tx.all("events_of_whole_session", session_id=number), gone)
    _turns(tx, turns.of_session(tx, number), gone)
    _titles(tx, titles.remove_all(tx, number), gone)
    # A session of memories that people add by hand is not closed: more of them may come.
    agent_sessions.forget(tx, number)
    tx.run("session_forget", id=number, at=None if known.agent == OURSELVES else ids.now())
    if not tx.one("project_key_of", project=known.project_key):
        ledger.forget_project(tx, known.project_key)  # this was the last session of the project
    gone.names.add(known.content_session_id)
    gone.sessions += 1


def project(tx: Tx, name: str, gone: Forgotten) -> None:
    """Forget every session of a project, by its name or key."""
    rows = tx.all("sessions_of_project", project=name)
    if not rows:
        raise NotFound("There is no such project.", "`backstory stats` lists them.")
    for row in rows:
        session(tx, row["id"], gone)


def find(tx: Tx, words: str, project_name: str = "") -> Matches:
    """Find everything that contains all of these words, whole or as parts of longer ones. Full-text search finds items
    by their words. Texts that are not indexed are searched row by row."""
    items = search.find(tx, words, project_name, limit=PAGE, every=True)
    items = [item for item in items if _has_words(tx, item, words)]
    items += search.find(tx, words, project_name, "turn", limit=PAGE, every=True)
    needles = _needles(words)
    known = {(item["kind"], item["id"]) for item in items}
    more = [key for key in _containing(tx, "items_containing", needles, project_name) if key not in known]
    rows = search.rows_by_key(tx, more)
    items += [{"score": 0.0} | rows[key] for key in more if key in rows]
    return Matches(items, list(_containing(tx, "events_containing", needles, project_name).values()))


def _needles(words: str) -> tuple[str, ...]:
    """Return the words and quoted phrases of a query, in lower case and without a trailing `*`."""
    texts = (phrase or word.rstrip("*") for phrase, word in _WORD.findall(words))
    return tuple(dict.fromkeys(text.lower() for text in texts if text.strip()))


def _containing(tx: Tx, query: str, needles: tuple[str, ...], project_name: str) -> dict[Any, Row]:
    """Return (kind, id) -> row of the rows that contain every needle."""
    matches: dict[Any, Row] = {}
    for at, needle in enumerate(sorted(needles, key=len, reverse=True)):
        limit = 2**31 if len(needles) > 1 else PAGE
        rows = tx.all(query, needle=needle, in_json=_in_json(needle), project=project_name, after=0, limit=limit)
        by_key = {(row["kind"], row["id"]): row for row in rows}
        matches = {key: row for key, row in matches.items() if key in by_key} if at else by_key
    return dict(list(matches.items())[:PAGE])


def _in_json(text: str) -> str:
    """Return a text as it is escaped inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _has_words(tx: Tx, item: Row, words: str) -> bool:
    """Tell whether an item itself has the words. Search finds observations by the replies of their round, too."""
    if item["kind"] != "observation" or (row := tx.one("observation_by_id", id=item["id"])) is None:
        return True
    text = tokens.of_text(observations.own_words(row))
    return all(bm25.count(text, term) for term in tokens.of_every_word(words))


def matching(tx: Tx, words: str, project_name: str, gone: Forgotten) -> None:
    """Forget everything that contains these words, until nothing does."""
    by_kind = {"observation": observation, "summary": summary, "prompt": prompt, "turn": turn}
    gone.needles, gone.project = _needles(words), project_name
    for _ in range(1000):
        matches = find(tx, words, project_name)
        before = _size(gone)
        for item in matches.items:
            if item["kind"] != "observation" or item["id"] not in gone.observations:
                by_kind[item["kind"]](tx, item["id"], gone)
        for event in matches.events:
            gone.unkept_sessions.add(event["session_id"])
            _events(tx, [event], gone)
            _summary_and_replies(tx, event["session_id"], event["prompt_number"], gone)
        if _size(gone) == before:
            break
    gone.unkept_sessions |= kept.containing(tx, [_in_json(needle) for needle in gone.needles], project_name)
    for _, number in _containing(tx, "sessions_containing", gone.needles, project_name):
        tx.run("session_forget_first_prompt", id=number)
        tx.run("session_forget_branch", id=number)
        _titles(tx, titles.remove_all(tx, number), gone)
    gone.beside -= set(gone.observations)


def _size(gone: Forgotten) -> int:
    return len(gone.observations) + gone.summaries + gone.prompts + gone.events + gone.turns


def _summary_and_replies(tx: Tx, session_id: int, number: int, gone: Forgotten) -> None:
    """Forget the summary and the replies of a round, what the agent itself wrote about the session, and the events."""
    for row in tx.all("summaries_of_round", session_id=session_id, prompt_number=number):
        _summary(tx, row, gone)
    _events(tx, tx.all("events_of_summaries", session_id=session_id, prompt_number=number), gone)
    _turns(tx, turns.of_round(tx, session_id, number), gone)
    _titles(tx, titles.remove_made(tx, session_id), gone)


def finish(tx: Tx, gone: Forgotten) -> None:
    """Rebuild the index of sessions from which turns were deleted, and remove the transcripts that say the same."""
    for number in gone.changed_sessions:
        chunks.rebuild(tx, number)
        observations.reindex_session(tx, number)
    gone.changed_sessions.clear()
    unkeep(tx, gone)


def unkeep(tx: Tx, gone: Forgotten) -> None:
    """Remove the kept transcripts of all sessions of which something was forgotten."""
    for number in gone.unkept_sessions:
        gone.transcripts += kept.forget(tx, number)
    gone.unkept_sessions.clear()


def request_erasure(tx: Tx) -> None:
    """Record that the files must be rewritten (`Store.scrub`), because they still hold what is deleted here."""
    tx.one("erasure_add", at=ids.now())


def open_erasure(tx: Tx) -> int | None:
    """Return the id of the latest erasure that was requested and is not done yet."""
    rows = tx.all("erasures_open")
    return rows[-1]["id"] if rows else None


def finish_erasures(tx: Tx, last: int) -> None:
    """Record that the files were rewritten after all erasures up to this id."""
    tx.run("erasure_done", id=last)


def _observation(tx: Tx, row: Row, gone: Forgotten) -> None:
    _mark(tx, row["session_id"], "observation", digest_of(row))
    observations.remove(tx, row["id"])
    gone.observations.append(row["id"])


def _summary(tx: Tx, row: Row, gone: Forgotten) -> None:
    _mark(tx, row["session_id"], "summary", f"{row['prompt_number']}:{row['source']}")
    search.remove_words(tx, "summary", row["id"])
    gone.summaries += tx.run("summary_remove", id=row["id"])


def _prompt(tx: Tx, known: Prompt, gone: Forgotten) -> None:
    if known.prompt:
        _keep_out(tx, known.prompt, known.created_at, gone)
    search.remove_words(tx, "prompt", known.id)
    gone.prompts += tx.run("prompt_forget", id=known.id)


def _events(tx: Tx, rows: Iterable[Row], gone: Forgotten) -> None:
    for row in rows:
        event = tx.one("event_payload", id=row["id"]) or {}
        for value in read_or_nothing(event["payload"]).values() if event.get("payload") else ():
            if isinstance(value, str | dict) and len(value) >= (MIN_KEPT_OUT if isinstance(value, str) else 1):
                _keep_out(tx, value, event["occurred_at"], gone)
        gone.events += tx.run("event_forget", id=row["id"])
        gone.names |= {name for name in (row["event_id"], row["tool_use_id"]) if name}


def _turns(tx: Tx, known: Iterable[Turn], gone: Forgotten) -> None:
    for each in known:
        if each.text:
            _keep_out(tx, each.text, each.at, gone)
        gone.turns += turns.blank(tx, each)
        gone.changed_sessions.add(each.session_id)


def _titles(tx: Tx, removed: Iterable[str], gone: Forgotten) -> None:
    """Keep the titles of an agent from coming back. Its transcript repeats them."""
    for title in removed:
        forgotten.add(tx, gone.key, title, forgotten.ALWAYS)


def _keep_out(tx: Tx, value: Any, at: str, gone: Forgotten) -> None:
    """Keep a text from coming back in any session: at that moment, or at any time if it has all needles."""
    text = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).lower()
    always = bool(gone.needles) and all(needle in text or _in_json(needle) in text for needle in gone.needles)
    forgotten.add(tx, gone.key, value, forgotten.ALWAYS if always else at)


def _mark(tx: Tx, session_id: int, kind: str, mark: str) -> None:
    tx.run("forgotten_add", session_id=session_id, kind=kind, mark=mark, at=ids.now())
