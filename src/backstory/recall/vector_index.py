"""Nearest-neighbour search over vectors in memory: exact for few vectors, by their signs first for many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from backstory.store.index.hits import KINDS
from backstory.store.index.vectors import VectorPage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes = NDArray[np.int8]
    Floats = NDArray[np.float32]
    Numbers = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Words = NDArray[np.uint64]

#: Maximum number of vectors that are compared exactly. Beyond, signs of components are compared first.
EXACT = 50_000
#: Maximum number of vectors in memory, at 256 bytes each. Beyond, only their signs are, and candidates are read from
#: the store.
HELD = 200_000
#: Vectors per block. Blocks are immutable, so that a search continues on old blocks while new ones replace them.
BLOCK = 16_384
_CODES = {kind: code for code, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class VectorFilter:
    """Which vectors a search may return. None means no restriction."""

    kinds: tuple[str, ...]
    sessions: tuple[int, ...] | None = None
    since: int | None = None  #: seconds since 1970
    until: int | None = None


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """An immutable set of vectors, in the order of their ids."""

    ids: Numbers
    kinds: NDArray[np.uint8]
    sessions: Numbers
    seconds: Numbers  #: time of each item, since 1970
    signs: Words  #: a row for each 64 components, a column for each vector
    vectors: Bytes | None = None
    scales: Floats | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, which: Mask) -> VectorBlock:
        rows = {name: column[which].copy() for name, column in self._columns().items()}
        return VectorBlock(signs=self.signs[:, which].copy(), **rows)

    def join(self, other: VectorBlock) -> VectorBlock:
        import numpy as np

        mine, theirs = self._columns(), other._columns()
        rows = {name: np.concatenate((mine[name], theirs[name])) for name in mine.keys() & theirs.keys()}
        return VectorBlock(signs=np.concatenate((self.signs, other.signs), axis=1), **rows)

    def _columns(self) -> dict[str, NDArray[Any]]:
        """Return the fields that have a row for each vector."""
        columns = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "signs"}
        return {name: column for name, column in columns.items() if column is not None}

    def allowed(self, only: VectorFilter, sessions: Mask | None) -> Mask:
        """Return a mask of the vectors that match a filter. The last entry of `sessions` is for all later sessions."""
        import numpy as np

        mask = np.array([kind in only.kinds for kind in KINDS])[self.kinds]
        if sessions is not None:
            mask &= sessions[np.minimum(self.sessions, len(sessions) - 1)]
        if only.since is not None:
            mask &= self.seconds >= only.since
        if only.until is not None:
            mask &= self.seconds <= only.until
        return mask

    def closeness(self, query: Floats, query_signs: Words, is_exact: bool) -> NDArray[Any]:
        """Return the similarity of each vector to a query; higher is nearer."""
        import numpy as np

        if is_exact and self.vectors is not None and self.scales is not None:
            similarity = np.empty(len(self), dtype=np.float32)
            for first in range(0, len(self), 2048):  # in parts, because floats need four times the memory
                part = slice(first, first + 2048)
                similarity[part] = self.vectors[part].astype(np.float32) @ query
            return similarity * self.scales
        distance = np.zeros(len(self), dtype=np.int16)
        for row, word in zip(self.signs, query_signs, strict=True):
            distance += np.bitwise_count(row ^ word)
        return -distance


def block_of(page: VectorPage, seconds: Sequence[int]) -> VectorBlock:
    """Build a block from vectors as they are stored, and their times."""
    import numpy as np

    vectors = np.frombuffer(page.vectors, dtype=np.int8).reshape(len(page.ids), -1)
    return VectorBlock(
        np.array(page.ids, dtype=np.int64),
        np.array([_CODES[kind] for kind in page.kinds], dtype=np.uint8),
        np.array(page.session_ids, dtype=np.int64),
        np.array(seconds, dtype=np.int64),
        signs(vectors),
        vectors,
        np.array(page.scales, dtype=np.float32),
    )


def signs(vectors: Bytes | Floats) -> Words:
    """Return the signs of the components as bits."""
    import numpy as np

    packed = np.packbits(vectors > 0, axis=1)
    wide = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    wide[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(wide.view(np.uint64).T)


class VectorIndex:
    """All vectors of an embedder. One thread may change it while any number of threads search."""

    def __init__(self, exact: int = EXACT, held: int = HELD) -> None:
        self._exact, self._held = exact, held
        self._blocks: tuple[VectorBlock, ...] = ()

    def __len__(self) -> int:
        return sum(len(block) for block in self._blocks)

    @property
    def last(self) -> int:
        """The highest id."""
        return int(self._blocks[-1].ids[-1]) if self._blocks else 0

    def add(self, more: VectorBlock) -> None:
        """Add vectors. Their ids must be higher than all others."""
        blocks = [*self._blocks, more]
        if len(self) + len(more) > self._held:
            blocks = [block if block.vectors is None else replace(block, vectors=None, scales=None) for block in blocks]
        if len(blocks) > 1 and len(blocks[-2]) + len(more) <= BLOCK:
            blocks[-2:] = [blocks[-2].join(blocks[-1])]
        self._blocks = tuple(blocks)

    def remove(self, ids: Sequence[int]) -> None:
        """Remove vectors from memory."""
        import numpy as np

        blocks = []
        for block in self._blocks:
            removed = np.isin(block.ids, ids)
            blocks.append(block.take(~removed) if removed.any() else block)
        self._blocks = tuple(block for block in blocks if len(block))

    def search(self, query: Floats, only: VectorFilter) -> VectorMatches:
        """Return the similarity to a query of each vector that matches the filter."""
        import numpy as np

        blocks, query_signs = self._blocks, signs(query[None, :])[:, 0]
        are_held = all(block.vectors is not None for block in blocks)
        is_exact = are_held and sum(map(len, blocks)) <= self._exact
        sessions = None
        if only.sessions is not None:
            sessions = np.zeros(max(only.sessions, default=0) + 2, dtype=np.bool_)
            sessions[list(only.sessions)] = True
        ids, kinds, similarities = [], [], []
        for block in blocks:
            mask = block.allowed(only, sessions)
            if 2 * int(np.count_nonzero(mask)) < len(block):
                similarities.append(block.take(mask).closeness(query, query_signs, is_exact))
            else:  # copying so many would cost more than it saves
                similarities.append(block.closeness(query, query_signs, is_exact)[mask])
            ids.append(block.ids[mask])
            kinds.append(block.kinds[mask])
        if not ids:
            return VectorMatches(np.zeros(0, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.float32), only.kinds)
        held = blocks if are_held else ()
        return VectorMatches(np.concatenate(ids), np.concatenate(kinds), np.concatenate(similarities), only.kinds, held)


@dataclass(frozen=True, slots=True)
class VectorMatches:
    """Vectors that match a filter, and their similarity to a query: exact, or by the number of equal signs."""

    ids: Numbers
    codes: NDArray[np.uint8]
    close: NDArray[Any]
    kinds: tuple[str, ...]
    held: tuple[VectorBlock, ...] = ()  #: the blocks, if they hold vectors and not only signs

    @property
    def is_exact(self) -> bool:
        return self.close.dtype.kind == "f"

    def compared(self, ids: Sequence[int], query: Floats) -> Floats | None:
        """Return the exact similarities of these ids; None if the vectors are not in memory."""
        import numpy as np

        if not self.held:
            return None
        wanted = np.array(ids, dtype=np.int64)
        similarities = np.zeros(len(wanted), dtype=np.float32)
        for block in self.held:
            if block.vectors is None or block.scales is None:
                return None
            positions = np.minimum(np.searchsorted(block.ids, wanted), len(block) - 1)
            is_here = block.ids[positions] == wanted
            positions = positions[is_here]
            similarities[is_here] = (block.vectors[positions].astype(np.float32) @ query) * block.scales[positions]
        return similarities

    def nearest(self, kinds: tuple[str, ...], number: int) -> tuple[list[int], NDArray[Any], bool]:
        """Return ids and similarities of about `number` nearest vectors of these kinds, and whether there are more."""
        import numpy as np

        ids, close = self.ids, self.close
        if set(kinds) != set(self.kinds):
            mask = np.array([kind in kinds for kind in KINDS])[self.codes]
            ids, close = ids[mask], close[mask]
        if len(ids) <= number:
            return ids.tolist(), close, False
        if self.is_exact:
            best = np.argpartition(close, len(close) - number)[-number:]
        else:  # numbers of equal signs, many of which are the same
            above_least = close - int(close.min())
            counts = np.bincount(above_least)[::-1].cumsum()
            best = np.flatnonzero(above_least >= len(counts) - 1 - int(np.searchsorted(counts, number)))
        return ids[best].tolist(), close[best], True
