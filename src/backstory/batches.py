"""Splits a stream of items into batches of limited size, for transactions and requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batches(items: Iterable[T], size_of: Callable[[T], int], max_items: int, max_size: int) -> Iterator[list[T]]:
    """Yield lists of up to `max_items` items and `max_size` in total. An item that is larger is alone in its list."""
    batch: list[T] = []
    total = 0
    for item in items:
        size = size_of(item)
        if batch and (len(batch) >= max_items or total + size > max_size):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch
