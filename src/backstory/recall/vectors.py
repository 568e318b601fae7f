"""Search by meaning: the vectors that the store has, made by an embedder, compared in memory or by the database."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from backstory.errors import StoreUnavailable
from backstory.jobs import place_of
from backstory.recall import embed
from backstory.recall.vector_index import VectorBlock, VectorFilter, VectorIndex, VectorMatches, block_of
from backstory.store.db import Store, Tx
from backstory.store.index import vectors
from backstory.store.index.hits import ANYWHERE, KINDS, Filter, Hit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

log = logging.getLogger(__name__)
#: How many are compared number by number, where their signs were compared first.
RESCORED = 1000
#: How many are read, embedded and stored in one go: others wait no longer for the database than this takes.
BATCH = 64
PAGE = 4096
#: Vectors from which PostgreSQL indexes them. For so few, making the index takes a moment.
INDEXED = 5000
#: New vectors after which it is checked whether there are enough for an index.
LOOKED = 1000
#: The most dimensions that such an index takes.
INDEXED_DIMS = 4000
#: An embedder that failed is left alone for so long by those who search.
PAUSE_S = 30.0


class Vectors:
    """Makes vectors of what has none, and finds what is near to a query. Safe to use from several threads."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._embedders: dict[str, embed.Embedder] = {}
        self._sync = threading.Lock()
        self._near: tuple[int, VectorIndex] | None = None  #: id of the embedder, and its vectors
        self._number = 0  #: of the embedder that makes
        self._is_able, self._asked_again = False, 0.0
        self._is_indexed = False  #: by the database, where it has such an index
        self._unlooked = 0  #: made since that was looked at
        self._gone = 0  #: up to where removals are followed
        self._paused_until = 0.0
        self.problem = ""  #: why there are no vectors, if there are none

    # Making them

    def begin(self) -> None:
        """Once, before anything is made: whose vectors are made from now on."""
        self._store.write(vectors.clear_removed)
        if not self._name:
            return
        ours = self._store.write(lambda tx: vectors.start_embedder(tx, self._name))
        self._number = ours.id
        if ours.state == "filling":
            vectors.again(self._store)
            self._store.write(lambda tx: vectors.mark_filled(tx, self._number))

    def make_some(self) -> int:
        """Embed some of what is due and keep it; how many were done with. Raises `embed.EmbedderUnavailable`."""
        if not self._name or not self._can():
            return 0
        due = self._store.read(lambda tx: vectors.due(tx, BATCH))
        full = [item for item in due if item.text]
        made = self._embed(full) if full else []
        if due:
            done = {one.of for one in made}
            rest = [item for item in due if item not in done]
            self._store.write(lambda tx: self._keep(tx, made, rest))
            self._unlooked += len(made)
            if self._unlooked >= LOOKED and not self._is_indexed:
                self._unlooked = 0
                self._index()
        self.problem = ""
        return len(due)

    def _embed(self, items: list[vectors.Due]) -> list[vectors.Made]:
        """Their vectors, in the form that the engine keeps; without those that the embedder refuses, but not all."""
        ours = self._embedder(self._name)
        try:
            found = ours.embed([item.text for item in items])
        except embed.TextRefused:
            made = []
            for item in items if len(items) > 1 else ():
                with contextlib.suppress(embed.TextRefused):
                    made += [vectors.Made(item, *form) for form in self._forms(ours.embed([item.text]))]
            if not made:
                raise
            return made
        return [vectors.Made(item, *form) for item, form in zip(items, self._forms(found), strict=True)]

    def _keep(self, tx: Tx, made: list[vectors.Made], rest: list[vectors.Due]) -> None:
        self._state(tx)
        vectors.put(tx, self._number, made, rest)

    def _state(self, tx: Tx) -> str:
        """How far we are with our embedder's vectors."""
        ours = vectors.embedder(tx, self._name)
        if ours is None or ours.id != self._number or ours.state == "past":
            raise embed.EmbedderUnavailable(
                "Another worker of this database has another embedder.", "Give all of them the same setting `embedder`."
            )
        return ours.state

    def settle(self) -> bool:
        """After everything has its vector: let a new embedder serve, and remove some of an older one's vectors.
        True while there is more of that."""
        if not self._name or not self._can():
            return False

        def work(tx: Tx) -> bool:
            if self._state(tx) == "making":
                return vectors.finish(tx, self._number)
            return vectors.sweep(tx, PAGE)

        more = self._store.write(work)
        if not more and not self._is_indexed:
            self._index()
        return more

    def _index(self) -> None:
        """Have the database index the vectors, once there are enough to be worth it."""
        made = self._store.write(lambda tx: vectors.make_index(tx, self._number, INDEXED, INDEXED_DIMS))
        self._is_indexed = self._is_indexed or made

    def _forms(self, found: NDArray[np.float32]) -> list[tuple[Any, float]]:
        """Vectors in the form that the engine keeps."""
        import numpy as np

        if self._store.engine == "postgres":
            return [(_literal(row), 1.0) for row in found]
        scales = np.abs(found).max(axis=1) / 127
        numbers = np.rint(found / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8)
        return [(row.tobytes(), float(scale)) for row, scale in zip(numbers, scales, strict=True)]

    def _embedder(self, name: str) -> embed.Embedder:
        if name not in self._embedders:
            self._embedders[name] = embed.named(name)
        return self._embedders[name]

    def _can(self) -> bool:
        """Whether the database can keep vectors at all; if not, it is asked again after a while."""
        if not self._is_able and time.monotonic() >= self._asked_again:
            self._asked_again = time.monotonic() + PAUSE_S
            self._is_able = self._store.write(vectors.is_supported)
            self.problem = "" if self._is_able else "the database has no pgvector (0.7 or later)"
        return self._is_able

    # Finding

    def find(
        self,
        query: str,
        kinds: Sequence[str] = KINDS,
        where: Filter = ANYWHERE,
        limit: int = 20,
        weights: Mapping[str, float] = embed.NONE,
    ) -> list[Hit]:
        """What is nearest in meaning, best first, the cosine as score. Nothing, if there are no vectors to ask.
        Words of the query, in lower case, may count more or less than 1: rare ones say more of what is meant.
        Reads by itself: not to be called within a transaction."""
        return self.find_each(query, (kinds,), where, limit, weights)[0]

    def find_each(
        self,
        query: str,
        families: Sequence[Sequence[str]],
        where: Filter = ANYWHERE,
        limit: int = 20,
        weights: Mapping[str, float] = embed.NONE,
    ) -> list[list[Hit]]:
        """The same for several groups of kinds, with one look at the query."""
        nothing: list[list[Hit]] = [[] for _ in families]
        if not query.strip() or time.monotonic() < self._paused_until or not self._can():
            return nothing
        serving = self._store.read(vectors.serving)
        if serving is None:
            return nothing
        try:
            asked = self._embedder(serving.name).embed([query], weights)[0]
        except embed.EmbedderUnavailable as error:
            self._paused_until, self.problem = time.monotonic() + PAUSE_S, str(error)
            log.warning("no search by meaning for a while: %s", error)
            return nothing
        return self._compared(serving.id, asked, families, where, limit) if asked.any() else nothing

    def _compared(
        self,
        embedder_id: int,
        asked: NDArray[np.float32],
        families: Sequence[Sequence[str]],
        where: Filter,
        limit: int,
    ) -> list[list[Hit]]:
        try:
            if self._store.engine == "sqlite":
                return self._look(embedder_id, asked, families, where, limit)
            query = _literal(asked)
            return self._store.read(lambda tx: vectors.near_each(tx, embedder_id, query, families, where, limit))
        except StoreUnavailable:
            raise
        except Exception as error:  # such as a vector that was damaged: words answer alone
            self.problem = f"Vectors could not be compared ({place_of(error)})."
            self._paused_until = time.monotonic() + PAUSE_S
            log.warning("no search by meaning for a while: %s", self.problem)
            return [[] for _ in families]

    def _look(
        self,
        embedder_id: int,
        asked: NDArray[np.float32],
        families: Sequence[Sequence[str]],
        where: Filter,
        limit: int,
    ) -> list[list[Hit]]:
        near = self._current(embedder_id, len(asked))
        found = self._store.read(lambda tx: vectors.sessions_of(tx, where))
        sessions = None if found is None else tuple(found)
        every = tuple(kind for kinds in families for kind in kinds)
        seen = near.search(asked, VectorFilter(every, sessions, _second(where.since), _second(where.until, last=True)))
        return [self._best(seen, asked, tuple(kinds), where, limit) for kinds in families]

    def _best(
        self, seen: VectorMatches, asked: NDArray[np.float32], kinds: tuple[str, ...], where: Filter, limit: int
    ) -> list[Hit]:
        number = limit if seen.is_exact else max(limit, RESCORED)
        while True:
            ids, close, more = seen.nearest(kinds, number)
            known = close if seen.is_exact else seen.compared(ids, asked)
            hits = self._store.read(partial(self._scored, ids=ids, close=known, asked=asked, where=where, limit=limit))
            # What a filter took, or was removed since, is made up for by looking farther.
            if len(hits) >= limit or not more:
                return hits
            number *= 8

    def _scored(
        self,
        tx: Tx,
        ids: list[int],
        close: NDArray[np.float32] | None,
        asked: NDArray[np.float32],
        where: Filter,
        limit: int,
    ) -> list[Hit]:
        """The best of those that are still there and wanted, compared number by number."""
        import numpy as np

        if not ids:
            return []
        if close is None:
            ids, joined, scales = vectors.some(tx, ids, len(asked))
            if not ids:
                return []
            numbers = np.frombuffer(joined, dtype=np.int8).reshape(len(ids), -1)
            close = (numbers.astype(np.float32) @ asked) * np.array(scales, dtype=np.float32)
        best = np.lexsort((-np.array(ids), -close)).tolist()
        hits: list[Hit] = []
        for first in range(0, len(best), limit):  # most often the first are those
            hits += vectors.hits(tx, [(ids[at], float(close[at])) for at in best[first : first + limit]], where)
            if len(hits) >= limit:
                break
        return hits[:limit]

    def _current(self, embedder_id: int, dims: int) -> VectorIndex:
        """What is in memory, brought up to what the store has; without vectors that are damaged."""
        with self._sync:
            if self._near is None or self._near[0] != embedder_id:
                self._gone, self._near = self._store.read(vectors.last_removed), (embedder_id, VectorIndex())
            near = self._near[1]
            self._follow(near)
            next_page = partial(vectors.page, embedder_id=embedder_id, limit=PAGE, dims=dims)
            after = near.last
            while page := self._store.read(partial(next_page, after=after)):
                after = page.last
                if page.ids:
                    near.add(_block(page))
            return near

    def _follow(self, near: VectorIndex) -> None:
        last, removed = self._store.read(lambda tx: vectors.removed_since(tx, self._gone))
        if removed:
            near.remove(removed)
            self._gone = last

    def forget(self) -> None:
        """What was removed from the store goes from memory, now."""
        with self._sync:
            if self._near:
                self._follow(self._near[1])

    # About them

    def status(self, tx: Tx) -> dict[str, Any]:
        """Whose vectors are asked, how many there are, how many are due, and what is in the way."""
        serving = vectors.serving(tx)
        return {
            "embedder": serving.name if serving else "",
            "next": self._name if serving and self._name and serving.name != self._name else "",
            "vectors": vectors.count(tx, serving.id) if serving else 0,
            "due": vectors.count_due(tx) if self._name else 0,
            "problem": self.problem,
        }


def _block(page: vectors.VectorPage) -> VectorBlock:
    import numpy as np

    return block_of(
        page.ids,
        page.kinds,
        page.session_ids,
        _seconds([at[:19] for at in page.times]),
        np.frombuffer(page.vectors, dtype=np.int8).reshape(len(page.ids), -1),
        page.scales,
    )


def _seconds(times: list[str]) -> Sequence[int]:
    """Many times at once; all of them one by one only where one is none."""
    import numpy as np

    try:
        return np.array(times, dtype="datetime64[s]").astype(np.int64)  # type: ignore[return-value]
    except ValueError:
        return [_second(text) or 0 for text in times]


def _second(text: str, last: bool = False) -> int | None:
    """A time, or the beginning of one, in seconds; of a beginning the first or the last second. None if it is none."""
    full = "9999-12-31T23:59:59+00:00" if last else "0001-01-01T00:00:00+00:00"
    given = text[:19]
    try:
        return int(datetime.fromisoformat(given + full[len(given) :]).timestamp()) if text else None
    except (ValueError, OverflowError):
        return None


def _literal(vector: NDArray[np.float32]) -> str:
    """As pgvector reads it."""
    return "[" + ",".join(f"{number:.6g}" for number in vector.tolist()) + "]"
