"""Moves events to another round when their prompt becomes known late, and undoes what was made of them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from backstory.model import OBSERVED, Prompt, Report, Session
from backstory.store import events, forget, observations, prompts, sessions, turns
from backstory.store.db import Tx
from backstory.store.events import StoredEvent
from backstory.store.index import chunks, indexing
from backstory.store.prompts import PromptPlace


def is_prompt_missing(tx: Tx, session: Session | None, report: Report) -> bool:
    """Tell whether the prompt of a report was not reported yet. Without the agent's id of the prompt, it is probably
    missing if the session has none, if the round at that moment has ended, or if it began before a gap of the
    transcript."""
    if report.kind not in OBSERVED and report.kind != "reply":
        return False
    if session is None:
        return True
    if report.prompt_id:
        place = sessions.place_of_prompt_id(tx, session, report.prompt_id)
        return not (place and prompts.by_number(tx, session.id, place.number))
    if report.payload.get("stop_hook_active"):
        return False  # a hook of the user made the agent continue
    at = report.occurred_at
    prompt = prompts.at(tx, session.id, at)
    if prompt is None or (report.gap_since is not None and prompt.created_at <= report.gap_since):
        return True
    last = tx.one("round_last_end", session_id=session.id, prompt_number=prompt.prompt_number, at=at)
    return last is not None and last["kind"] == "stop"


def follow_prompt(tx: Tx, session: Session, prompt: PromptPlace, at: str) -> None:
    """Move the events of a prompt that was reported after them. Remove their content if it is private."""
    about = {"session_id": session.id, "number": prompt.number, "at": at}
    _move(tx, session, map(events.from_row, tx.all("events_after_prompt", **about)), prompt)
    tx.run("turns_follow_prompt", **about)
    if prompt.is_private:
        _make_private(tx, session, prompt.number)


def move_known(tx: Tx, session: Session, event: StoredEvent, report: Report) -> bool:
    """Move a stored event to the round that the transcript names, and add its content if that was held back. Return
    whether anything changed."""
    prompt = sessions.place_of_prompt_id(tx, session, report.prompt_id) or _current_round(tx, session, event)
    is_moved = event.prompt_number != prompt.number
    if is_moved:
        others = _in_other_rounds(tx, session, event.prompt_id, prompt)
        moved = [event, *(other for other in others if other.id != event.id)]
        _move(tx, session, moved, prompt, report.prompt_id)
    elif event.prompt_id is None and report.prompt_id:
        tx.run("event_put_round", id=event.id, prompt_number=prompt.number, prompt_id=report.prompt_id)
    if event.reason != "untold":
        return is_moved
    if prompt.is_private:
        return tx.run("event_make_private", id=event.id) > 0
    return tx.run("event_fill", id=event.id, payload=msgspec.json.encode(report.payload).decode()) > 0


def _current_round(tx: Tx, session: Session, event: StoredEvent) -> PromptPlace:
    """Return the current round of an event. Its prompt is from before the install and is not stored."""
    prompt = prompts.by_number(tx, session.id, event.prompt_number)
    return PromptPlace(event.prompt_number, bool(prompt and prompt.is_private), is_new=False)


def add_prompt_report(tx: Tx, session: Session, report: Report, known: Prompt) -> None:
    """Record that a known prompt was reported under another id. Move the events that carry that id to its round."""
    place = prompts.place_of(known)
    events.add_prompt_report(tx, session, report, place.number)
    _move(tx, session, _in_other_rounds(tx, session, report.prompt_id, place), place)


def _in_other_rounds(tx: Tx, session: Session, prompt_id: str | None, prompt: PromptPlace) -> list[StoredEvent]:
    """Return the events with a prompt id that are not in the round of that prompt."""
    about = {"session_id": session.id, "prompt_id": prompt_id, "number": prompt.number}
    return [events.from_row(row) for row in tx.all("events_with_prompt_id", **about)] if prompt_id is not None else []


def _move(
    tx: Tx, session: Session, moved: Iterable[StoredEvent], prompt: PromptPlace, prompt_id: str | None = None
) -> None:
    left = set()
    for event in moved:
        if event.status == "leased":
            tx.run("lease_release", session_id=session.id, owner=event.lease_owner)
        if event.status == "done" and event.kind in OBSERVED:
            _undo(tx, event.id, even_edited=prompt.is_private)
            left.add(event.prompt_number)
        tx.run("event_put_round", id=event.id, prompt_number=prompt.number, prompt_id=prompt_id)
        if not prompt.is_private:
            tx.run("event_hold_back", id=event.id)
        if prompt.is_private and event.kind in OBSERVED:
            _blank(tx, event)
    for number in left:  # make the summary again from the events that are left in the round
        _remove_summary(tx, session.id, number)
        for event in _of_round(tx, session.id, number):
            if event.kind == "stop":
                _undo(tx, event.id)


def _undo(tx: Tx, event_id: int, even_edited: bool = False) -> None:
    """Remove the observations of an event and queue it again. Those that were pinned or edited by hand stay, unless
    `even_edited`."""
    for seen in tx.all("observations_of_event", event_id=event_id):
        sources = tx.all("observation_sources", id=seen["id"])
        if even_edited or not (seen["edited_at"] or seen["pinned_at"]):
            forget.keep_out_version(tx, seen)
            observations.remove(tx, seen["id"])
        for source in sources:
            tx.run("event_requeue", id=source["id"])
    tx.run("event_requeue", id=event_id)


def _of_round(tx: Tx, session_id: int, number: int) -> list[StoredEvent]:
    rows = tx.all("events_of_number", session_id=session_id, prompt_number=number)
    return [events.from_row(row) for row in rows]


def _remove_summary(tx: Tx, session_id: int, number: int) -> None:
    for row in tx.all("summaries_of_round", session_id=session_id, prompt_number=number):
        if row["source"] == "stop":
            indexing.remove_words(tx, "summary", row["id"])
            tx.run("summary_remove", id=row["id"])


def _make_private(tx: Tx, session: Session, number: int) -> None:
    """Remove everything of a round except the ids by which its events are recognised."""
    for event in _of_round(tx, session.id, number):
        _undo(tx, event.id, even_edited=True)
        _blank(tx, event)
    _remove_summary(tx, session.id, number)
    for turn in turns.of_round(tx, session.id, number):
        turns.blank(tx, turn)
    chunks.rebuild(tx, session.id)
    observations.reindex_session(tx, session.id)


def _blank(tx: Tx, event: StoredEvent) -> None:
    """Remove the content of an event, also from the files of the database."""
    if event.payload is not None:
        forget.request_erasure(tx)
    tx.run("event_make_private", id=event.id)
