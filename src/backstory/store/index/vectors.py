"""Vectors beside the words: what is due to get one, those that there are, and whose they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from backstory import ids
from backstory.store.db import Row, Store, Tx
from backstory.store.index.hits import Filter
from backstory.text import json_list

#: So many ids are marked as due in one go.
STEP = 2000
#: How each kind of item is read to be embedded, in the order in which they are.
_DUE = {
    "observation": "due_observations",
    "summary": "due_summaries",
    "prompt": "due_prompts",
    "chunk": "due_chunks",
    "turn": "due_turns",
}


@dataclass(frozen=True, slots=True)
class Due:
    """An item that is to get a vector; one without a text gets none."""

    kind: str
    item_id: int
    stamp: str
    session_id: int
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class Made:
    """The vector of an item, in the engine's own form."""

    of: Due
    vector: bytes | str
    scale: float = 1.0


def mark(tx: Tx, kind: str, item_id: int) -> None:
    """An item says something new: what it said before is not found by meaning any more, and it is due."""
    _gone(tx, kind, item_id)
    tx.run("vector_due", kind=kind, item_id=item_id, stamp=ids.new_event_id())


def remove(tx: Tx, kind: str, item_id: int) -> None:
    """Nothing is left of an item, nor will be."""
    tx.run("vector_not_due", kind=kind, item_id=item_id)
    _gone(tx, kind, item_id)


def _gone(tx: Tx, kind: str, item_id: int) -> None:
    for row in tx.all("vector_remove", kind=kind, item_id=item_id):
        tx.run("vector_gone", vector_id=row["id"])


def due(tx: Tx, limit: int) -> list[Due]:
    """Some of what is due, the newest of a kind first."""
    for kind, query in _DUE.items():
        if tx.one("vectors_due_of", kind=kind) and (rows := tx.all(query, limit=limit)):
            return [_due(kind, row) for row in rows]
    return []


def _due(kind: str, row: Row) -> Due:
    parts: list[str] = []
    for name, value in row.items():
        if name not in ("item_id", "stamp", "session_id", "at") and value:
            parts += json_list(value) if name == "facts" else [str(value)]
    return Due(kind, row["item_id"], row["stamp"], row["session_id"] or 0, row["at"] or "", "\n".join(parts).strip())


def put(tx: Tx, embedder_id: int, made: Iterable[Made], without: Iterable[Due] = ()) -> int:
    """Keep vectors, each only if its item still says what was embedded; how many were kept."""
    for item in without:
        tx.run("vector_done", kind=item.kind, item_id=item.item_id, stamp=item.stamp)
    kept = 0
    for one in made:
        item = one.of
        if not tx.run("vector_done", kind=item.kind, item_id=item.item_id, stamp=item.stamp):
            continue  # forgotten, changed, or done by another worker meanwhile
        for old in tx.all("vector_replace", kind=item.kind, item_id=item.item_id, embedder_id=embedder_id):
            tx.run("vector_gone", vector_id=old["id"])
        kept += tx.run(
            "vector_put",
            embedder_id=embedder_id,
            kind=item.kind,
            item_id=item.item_id,
            session_id=item.session_id,
            at=item.at,
            vector=one.vector,
            scale=one.scale,
        )
    return kept


def embedder(tx: Tx, name: str) -> Row:
    """The embedder by whose name vectors are made from now on. The first of all serves at once; another one is to begin
    with everything that has words (`again`). What was in the making for another is left."""
    tx.run("embedders_leave", name=name)
    known = tx.one("embedder_by_name", name=name)
    if known is None or known["state"] == "past":
        tx.run("embedder_add", name=name, at=ids.now())
        known = tx.one("embedder_by_name", name=name)
        assert known is not None  # noqa: S101 - it was just added
    return known


def again(store: Store) -> None:
    """Everything that has words is due; what serves goes on serving."""
    last = store.read(lambda tx: tx.one("vectors_last_item"))
    stamp = ids.new_event_id()
    for after in range(0, (last and last["id"]) or 0, STEP):
        store.write(partial(_some_due, stamp=stamp, after=after))


def _some_due(tx: Tx, stamp: str, after: int) -> None:
    tx.run("vectors_all_due", stamp=stamp, after=after, until=after + STEP)


def finish(tx: Tx, number: int) -> bool:
    """If nothing is due any more, this embedder serves from here on."""
    if (row := tx.one("vectors_due_count")) and row["count"]:
        return False
    return tx.run("embedders_serve", id=number) > 0


def sweep(tx: Tx, limit: int) -> bool:
    """Remove some of what nobody asks for any more; False when nothing is left of it."""
    for row in tx.all("embedders_past"):
        if tx.run("vectors_sweep", id=row["id"], limit=limit):
            return True
        tx.one("vectors_drop_index", id=row["id"])
        tx.run("embedder_remove", id=row["id"])
    return False


def sessions_of(tx: Tx, where: Filter) -> list[int] | None:
    """The sessions that a filter leaves; None if it asks for none in particular."""
    if not (where.project or where.agent or where.session_id):
        return None
    asked = {"project": where.project, "agent": where.agent, "session_id": where.session_id}
    row = tx.one("vectors_sessions", **asked)
    return list(json.loads(row["ids"])) if row else []


def some(tx: Tx, numbers: Sequence[int]) -> list[Row]:
    """Vectors by their ids, as far as they are there."""
    return tx.all("vectors_some", ids=json.dumps(numbers))


def whose(tx: Tx, numbers: Sequence[int], where: Filter) -> dict[int, Row]:
    """What they are the vectors of, as far as they are there and the filter leaves them."""
    return {row["id"]: row for row in tx.all("vectors_whose", ids=json.dumps(numbers), **_filter(where))}


def near(tx: Tx, embedder_id: int, query: str, kinds: Sequence[str], where: Filter, limit: int) -> list[Row]:
    """The nearest, where the engine knows how to look for them."""
    asked: dict[str, Any] = {"embedder_id": embedder_id, "kinds": json.dumps(list(kinds)), "query": query}
    asked |= {"project": where.project, "agent": where.agent, "session_id": where.session_id, "limit": limit}
    return tx.all("vectors_near", **asked, **_filter(where))


def _filter(where: Filter) -> dict[str, str]:
    return {
        "type": where.type,
        "concept": where.concept and json.dumps(where.concept, ensure_ascii=False),
        "file": json.dumps(where.file.replace("\\", "/").strip("/").lower(), ensure_ascii=False)[1:-1],
        "since": where.since,
        "until": where.until,
    }
