"""Privacy: what lies between private tags is removed and known secrets are redacted, before anything leaves or is kept.

Both the worker and the hook import this, the hook as a bare module without the package around it. Patterns are
compiled only when `glance` has seen their beginning, so that an import costs little and clean text next to nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache  # comes with re

try:
    from . import glance
    from .private_tags import KEEP, ROUNDS, compiled, free_key, unescape, untag
    from .secret_kinds import SECRETS, START
except ImportError:  # the hook starts with nothing but this folder on its path
    import glance  # type: ignore[no-redef,import-not-found]
    from private_tags import (  # type: ignore[no-redef,import-not-found]
        KEEP,
        ROUNDS,
        compiled,
        free_key,
        unescape,
        untag,
    )
    from secret_kinds import SECRETS, START  # type: ignore[no-redef,import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_DEPTH = 64  # containers inside one another; `strip_json` raises ValueError beyond

#: After the name of a secret these make it the name of something about it: `token_count`, `password_field`.
_ABOUT = (
    r"[_-](?:count|type|name|len|length|size|limit|max|min|ttl|ur[il]|path|file|dir|ids?|field|label|hint|policy|class|"
    r"prefix|suffix|regex|re|pattern|format|header|usage|budget|status|error|message|required|version|kind|expir\w+|at|in|"
    r"index|position|start|end|rule|algorithm|method|mode|manager|provider|service|endpoint|param|column|input|form|help|"
    r"text|title|var|arn|ref|scope|env|list|set|map|is|reset|validators|hashers)(?![a-z0-9])"
)
_STAND_IN = (
    r"(?i)(?:your|my|the|some|insert|enter|replace|example|placeholder|todo|none|null|true|false|undefined)(?![a-z0-9])"
)
_TYPE = r"[A-Z]\w*(?:Keys?|Types?|Tokens?|Secrets?|Str|Bytes|Credentials?|Any|Config|Provider)\Z"
_NAMING = frozenset((*glance.WORDS, *glance.KEYS, "authorization"))  # beginnings that name what follows
_REDACTED = r"\[redacted:[a-z-]{1,30}\]"
_DIGITS = frozenset("0123456789")
_NO_SEPARATOR = {ord(sign): " " for sign in ":=,<\n"}


def strip_text(text: str) -> str:
    """One string without its private parts and secrets."""
    return str(strip_json(text))


def strip_tags(text: str) -> str:
    """One string without its private parts."""
    return str(untag(text, frozenset())) if _seen(text) & {"<"} else text


def redact(text: str) -> str:
    """One string without its secrets."""
    return _redact(text, _seen(text))


def strip_json(value: Any, keep: frozenset[str] = KEEP, secrets: bool = True) -> Any:
    """A decoded JSON value, stripped in document order: a tag hides all up to its end, in whichever field that is.

    Hidden strings become empty, hidden numbers null. Raises ValueError where it is nested deeper than MAX_DEPTH.
    Without `secrets` only tags are looked for.
    """
    if not secrets:
        _check_depth(value)
        return untag(value, keep)
    seen = _seen("\n".join(_texts(value)))
    if "<" in seen:
        value = untag(value, keep)
        seen = _seen("\n".join(_texts(value)))
    return _redact_all(value, seen) if seen else value


def strip_bytes(data: bytes, secrets: bool = True) -> bytes:
    """A payload as the hook got it. What is not JSON is stripped as text; whatever comes, something comes back.

    A null byte is in no JSON of UTF-8, and in all of UTF-16 and UTF-32, in which nothing would be found: of that
    nothing is kept.
    """
    import json

    if b"\0" in data:
        return b'{"error":"The payload was not JSON in UTF-8, so nothing of it was kept."}'

    try:
        value = json.loads(data.decode(), object_pairs_hook=_pairs)
        stripped = strip_json(value, secrets=secrets)
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


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Everything written in a document, keys so that a name and its value stand together."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        if depth >= MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH}")
        for item in value:
            below = value[item] if isinstance(value, dict) else item
            if isinstance(value, dict):
                yield f'{item}": "{below}' if isinstance(below, str) else item
            if not isinstance(value, dict) or not isinstance(below, str):
                yield from _texts(below, depth + 1)


def _check_depth(value: Any, depth: int = 0) -> None:
    if isinstance(value, dict | list):
        if depth >= MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH}")
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, depth + 1)


def _seen(text: str) -> frozenset[str]:
    """The beginnings in a text, as they stand and behind escapes."""
    seen = glance.hints(text.encode(errors="surrogatepass"))
    if "\\u" in seen:
        seen |= glance.hints(unescape(text).encode(errors="surrogatepass"))
        seen.discard("\\u")
    return frozenset(seen)


# Secrets


def _redact_all(value: Any, seen: frozenset[str]) -> Any:
    if isinstance(value, str):
        return _redact(value, seen)
    if isinstance(value, list):
        return [_redact_all(item, seen) for item in value]
    if not isinstance(value, dict):
        return value
    clean: dict[str, Any] = {}
    for key, item in value.items():
        name = free_key(_redact(key, seen), key, clean, value)
        clean[name] = _redact_named(key, _redact_all(item, seen), seen)
    return clean


def _redact_named(key: str, value: Any, seen: frozenset[str]) -> Any:
    """A value whose key says that it is a secret: to the patterns, key and value read as one line."""
    naming = seen & _NAMING
    if not naming or not isinstance(value, str) or len(value) < 8:
        return value
    quote = next((mark for mark in "\"'`" if mark not in value), '"')
    head = unescape(key)[-60:].translate(_NO_SEPARATOR) + quote + ": " + quote
    clean = _redact(head + value + quote, naming)
    return clean[len(head) : -1]


def _redact(text: str, seen: frozenset[str]) -> str:
    if not seen or len(text) < 8:
        return text
    plain = before = unescape(text)
    for _ in range(4 * ROUNDS):
        clean, low = before, ""
        for name, literal, source in _wanted(seen):
            folds = source.startswith("(?i)")
            if folds and not low:
                low = _fold(clean)
            replaced = _replace(clean, low if folds else clean, name, literal, source)
            if replaced != clean:
                clean, low = replaced, ""
        if clean == before:
            break
        before = clean
        # What stood right behind a secret may be seen for one only now.
        behind = (clean[found.end() - 1 : found.end() + 80] for found in compiled(_REDACTED).finditer(clean))
        seen = seen | glance.hints("\n".join(behind).encode(errors="surrogatepass"))
    return text if before == plain else before


@lru_cache(64)
def _wanted(seen: frozenset[str]) -> tuple[tuple[str, str, str], ...]:
    """The rows of the table to try, and with which beginning; remembered, as a document has many strings."""
    return tuple(
        (name, literal, source) for name, literals, source, _ in SECRETS for literal in literals if literal in seen
    )


def _replace(text: str, heap: str, name: str, literal: str, source: str) -> str:
    """The text without one kind of secret; the heap is the text as the beginning is looked for in it."""
    at = heap.find(literal)
    if at < 0:
        return text
    bounded = literal[0].isalnum() and not source.startswith("(?i)")
    pattern, kept, position = compiled(START + source if bounded else source), [], 0
    while at >= 0:
        found = pattern.match(text, at)
        start, end = _span(found, name) if found else (0, 0)
        if end > position:
            kept += [text[position:start], f"[redacted:{name}]"]
            position = end
        at = heap.find(literal, max(end, at + 1))
    return "".join(kept) + text[position:]


def _fold(text: str) -> str:
    """Small letters, each where it stood. (A few letters of other scripts become two.)"""
    low = text.lower()
    return low if len(low) == len(text) else "".join(letter.lower()[0] for letter in text)


def _span(found: re.Match[str], name: str) -> tuple[int, int]:
    if name == "secret":
        group = "quoted" if found["quoted"] else "plain"
        return found.span(group) if _is_secret(found) else (0, 0)
    return found.span(1) if found.re.groups else found.span()


def _is_secret(found: re.Match[str]) -> bool:
    """Whether an assignment gives a name its secret, and not a reference, a type, a path or a stand-in."""
    name, tail = found["name"].lower(), found["tail"].lower()
    return _names_secret(name, tail) and _looks_secret(found, name)


def _names_secret(name: str, tail: str) -> bool:
    if name == "passw":
        tail = tail.removeprefix("or").removeprefix("d")
    if tail[:1] not in ("", "_", "-"):
        return tail in ("key", "value", "hash", "base") or (tail == "s" and name != "token")
    return not compiled(_ABOUT).search(tail)


def _looks_secret(found: re.Match[str], name: str) -> bool:
    value = found["quoted"] or found["plain"]
    if value[0] in "[{<$%&*@(/~." or "://" in value or "${" in value or "{{" in value:
        return False
    if len(set(value)) < 3 or compiled(_STAND_IN).match(value):
        return False
    if value.isdigit():
        return name.startswith("pass")
    digit = not _DIGITS.isdisjoint(value)
    if found["quoted"]:
        return digit or name.startswith(("pass", "secret"))
    if found["name"].isupper() and found["sep"] == "=":
        return True
    # Without quotes, in code, it is rather another name.
    return digit and not set("_.").intersection(value) and not compiled(_TYPE).match(value)
