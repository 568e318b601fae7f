"""Observations and summaries: what a round meant, stored under its session in one piece."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from backstory import gate, ids
from backstory.errors import BadInput, NotFound
from backstory.model import Event, MemoryId, Observation, Reply, Round, Session, Summary
from backstory.store import sessions, statements, turns
from backstory.store.db import Row, Tx
from backstory.store.index.hits import IndexedItem, item_of
from backstory.store.index.search import index, put_words, remove_words
from backstory.text import json_list

#: What is done with an item's title and text.
Put = Callable[[Tx, IndexedItem, str, str], None]
#: What tells of a round, and of a session.
_TOLD = {
    "observation": ("observations_of_round", "observations_of_whole_session"),
    "summary": ("summaries_of_round", "summaries_of_whole_session"),
}


@dataclass(frozen=True, slots=True)
class Stored:
    """A provider's reply, ready to be stored."""

    reply: Reply
    provider: str
    marks: Mapping[str, str] = field(default_factory=dict)  #: what the files it is about hold now, by their paths


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows that were made."""

    observation_ids: tuple[int, ...] = ()
    summary_id: int | None = None


def store(tx: Tx, round: Round, stored: Stored) -> StoredRows:
    """Register the memory id and store under it, in one transaction."""
    session = sessions.get(tx, round.session_id)
    reply = stored.reply
    memory_id = _register(tx, session, reply, reply.instead_of or stored.provider)
    made = tuple(_add(tx, session, round, o, memory_id, stored) for o in reply.observations)
    summary_id = None
    if reply.summary:
        at = round.events[-1].occurred_at
        summary_id = put_summary(tx, session, round.prompt_number, reply.summary, stored.provider, memory_id, at)
        if reply.instead_of:
            tx.run("summary_set_instead_of", id=summary_id, instead_of=reply.instead_of)
    return StoredRows(made, summary_id)


def _register(tx: Tx, session: Session, reply: Reply, provider: str) -> MemoryId:
    """The id to store under: the conversation's own if it has one, else the one that is known, else a made-up one."""
    known, said = session.memory_session_id, reply.memory_id
    if said and said != known and sessions.has_memory_id(tx, said):
        said = None  # another session's: two never share one
    memory_id: MemoryId = said or known or synthesize(session, provider)
    sessions.register_memory_id(tx, session, memory_id, provider if said else None)
    if reply.grown:
        tx.run("session_force_init", id=session.id)
    return memory_id


def synthesize(session: Session, provider: str) -> MemoryId:
    """An id for a provider that has no conversations of its own. It is never resumed."""
    return MemoryId(f"{provider}-{session.id}-{ids.new_event_id()}")


def _add(tx: Tx, session: Session, round: Round, seen: Observation, memory_id: str, stored: Stored) -> int:
    sources = [event for event in round.events if event.id in seen.event_ids] or list(round.events)
    row = tx.one(
        "observation_add",
        session_id=session.id,
        prompt_number=round.prompt_number,
        memory_id=memory_id,
        project=session.project,
        project_key=session.project_key,
        type=seen.type,
        title=seen.title,
        subtitle=seen.subtitle,
        narrative=seen.narrative,
        facts=_json(seen.facts),
        concepts=_json(seen.concepts),
        files_read=_json(seen.files_read),
        files_modified=_json(seen.files_modified),
        compressed=_json({k: v for k, v in asdict(seen).items() if k not in ("event_ids", "replaces")}),
        provider=stored.provider,
        instead_of=stored.reply.instead_of or None,
        at=sources[-1].occurred_at,
        **_source(sources),
    )
    assert row is not None  # noqa: S101 - an insert answers with its id
    for event in sources:
        tx.run("observation_from_event", observation_id=row["id"], event_id=event.id)
    for path in {*seen.files_modified, *seen.files_read} & stored.marks.keys():
        tx.run("observation_file_add", observation_id=row["id"], path=path, mark=stored.marks[path])
    item = item_of("observation", row["id"], session, sources[-1].occurred_at)
    _index(tx, item, seen, turns.said(tx, session.id, round.prompt_number, item.at))
    state(tx, row["id"], seen.type, seen.title, seen.facts, session.project_key, sources[-1].occurred_at)
    for old in seen.replaces:
        _replace(tx, old, row["id"], sources[-1].occurred_at)
    return int(row["id"])


def _replace(tx: Tx, old: int, number: int, at: str) -> None:
    """What a model says to be replaced: if it still holds, is of before, and may be. Whoever said otherwise while the
    model thought knows better."""
    row = by_id(tx, old)
    if row and not row["superseded_by"] and row["created_at"] < at:
        with suppress(BadInput):
            supersede(tx, row, number)


def state(
    tx: Tx, number: int, type_: str, title: str, facts: Sequence[str], project_key: str, at: str | None = None
) -> None:
    """Keep what an observation states; with a time, what was stated otherwise before it is history from now on."""
    tx.run("statements_remove", observation_id=number)
    for subject, value in statements.of(type_, title, facts):
        about = {"observation_id": number, "subject": subject, "value": value, "project_key": project_key}
        tx.run("statement_add", **about)
        for old in tx.all("statements_replaced", at=at, **about) if at else ():
            supersede(tx, old, number)


def by_id(tx: Tx, number: int) -> Row | None:
    return tx.one("observation_by_id", id=number)


def get(tx: Tx, number: int) -> Row:
    if row := by_id(tx, number):
        return row
    raise NotFound(f"There is no observation {number}.", "Search gives the ids that there are.")


def of_event(tx: Tx, event_id: int) -> int | None:
    """The id of the first observation that came from an event."""
    row = tx.one("observation_of_event", id=event_id)
    return row["id"] if row else None


def edit(tx: Tx, number: int, changes: Mapping[str, Any]) -> Row:
    """Change what an observation says; what it came from stays. The words follow."""
    row = get(tx, number)
    changes = gate.document(dict(changes))
    told = {**_compressed(row), **changes}
    changed = {name: _json(value) if isinstance(value, list) else value for name, value in changes.items()}
    row |= changed | {"compressed_observation": _json(told)}
    kept = ("id", "type", "title", "subtitle", "narrative", "facts", "concepts", "compressed_observation")
    tx.run("observation_edit", at=ids.now(), **{name: row[name] for name in kept})
    index_row(tx, "observation", row, sessions.get(tx, row["session_id"]))
    return row


def _compressed(row: Row) -> Row:
    """What the observer said; of a row that was edited by hand, what its columns say."""
    try:
        found = json.loads(row["compressed_observation"])
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    return {name: value for name, value in asdict(_seen(row)).items() if name not in ("event_ids", "replaces")}


def pin(tx: Tx, row: Row, on: bool) -> None:
    """Have an observation always stand in its project's context, or no longer."""
    if on and row["superseded_by"]:
        raise BadInput(f"#{row['id']} was replaced by #{row['superseded_by']}.", "Pin that one.")
    if on != bool(row["pinned_at"]):
        tx.run("observation_pin", id=row["id"], at=ids.now() if on else None)


def supersede(tx: Tx, row: Row, by: int | None) -> None:
    """Say that a later observation holds in place of this one, which becomes history; None takes that back."""
    number = row["id"]
    if by is None or by == row["superseded_by"]:
        if by is None:
            tx.run("observation_supersede", id=number, by=None, at=None)
        return
    new = get(tx, by)
    if by == number:
        raise BadInput("An observation can not replace itself.", "Name the one that holds now.")
    if new["project_key"] != row["project_key"]:
        raise BadInput(f"#{by} is of another project.", "Name one of the same project.")
    if number in {found["id"] for found in tx.all("observation_successors", id=by)}:
        raise BadInput(f"#{by} was itself replaced by #{number}.", "Take that back first.")
    tx.run("observation_supersede", id=number, by=by, at=ids.now())
    # What always stood in context still does, in its present form.
    if row["pinned_at"] and not new["pinned_at"] and not new["superseded_by"]:
        tx.run("observation_pin", id=by, at=row["pinned_at"])


def remove(tx: Tx, number: int) -> None:
    """Delete an observation and its words; what it had replaced is replaced by its own successor, or holds again."""
    row = by_id(tx, number)
    by = row and row["superseded_by"]
    for old in tx.all("observations_superseded_by", id=number):
        tx.run("observation_supersede", id=old["id"], by=by, at=by and ids.now())
    remove_words(tx, "observation", number)
    tx.run("observation_remove", id=number)


def _index(tx: Tx, item: IndexedItem, seen: Observation, around: str, put: Put = put_words) -> None:
    """By its own words, and by what was said around it: what was made of a talk is found by the talk, too."""
    files = (*seen.files_read, *seen.files_modified)
    item = replace(item, type=seen.type, concepts=seen.concepts, files=files)
    put(tx, item, seen.title, f"{_body(seen)}\n{around}")


def _body(seen: Observation) -> str:
    lists = (*seen.facts, *seen.files_read, *seen.files_modified, " ".join(seen.concepts))
    return "\n".join((seen.subtitle, seen.narrative, *lists))


def own_words(row: Row) -> str:
    """All that an observation says itself."""
    return f"{row['title']}\n{_body(_seen(row))}"


def _seen(row: Row) -> Observation:
    told: dict[str, Any] = {name: row[name] for name in ("type", "title", "subtitle", "narrative")}
    for name in ("facts", "concepts", "files_read", "files_modified"):
        told[name] = tuple(json_list(row[name]))
    return Observation(**told)


def index_row(tx: Tx, kind: str, row: Row, session: Session, put: Put = put_words) -> None:
    """Index a stored row: an observation, a summary, or a prompt, of a session."""
    own = {name: row[name] for name in ("project", "project_key") if name in row}
    item = replace(item_of(kind, row["id"], session, row["created_at"]), **own)
    if kind == "observation":
        seen = _seen(row)
        _index(tx, item, seen, turns.said(tx, row["session_id"], row["prompt_number"], item.at), put)
        state(tx, row["id"], row["type"], row["title"], seen.facts, row["project_key"])
    elif kind == "summary":
        told = {field.name: row[field.name] for field in fields(Summary)}
        _index_summary(tx, item, told, turns.said(tx, row["session_id"], row["prompt_number"]), put)
    elif row["prompt"] and not (row.get("prompt_id") or "").startswith(turns.IMPORTED):
        put(tx, item, "", row["prompt"])


def _index_summary(tx: Tx, item: IndexedItem, told: Mapping[str, str], around: str, put: Put = put_words) -> None:
    body = "\n".join(text for name, text in told.items() if name != "request" and text)
    put(tx, item, told["request"], f"{body}\n{around}")


def follow_round(tx: Tx, session: Session) -> None:
    """A round ended: its last words are kept, and what was told of it before is found by all that was said."""
    number = turns.ended(tx, session)
    if number is not None:
        follow_talk(tx, session.id, number)


def follow_talk(tx: Tx, session_id: int, prompt_number: int | None = None) -> None:
    """What was said in a round, or in all of a session, is not what it was: what is found by it follows."""
    session = sessions.by_id(tx, session_id)
    if session is None:
        return
    asked = {"session_id": session_id} | ({} if prompt_number is None else {"prompt_number": prompt_number})
    for kind, (in_round, in_all) in _TOLD.items():
        for row in tx.all(in_all if prompt_number is None else in_round, **asked):
            index_row(tx, kind, row, session, index)


def _source(sources: list[Event]) -> Mapping[str, Any]:
    """The one event that an observation came from, in the columns for it; none if there were several."""
    if len(sources) != 1:
        return {"tool_name": None, "tool_input_json": None, "tool_response_text": None}
    event = sources[0]
    response = event.payload.get("tool_response", event.payload.get("error"))
    return {
        "tool_name": event.tool_name,
        "tool_input_json": _json(event.payload.get("tool_input")),
        "tool_response_text": response if response is None or isinstance(response, str) else _json(response),
    }


def put_summary(
    tx: Tx,
    session: Session,
    prompt_number: int,
    summary: Summary,
    provider: str,
    memory_id: str | None,
    at: str,
    source: str = "stop",
) -> int:
    """Keep a round's summary; a later one of the same round takes its place."""
    told = asdict(summary)
    row = tx.one(
        "summary_put",
        session_id=session.id,
        prompt_number=prompt_number,
        memory_id=memory_id,
        project=session.project,
        project_key=session.project_key,
        source=source,
        provider=provider,
        at=at,
        **told,
    )
    assert row is not None  # noqa: S101 - an upsert always answers
    _index_summary(tx, item_of("summary", row["id"], session, at), told, turns.said(tx, session.id, prompt_number))
    return int(row["id"])


def decode(row: Row) -> Row:
    """An observation's row with its lists as lists."""
    out = {k: v for k, v in row.items() if k not in ("tool_input_json", "tool_response_text", "compressed_observation")}
    for name in ("facts", "concepts", "files_read", "files_modified"):
        if name in out:
            out[name] = json_list(out[name])
    return out


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
