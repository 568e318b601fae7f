"""Recognises forgotten texts in any session, by a keyed digest and by their time.

The key is a file in the data directory. Without it a digest reveals nothing, not even of a text as short as a PIN.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from backstory import ids, passages
from backstory.paths import Paths, locked, write_private
from backstory.store.db import Tx

#: Milliseconds between two reports of the same text, at most. A short text like "yes" occurs at other times as well.
NEAR_MS = 120_000
#: Characters that are compared. Longer turns are stored cut.
COMPARED = 20_000
#: In place of a moment: the text is kept out at any time.
ALWAYS = ""


def key(paths: Paths) -> bytes:
    """Return the key of this data directory. It is created on first use."""
    with locked(paths.data):
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


def add_passage(tx: Tx, key: bytes, passage: str, moment: str) -> None:
    """Keep a sentence or an item from coming back as a part of a text."""
    if words := passages.words(passage):
        add(tx, key, _passage_text(words), moment)


def has(tx: Tx, key: bytes, text: str, at: str) -> bool:
    return bool(_forgotten_names(tx, key, {"text": text}, at))


def is_any(tx: Tx) -> bool:
    """Whether any text was forgotten."""
    return tx.one("forgotten_texts_any") is not None


def is_any_since(tx: Tx, at: str) -> bool:
    """Whether any text was forgotten after a moment."""
    return tx.one("forgotten_texts_since", at=at) is not None


def is_any_of(tx: Tx, session_id: int) -> bool:
    """Whether something of a session was forgotten."""
    return tx.one("forgotten_any_of", session_id=session_id) is not None


def without(tx: Tx, key: bytes, payload: Mapping[str, Any], at: str) -> Mapping[str, Any]:
    """Return a payload without forgotten values; the same object if there are none."""
    names = _forgotten_names(tx, key, payload, at)
    return {name: value for name, value in payload.items() if name not in names} if names else payload


def redacted(tx: Tx, key: bytes, payload: Mapping[str, Any], at: str) -> Mapping[str, Any]:
    """Return a payload without forgotten sentences; the same object if there are none."""
    if not key or not is_any(tx):
        return payload
    digests: dict[str, str] = {}

    def collect(passage: str) -> bool:
        digests[passage] = _digest(key, _passage_text(passages.words(passage)))
        return False

    texts = {name: text for name, text in payload.items() if isinstance(text, str) and text}
    for text in texts.values():
        passages.cut(text, collect)
    near = _near(tx, digests.values(), at) if digests else set()
    if not near:
        return payload
    cuts = {name: passages.cut(text, lambda passage: digests[passage] in near) for name, text in texts.items()}
    return {**payload, **{name: left.text for name, left in cuts.items() if left.removed}}


def cut(tx: Tx, key: bytes, text: str, at: str) -> str:
    """Return a text without forgotten sentences."""
    return str(redacted(tx, key, {"text": text}, at)["text"])


def _passage_text(words: Iterable[str]) -> str:
    """Return what is compared of a passage. It differs from every whole text."""
    return f"\0{' '.join(words)}"


def _forgotten_names(tx: Tx, key: bytes, payload: Mapping[str, Any], at: str) -> set[str]:
    """Return the names of the values that were forgotten."""
    digests = {name: _digest(key, text) for name, value in payload.items() if (text := _compared_text(value))}
    if not digests or not key:
        return set()
    near = _near(tx, digests.values(), at)
    return {name for name, digest in digests.items() if digest in near}


def _near(tx: Tx, digests: Iterable[str], at: str) -> set[str]:
    """Return the digests of what was forgotten at about this moment, or at any."""
    at_ms = ids.stored_ms(at)
    rows = tx.all("forgotten_texts_among", marks=json.dumps(list(digests)))
    return {
        row["mark"] for row in rows if row["moment"] == ALWAYS or abs(ids.stored_ms(row["moment"]) - at_ms) <= NEAR_MS
    }


def _compared_text(value: Any) -> str:
    """Return the text that is compared, with whitespace collapsed; empty for a value without text."""
    if isinstance(value, str):
        return " ".join(value[:COMPARED].split())
    return json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, dict | list) and value else ""


def _digest(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
