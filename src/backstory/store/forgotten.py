"""Texts that were forgotten, known again by a keyed digest and by when they were said, in whatever session they come.

The key stays in the data directory. Without it a digest tells nothing, not even of a text as short as a PIN.
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

#: A hook and a transcript tell of one moment; other sessions say "yes" as well, but at other times.
NEAR_MS = 120_000
#: Characters that are compared; turns are cut where they are longer.
COMPARED = 20_000
#: In place of a moment: whenever it is said.
ALWAYS = ""


def key(paths: Paths) -> bytes:
    """The key of this data directory; made when it is first asked for."""
    try:
        return bytes.fromhex(paths.forgotten_key.read_text())
    except (FileNotFoundError, ValueError):
        made = secrets.token_bytes(32)
        write_private(paths.forgotten_key, made.hex().encode())
        return made


def add(tx: Tx, key: bytes, value: Any, moment: str) -> None:
    """Keep a text, or a JSON value, from coming back."""
    if key and (told := _told(value)):
        tx.run("forgotten_text_add", mark=_mark(key, told), moment=moment, at=ids.now())


def has(tx: Tx, key: bytes, text: str, at: str) -> bool:
    return bool(_found(tx, key, {"text": text}, at))


def without(tx: Tx, key: bytes, payload: Mapping[str, Any], at: str) -> Mapping[str, Any]:
    """A payload without the values that were forgotten; the same object if there are none."""
    found = _found(tx, key, payload, at)
    return {name: value for name, value in payload.items() if name not in found} if found else payload


def _found(tx: Tx, key: bytes, payload: Mapping[str, Any], at: str) -> set[str]:
    """The names of the values that were forgotten."""
    marks = {name: _mark(key, told) for name, value in payload.items() if (told := _told(value))}
    if not marks or not key:
        return set()
    said = ids.stored_ms(at)
    rows = tx.all("forgotten_texts_among", marks=json.dumps(list(marks.values())))
    near = {
        row["mark"] for row in rows if row["moment"] == ALWAYS or abs(ids.stored_ms(row["moment"]) - said) <= NEAR_MS
    }
    return {name for name, mark in marks.items() if mark in near}


def _told(value: Any) -> str:
    """A text as it is compared: whitespace counts once. Of values without any text, nothing."""
    if isinstance(value, str):
        return " ".join(value[:COMPARED].split())
    return json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, dict | list) and value else ""


def _mark(key: bytes, told: str) -> str:
    return hmac.new(key, told.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
