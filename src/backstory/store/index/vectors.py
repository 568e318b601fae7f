"""Stored vectors, the items that are due to get one, and the embedders that make them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from backstory import ids
from backstory.store.db import Row, Store, Tx
from backstory.store.index.hits import KINDS, Filter, Hit
from backstory.text import json_list

#: Ids that are marked as due in one transaction.
STEP = 2000
#: Kind -> query of the texts to embed, in the order in which kinds are embedded.
_DUE = {
    "observation": "due_observations",
    "summary": "due_summaries",
    "prompt": "due_prompts",
    "chunk": "due_chunks",
    "turn": "due_turns",
}


@dataclass(frozen=True, slots=True)
class EmbedderRow:
    """An embedder that made vectors."""

    id: int
    name: str
    state: str  #: filling, making, serving or past


@dataclass(frozen=True, slots=True)
class VectorPage:
    """A page of vectors to hold in memory, column by column. Damaged vectors are left out."""

    last: int  #: the id of the last row that was read
    ids: list[int]
    kinds: list[str]
    session_ids: list[int]
    times: list[str]
    vectors: bytes  #: concatenated, a signed byte for each component
    scales: list[float]


@dataclass(frozen=True, slots=True)
class Due:
    """An item that is due to get a vector. An item without text gets none."""

    kind: str
    item_id: int
    stamp: str
    session_id: int
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class NewVector:
    """A new vector, in the form that the engine stores."""

    item: Due
    vector: bytes | str
    scale: float = 1.0


def mark(tx: Tx, kind: str, item_id: int) -> None:
    """Remove the vector of an item whose text changed, and mark it as due for a new one."""
    _remove_vectors(tx, kind, item_id)
    tx.run("vector_due", kind=kind, item_id=item_id, stamp=ids.new_event_id())


def remove(tx: Tx, kind: str, item_id: int) -> None:
    """Remove the vector of a deleted item."""
    tx.run("vector_not_due", kind=kind, item_id=item_id)
    _remove_vectors(tx, kind, item_id)


def _remove_vectors(tx: Tx, kind: str, item_id: int) -> None:
    for row in tx.all("vector_remove", kind=kind, item_id=item_id):
        tx.run("vector_gone", vector_id=row["id"])


def due(tx: Tx, limit: int) -> list[Due]:
    """Return some items that are due, the newest of a kind first. Fewer than the limit are all."""
    found: list[Due] = []
    for kind, query in _DUE.items():
        if len(found) < limit and tx.one("vectors_due_of", kind=kind):
            found += (_due(kind, row) for row in tx.all(query, limit=limit - len(found)))
    return found


def _due(kind: str, row: Row) -> Due:
    parts: list[str] = []
    for name, value in row.items():
        if name not in ("item_id", "stamp", "session_id", "at") and value:
            parts += json_list(value) if name == "facts" else [str(value)]
    return Due(kind, row["item_id"], row["stamp"], row["session_id"] or 0, row["at"] or "", "\n".join(parts).strip())


def put(tx: Tx, embedder_id: int, made: Iterable[NewVector], without: Iterable[Due] = ()) -> int:
    """Store vectors of items whose text has not changed, and return how many. Items `without` one are not due."""
    for item in without:
        tx.run("vector_done", kind=item.kind, item_id=item.item_id, stamp=item.stamp)
    stored = 0
    for one in made:
        key = {"kind": one.item.kind, "item_id": one.item.item_id}
        if not tx.run("vector_done", stamp=one.item.stamp, **key):
            continue  # the item was forgotten, changed, or embedded by another worker
        for old in tx.all("vector_replace", embedder_id=embedder_id, **key):
            tx.run("vector_gone", vector_id=old["id"])
        values = {"session_id": one.item.session_id, "at": one.item.at, "vector": one.vector, "scale": one.scale}
        stored += tx.run("vector_put", embedder_id=embedder_id, **key, **values)
    return stored


def start_embedder(tx: Tx, name: str) -> EmbedderRow:
    """Make vectors by this embedder from now on, and abandon every other one that does not serve yet. The first one of
    a database serves at once. Another one is `filling` until `mark_all_due` is done."""
    tx.run("embedders_abandon", name=name)
    known = embedder(tx, name)
    if known is None or known.state == "past":
        tx.run("embedder_add", name=name, at=ids.now())
        known = embedder(tx, name)
        assert known is not None  # noqa: S101 - it was just added
    return known


def embedder(tx: Tx, name: str) -> EmbedderRow | None:
    return _embedder(tx.one("embedder_by_name", name=name))


def serving(tx: Tx) -> EmbedderRow | None:
    """Return the embedder whose vectors are searched."""
    return _embedder(tx.one("embedder_serving"))


def _embedder(row: Row | None) -> EmbedderRow | None:
    return EmbedderRow(row["id"], row["name"], row["state"]) if row else None


def mark_filled(tx: Tx, embedder_id: int) -> None:
    """Set an embedder to `making`, after everything was marked as due."""
    tx.run("embedder_filled", id=embedder_id)


def count(tx: Tx, embedder_id: int) -> int:
    row = tx.one("vectors_count", embedder_id=embedder_id)
    return int(row["count"]) if row else 0


def count_due(tx: Tx) -> int:
    row = tx.one("vectors_due_count")
    return int(row["count"]) if row else 0


def mark_all_due(store: Store) -> None:
    """Mark every item as due. The serving vectors stay."""
    row = store.read(lambda tx: tx.one("vectors_last_item"))
    last_id = int(row["id"] or 0) if row else 0  # NULL in an empty database
    stamp = ids.new_event_id()
    for after in range(0, last_id, STEP):
        about = {"stamp": stamp, "after": after, "until": after + STEP}
        store.write(lambda tx, about=about: tx.run("vectors_mark_due", **about))  # type: ignore[misc]


def finish(tx: Tx, number: int) -> bool:
    """Let this embedder serve if nothing is due any more. Return whether it does."""
    return not count_due(tx) and tx.run("embedders_serve", id=number) > 0


def sweep(tx: Tx, limit: int) -> bool:
    """Remove some vectors of past embedders. Return False when none are left."""
    for row in tx.all("embedders_past"):
        if tx.run("vectors_sweep", id=row["id"], limit=limit):
            return True
        tx.one("vectors_drop_index", id=row["id"])
        tx.run("embedder_remove", id=row["id"])
    return False


def sessions_of(tx: Tx, where: Filter) -> list[int] | None:
    """Return the ids of the sessions that pass a filter; None if it restricts no sessions."""
    is_outside = where.is_outside_groups and tx.one("group_session_any") is not None
    if not (where.project or where.agent or where.session_id or is_outside or where.is_in_groups):
        return None
    about = {"project": where.project, "agent": where.agent, "session_id": where.session_id}
    row = tx.one("vectors_sessions", **about, outside=int(is_outside), inside=int(where.is_in_groups))
    return list(json.loads(row["ids"])) if row else []


def is_supported(tx: Tx) -> bool:
    """Whether the database can store vectors."""
    row = tx.one("vectors_can")
    return bool(row and row["can"])


def make_index(tx: Tx, embedder_id: int, least: int, most_dims: int) -> bool:
    """Have the database index the vectors of an embedder. Return False if there are too few or too many dimensions."""
    dims = tx.one("vectors_dims", embedder_id=embedder_id)
    if dims is None or count(tx, embedder_id) < least or dims["dims"] > most_dims:
        return False
    tx.one("vectors_make_index", id=embedder_id, dims=dims["dims"])
    return True


def page(tx: Tx, embedder_id: int, after: int, limit: int, dims: int) -> VectorPage | None:
    """Return the next vectors after an id; None after the last one."""
    rows = tx.all("vectors_page", embedder_id=embedder_id, after=after, limit=limit)
    if not rows:
        return None
    sound = [row for row in rows if _is_sound(row, dims) and row["kind"] in KINDS]
    return VectorPage(
        rows[-1]["id"],
        [row["id"] for row in sound],
        [row["kind"] for row in sound],
        [row["session_id"] for row in sound],
        [row["at"] for row in sound],
        b"".join([row["vector"] for row in sound]),
        [row["scale"] for row in sound],
    )


def some(tx: Tx, numbers: Sequence[int], dims: int) -> tuple[list[int], bytes, list[float]]:
    """Return vectors by their ids: the ids that exist, the concatenated vectors, and their scales."""
    rows = [row for row in tx.all("vectors_some", ids=json.dumps(numbers)) if _is_sound(row, dims)]
    return [row["id"] for row in rows], b"".join([row["vector"] for row in rows]), [row["scale"] for row in rows]


def _is_sound(row: Row, dims: int) -> bool:
    vector, scale = row["vector"], row["scale"]
    return isinstance(vector, bytes) and len(vector) == dims and isinstance(scale, int | float)


def last_removed(tx: Tx) -> int:
    """Return the number of the latest removal of a vector; 0 if there was none."""
    row = tx.one("vectors_gone_last")
    return int(row["id"]) if row else 0


def removed_since(tx: Tx, after: int) -> tuple[int, list[int]]:
    """Return the number of the latest removal, and the ids of the vectors that were removed after `after`."""
    rows = tx.all("vectors_gone_since", after=after)
    return (rows[-1]["id"] if rows else after), [row["vector_id"] for row in rows]


def clear_removed(tx: Tx) -> None:
    """Drop the record of removals. Call this before any vector is held in memory."""
    tx.run("vectors_gone_clear")


def hits(tx: Tx, scored: Sequence[tuple[int, float]], where: Filter) -> list[Hit]:
    """Return the items of vectors, which are given by id and score. Items that do not pass the filter are left out."""
    numbers = json.dumps([number for number, _ in scored])
    rows = {row["id"]: row for row in tx.all("vector_items", ids=numbers, **_filter(where))}
    return [_hit(row, score) for number, score in scored if (row := rows.get(number))]


def near_each(
    tx: Tx, embedder_id: int, query: str, families: Sequence[Sequence[str]], where: Filter, limit: int
) -> list[list[Hit]]:
    """Return the nearest items of each group of kinds, best first. Only for an engine that compares vectors itself."""
    tx.all("vectors_tune")
    nearest = [_near(tx, embedder_id, query, kinds, where, limit) if kinds else [] for kinds in families]
    # An index scan behind a filter may return rows slightly out of order.
    return [sorted(hits, key=lambda hit: -hit.score) for hits in nearest]


def _near(tx: Tx, embedder_id: int, query: str, kinds: Sequence[str], where: Filter, limit: int) -> list[Hit]:
    values: dict[str, Any] = {"embedder_id": embedder_id, "kinds": json.dumps(list(kinds)), "query": query}
    values |= {"project": where.project, "agent": where.agent, "session_id": where.session_id, "limit": limit}
    values |= {"outside": int(where.is_outside_groups), "inside": int(where.is_in_groups)}
    return [_hit(row, row["score"]) for row in tx.all("vectors_near", **values, **_filter(where))]


def _hit(row: Row, score: float) -> Hit:
    return Hit(row["kind"], row["item_id"], row["session_id"], score, row["at"])


def _filter(where: Filter) -> dict[str, str]:
    return {
        "type": where.type,
        "concept": where.concept and json.dumps(where.concept, ensure_ascii=False),
        "file": json.dumps(where.file.replace("\\", "/").strip("/").lower(), ensure_ascii=False)[1:-1],
        "since": where.since,
        "until": where.until,
    }
