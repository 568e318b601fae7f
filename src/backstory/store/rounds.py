"""Moves events, and what was made of them, when the round that they belong to becomes known late."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from backstory.model import OBSERVED, Prompt, Report, Session
from backstory.store import events, forget, observations, prompts, sessions, turns
from backstory.store.db import Row, Tx
from backstory.store.index import chunks, search
from backstory.store.prompts import PromptPlace


def is_untold(tx: Tx, session: Session | None, report: Report) -> bool:
    """Tell whether the prompt of a report is not known, as far as that can be said.

    A report with the agent's id of its prompt is certain. One without an id is in doubt if its session has no prompt,
    or if the round at that moment has ended: then the hook of a new prompt was missed.
    """
    if report.kind not in OBSERVED:
        return False
    if session is None:
        return True
    if report.prompt_id:
        place = sessions.named(tx, session, report.prompt_id)
        return not (place and prompts.by_number(tx, session.id, place.number))
    if report.payload.get("stop_hook_active"):
        return False  # a hook of the user's made the agent go on
    at = report.occurred_at
    prompt = prompts.at(tx, session.id, at)
    if prompt is None:
        return True
    last = tx.one("round_last_end", session_id=session.id, prompt_number=prompt.prompt_number, at=at)
    return last is not None and last["kind"] == "stop"


def follow_prompt(tx: Tx, session: Session, prompt: PromptPlace, at: str) -> None:
    """Move the events of a prompt that was reported after them. Those of a private prompt are not kept."""
    where = {"session_id": session.id, "number": prompt.number}
    _move(tx, session, tx.all("events_after_prompt", at=at, **where), prompt)
    tx.run("turns_follow_prompt", at=at, **where)
    if prompt.is_private:
        _make_private(tx, session, prompt.number)


def place(tx: Tx, session: Session, row: Row, report: Report) -> bool:
    """Move a known event to the round that the transcript names, and fill in its contents if they were held back.

    Return whether anything changed.
    """
    prompt = sessions.named(tx, session, report.prompt_id) or _round_of(tx, session, row)
    is_moved = bool(row["prompt_number"] != prompt.number)
    if is_moved:
        _move(tx, session, [row, *_beside(tx, session, row, prompt)], prompt, report.prompt_id)
    elif row["prompt_id"] is None and report.prompt_id:
        tx.run("event_put_round", id=row["id"], prompt_number=prompt.number, prompt_id=report.prompt_id)
    if row["reason"] != "untold":
        return is_moved
    if prompt.is_private:
        return tx.run("event_make_private", id=row["id"]) > 0
    return tx.run("event_fill", id=row["id"], payload=msgspec.json.encode(report.payload).decode()) > 0


def _round_of(tx: Tx, session: Session, row: Row) -> PromptPlace:
    """Return the current round of an event. Its prompt is from before the install and is not stored."""
    prompt = prompts.by_number(tx, session.id, row["prompt_number"])
    return PromptPlace(row["prompt_number"], bool(prompt and prompt.is_private), is_new=False)


def add_telling(tx: Tx, session: Session, report: Report, known: Prompt) -> None:
    """Note that a known prompt was reported under another id. The events that carry that id belong to it."""
    place = prompts.place_of(known)
    events.add_telling(tx, session, report, place.number)
    _move(tx, session, _beside(tx, session, {"id": 0, "prompt_id": report.prompt_id}, place), place)


def _beside(tx: Tx, session: Session, row: Row, prompt: PromptPlace) -> list[Row]:
    """Return the other events with the prompt id of an event that are in another round."""
    if row["prompt_id"] is None:
        return []
    named = tx.all("events_with_prompt_id", session_id=session.id, prompt_id=row["prompt_id"], number=prompt.number)
    return [other for other in named if other["id"] != row["id"]]


def _move(tx: Tx, session: Session, rows: Iterable[Row], prompt: PromptPlace, prompt_id: str | None = None) -> None:
    left = set()
    for row in rows:
        if row["status"] == "leased":
            tx.run("lease_release", session_id=session.id, owner=row["lease_owner"])
        if row["status"] == "done" and row["kind"] in OBSERVED:
            _undo(tx, row["id"], even_theirs=prompt.is_private)
            left.add(row["prompt_number"])
        tx.run("event_put_round", id=row["id"], prompt_number=prompt.number, prompt_id=prompt_id)
        if not prompt.is_private:
            tx.run("event_hold_back", id=row["id"])
        if prompt.is_private and row["kind"] in OBSERVED:
            _blank(tx, row)
    for number in left:
        _summarize_again(tx, session.id, number)


def _undo(tx: Tx, event_id: int, even_theirs: bool = False) -> None:
    """Remove the observations of an event and queue it again.

    Observations that were pinned or edited by hand stay, unless they come from a private round.
    """
    for seen in tx.all("observations_of_event", event_id=event_id):
        sources = tx.all("observation_sources", id=seen["id"])
        if even_theirs or not (seen["edited_at"] or seen["pinned_at"]):
            forget.version(tx, seen)  # so that an older export does not bring it back
            observations.remove(tx, seen["id"])
        for source in sources:
            tx.run("event_requeue", id=source["id"])
    tx.run("event_requeue", id=event_id)


def _summarize_again(tx: Tx, session_id: int, number: int) -> None:
    """Make the summary of a round again from the events that are left in it."""
    _remove_summary(tx, session_id, number)
    for row in tx.all("events_of_number", session_id=session_id, prompt_number=number):
        if row["kind"] == "stop":
            _undo(tx, row["id"])


def _remove_summary(tx: Tx, session_id: int, number: int) -> None:
    for row in tx.all("summaries_of_round", session_id=session_id, prompt_number=number):
        if row["source"] == "stop":
            search.remove_words(tx, "summary", row["id"])
            tx.run("summary_remove", id=row["id"])


def _make_private(tx: Tx, session: Session, number: int) -> None:
    """Remove everything of a round except the ids by which its events are recognised."""
    for row in tx.all("events_of_number", session_id=session.id, prompt_number=number):
        _undo(tx, row["id"], even_theirs=True)
        _blank(tx, row)
    _remove_summary(tx, session.id, number)
    for turn in turns.of_round(tx, session.id, number):
        turns.blank(tx, turn)
    chunks.rebuild(tx, session.id)
    observations.follow_talk(tx, session.id)


def _blank(tx: Tx, row: Row) -> None:
    """Remove the contents of an event, from the files of the database, too."""
    if row["payload"] is not None:
        forget.request_erasure(tx)
    tx.run("event_make_private", id=row["id"])
