"""Writes observations and summaries, and indexes them. `memories` reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from backstory import gate, ids
from backstory.errors import BadInput, NotFound
from backstory.model import MemoryId, Noted, Observation, Reply, Round, Session, Summary
from backstory.store import marked, noted, repeated, sessions, statements, tool_copies, turns
from backstory.store.db import Row, Tx
from backstory.store.index.hits import IndexedItem, item_of
from backstory.store.index.indexing import index, put_words, remove_words
from backstory.text import json_list

#: Indexes the title and the body of an item: `put_words` for a new text, `index` for an unchanged one.
Put = Callable[[Tx, IndexedItem, str, str], None]
_TEXTS = ("type", "title", "subtitle", "narrative")
_LISTS = ("facts", "concepts", "files_read", "files_modified")


@dataclass(frozen=True, slots=True)
class Stored:
    """A provider's reply, ready to be stored."""

    reply: Reply
    provider: str
    digests: Mapping[str, str] = field(default_factory=dict)  #: path -> digest of the files that it is about


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The ids of the rows that were added."""

    observation_ids: tuple[int, ...] = ()
    summary_id: int | None = None


def store(tx: Tx, round: Round, stored: Stored) -> StoredRows:
    """Store the observations and the summary of a reply under the memory id of the session."""
    session = sessions.get(tx, round.session_id)
    reply = stored.reply
    memory_id = _register(tx, session, reply, reply.instead_of or stored.provider)
    added = tuple(_add(tx, session, round, each, memory_id, stored) for each in reply.observations)
    summary_id = None
    for one in reply.revised:
        put_texts(tx, get(tx, one.id), one)
    if reply.withdrawn or reply.carries:
        _revise_summaries(tx, session, round.prompt_number, replace(reply, provider=reply.provider or stored.provider))
    if reply.summary:
        at = round.events[-1].occurred_at
        summary_id = put_summary(tx, session, round.prompt_number, reply.summary, stored.provider, memory_id, at)
        if reply.instead_of:
            tx.run("summary_set_instead_of", id=summary_id, instead_of=reply.instead_of)
    return StoredRows(added, summary_id)


def _revise_summaries(tx: Tx, session: Session, prompt_number: int, reply: Reply) -> None:
    """Bring the earlier summaries of a session in line with a reply that withdraws claims or carries open ends on."""
    for row in tx.all("summaries_of_whole_session", session_id=session.id):
        number, known = row["prompt_number"], {each.name: row[each.name] for each in fields(Summary)}
        revised = dict(known)
        if number < prompt_number:
            revised |= dict.fromkeys(reply.carries, "")
            revised |= {name: _without(revised[name], reply.withdrawn) for name in ("learned", "completed")}
        if row["provider"] == reply.provider and revised != known:
            rest = (row["provider"], row["memory_session_id"], row["created_at"], row["source"])
            put_summary(tx, session, number, Summary(**revised), *rest)


def _without(text: str, sentences: Sequence[str]) -> str:
    """Remove sentences from a text, with the full stops that ended them."""
    for sentence in sentences:
        if sentence in text:
            text = " ".join(text.replace(sentence, "\0").replace("\0.", "").replace("\0", "").split())
    return text


def _register(tx: Tx, session: Session, reply: Reply, provider: str) -> MemoryId:
    """Return the memory id to store under: the provider's own, else the session's, else a made-up one."""
    known, given = session.memory_session_id, reply.memory_id
    if given and given != known and sessions.has_memory_id(tx, given):
        given = None  # it belongs to another session
    memory_id: MemoryId = given or known or synthesize(session, provider)
    sessions.register_memory_id(tx, session, memory_id, provider if given else None)
    if reply.grown:
        tx.run("session_force_init", id=session.id)
    return memory_id


def synthesize(session: Session, provider: str) -> MemoryId:
    """Return an id for a provider without conversations of its own. It is never resumed."""
    return MemoryId(f"{provider}-{session.id}-{ids.new_event_id()}")


def _add(tx: Tx, session: Session, round: Round, seen: Observation, memory_id: str, stored: Stored) -> int:
    sources = [event for event in round.events if event.id in seen.event_ids] or list(round.events)
    at = sources[-1].occurred_at
    sources = [*noted.unclaimed(tx, round, seen), *sources]
    about = {
        "memory_id": memory_id,
        "provider": stored.provider,
        "instead_of": stored.reply.instead_of or None,
        "importance": seen.importance,
        "at": at,
        "mark": seen.mark,
        "fact_marks": _json(seen.fact_marks),
        **{name: getattr(seen, name) for name in _TEXTS},
        **{name: _json(getattr(seen, name)) for name in _LISTS},
        **tool_copies.columns(sources),
    }
    if row := noted.continued(tx, round, seen):
        tx.run("observation_continue", id=row["id"], **about)
    else:
        where = {name: getattr(session, name) for name in ("project", "project_key")}
        row = tx.one("observation_add", session_id=session.id, prompt_number=round.prompt_number, **where, **about)
    assert row is not None  # noqa: S101 - an insert returns its id
    for event in sources:
        tx.run("observation_from_event", observation_id=row["id"], event_id=event.id)
    for path in {*seen.files_modified, *seen.files_read} & stored.digests.keys():
        tx.run("observation_file_add", observation_id=row["id"], path=path, mark=stored.digests[path])
    replies = turns.reply_text(tx, session.id, round.prompt_number, at)
    item = item_of("observation", row["id"], session, at)
    if repeated.is_hidden(tx, session, seen):
        tx.run("observation_hide", id=row["id"], at=ids.now())
        item = replace(item, is_hidden=True)
    _index(tx, item, seen, replies)
    _put_statements(tx, row["id"], seen, session.project_key, at)
    for old in seen.replaces:
        _replace(tx, old, row["id"], at)
    if same := repeated.find(tx, session, seen):
        _repeat(tx, row["id"], get(tx, same["id"]), at)
    return int(row["id"])


def _repeat(tx: Tx, number: int, same: Row, at: str) -> None:
    """Supersede the earlier of two observations that say the same. Sessions may be observed in any order."""
    if same["created_at"] <= at:
        supersede(tx, same["id"], number)
        tx.run("observation_repeat", id=number, repeats=same["id"], times=same["times_learned"] + 1)
        return
    if same["repeats"]:
        supersede(tx, same["repeats"], number)
        tx.run("observation_repeat", id=number, repeats=same["repeats"], times=same["times_learned"])
    supersede(tx, number, same["id"])
    tx.run("observation_repeat", id=same["id"], repeats=number, times=same["times_learned"] + 1)


def _replace(tx: Tx, old: int, number: int, at: str) -> None:
    """Supersede an observation that the observer names, unless it was superseded, or is newer than the round.

    The rules replace what lost its place in its session. What it repeated from another session stands again.
    """
    row = by_id(tx, old)
    if row and not row["superseded_by"] and row["created_at"] < at:
        with suppress(BadInput):
            supersede(tx, old, number)
        if row["repeats"] and row["provider"] == "offline":
            tx.run("observation_restore", id=row["repeats"], by=old)


def _put_statements(tx: Tx, number: int, seen: Observation, project_key: str, at: str | None = None) -> None:
    """Store what an observation states. With a time, supersede earlier observations that state another value."""
    tx.run("statements_remove", observation_id=number)
    for subject, value in statements.of(seen):
        about = {"observation_id": number, "subject": subject, "value": value, "project_key": project_key}
        tx.run("statement_add", **about)
        for old in tx.all("statements_replaced", at=at, **about) if at else ():
            supersede(tx, old["id"], number)


def by_id(tx: Tx, number: int) -> Row | None:
    return tx.one("observation_by_id", id=number)


def get(tx: Tx, number: int) -> Row:
    if row := by_id(tx, number):
        return row
    raise NotFound(f"There is no observation {number}.", "Search gives the ids.")


def of_event(tx: Tx, event_id: int) -> int | None:
    """Return the id of the first observation that came from an event."""
    row = tx.one("observation_of_event", id=event_id)
    return row["id"] if row else None


def edit(tx: Tx, number: int, changes: Row) -> Row:
    """Change the texts of an observation, and index them. Return the new row."""
    row = get(tx, number)
    changes = gate.document(dict(changes))
    marks = marked.after_edit(row, changes)
    changed = {name: _json(value) if isinstance(value, list) else value for name, value in (changes | marks).items()}
    said = {name: value for name, value in changes.items() if name not in marks}
    row |= changed | {"compressed_observation": _json({**_compressed(row), **said})}
    kept = ("id", "type", "mark", "title", "subtitle", "narrative", "facts", "fact_marks", "concepts")
    tx.run("observation_edit", at=ids.now(), observed_json=observed_json(row), **{name: row[name] for name in kept})
    index_row(tx, "observation", row, sessions.get(tx, row["session_id"]))
    return row


def put_texts(tx: Tx, row: Row, now: Noted) -> None:
    """Change the title, the facts, their marks and the importance of an observation, and index its texts."""
    clean = gate.document({"title": now.title, "facts": [*now.facts]})
    facts, compressed = _json(clean["facts"]), _json({**_compressed(row), **clean})
    about = {"id": row["id"], "title": clean["title"], "facts": facts, "importance": now.importance}
    about |= {"mark": now.mark, "fact_marks": _json(now.fact_marks)}
    revised = row | about | {"compressed_observation": compressed}
    tx.run("observation_revise", observed_json=observed_json(revised), **about)
    texts, before = ({each["title"], *json_list(each["facts"])} for each in (revised, row))
    if texts != before:  # the index knows neither marks nor the order of facts
        index_row(tx, "observation", revised, sessions.get(tx, row["session_id"]))


def _compressed(row: Row) -> Row:
    """Return the observer's JSON of an observation; if it is damaged, make it from the columns."""
    try:
        compressed = json.loads(row["compressed_observation"])
    except (ValueError, RecursionError):
        compressed = None
    return compressed if isinstance(compressed, dict) else _content(_seen(row))


def observed_json(row: Row) -> str:
    """Return the JSON of an observation as it is stored: nothing if the columns say the same, as they usually do."""
    made = _json({name: row[name] for name in _TEXTS} | {name: json_list(row[name]) for name in _LISTS})
    return "" if row["compressed_observation"] == made else str(row["compressed_observation"])


def _content(seen: Observation) -> Row:
    return {name: value for name, value in asdict(seen).items() if name in (*_TEXTS, *_LISTS)}


def pin(tx: Tx, number: int, on: bool) -> None:
    """Pin or unpin an observation. A pinned observation is in every context of its project."""
    row = get(tx, number)
    if on and row["superseded_by"]:
        raise BadInput(f"#{number} was replaced by #{row['superseded_by']}.", "Pin that one.")
    if on != bool(row["pinned_at"]):
        tx.run("observation_pin", id=number, at=ids.now() if on else None)


def supersede(tx: Tx, number: int, by: int | None) -> None:
    """Mark an observation as replaced by a later one; None takes that back."""
    row = get(tx, number)
    if by is None or by == row["superseded_by"]:
        if by is None:
            tx.run("observation_supersede", id=number, by=None, at=None)
        return
    new = get(tx, by)
    if by == number:
        raise BadInput("An observation cannot replace itself.", "Name the one that holds now.")
    if new["project_key"] != row["project_key"]:
        raise BadInput(f"#{by} is of another project.", "Name one of the same project.")
    if number in {successor["id"] for successor in tx.all("observation_successors", id=by)}:
        raise BadInput(f"#{by} was itself replaced by #{number}.", "Take that back first.")
    tx.run("observation_supersede", id=number, by=by, at=ids.now())
    # The successor of a pinned observation is pinned.
    if row["pinned_at"] and not new["pinned_at"] and not new["superseded_by"]:
        tx.run("observation_pin", id=by, at=row["pinned_at"])


def remove(tx: Tx, number: int) -> None:
    """Delete an observation and its words. Its successor, if any, supersedes what it had superseded."""
    row = by_id(tx, number)
    by = row and row["superseded_by"]
    for old in tx.all("observations_superseded_by", id=number):
        tx.run("observation_supersede", id=old["id"], by=by, at=by and ids.now())
    if row:
        repeated.count_one_less(tx, row)
    remove_words(tx, "observation", number)
    tx.run("observation_remove", id=number)


def _index(tx: Tx, item: IndexedItem, seen: Observation, around: str, put: Put = put_words) -> None:
    """Index an observation by its own text, and by the replies `around` it."""
    files = (*seen.files_read, *seen.files_modified)
    item = replace(item, type=seen.type, concepts=seen.concepts, files=files)
    put(tx, item, seen.title, f"{_body(seen)}\n{around}")


def _body(seen: Observation) -> str:
    lists = (*seen.facts, *seen.files_read, *seen.files_modified, " ".join(seen.concepts))
    return "\n".join((seen.subtitle, seen.narrative, *lists))


def own_words(row: Row) -> str:
    """Return all texts of an observation."""
    return f"{row['title']}\n{_body(_seen(row))}"


def _seen(row: Row) -> Observation:
    values: dict[str, Any] = {name: row[name] for name in _TEXTS}
    values |= {name: tuple(json_list(row[name])) for name in _LISTS}
    return Observation(**values, **marked.marks_of(row))


def index_row(tx: Tx, kind: str, row: Row, session: Session, put: Put = put_words) -> None:
    """Index a stored observation, summary or prompt of a session."""
    own = {name: row[name] for name in ("project", "project_key") if name in row}
    item = replace(item_of(kind, row["id"], session, row["created_at"]), **own)
    if row.get("hidden_at"):
        item = replace(item, is_hidden=True)
    if kind == "observation":
        seen = _seen(row)
        _index(tx, item, seen, turns.reply_text(tx, row["session_id"], row["prompt_number"], item.at), put)
        _put_statements(tx, row["id"], seen, row["project_key"])
    elif kind == "summary":
        texts = {field.name: row[field.name] for field in fields(Summary)}
        _index_summary(tx, item, texts, turns.reply_text(tx, row["session_id"], row["prompt_number"]), put)
    elif row["prompt"] and not (row.get("prompt_id") or "").startswith(turns.IMPORTED):
        put(tx, item, "", row["prompt"])


def _index_summary(tx: Tx, item: IndexedItem, texts: Mapping[str, str], around: str, put: Put = put_words) -> None:
    body = "\n".join(text for name, text in texts.items() if name != "request" and text)
    put(tx, item, texts["request"], f"{body}\n{around}")


def end_round(tx: Tx, session: Session) -> None:
    """Store the last replies of the rounds that ended, and reindex what was made of these rounds before."""
    for number in turns.add_last_replies(tx, session):
        about = {"session_id": session.id, "prompt_number": number}
        _reindex(tx, session, tx.all("observations_of_round", **about), tx.all("summaries_of_round", **about))


def reindex_session(tx: Tx, session_id: int) -> None:
    """Reindex the observations and summaries of a session whose turns have changed."""
    if session := sessions.by_id(tx, session_id):
        rows = tx.all("observations_of_whole_session", session_id=session_id)
        _reindex(tx, session, rows, tx.all("summaries_of_whole_session", session_id=session_id))


def _reindex(tx: Tx, session: Session, seen: list[Row], summaries: list[Row]) -> None:
    for kind, rows in (("observation", seen), ("summary", summaries)):
        for row in rows:
            index_row(tx, kind, row, session, index)


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
    """Store the summary of a round, in place of an earlier one."""
    texts = asdict(summary)
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
        **texts,
    )
    assert row is not None  # noqa: S101 - an upsert returns its id
    replies = turns.reply_text(tx, session.id, prompt_number)
    _index_summary(tx, item_of("summary", row["id"], session, at), texts, replies)
    return int(row["id"])


def decode(row: Row) -> Row:
    """Return an observation as the API shows it."""
    hidden = ("tool_input_json", "tool_response_text", "compressed_observation", "observed_json")
    marks = {"fact_marks": marked.fact_marks(row)} if "fact_marks" in row else {}
    return {k: json_list(v) if k in _LISTS else v for k, v in row.items() if k not in hidden} | marks


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
