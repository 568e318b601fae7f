"""Renames: one name replaced by another in many lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

from backstory.observe.offline.edits import Change

_WORD = re.compile(r"[A-Za-z_$][\w$]*|\S")


def renames(changes: Sequence[Change]) -> dict[tuple[str, str], list[str]]:
    """Names replaced by others in at least three lines, and the files where: old, new -> paths."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        for old, new, _ in change.swaps:
            if pair := _renamed(old[:400], new[:400]):
                pairs.setdefault(pair, []).append(change.path)
    return {pair: paths for pair, paths in pairs.items() if len(paths) >= 3}


def _renamed(old: str, new: str) -> tuple[str, str] | None:
    """The one name in which two lines differ."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    if len(before) != len(after):
        return None
    differing = {(a, b) for a, b in zip(before, after, strict=True) if a != b}
    if len(differing) != 1:
        return None
    pair = differing.pop()
    return (
        pair
        if all(len(word) > 2 and not word.isdigit() and (word[0].isalpha() or word[0] == "_") for word in pair)
        else None
    )
