"""Vectors in memory: exact while they are few, nearly so when they are many, and safe to change while others search."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest

from backstory.recall import embed
from backstory.recall.vector_index import VectorBlock, VectorFilter, VectorIndex, block_of
from backstory.store.index.vectors import VectorPage

NOUNS = ["invoice", "basket", "login", "parser", "cache", "kitten", "cluster", "deadline", "queue", "recipe", "violin"]
VERBS = ["fails", "restarts", "doubles", "vanishes", "grows", "sings", "burns", "waits", "compiles", "freezes"]
ANY = VectorFilter(("observation",))


def sentences(number: int) -> list[str]:
    dice = random.Random(7)
    return [
        f"The {dice.choice(NOUNS)} {dice.choice(VERBS)} when the {dice.choice(NOUNS)} of room {n} {dice.choice(VERBS)}."
        for n in range(number)
    ]


def block(vectors: Any, first: int = 1) -> VectorBlock:
    scales = np.abs(vectors).max(axis=1) / 127
    numbers = np.rint(vectors / scales[:, None]).astype(np.int8)
    size = len(numbers)
    ids = list(range(first, first + size))
    page = VectorPage(0, ids, ["observation"] * size, [n % 10 for n in ids], [], numbers.tobytes(), scales.tolist())
    return block_of(page, ids)


def nearest(near: VectorIndex, query: Any, wanted: VectorFilter, number: int) -> tuple[list[int], bool]:
    ids, _, more = near.search(query, wanted).nearest(wanted.kinds, number)
    return ids, more


def test_by_signs_nearly_the_same_are_found() -> None:
    """Of the ten nearest among thousands, 97 in a hundred are among the thousand whose signs agree most."""
    made = embed.named("static").embed(sentences(6000))
    exact, signs = VectorIndex(), VectorIndex(exact=0)
    for first in range(0, 6000, 500):
        exact.add(block(made[first : first + 500], first + 1))
        signs.add(block(made[first : first + 500], first + 1))
    assert exact.search(made[0], ANY).is_exact and not signs.search(made[0], ANY).is_exact
    hits = 0
    for query in made[::200]:
        truth = set((np.argsort(-(made @ query))[:10] + 1).tolist())
        near, more = nearest(exact, query, ANY, 12)
        assert more and len(near) == 12
        assert len(truth & set(near)) >= 9, "bytes are nearly as good as numbers"
        hits += len(truth & set(nearest(signs, query, ANY, 1000)[0]))
    assert hits >= 0.97 * 300


def test_what_is_held_is_compared_in_memory() -> None:
    """Beyond what is compared at once, as exactly; what is not held is left to the store."""
    made = embed.named("static").embed(sentences(900))
    exact, held, bare = VectorIndex(), VectorIndex(exact=0), VectorIndex(exact=0, held=0)
    for near in (exact, held, bare):
        for first in (0, 500):
            near.add(block(made[first : first + 500], first + 1))
    ids, close, _ = exact.search(made[3], ANY).nearest(ANY.kinds, 40)
    assert held.search(made[3], ANY).compared(ids, made[3]) == pytest.approx(close)
    assert bare.search(made[3], ANY).compared(ids, made[3]) is None


def test_only_what_is_wanted_is_found() -> None:
    """By kind, session and time, in both ways of looking; and whether there is more is known."""
    made = embed.named("static").embed(sentences(300))
    for near in (VectorIndex(), VectorIndex(exact=0), VectorIndex(exact=0, held=0)):
        near.add(block(made))
        assert nearest(near, made[0], VectorFilter(("summary",)), 5) == ([], False)
        ids, more = nearest(near, made[0], VectorFilter(("observation",), (3,), 100, 200), 50)
        assert sorted(ids) == [103, 113, 123, 133, 143, 153, 163, 173, 183, 193] and not more
        ids, more = nearest(near, made[0], VectorFilter(("observation",), (3,)), 5)
        assert len(ids) >= 5 and {number % 10 for number in ids} == {3} and more


def test_removed_is_gone() -> None:
    """Nothing of it stays in memory, the others are found as before."""
    made = embed.named("static").embed(sentences(100))
    near = VectorIndex()
    near.add(block(made))
    near.remove([5, 50, 1000])
    assert len(near) == 98
    assert sorted(nearest(near, made[4], ANY, 200)[0]) == [n for n in range(1, 101) if n not in (5, 50)]
    near.remove(list(range(1, 101)))
    assert (len(near), near.last, nearest(near, made[0], ANY, 5)) == (0, 0, ([], False))


def test_searching_while_others_add_and_remove() -> None:
    """A search sees one state or the next, never half of one."""
    made = embed.named("static").embed(sentences(2000))
    near, wrong = VectorIndex(), []
    near.add(block(made[:1000]))
    done = threading.Event()

    def search() -> None:
        while not done.is_set():
            try:
                ids, _ = nearest(near, made[7], ANY, 20)
                if 8 not in ids:
                    wrong.append("the same was not found")
            except Exception as error:
                wrong.append(repr(error))

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for first in range(1000, 2000, 20):
        near.add(block(made[first : first + 20], first + 1))
        near.remove([first - 500])
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(near) == 1950
