"""Texts as SQLite stores them: compressed by zlib. PostgreSQL compresses by itself."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

#: Characters from which on a text is compressed.
MIN_PACKED = 100
#: Characters from which on the compression is fast, because every event waits for it. Such a text needs no dictionary.
MIN_FAST = 16_000
#: What many texts have, the commonest last: the JSON of tool uses, and stems of words. Most texts are short, and have
#: little to repeat by themselves. Stored texts cannot be read with another dictionary: the file must not change.
_DICTIONARY = " ".join(Path(__file__).with_name("dictionary.txt").read_text().splitlines()).encode()


def pack(text: str) -> str | bytes:
    """Return a text as SQLite stores it."""
    if len(text) < MIN_PACKED:
        return text
    if len(text) >= MIN_FAST:
        return zlib.compress(text.encode(), 1)
    packer = zlib.compressobj(zdict=_DICTIONARY)
    return packer.compress(text.encode()) + packer.flush()


def unpack(stored: Any) -> Any:
    """Return a stored text, also one that was compressed without a dictionary; an empty text if it is damaged."""
    if not isinstance(stored, bytes):
        return stored
    unpacker = zlib.decompressobj(zdict=_DICTIONARY)
    try:
        text = unpacker.decompress(stored).decode()
    except (zlib.error, ValueError):
        return ""
    return text if unpacker.eof else ""
