"""Vectors in memory, and which of them are near: exact while they are few, by their signs first when they are many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from backstory.store.index.hits import KINDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes = NDArray[np.int8]
    Floats = NDArray[np.float32]
    Numbers = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Words = NDArray[np.uint64]

#: Up to so many, the vectors themselves are compared; beyond, the sign of each of their numbers first. Up to so many
#: they are held, a quarter of a kilobyte each; beyond, those whose signs agree are read from the store.
EXACT, HELD = 50_000, 200_000
#: Vectors are held in blocks of so many. A block is never changed, only replaced: who searches goes on with the old.
BLOCK = 16_384
_CODES = {kind: code for code, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of them may be found; what is None asks for nothing."""

    kinds: tuple[str, ...]
    sessions: tuple[int, ...] | None = None
    since: int | None = None  #: seconds since 1970
    until: int | None = None


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """Some vectors, in the order of their ids."""

    ids: Numbers
    kinds: NDArray[np.uint8]
    sessions: Numbers
    seconds: Numbers  #: when, since 1970
    signs: Words  #: a row for each 64 numbers, a column for each vector
    vectors: Bytes | None
    scales: Floats | None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, which: Mask | slice) -> VectorBlock:
        few, scales = self.vectors, self.scales
        return VectorBlock(
            self.ids[which].copy(),
            self.kinds[which].copy(),
            self.sessions[which].copy(),
            self.seconds[which].copy(),
            self.signs[:, which].copy(),
            None if few is None else few[which].copy(),
            None if scales is None else scales[which].copy(),
        )

    def join(self, other: VectorBlock) -> VectorBlock:
        import numpy as np

        vectors = scales = None
        if self.vectors is not None and other.vectors is not None:
            vectors = np.concatenate((self.vectors, other.vectors))
        if self.scales is not None and other.scales is not None:
            scales = np.concatenate((self.scales, other.scales))
        return VectorBlock(
            np.concatenate((self.ids, other.ids)),
            np.concatenate((self.kinds, other.kinds)),
            np.concatenate((self.sessions, other.sessions)),
            np.concatenate((self.seconds, other.seconds)),
            np.concatenate((self.signs, other.signs), axis=1),
            vectors,
            scales,
        )

    def allowed(self, wanted: Wanted, sessions: Mask | None) -> Mask:
        """Which of them may be found; the last of the sessions' marks stands for all that come after."""
        import numpy as np

        mask = np.array([kind in wanted.kinds for kind in KINDS])[self.kinds]
        if sessions is not None:
            mask &= sessions[np.minimum(self.sessions, len(sessions) - 1)]
        if wanted.since is not None:
            mask &= self.seconds >= wanted.since
        if wanted.until is not None:
            mask &= self.seconds <= wanted.until
        return mask

    def closeness(self, query: Floats, query_signs: Words, is_exact: bool) -> NDArray[Any]:
        """How near each is to a query; more is nearer."""
        import numpy as np

        if is_exact and self.vectors is not None and self.scales is not None:
            near = np.empty(len(self), dtype=np.float32)
            for first in range(0, len(self), 2048):  # a part at a time: as numbers they are four times as large
                part = slice(first, first + 2048)
                near[part] = self.vectors[part].astype(np.float32) @ query
            return near * self.scales
        apart = np.zeros(len(self), dtype=np.int16)
        for row, word in zip(self.signs, query_signs, strict=True):
            apart += np.bitwise_count(row ^ word)
        return -apart


def block_of(
    ids: Sequence[int],
    kinds: Iterable[str],
    sessions: Sequence[int],
    seconds: Sequence[int],
    vectors: Bytes,
    scales: Sequence[float],
) -> VectorBlock:
    """Vectors as they were read."""
    import numpy as np

    return VectorBlock(
        np.array(ids, dtype=np.int64),
        np.array([_CODES[kind] for kind in kinds], dtype=np.uint8),
        np.array(sessions, dtype=np.int64),
        np.array(seconds, dtype=np.int64),
        signs(vectors),
        vectors,
        np.array(scales, dtype=np.float32),
    )


def signs(vectors: Bytes | Floats) -> Words:
    """The sign of each number as a bit."""
    import numpy as np

    packed = np.packbits(vectors > 0, axis=1)
    wide = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    wide[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(wide.view(np.uint64).T)


class Near:
    """All vectors of an embedder. One at a time may change it; any number may search meanwhile."""

    def __init__(self, exact: int = EXACT, held: int = HELD) -> None:
        self._exact, self._held = exact, held
        self._blocks: tuple[VectorBlock, ...] = ()

    def __len__(self) -> int:
        return sum(len(block) for block in self._blocks)

    @property
    def last(self) -> int:
        """The newest id."""
        return int(self._blocks[-1].ids[-1]) if self._blocks else 0

    def add(self, more: VectorBlock) -> None:
        """More of them, with greater ids than any before."""
        blocks = [*self._blocks, more]
        if len(self) + len(more) > self._held:
            blocks = [block if block.vectors is None else replace(block, vectors=None, scales=None) for block in blocks]
        if len(blocks) > 1 and len(blocks[-2]) + len(more) <= BLOCK:
            blocks[-2:] = [blocks[-2].join(blocks[-1])]
        self._blocks = tuple(blocks)

    def remove(self, ids: Sequence[int]) -> None:
        """Take vectors out; nothing of them stays."""
        import numpy as np

        blocks = []
        for block in self._blocks:
            going = np.isin(block.ids, ids)
            blocks.append(block.take(~going) if going.any() else block)
        self._blocks = tuple(block for block in blocks if len(block))

    def look(self, query: Floats, wanted: Wanted) -> Seen:
        """How near each is that may be found."""
        import numpy as np

        blocks, query_signs = self._blocks, signs(query[None, :])[:, 0]
        are_held = all(block.vectors is not None for block in blocks)
        is_exact = are_held and sum(map(len, blocks)) <= self._exact
        sessions = None
        if wanted.sessions is not None:
            sessions = np.zeros(max(wanted.sessions, default=0) + 2, dtype=np.bool_)
            sessions[list(wanted.sessions)] = True
        ids, kinds, close = [], [], []
        for block in blocks:
            mask = block.allowed(wanted, sessions)
            many = int(np.count_nonzero(mask))
            if 2 * many < len(block):
                few = block.take(mask)
                ids.append(few.ids)
                kinds.append(few.kinds)
                close.append(few.closeness(query, query_signs, is_exact))
            else:  # taking so many out would cost more than it saves
                ids.append(block.ids[mask])
                kinds.append(block.kinds[mask])
                close.append(block.closeness(query, query_signs, is_exact)[mask])
        if not ids:
            return Seen(np.zeros(0, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.float32), wanted.kinds)
        held = blocks if are_held else ()
        return Seen(np.concatenate(ids), np.concatenate(kinds), np.concatenate(close), wanted.kinds, held)


@dataclass(frozen=True, slots=True)
class Seen:
    """Vectors that may be found, and how near they are to a query: by number, or by the signs that agree."""

    ids: Numbers
    codes: NDArray[np.uint8]
    close: NDArray[Any]
    kinds: tuple[str, ...]
    held: tuple[VectorBlock, ...] = ()  #: where the vectors are, if they are in memory

    @property
    def is_exact(self) -> bool:
        return self.close.dtype.kind == "f"

    def compared(self, ids: Sequence[int], query: Floats) -> Floats | None:
        """How near these are, number by number; None where they are not in memory."""
        import numpy as np

        if not self.held:
            return None
        wanted = np.array(ids, dtype=np.int64)
        near = np.zeros(len(wanted), dtype=np.float32)
        for block in self.held:
            if block.vectors is None or block.scales is None:
                return None
            at = np.minimum(np.searchsorted(block.ids, wanted), len(block) - 1)
            here = block.ids[at] == wanted
            at = at[here]
            near[here] = (block.vectors[at].astype(np.float32) @ query) * block.scales[at]
        return near

    def nearest(self, kinds: tuple[str, ...], number: int) -> tuple[list[int], NDArray[Any], bool]:
        """The ids of about so many of these kinds that are nearest, how near they are, and whether there are more."""
        import numpy as np

        ids, close = self.ids, self.close
        if set(kinds) != set(self.kinds):
            mask = np.array([kind in kinds for kind in KINDS])[self.codes]
            ids, close = ids[mask], close[mask]
        if len(ids) <= number:
            return ids.tolist(), close, False
        best = _top(close, number)
        return ids[best].tolist(), close[best], True


def _top(near: NDArray[Any], number: int) -> Numbers:
    """Where the greatest of many are; of whole numbers, which are often the same, some more."""
    import numpy as np

    if near.dtype.kind == "f":
        return np.argpartition(near, len(near) - number)[-number:]
    least = int(near.min())
    counts = np.bincount(near - least)[::-1].cumsum()
    return np.flatnonzero(near - least >= len(counts) - 1 - int(np.searchsorted(counts, number)))
