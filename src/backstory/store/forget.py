"""Forgetting: deletes rows, payloads and indexed words. Ids and digests stay, so that nothing comes back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from backstory import ids
from backstory.errors import NotFound
from backstory.model import OURSELVES
from backstory.store import (
    agent_sessions,
    contexts,
    forget_quoted,
    forget_rows,
    kept,
    ledger,
    marked,
    observations,
    prompts,
    sessions,
    titles,
    turns,
    usage,
)
from backstory.store.db import LAST, Row, Tx
from backstory.store.forget_rows import Forgotten, digest_of, in_json
from backstory.store.index import bm25, chunks, search, tokens

#: Rows that are searched in one pass, at most.
PAGE = 200
_WORD = re.compile(r'"([^"]+)"?|(\S+)')


@dataclass(frozen=True, slots=True)
class Matches:
    """Items and events that contain given words."""

    items: list[Row]
    events: list[Row]


def is_forgotten(tx: Tx, session_id: int, kind: str, mark: str) -> bool:
    return tx.one("forgotten_has", session_id=session_id, kind=kind, mark=mark) is not None


def is_forgotten_observation(tx: Tx, row: Row) -> bool:
    """Tell whether an observation was forgotten in any session. Its session may be a copy."""
    versions = (row, marked.as_before(row))
    return any(tx.one("forgotten_anywhere", kind="observation", mark=digest_of(each)) for each in versions)


def keep_out_version(tx: Tx, row: Row) -> None:
    """Keep this version of an observation from coming back with an older export."""
    forget_rows.mark(tx, row["session_id"], "observation", digest_of(row))


def observation(tx: Tx, number: int, gone: Forgotten) -> None:
    """Forget an observation and what only it says. The rest of its round stays."""
    row = observations.by_id(tx, number)
    if row:
        forget_quoted.observation(tx, row, gone)
    elif number not in gone.observations:
        raise NotFound(f"There is no observation {number}.", "Search gives the ids.")


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
    forget_rows.prompt(tx, known, gone)
    forget_rows.events(tx, tx.all("events_of_prompt", session_id=session_id, prompt_number=prompt_number), gone)
    forget_rows.blank_turns(tx, turns.of_round(tx, session_id, prompt_number, "user"), gone)
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
        forget_rows.blank_turns(tx, [left], gone)


def session(tx: Tx, number: int, gone: Forgotten) -> None:
    """Forget a whole session. Later reports of it are not stored either."""
    known = sessions.by_id(tx, number)
    if known is None:
        raise NotFound(f"There is no session {number}.", "`backstory sessions` lists them.")
    gone.unkept_sessions.add(number)
    for row in tx.all("observations_of_whole_session", session_id=number):
        forget_rows.observation(tx, row, gone)
    for row in tx.all("summaries_of_whole_session", session_id=number):
        forget_rows.summary(tx, row, gone)
    for row in tx.all("prompts_list", project="", session_id=number, before=LAST, limit=2**31):
        forget_rows.prompt(tx, prompts.from_row(row), gone)
    forget_rows.events(tx, tx.all("events_of_whole_session", session_id=number), gone)
    forget_rows.blank_turns(tx, turns.of_session(tx, number), gone)
    forget_rows.titles(tx, titles.remove_all(tx, number), gone)
    # A session of memories that people add by hand is not closed: more of them may come.
    agent_sessions.forget(tx, number)
    usage.forget(tx, number)
    contexts.forget(tx, number)
    tx.run("session_forget", id=number, at=None if known.agent == OURSELVES else ids.now())
    if not tx.one("project_key_of", project=known.project_key):
        ledger.forget_project(tx, known.project_key)  # this was the last session of the project
    gone.names.add(known.content_session_id)
    gone.sessions += 1


def check_project(tx: Tx, name: str) -> None:
    """Raise `NotFound` if there is no project of this name or key."""
    if not tx.all("sessions_of_project", project=name):
        raise NotFound("There is no such project.", "`backstory stats` lists them.")


def project(tx: Tx, name: str, gone: Forgotten) -> None:
    """Forget every session of a project, by its name or key."""
    for row in tx.all("sessions_of_project", project=name):
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
        rows = tx.all(query, needle=needle, in_json=in_json(needle), project=project_name, after=0, limit=limit)
        by_key = {(row["kind"], row["id"]): row for row in rows}
        matches = {key: row for key, row in matches.items() if key in by_key} if at else by_key
    return dict(list(matches.items())[:PAGE])


def _has_words(tx: Tx, item: Row, words: str) -> bool:
    """Tell whether an item itself has the words. Search finds observations by the replies of their round, too."""
    if item["kind"] != "observation" or (row := tx.one("observation_by_id", id=item["id"])) is None:
        return True
    text = tokens.of_text(observations.own_words(row))
    return all(bm25.count(text, term) for term in tokens.of_every_word(words))


def matching(tx: Tx, words: str, project_name: str, gone: Forgotten) -> None:
    """Forget everything that contains these words, until nothing does."""
    whole = {"summary": summary, "prompt": prompt, "turn": turn}
    gone.needles, gone.project = _needles(words), project_name
    for _ in range(1000):
        matches = find(tx, words, project_name)
        before = gone.size
        # Observations come last, because what they say is cut from the texts. A copy has the texts as they were.
        for item in matches.items:
            if item["kind"] != "observation":
                whole[item["kind"]](tx, item["id"], gone)
        for event in matches.events:
            gone.unkept_sessions.add(event["session_id"])
            forget_rows.events(tx, [event], gone)
            _summary_and_replies(tx, event["session_id"], event["prompt_number"], gone)
        if gone.size > before:
            continue
        for item in matches.items:
            if item["kind"] == "observation" and item["id"] not in gone.observations:
                observation(tx, item["id"], gone)
        if gone.size == before:
            break
    gone.unkept_sessions |= kept.containing(tx, [in_json(needle) for needle in gone.needles], project_name)
    for _, number in _containing(tx, "sessions_containing", gone.needles, project_name):
        tx.run("session_forget_first_prompt", id=number)
        tx.run("session_forget_branch", id=number)
        forget_rows.titles(tx, titles.remove_all(tx, number), gone)
    gone.beside -= set(gone.observations)


def _summary_and_replies(tx: Tx, session_id: int, number: int, gone: Forgotten) -> None:
    """Forget the summary and the replies of a round, what the agent itself wrote about the session, and the events."""
    for row in tx.all("summaries_of_round", session_id=session_id, prompt_number=number):
        forget_rows.summary(tx, row, gone)
    forget_rows.events(tx, tx.all("events_of_summaries", session_id=session_id, prompt_number=number), gone)
    forget_rows.blank_turns(tx, turns.of_round(tx, session_id, number), gone)
    forget_rows.titles(tx, titles.remove_made(tx, session_id), gone)


def finish(tx: Tx, gone: Forgotten) -> None:
    """Rebuild the index of sessions from which turns were deleted, and remove the transcripts that say the same. Who is
    observing a round has read it as it was, so every round that is claimed is observed anew."""
    tx.run("queue_release_all")
    sessions.force_init(tx)
    for number in gone.changed_sessions:
        chunks.rebuild(tx, number)
        observations.reindex_session(tx, number)
    gone.changed_sessions.clear()
    unkeep(tx, gone)
    for number in gone.cleaned_sessions:
        kept.clean_forgotten(tx, number, gone.key)
    gone.cleaned_sessions.clear()


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
