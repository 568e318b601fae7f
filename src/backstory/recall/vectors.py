"""Vector search: makes the vectors of items, and finds the nearest to a query, in memory or in the database."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from backstory.errors import StoreUnavailable
from backstory.jobs import place_of
from backstory.recall import embed
from backstory.recall.vector_index import VectorFilter, VectorIndex, VectorMatches, block_of
from backstory.store.db import Store, Tx
from backstory.store.index import vectors
from backstory.store.index.hits import ANYWHERE, Filter, Hit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

log = logging.getLogger(__name__)
#: Vectors that are compared exactly after their signs were compared, at least.
RESCORED = 1000
#: Items that are embedded and stored in one transaction. It bounds how long other writers wait.
BATCH = 64
#: Vectors that are read or deleted at once.
PAGE = 4096
#: Vectors from which on PostgreSQL indexes them.
MIN_INDEXED = 5000
#: New vectors after which the number of vectors is compared with `MIN_INDEXED` again.
CHECK_INTERVAL = 1000
#: Dimensions that an index of pgvector supports, at most.
MAX_INDEXED_DIMS = 4000
#: Seconds for which searches do not use an embedder that failed.
PAUSE_S = 30.0


@dataclass(frozen=True, slots=True)
class _VectorQuery:
    """An embedded query."""

    embedder_id: int
    vector: NDArray[np.float32]
    where: Filter
    limit: int


class Vectors:
    """Makes vectors of items that have none, and finds the nearest to a query. Safe to use from several threads."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._embedders: dict[str, embed.Embedder] = {}
        self._index_lock = threading.Lock()
        self._index: tuple[int, VectorIndex] | None = None  #: id of the embedder, and its vectors
        self._embedder_id = 0  #: of the embedder that makes vectors
        self._is_supported, self._check_support_at = False, 0.0
        self._is_indexed = False  #: by the database
        self._unchecked = 0  #: vectors since the last check whether to index them
        self._last_removed = 0  #: number of the last removal that the index in memory follows
        self._paused_until = 0.0
        self.problem = ""  #: why there are no vectors

    def begin(self) -> None:
        """Register the configured embedder. Call this once, before vectors are made."""
        self._store.write(vectors.clear_removed)
        if not self._name:
            return
        ours = self._store.write(lambda tx: vectors.start_embedder(tx, self._name))
        self._embedder_id = ours.id
        if ours.state == "filling":
            vectors.mark_all_due(self._store)
            self._store.write(lambda tx: vectors.mark_filled(tx, self._embedder_id))

    def make_some(self) -> int:
        """Embed and store some items that are due. Return how many. Raises `embed.EmbedderUnavailable`."""
        if not self._name or not self._can_store():
            return 0
        due = self._store.read(lambda tx: vectors.due(tx, BATCH))
        with_text = [item for item in due if item.text]
        made = self._embed(with_text) if with_text else []
        self.problem = ""  # before the vectors are stored: whoever sees them must not see an old problem
        if due:
            done = {one.item for one in made}
            rest = [item for item in due if item not in done]
            self._store.write(lambda tx: self._put(tx, made, rest))
            self._unchecked += len(made)
            if self._unchecked >= CHECK_INTERVAL and not self._is_indexed:
                self._unchecked = 0
                self._make_index()
        return len(due)

    def _embed(self, items: list[vectors.Due]) -> list[vectors.NewVector]:
        """Return vectors of items, without those that the embedder refuses. Raises if it refuses all."""
        ours = self._embedder(self._name)
        try:
            embedded = ours.embed([item.text for item in items])
        except embed.TextRefused:
            made = []
            for item in items if len(items) > 1 else ():
                with contextlib.suppress(embed.TextRefused):
                    made += [vectors.NewVector(item, *stored) for stored in self._as_stored(ours.embed([item.text]))]
            if not made:
                raise
            return made
        return [vectors.NewVector(item, *stored) for item, stored in zip(items, self._as_stored(embedded), strict=True)]

    def _put(self, tx: Tx, made: list[vectors.NewVector], rest: list[vectors.Due]) -> None:
        self._state(tx)
        vectors.put(tx, self._embedder_id, made, rest)

    def _state(self, tx: Tx) -> str:
        """Return the state of our embedder. Raises if another worker has replaced it."""
        ours = vectors.embedder(tx, self._name)
        if ours is None or ours.id != self._embedder_id or ours.state == "past":
            raise embed.EmbedderUnavailable(
                "Another worker of this database has another embedder.", "Give all of them the same setting `embedder`."
            )
        return ours.state

    def settle(self) -> bool:
        """After all vectors are made: let a new embedder serve, and remove some vectors of past ones. Return True while
        there is more to do."""
        if not self._name or not self._can_store():
            return False

        def work(tx: Tx) -> bool:
            if self._state(tx) == "making":
                return vectors.finish(tx, self._embedder_id)
            return vectors.sweep(tx, PAGE)

        more = self._store.write(work)
        if not more and not self._is_indexed:
            self._make_index()
        return more

    def _make_index(self) -> None:
        """Have the database index the vectors if there are enough."""
        made = self._store.write(lambda tx: vectors.make_index(tx, self._embedder_id, MIN_INDEXED, MAX_INDEXED_DIMS))
        self._is_indexed = self._is_indexed or made

    def _as_stored(self, embedded: NDArray[np.float32]) -> list[tuple[Any, float]]:
        """Return each vector in the form that the engine stores, and its scale."""
        import numpy as np

        if self._store.engine == "postgres":
            return [(_literal(row), 1.0) for row in embedded]
        scales = np.abs(embedded).max(axis=1) / 127
        components = np.rint(embedded / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8)
        return [(row.tobytes(), float(scale)) for row, scale in zip(components, scales, strict=True)]

    def _embedder(self, name: str) -> embed.Embedder:
        if name not in self._embedders:
            self._embedders[name] = embed.named(name)
        return self._embedders[name]

    def _can_store(self) -> bool:
        """Whether the database can store vectors. If not, check again after a pause."""
        if not self._is_supported and time.monotonic() >= self._check_support_at:
            self._check_support_at = time.monotonic() + PAUSE_S
            self._is_supported = self._store.write(vectors.is_supported)
            self.problem = "" if self._is_supported else "the database has no pgvector (0.7 or later)"
        return self._is_supported

    def find_each(
        self,
        query: str,
        families: Sequence[Sequence[str]],
        where: Filter = ANYWHERE,
        limit: int = 20,
        weights: Mapping[str, float] = embed.NONE,
    ) -> list[list[Hit]]:
        """Return the nearest items of each group of kinds, best first; none if there are no vectors. The score is the
        cosine. `weights` maps words of the query in lower case to weights other than 1. Must not be called in a
        transaction."""
        nothing: list[list[Hit]] = [[] for _ in families]
        if not query.strip() or time.monotonic() < self._paused_until or not self._can_store():
            return nothing
        serving = self._store.read(vectors.serving)
        if serving is None:
            return nothing
        try:
            embedded = self._embedder(serving.name).embed([query], weights)[0]
        except embed.EmbedderUnavailable as error:
            return self._pause(str(error), nothing)
        wanted = _VectorQuery(serving.id, embedded, where, limit)
        return self._compare(wanted, families, nothing) if embedded.any() else nothing

    def _compare(
        self, wanted: _VectorQuery, families: Sequence[Sequence[str]], nothing: list[list[Hit]]
    ) -> list[list[Hit]]:
        try:
            if self._store.engine == "sqlite":
                return self._find_in_memory(wanted, families)
            about = (wanted.embedder_id, _literal(wanted.vector), families, wanted.where, wanted.limit)
            return self._store.read(lambda tx: vectors.near_each(tx, *about))
        except StoreUnavailable:
            raise
        except Exception as error:  # such as a damaged vector
            return self._pause(f"Vectors could not be compared ({place_of(error)}).", nothing)

    def _pause(self, problem: str, nothing: list[list[Hit]]) -> list[list[Hit]]:
        """Let searches use words only for a while."""
        self._paused_until, self.problem = time.monotonic() + PAUSE_S, problem
        log.warning("no search by meaning for a while: %s", problem)
        return nothing

    def _find_in_memory(self, wanted: _VectorQuery, families: Sequence[Sequence[str]]) -> list[list[Hit]]:
        index, where = self._current_index(wanted.embedder_id, len(wanted.vector)), wanted.where
        session_ids = self._store.read(lambda tx: vectors.sessions_of(tx, where))
        sessions = None if session_ids is None else tuple(session_ids)
        kinds = tuple(kind for family in families for kind in family)
        only = VectorFilter(kinds, sessions, _second(where.since), _second(where.until, last=True))
        matches = index.search(wanted.vector, only)
        return [self._best(matches, tuple(family), wanted) for family in families]

    def _best(self, matches: VectorMatches, kinds: tuple[str, ...], wanted: _VectorQuery) -> list[Hit]:
        number = wanted.limit if matches.is_exact else max(wanted.limit, RESCORED)
        while True:
            ids, close, more = matches.nearest(kinds, number)
            exact = close if matches.is_exact else matches.compared(ids, wanted.vector)
            hits = self._store.read(partial(_hits, ids=ids, close=exact, wanted=wanted))
            # If the filter or a removal has left too few, look farther.
            if len(hits) >= wanted.limit or not more:
                return hits
            number *= 8

    def _current_index(self, embedder_id: int, dims: int) -> VectorIndex:
        """Return the index in memory after it was brought up to date. Damaged vectors are left out."""
        with self._index_lock:
            if self._index is None or self._index[0] != embedder_id:
                self._last_removed = self._store.read(vectors.last_removed)
                self._index = (embedder_id, VectorIndex())
            index = self._index[1]
            self._follow_removals(index)
            next_page = partial(vectors.page, embedder_id=embedder_id, limit=PAGE, dims=dims)
            after = index.last
            while page := self._store.read(partial(next_page, after=after)):
                after = page.last
                if page.ids:
                    index.add(block_of(page, _seconds([at[:19] for at in page.times])))
            return index

    def _follow_removals(self, index: VectorIndex) -> None:
        last, removed = self._store.read(lambda tx: vectors.removed_since(tx, self._last_removed))
        if removed:
            index.remove(removed)
            self._last_removed = last

    def forget(self) -> None:
        """Remove vectors from memory that were removed from the store."""
        with self._index_lock:
            if self._index:
                self._follow_removals(self._index[1])

    def status(self, tx: Tx) -> dict[str, Any]:
        """Return the serving embedder, the next one, the numbers of vectors and of due items, and the problem."""
        serving = vectors.serving(tx)
        return {
            "embedder": serving.name if serving else "",
            "next": self._name if serving and self._name and serving.name != self._name else "",
            "vectors": vectors.count(tx, serving.id) if serving else 0,
            "due": vectors.count_due(tx) if self._name else 0,
            "problem": self.problem,
        }


def _hits(tx: Tx, ids: list[int], close: NDArray[np.float32] | None, wanted: _VectorQuery) -> list[Hit]:
    """Return the best items that still exist and pass the filter. If `close` is None, read and compare the vectors."""
    import numpy as np

    if ids and close is None:
        ids, joined, scales = vectors.some(tx, ids, len(wanted.vector))
        components = np.frombuffer(joined, dtype=np.int8).reshape(len(ids), len(wanted.vector))
        close = (components.astype(np.float32) @ wanted.vector) * np.array(scales, dtype=np.float32)
    if not ids or close is None:
        return []
    best = np.lexsort((-np.array(ids), -close)).tolist()
    hits: list[Hit] = []
    for first in range(0, len(best), wanted.limit):  # mostly the first page is enough
        page = best[first : first + wanted.limit]
        hits += vectors.hits(tx, [(ids[at], float(close[at])) for at in page], wanted.where)
        if len(hits) >= wanted.limit:
            break
    return hits[: wanted.limit]


def _seconds(times: list[str]) -> Sequence[int]:
    """Convert times to seconds: all at once, or one by one if one is invalid."""
    import numpy as np

    try:
        return np.array(times, dtype="datetime64[s]").astype(np.int64)  # type: ignore[return-value]
    except ValueError:
        return [_second(text) or 0 for text in times]


def _second(text: str, last: bool = False) -> int | None:
    """Return a time in seconds; for the beginning of a time, its first or last second. None if it is invalid."""
    full = "9999-12-31T23:59:59+00:00" if last else "0001-01-01T00:00:00+00:00"
    given = text[:19]
    try:
        return int(datetime.fromisoformat(given + full[len(given) :]).timestamp()) if text else None
    except (ValueError, OverflowError):
        return None


def _literal(vector: NDArray[np.float32]) -> str:
    """Return a vector in the text form of pgvector."""
    return "[" + ",".join(f"{component:.6g}" for component in vector.tolist()) + "]"
