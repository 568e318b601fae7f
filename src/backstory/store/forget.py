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
from backstory.store import forgotten, ledger, observations, prompts, sessions, turns
from backstory.store.db import Row, Tx
from backstory.store.index import bm25, chunks, search, tokens
from backstory.store.index.hits import Hit
from backstory.store.payloads import read_or_nothing
from backstory.store.tables import NATURAL

#: Rows with given words that are looked at in one go, at most.
PAGE = 200
#: Characters. A shorter value of a payload says nothing by itself and is not kept out later.
SHORT = 16
_WORD = re.compile(r'"([^"]+)"?|(\S+)')


@dataclass(slots=True)
class Forgotten:
    """What was deleted."""

    observations: list[int] = field(default_factory=list)
    summaries: int = 0
    prompts: int = 0
    events: int = 0
    turns: int = 0
    sessions: int = 0
    beside: set[int] = field(default_factory=set)  #: observations that stay although they came from the same events
    talks: set[int] = field(default_factory=set)  #: sessions whose chunks must be rebuilt
    names: set[str] = field(default_factory=set)  #: ids that copies outside of the database carry
    key: bytes = b""  #: the key of the digests by which texts are recognised; empty to recognise none
    needles: tuple[str, ...] = ()  #: a text with all of these words is kept out, whenever it was said


@dataclass(frozen=True, slots=True)
class Matches:
    """What contains given words: rows to show, and events that no row was made of."""

    items: list[Row]
    events: list[Row]


def mark_of(row: Row) -> str:
    """Return the digest by which an observation is recognised."""
    values = [row[name] for name in NATURAL["observations"] if name != "session_id"]
    return hashlib.sha256(json.dumps(values, ensure_ascii=False).encode()).hexdigest()


def is_forgotten(tx: Tx, session_id: int, kind: str, mark: str) -> bool:
    return tx.one("forgotten_has", session_id=session_id, kind=kind, mark=mark) is not None


def is_forgotten_observation(tx: Tx, row: Row) -> bool:
    """Tell whether an observation was forgotten, in this session or in one that this is a copy of."""
    return tx.one("forgotten_anywhere", kind="observation", mark=mark_of(row)) is not None


def version(tx: Tx, row: Row) -> None:
    """Keep the old version of an observation from coming back with an older export."""
    _mark(tx, row["session_id"], "observation", mark_of(row))


def observation(tx: Tx, number: int, gone: Forgotten) -> None:
    """Forget an observation, the payloads that it came from, and what else tells of its round."""
    row = tx.one("observation_by_id", id=number)
    if row is None:
        if number in gone.observations:
            return
        raise NotFound(f"There is no observation {number}.", "Search gives the ids that there are.")
    gone.beside |= {other["id"] for other in tx.all("observations_of_same_events", id=number)}
    _events(tx, tx.all("observation_sources", id=number), gone)
    _story(tx, row["session_id"], row["prompt_number"], gone)
    _observation(tx, row, gone)
    gone.beside -= set(gone.observations)


def summary(tx: Tx, number: int, gone: Forgotten) -> None:
    if row := tx.one("summary_by_id", id=number):
        _story(tx, row["session_id"], row["prompt_number"], gone)


def prompt(tx: Tx, number: int, gone: Forgotten) -> None:
    """Forget a prompt, and the summary that repeats it."""
    asked = prompts.by_id(tx, number)
    if asked is None:
        return
    _prompt(tx, asked, gone)
    about = {"session_id": asked.session_id, "prompt_number": asked.prompt_number}
    _events(tx, tx.all("events_of_prompt", **about), gone)
    _turns(tx, asked.session_id, asked.prompt_number, "user", gone)
    tx.run("session_forget_first_prompt", id=asked.session_id)
    _story(tx, asked.session_id, asked.prompt_number, gone)


def turn(tx: Tx, number: int, gone: Forgotten) -> None:
    """Forget a turn: with its prompt, or with the replies of its round and what tells of it."""
    said = turns.by_id(tx, number)
    if said is None:
        return
    asked = prompts.by_number(tx, said.session_id, said.prompt_number)
    if said.role == "user" and asked:
        prompt(tx, asked.id, gone)
    else:
        _story(tx, said.session_id, said.prompt_number, gone)
    if left := turns.by_id(tx, number):
        _turn(tx, left, gone)


def session(tx: Tx, number: int, gone: Forgotten) -> None:
    """Forget a whole session. Later reports of it are not kept either."""
    known = sessions.by_id(tx, number)
    if known is None:
        raise NotFound(f"There is no session {number}.", "`backstory sessions` lists them.")
    for seen in tx.all("observations_of_whole_session", session_id=number):
        _observation(tx, seen, gone)
    for row in tx.all("summaries_of_whole_session", session_id=number):
        _summary(tx, row, gone)
    for row in tx.all("prompts_list", project="", session_id=number, before=2**62, limit=2**31):
        _prompt(tx, prompts.from_row(row), gone)
    _events(tx, tx.all("events_of_whole_session", session_id=number), gone)
    for said in turns.of_session(tx, number):
        _turn(tx, said, gone)
    # A session of memories that people add is no conversation: more of them may come.
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
    """Find everything that has all of these words, whole or as parts of longer ones.

    This is what search finds, and the texts that are not indexed.
    """
    items = [item for item in search.find(tx, words, project_name, limit=PAGE, every=True) if _says(tx, item, words)]
    items += search.find(tx, words, project_name, "turn", limit=PAGE, every=True)
    needles = _needles(words)
    known = {(item["kind"], item["id"]) for item in items}
    more = [key for key in _holding(tx, "items_containing", needles, project_name) if key not in known]
    items += search.rows_of(tx, [Hit(kind, number, 0, 0.0, "") for kind, number in more])
    held = _holding(tx, "events_containing", needles, project_name)
    return Matches(items, list(held.values()))


def _needles(words: str) -> tuple[str, ...]:
    """Return the words and quoted phrases to look for, in lower case and without a trailing `*`."""
    each = (phrase or word.rstrip("*") for phrase, word in _WORD.findall(words))
    return tuple(dict.fromkeys(one.lower() for one in each if one.strip()))


def _holding(tx: Tx, query: str, needles: tuple[str, ...], project_name: str) -> dict[Any, Row]:
    """Return the rows that have every needle, by kind and id."""
    matching: dict[Any, Row] = {}
    for at, needle in enumerate(sorted(needles, key=len, reverse=True)):
        asked = {"needle": needle, "in_json": json.dumps(needle, ensure_ascii=False)[1:-1], "project": project_name}
        rows = tx.all(query, **asked, after=0, limit=2**31 if len(needles) > 1 else PAGE)
        having = {(row["kind"], row["id"]): row for row in rows}
        matching = {key: row for key, row in matching.items() if key in having} if at else having
    return dict(list(matching.items())[:PAGE])


def _has_all(text: str, needles: tuple[str, ...]) -> bool:
    small = text.lower()
    return all(needle in small or json.dumps(needle, ensure_ascii=False)[1:-1] in small for needle in needles)


def _says(tx: Tx, item: Row, words: str) -> bool:
    """Tell whether an item itself has the words. Search finds observations by what was said around them, too."""
    if item["kind"] != "observation" or (row := tx.one("observation_by_id", id=item["id"])) is None:
        return True
    text = tokens.of_text(observations.own_words(row))
    return all(bm25.count(text, term) for term in tokens.of_every_word(words))


def matching(tx: Tx, words: str, project_name: str, gone: Forgotten) -> None:
    """Forget everything that has these words, until nothing has them."""
    by_kind = {"observation": observation, "summary": summary, "prompt": prompt, "turn": turn}
    gone.needles = _needles(words)
    for _ in range(1000):
        matches = find(tx, words, project_name)
        before = _size(gone)
        for item in matches.items:
            if item["kind"] != "observation" or item["id"] not in gone.observations:
                by_kind[item["kind"]](tx, item["id"], gone)
        for event in matches.events:
            _events(tx, [event], gone)
            _story(tx, event["session_id"], event["prompt_number"], gone)
        if _size(gone) == before:
            break
    for _, number in _holding(tx, "sessions_containing", gone.needles, project_name):
        tx.run("session_forget_first_prompt", id=number)
        tx.run("session_forget_branch", id=number)
    gone.beside -= set(gone.observations)


def _size(gone: Forgotten) -> int:
    return len(gone.observations) + gone.summaries + gone.prompts + gone.events + gone.turns


def _story(tx: Tx, session_id: int, number: int, gone: Forgotten) -> None:
    """Forget what tells of a round: its summary, the replies, the agent's summaries, and their events."""
    for row in tx.all("summaries_of_round", session_id=session_id, prompt_number=number):
        _summary(tx, row, gone)
    _events(tx, tx.all("events_of_summaries", session_id=session_id, prompt_number=number), gone)
    _turns(tx, session_id, number, "assistant", gone)


def finish(tx: Tx, gone: Forgotten) -> None:
    """Rebuild the chunks of sessions from which something was deleted."""
    for number in gone.talks:
        chunks.rebuild(tx, number)
        observations.follow_talk(tx, number)
    gone.talks.clear()


def request_erasure(tx: Tx) -> None:
    """Note that the files still hold what this transaction deletes. `Store.scrub` removes it from them."""
    tx.one("erasure_add", at=ids.now())


def open_erasure(tx: Tx) -> int | None:
    """The id of the latest erasure that was requested and not done yet."""
    rows = tx.all("erasures_open")
    return rows[-1]["id"] if rows else None


def finish_erasures(tx: Tx, last: int) -> None:
    """The files hold nothing any more of what erasures up to this id deleted."""
    tx.run("erasure_done", id=last)


def _observation(tx: Tx, row: Row, gone: Forgotten) -> None:
    _mark(tx, row["session_id"], "observation", mark_of(row))
    observations.remove(tx, row["id"])
    gone.observations.append(row["id"])


def _summary(tx: Tx, row: Row, gone: Forgotten) -> None:
    _mark(tx, row["session_id"], "summary", f"{row['prompt_number']}:{row['source']}")
    search.remove_words(tx, "summary", row["id"])
    gone.summaries += tx.run("summary_remove", id=row["id"])


def _prompt(tx: Tx, asked: Prompt, gone: Forgotten) -> None:
    if asked.prompt:
        _keep_out(tx, asked.prompt, asked.created_at, gone)
    search.remove_words(tx, "prompt", asked.id)
    gone.prompts += tx.run("prompt_forget", id=asked.id)


def _events(tx: Tx, rows: Iterable[Row], gone: Forgotten) -> None:
    for row in rows:
        held = tx.one("event_payload", id=row["id"]) or {}
        for value in read_or_nothing(held["payload"]).values() if held.get("payload") else ():
            if isinstance(value, str | dict) and len(value) >= (SHORT if isinstance(value, str) else 1):
                _keep_out(tx, value, held["occurred_at"], gone)
        gone.events += tx.run("event_forget", id=row["id"])
        gone.names |= {name for name in (row["event_id"], row["tool_use_id"]) if name}


def _turns(tx: Tx, session_id: int, number: int, role: str, gone: Forgotten) -> None:
    for said in turns.of_round(tx, session_id, number, role):
        _turn(tx, said, gone)


def _turn(tx: Tx, said: Turn, gone: Forgotten) -> None:
    if said.text:
        _keep_out(tx, said.text, said.at, gone)
    gone.turns += turns.blank(tx, said)
    gone.talks.add(said.session_id)


def _keep_out(tx: Tx, value: Any, at: str, gone: Forgotten) -> None:
    """Keep a text out of every session: at that moment, or always if it has the words that were asked for."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    always = bool(gone.needles) and _has_all(text, gone.needles)
    forgotten.add(tx, gone.key, value, forgotten.ALWAYS if always else at)


def _mark(tx: Tx, session_id: int, kind: str, mark: str) -> None:
    tx.run("forgotten_add", session_id=session_id, kind=kind, mark=mark, at=ids.now())
