"""Vectors beside the words: what is due to get one, those that there are, and whose they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from backstory import ids
from backstory.store.db import Row, Store, Tx
from backstory.store.index.hits import KINDS, Filter, Hit
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
class EmbedderRow:
    """An embedder that vectors are or were made by."""

    id: int
    name: str
    state: str  #: filling, making, serving or past


@dataclass(frozen=True, slots=True)
class VectorPage:
    """Vectors of a database that compares none itself, column by column. Damaged ones are left out."""

    last: int  #: the id of the last row that was read
    ids: list[int]
    kinds: list[str]
    session_ids: list[int]
    times: list[str]
    vectors: bytes  #: one after the other, a signed byte for each number
    scales: list[float]


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


def start_embedder(tx: Tx, name: str) -> EmbedderRow:
    """Begin to make vectors by this embedder, and stop for every other one that does not serve yet.

    The first embedder of a database serves at once. Another one is `filling` until everything is due (`again`).
    """
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
    """The embedder whose vectors are searched."""
    return _embedder(tx.one("embedder_serving"))


def _embedder(row: Row | None) -> EmbedderRow | None:
    return EmbedderRow(row["id"], row["name"], row["state"]) if row else None


def mark_filled(tx: Tx, embedder_id: int) -> None:
    """Everything is due for this embedder; it is `making` from now on."""
    tx.run("embedder_filled", id=embedder_id)


def count(tx: Tx, embedder_id: int) -> int:
    row = tx.one("vectors_count", embedder_id=embedder_id)
    return int(row["count"]) if row else 0


def count_due(tx: Tx) -> int:
    row = tx.one("vectors_due_count")
    return int(row["count"]) if row else 0


def again(store: Store) -> None:
    """Everything that has words is due; what serves goes on serving."""
    row = store.read(lambda tx: tx.one("vectors_last_item"))
    last_id = int(row["id"] or 0) if row else 0  # NULL in an empty database
    stamp = ids.new_event_id()
    for after in range(0, last_id, STEP):
        store.write(partial(_some_due, stamp=stamp, after=after))


def _some_due(tx: Tx, stamp: str, after: int) -> None:
    tx.run("vectors_mark_due", stamp=stamp, after=after, until=after + STEP)


def finish(tx: Tx, number: int) -> bool:
    """If nothing is due any more, this embedder serves from here on."""
    if count_due(tx):
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


def is_supported(tx: Tx) -> bool:
    """Whether the database can keep vectors."""
    row = tx.one("vectors_can")
    return bool(row and row["can"])


def make_index(tx: Tx, embedder_id: int, least: int, most_dims: int) -> bool:
    """Have the database index an embedder's vectors if there are enough of them, and none has too many dimensions."""
    dims = tx.one("vectors_dims", embedder_id=embedder_id)
    if dims is None or count(tx, embedder_id) < least or dims["dims"] > most_dims:
        return False
    tx.one("vectors_make_index", id=embedder_id, dims=dims["dims"])
    return True


def page(tx: Tx, embedder_id: int, after: int, limit: int, dims: int) -> VectorPage | None:
    """The sound vectors of the next rows after an id; None after the last row."""
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
    """Sound vectors by their ids: the ids that there are, the vectors one after the other, and their scales."""
    rows = [row for row in tx.all("vectors_some", ids=json.dumps(numbers)) if _is_sound(row, dims)]
    return [row["id"] for row in rows], b"".join([row["vector"] for row in rows]), [row["scale"] for row in rows]


def _is_sound(row: Row, dims: int) -> bool:
    vector, scale = row["vector"], row["scale"]
    return isinstance(vector, bytes) and len(vector) == dims and isinstance(scale, int | float)


def last_removed(tx: Tx) -> int:
    """The number of the latest removal of a vector; 0 if there was none."""
    row = tx.one("vectors_gone_last")
    return int(row["id"]) if row else 0


def removed_since(tx: Tx, after: int) -> tuple[int, list[int]]:
    """The number of the latest removal, and the ids of the vectors that were removed after a removal."""
    rows = tx.all("vectors_gone_since", after=after)
    return (rows[-1]["id"] if rows else after), [row["vector_id"] for row in rows]


def clear_removed(tx: Tx) -> None:
    """Drop the record of removals. Call this before any vector is held in memory."""
    tx.run("vectors_gone_clear")


def hits(tx: Tx, scored: Sequence[tuple[int, float]], where: Filter) -> list[Hit]:
    """What vectors, given by id and score, were made of: those that are there and that the filter leaves."""
    numbers = json.dumps([number for number, _ in scored])
    rows = {row["id"]: row for row in tx.all("vector_items", ids=numbers, **_filter(where))}
    return [_hit(row, score) for number, score in scored if (row := rows.get(number))]


def near_each(
    tx: Tx, embedder_id: int, query: str, families: Sequence[Sequence[str]], where: Filter, limit: int
) -> list[list[Hit]]:
    """The nearest of each group of kinds, best first, where the engine compares vectors itself."""
    tx.all("vectors_tune")
    each = [_near(tx, embedder_id, query, kinds, where, limit) if kinds else [] for kinds in families]
    # An index behind a filter may give them a little out of their order.
    return [sorted(found, key=lambda hit: -hit.score) for found in each]


def _near(tx: Tx, embedder_id: int, query: str, kinds: Sequence[str], where: Filter, limit: int) -> list[Hit]:
    asked: dict[str, Any] = {"embedder_id": embedder_id, "kinds": json.dumps(list(kinds)), "query": query}
    asked |= {"project": where.project, "agent": where.agent, "session_id": where.session_id, "limit": limit}
    return [_hit(row, row["score"]) for row in tx.all("vectors_near", **asked, **_filter(where))]


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
