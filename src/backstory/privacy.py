"""Privacy: what lies between private tags is removed and known secrets are redacted, before anything leaves or is kept.

Both the worker and the hook import this, the hook as a bare module without the package around it. Patterns are
compiled only when `prefilter` has seen their beginning, so that an import costs little and clean text next to nothing.
"""

from __future__ import annotations

from functools import lru_cache  # comes with re

try:
    from . import command_secrets, key_blocks, named_secrets, prefilter
    from .private_tags import KEEP, ROUNDS, compiled, free_key, unescape, untag
    from .secret_formats import FORMATS
    from .secret_kinds import REACHES_BACK, SECRETS, START
    from .truncate import STORED, shorten
except ImportError:  # the hook starts with nothing but this folder on its path
    import command_secrets  # type: ignore[no-redef,import-not-found]
    import key_blocks  # type: ignore[no-redef,import-not-found]
    import named_secrets  # type: ignore[no-redef,import-not-found]
    import prefilter  # type: ignore[no-redef,import-not-found]
    from private_tags import (  # type: ignore[no-redef,import-not-found]
        KEEP,
        ROUNDS,
        compiled,
        free_key,
        unescape,
        untag,
    )
    from secret_formats import FORMATS  # type: ignore[no-redef,import-not-found]
    from secret_kinds import REACHES_BACK, SECRETS, START  # type: ignore[no-redef,import-not-found]
    from truncate import STORED, shorten  # type: ignore[no-redef,import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator
    from typing import Any

#: In a payload of which only the names are left.
CONTENTS_DROPPED = "contents_dropped"
MAX_DEPTH = 64  # containers inside one another; `strip_json` raises ValueError beyond

_REDACTED = r"\[redacted:[a-z0-9-]{1,30}\]"
_NO_SEPARATOR = {ord(sign): " " for sign in ":=,<\n"}
#: What the look says besides the beginnings of the table.
_NAMED = "name"
_COMMAND = "command"
_BLOCK = "PRIVATE KEY"
_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_LONGEST_BACK = 64  # characters before a beginning that can belong to its secret
_LONGEST_KEY = 64 << 10  # characters of a private key with its lines
_LONGEST_JWT = 8000  # the same for the first part of a JWT


def strip_text(text: str) -> str:
    """One string without its private parts and secrets."""
    return str(strip_json(text))


def strip_json(value: Any, keep: frozenset[str] = KEEP, secrets: bool = True) -> Any:
    """A decoded JSON value, stripped in document order: a tag hides all up to its end, in whichever field that is.

    Hidden strings become empty, hidden numbers null. Raises ValueError where it is nested deeper than MAX_DEPTH.
    Without `secrets` only tags are looked for.
    """
    written = "\n".join(texts(value))
    if not secrets:
        return untag(value, keep) if prefilter.tagged(written.encode(errors="surrogatepass")) else value
    seen = _seen(written)
    if "<" in seen:
        value = untag(value, keep)
        seen = _seen("\n".join(texts(value)))
    return _redact_all(value, seen) if seen else value


def cut(value: Any) -> Any:
    """A decoded JSON value as large as it is stored at the most. Half a private key may not be known for one, so keys
    are redacted as far as the cut reaches."""
    return shorten(_redact_all(shorten(value, STORED + _LONGEST_KEY), frozenset((_BLOCK,))))


def names_only(data: bytes) -> bytes:
    """Of a payload that can not be stripped in time, only what it is called by, and a mark that the rest is missing."""
    import json

    try:
        value = json.loads(data.decode())
        names = {key: value[key] for key in value if key in KEEP and _is_short(value[key])}
        return json.dumps(strip_json(names) | {CONTENTS_DROPPED: True}).encode()
    except (AttributeError, TypeError, ValueError, RecursionError):
        return b'{"error":"The payload could not be looked through in time, so nothing of it was kept."}'


def _is_short(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and len(value) <= 4096)


def strip_bytes(data: bytes) -> bytes:
    """A payload as the hook got it. What is not JSON is stripped as text; whatever comes, something comes back.

    A null byte is in no JSON of UTF-8, and in all of UTF-16 and UTF-32, in which nothing would be found: of that
    nothing is kept.
    """
    return _changed(data, strip_json)


def untag_bytes(data: bytes) -> bytes:
    """The same for a large payload in which `prefilter.tagged` has seen a tag: cut to the size that the worker would
    store, which looks for secrets itself."""
    return _changed(data, lambda value: cut(untag(value, KEEP)))


def cut_bytes(data: bytes) -> bytes:
    """The same for a payload without tags that may have sixteen megabytes: cut first, so that its time is bounded."""
    return _changed(data, lambda value: strip_json(cut(value)))


def _changed(data: bytes, change: Callable[[Any], Any]) -> bytes:
    import json

    if b"\0" in data:
        return b'{"error":"The payload was not JSON in UTF-8, so nothing of it was kept."}'

    try:
        value = json.loads(data.decode(), object_pairs_hook=_pairs)
        stripped = change(value)
        if stripped == value:
            return data
        try:
            return json.dumps(stripped, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except UnicodeEncodeError:  # half a surrogate pair can only be written as an escape
            return json.dumps(stripped, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, RecursionError):
        return strip_text(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are its own; of a key that comes twice one value would be lost, and its tags with it."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("the same key twice")
    return value


def texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Everything written in a document, keys so that a name and its value stand together."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        if depth >= MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH}")
        for item in value:
            below = value[item] if isinstance(value, dict) else item
            if isinstance(value, dict):
                yield f'{item}": "{below}"' if isinstance(below, str) else item
            if not isinstance(value, dict) or not isinstance(below, str):
                yield from texts(below, depth + 1)


def _seen(text: str) -> frozenset[str]:
    """The beginnings in a text, as they stand and behind escapes."""
    seen = prefilter.hints(text.encode(errors="surrogatepass"))
    if "\\u" in seen:
        seen |= prefilter.hints(unescape(text).encode(errors="surrogatepass"))
        seen.discard("\\u")
    return frozenset(seen)


# Secrets


def _redact_all(value: Any, seen: frozenset[str]) -> Any:
    if isinstance(value, str):
        return _redact(value, seen)
    if isinstance(value, list):
        if _BLOCK in seen and all(isinstance(item, str) for item in value):
            value = key_blocks.redact_lines(value)
        return [_redact_all(item, seen) for item in value]
    if not isinstance(value, dict):
        return value
    clean: dict[str, Any] = {}
    for key, item in value.items():
        name = free_key(_redact(key, seen), key, clean, value)
        clean[name] = _redact_named(key, _redact_all(item, seen), seen)
    return clean


def _redact_named(key: str, value: Any, seen: frozenset[str]) -> Any:
    """A value whose key says that it is a secret: key and value are read as one line."""
    naming = seen & {_NAMED, "authorization", "cookie", "secret", "accountkey", "accesskey"}
    if not naming or not isinstance(value, str) or len(value) < 4:
        return value
    low = unescape(key).lower()
    if not any(stem in low for stem in (*named_secrets.STEMS, "cookie")):
        return value
    quote = next((mark for mark in "\"'`" if mark not in value), '"')
    head = unescape(key)[-60:].translate(_NO_SEPARATOR) + quote + ": " + quote
    clean = _redact(head + value + quote, frozenset(naming))
    return clean[len(head) : -1]


def _redact(text: str, seen: frozenset[str]) -> str:
    if not seen or len(text) < 4:
        return text
    plain = before = unescape(text)
    for _ in range(4 * ROUNDS):
        clean = _redact_once(before, seen)
        if clean == before:
            break
        before = clean
        # What stood right behind a secret may be seen for one only now.
        behind = (clean[found.end() - 1 : found.end() + 80] for found in compiled(_REDACTED).finditer(clean))
        seen = seen | prefilter.hints("\n".join(behind).encode(errors="surrogatepass"))
    return text if before == plain else before


def _redact_once(text: str, seen: frozenset[str]) -> str:
    if _BLOCK in seen:
        text = key_blocks.redact_blocks(text)
    low = ""
    for name, literal, source in _wanted(seen):
        folds = source.startswith("(?i)")
        if folds and not low:
            low = _fold(text)
        replaced = _replace(text, low if folds else text, name, literal, source)
        if replaced != text:
            text, low = replaced, ""
    if _NAMED in seen:
        text = _replace_spans(text, named_secrets.found(text))
    if _COMMAND in seen:
        text = _replace_spans(text, sorted(set(command_secrets.found(text, _fold(text)))))
    return text


@lru_cache(64)
def _wanted(seen: frozenset[str]) -> tuple[tuple[str, str, str], ...]:
    """The rows of the table to try, and with which beginning; remembered, as a document has many strings."""
    rows = (*SECRETS, *FORMATS)
    return tuple(
        (name, literal, source) for name, literals, source, _ in rows for literal in literals if literal in seen
    )


def _replace(text: str, heap: str, name: str, literal: str, source: str) -> str:
    """The text without one kind of secret; the heap is the text as the beginning is looked for in it."""
    at = heap.find(literal)
    if at < 0:
        return text
    bounded = literal[0].isalnum() and not source.startswith("(?i)")
    back = name in REACHES_BACK
    pattern, kept, position = compiled(START + source if bounded or back else source), [], 0
    while at >= 0:
        found = _match_back(pattern, text, at, position, literal) if back else pattern.match(text, at)
        start, end = (found.span(1) if found.re.groups else found.span()) if found else (0, 0)
        if end > position:
            kept += [text[position:start], f"[redacted:{name}]"]
            position = end
        at = heap.find(literal, max(end, at + 1))
    return "".join(kept) + text[position:]


def _match_back(pattern: re.Pattern[str], text: str, at: int, limit: int, literal: str) -> re.Match[str] | None:
    """The secret around a place: it begins where the word does, at the word's last joint, or as a JWT does."""
    window = text[max(limit, at - (_LONGEST_JWT if literal == ".eyJ" else _LONGEST_BACK)) : at]
    run = window[len(window.rstrip(_WORD)) :]
    word = named_secrets.without_escape(text[at - len(run) - 1 : at - len(run)], run)
    for start in (0, word.find("eyJ"), max(word.rfind("-"), word.rfind("_")) + 1):
        if start >= 0 and (found := pattern.match(text, at - len(word) + start)):
            return found
    return None


def _replace_spans(text: str, spans: list[tuple[int, int]]) -> str:
    kept, position = [], 0
    for start, end in spans:
        if start >= position:
            kept += [text[position:start], "[redacted:secret]"]
            position = end
    return "".join(kept) + text[position:] if kept else text


def _fold(text: str) -> str:
    """Small letters, each where it stood. (A few letters of other scripts become two.)"""
    low = text.lower()
    return low if len(low) == len(text) else "".join(letter.lower()[0] for letter in text)
