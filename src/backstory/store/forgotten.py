"""Recognises forgotten texts in any session, by a keyed digest and by their time.

The key is a file in the data directory. Without it a digest reveals nothing, not even of a text as short as a PIN.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any

from backstory import ids
from backstory.paths import Paths, write_private
from backstory.store.db import Tx

#: Milliseconds between two reports of the same text, at most. A short text like "yes" occurs at other times as well.
NEAR_MS = 120_000
#: Characters that are compared. Longer turns are stored cut.
COMPARED = 20_000
#: In place of a moment: the text is kept out at any time.
ALWAYS = ""


def key(paths: Paths) -> bytes:
    """Return the key of this data directory. It is created on first use."""
    try:
        return bytes.fromhex(paths.forgotten_key.read_text())
    except (FileNotFoundError, ValueError):
        new_key = secrets.token_bytes(32)
        write_private(paths.forgotten_key, new_key.hex().encode())
        return new_key


def add(tx: Tx, key: bytes, value: Any, moment: str) -> None:
    """Keep a text, or a JSON value, from coming back."""
    if key and (text := _compared_text(value)):
        tx.run("forgotten_text_add", mark=_digest(key, text), moment=moment, at=ids.now())


def has(tx: Tx, key: bytes, text: str, at: str) -> bool:
    return bool(_forgotten_names(tx, key, {"text": text}, at))


def without(tx: Tx, key: bytes, payload: Mapping[str, Any], at: str) -> Mapping[str, Any]:
    """Return a payload without forgotten values; the same object if there are none."""
    names = _forgotten_names(tx, key, payload, at)
    return {name: value for name, value in payload.items() if name not in names} if names else payload


def _forgotten_names(tx: Tx, key: bytes, payload: Mapping[str, Any], at: str) -> set[str]:
    """Return the names of the values that were forgotten."""
    digests = {name: _digest(key, text) for name, value in payload.items() if (text := _compared_text(value))}
    if not digests or not key:
        return set()
    at_ms = ids.stored_ms(at)
    rows = tx.all("forgotten_texts_among", marks=json.dumps(list(digests.values())))
    near = {
        row["mark"] for row in rows if row["moment"] == ALWAYS or abs(ids.stored_ms(row["moment"]) - at_ms) <= NEAR_MS
    }
    return {name for name, digest in digests.items() if digest in near}


def _compared_text(value: Any) -> str:
    """Return the text that is compared, with whitespace collapsed; empty for a value without text."""
    if isinstance(value, str):
        return " ".join(value[:COMPARED].split())
    return json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, dict | list) and value else ""


def _digest(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
