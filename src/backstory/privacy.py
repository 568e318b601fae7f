"""Removes text between private tags and redacts secrets, before anything is sent or stored.

Both the worker and the hook import this, the hook without the package around it. A pattern is compiled only when
`prefilter` has found one of its prefixes, so that imports are fast and clean text costs almost nothing.
"""

from __future__ import annotations

from functools import lru_cache  # comes with re

try:
    from . import command_secrets, cookie_secrets, key_blocks, named_secrets, prefilter, secret_assignments
    from .private_tags import KEEP, ROUNDS, compiled, free_key, unescape, untag
    from .secret_formats import FORMATS
    from .secret_kinds import REACHES_BACK, SECRETS, START
    from .truncate import MAX_FIELD_CHARS, shorten
except ImportError:  # the hook has only this directory on its path
    import command_secrets  # type: ignore[no-redef,import-not-found]
    import cookie_secrets  # type: ignore[no-redef,import-not-found]
    import key_blocks  # type: ignore[no-redef,import-not-found]
    import named_secrets  # type: ignore[no-redef,import-not-found]
    import prefilter  # type: ignore[no-redef,import-not-found]
    import secret_assignments  # type: ignore[no-redef,import-not-found]
    from private_tags import KEEP, ROUNDS, compiled, free_key, unescape, untag  # type: ignore[no-redef,import-not-found]
    from secret_formats import FORMATS  # type: ignore[no-redef,import-not-found]
    from secret_kinds import REACHES_BACK, SECRETS, START  # type: ignore[no-redef,import-not-found]
    from truncate import MAX_FIELD_CHARS, shorten  # type: ignore[no-redef,import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator
    from typing import Any

#: Key that marks a payload of which only the identifying fields are left.
CONTENTS_DROPPED = "contents_dropped"
MAX_DEPTH = 64  # levels of nesting; `strip_json` raises ValueError if there are more

_REDACTED = r"\[redacted:[a-z0-9-]{1,30}\]"
_NO_SEPARATOR = {ord(sign): " " for sign in ":=,<\n"}
#: Hints of `prefilter` that are not prefixes in the tables.
_NAMED = "name"
_COMMAND = "command"
_COOKIE = "cookie"
_BLOCK = "PRIVATE KEY"
_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_LONGEST_BACK = 64  # characters before a prefix that can belong to the secret
_LONGEST_KEY = 64 << 10  # characters of a private key, including line breaks
_CUTS_CHARS = 2 << 20  # characters around cuts in which secrets are searched
_CALL_CHARS = 1000  # characters that take as long as the search in a short text
_CHECK_CHARS = 20  # characters that take as long as the check whether that is necessary
_LONGEST_JWT = 8000  # characters of the first part of a JWT


def strip_text(text: str) -> str:
    """Strip private text and secrets from a string."""
    return str(strip_json(text))


def strip_json(value: Any, secrets: bool = True) -> Any:
    """Strip private text and, unless `secrets=False`, secrets from a decoded JSON value. A tag hides everything up to
    its closing tag, in document order and across fields: strings become empty, numbers null. Raises ValueError for a
    value that is nested deeper than MAX_DEPTH."""
    written = "\n".join(texts(value))
    if not secrets:
        return untag(value) if prefilter.tagged(written.encode(errors="surrogatepass")) else value
    hints = _hints(written)
    if "<" in hints:
        value = untag(value)
        hints = _hints("\n".join(texts(value)))
    return _redact_all(value, hints) if hints else value


def cut(value: Any) -> Any:
    """Truncate a decoded JSON value to the size that is stored. No cut goes through a secret, and private keys near a
    cut are redacted first, because half of either may not be recognised."""
    redact = _Redaction(value)
    short = shorten(value, MAX_FIELD_CHARS + _LONGEST_KEY, redact)
    return shorten(_redact_all(short, frozenset((_BLOCK,))), MAX_FIELD_CHARS, redact)


def _has_hints(value: Any) -> bool:
    try:
        return bool(_hints("\n".join(texts(value))))
    except ValueError:
        return True


class _Redaction:
    """Redacts the surroundings of cuts until it has done so much that it would take too long. From then on the whole
    value decides: to look through all of it takes longer than a few cuts."""

    def __init__(self, value: Any) -> None:
        self._value, self._left = value, _CUTS_CHARS
        self._is_clean: bool | None = None

    def __call__(self, text: str) -> str | None:
        """Return a text without its secrets; None if it is too late for that."""
        if self._left < 0:
            if self._is_clean is None:
                self._is_clean = not _has_hints(self._value)
            return text if self._is_clean else None
        hints = _hints(text)
        self._left -= len(text) + _CALL_CHARS if hints else _CHECK_CHARS
        return _redact(text, hints)


def names_only(data: bytes) -> bytes:
    """Reduce a payload that cannot be stripped in time to its identifying fields, and mark it as incomplete."""
    import json

    try:
        value = json.loads(data.decode())
        names = {key: value[key] for key in value if key in KEEP and _is_short(value[key])}
        return json.dumps(strip_json(names) | {CONTENTS_DROPPED: True}).encode()
    except (AttributeError, TypeError, ValueError, RecursionError):
        return b'{"error":"The payload could not be checked in time, so it was dropped."}'


def _is_short(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and len(value) <= 4096)


def strip_bytes(data: bytes) -> bytes:
    """Strip a raw payload of the hook. What is not JSON is stripped as text. Never raises."""
    return _changed(data, strip_json)


def untag_bytes(data: bytes) -> bytes:
    """Strip the tags of a large payload in which `prefilter.tagged` has found one, and truncate it. The worker redacts
    its secrets."""
    return _changed(data, lambda value: cut(untag(value)))


def cut_bytes(data: bytes) -> bytes:
    """The same for a payload of up to 16 MiB without tags. Truncates it first, which bounds the time."""
    return _changed(data, lambda value: strip_json(cut(value)))


def _changed(data: bytes, change: Callable[[Any], Any]) -> bytes:
    import json

    if b"\0" in data:  # UTF-16 or UTF-32, in which no tag or secret would be recognised
        return b'{"error":"The payload was not JSON in UTF-8, so it was dropped."}'
    try:
        value = json.loads(data.decode(), object_pairs_hook=_pairs)
        stripped = change(value)
        if stripped == value:
            return data
        try:
            return json.dumps(stripped, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except UnicodeEncodeError:  # a lone surrogate must be escaped
            return json.dumps(stripped, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, RecursionError):
        return strip_text(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. Duplicate keys raise ValueError: one value would be lost, and the tags in it."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


def texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield all strings of a document. A key and its string value are joined, so that a name precedes its value."""
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


def _hints(text: str) -> frozenset[str]:
    """Return the hints of `prefilter` for a text, including those for its unescaped form."""
    hints = prefilter.hints(text.encode(errors="surrogatepass"))
    if "\\u" in hints:
        hints |= prefilter.hints(unescape(text).encode(errors="surrogatepass"))
        hints.discard("\\u")
    return frozenset(hints)


# Secrets


def _redact_all(value: Any, hints: frozenset[str]) -> Any:
    if isinstance(value, str):
        return _redact(value, hints)
    if isinstance(value, list):
        if _BLOCK in hints and all(isinstance(item, str) for item in value):
            value = key_blocks.redact_lines(value)
        if len(value) > 1 and hints & {_NAMED, _COMMAND} and not any(_is_many_lines(item) for item in value):
            joined = _redact("\n".join(value), hints).split("\n")  # the lines of a patch belong together
            value = joined if len(joined) == len(value) else value
        return [_redact_all(item, hints) for item in value]
    if not isinstance(value, dict):
        return value
    clean: dict[str, Any] = {}
    for key, item in value.items():
        name = free_key(_redact(key, hints), key, clean, value)
        clean[name] = _redact_named(key, _redact_all(item, hints), hints)
    if _NAMED in hints and isinstance(clean.get("value"), str):  # {"name": "DB_PASSWORD", "value": "…"}
        for field in ("name", "key", "Name", "Key"):
            if isinstance(named := clean.get(field), str):
                clean["value"] = _redact_named(named, clean["value"], hints)
    return clean


def _is_many_lines(item: Any) -> bool:
    return not isinstance(item, str) or "\n" in item


def _redact_named(key: str, value: Any, hints: frozenset[str]) -> Any:
    """Redact a value whose key names a secret, by checking key and value as one line."""
    naming = hints & {_NAMED, "authorization", "cookie", "secret", "accountkey", "accesskey"}
    if not naming or not isinstance(value, str) or len(value) < 4:
        return value
    low = unescape(key).lower()
    if not any(stem in low for stem in (*named_secrets.STEMS, "cookie")):
        return value
    quote = next((mark for mark in "\"'`" if mark not in value), '"')
    head = unescape(key)[-60:].translate(_NO_SEPARATOR) + quote + ": " + quote
    clean = _redact(head + value + quote, frozenset(naming))
    return clean[len(head) : -1]


def _redact(text: str, hints: frozenset[str]) -> str:
    if not hints or len(text) < 4:
        return text
    plain = before = unescape(text)
    for _ in range(4 * ROUNDS):
        clean = _redact_once(before, hints)
        if clean == before:
            break
        before = clean
        # The text after a redaction may be recognisable as a secret only now.
        behind = (clean[match.end() - 1 : match.end() + 80] for match in compiled(_REDACTED).finditer(clean))
        hints = hints | prefilter.hints("\n".join(behind).encode(errors="surrogatepass"))
    return text if before == plain else before


def _redact_once(text: str, hints: frozenset[str]) -> str:
    if _BLOCK in hints:
        text = key_blocks.redact_lines([text])[0]
    low = ""
    for name, literal, source in _wanted(hints):
        folds = source.startswith("(?i)")
        if folds and not low:
            low = _fold(text)
        replaced = _replace(text, low if folds else text, name, literal, source)
        if replaced != text:
            text, low = replaced, ""
    if _COOKIE in hints:
        text = _replace_spans(text, cookie_secrets.find_spans(text, _fold(text)), "[redacted:cookie]")
    if _NAMED in hints:
        text = _replace_spans(text, named_secrets.find_spans(text, _fold(text)))
    if _COMMAND in hints:
        text = _replace_spans(text, command_secrets.find_spans(text, _fold(text)))
    return text


@lru_cache(64)
def _wanted(hints: frozenset[str]) -> tuple[tuple[str, str, str], ...]:
    """Return (name, prefix, pattern) for each hint. Cached, because a document has many strings."""
    rows = (*SECRETS, *FORMATS)
    return tuple(
        (name, literal, source) for name, literals, source, _ in rows for literal in literals if literal in hints
    )


def _replace(text: str, haystack: str, name: str, literal: str, source: str) -> str:
    """Redact one kind of secret. `haystack` is the text in which the prefix is searched: as it is, or in lower case."""
    at = haystack.find(literal)
    if at < 0:
        return text
    bounded = literal[0].isalnum() and not source.startswith("(?i)")
    back = name in REACHES_BACK
    pattern, kept, position = compiled(START + source if bounded or back else source), [], 0
    while at >= 0:
        match = _match_back(pattern, text, at, position, literal) if back else pattern.match(text, at)
        start, end = (match.span(1) if match.re.groups else match.span()) if match else (0, 0)
        if end > position:
            kept += [text[position:start], f"[redacted:{name}]"]
            position = end
        at = haystack.find(literal, max(end, at + 1))
    return "".join(kept) + text[position:]


def _match_back(pattern: re.Pattern[str], text: str, at: int, limit: int, literal: str) -> re.Match[str] | None:
    """Match a secret around a position. It starts with the word, at `eyJ` (a JWT), or after the last `-` or `_`."""
    window = text[max(limit, at - (_LONGEST_JWT if literal == ".eyJ" else _LONGEST_BACK)) : at]
    run = window[len(window.rstrip(_WORD)) :]
    word = secret_assignments.without_escape(text[at - len(run) - 1 : at - len(run)], run)
    for start in (0, word.find("eyJ"), max(word.rfind("-"), word.rfind("_")) + 1):
        if start >= 0 and (match := pattern.match(text, at - len(word) + start)):
            return match
    return None


def _replace_spans(text: str, spans: Iterator[tuple[int, int]], mark: str = "[redacted:secret]") -> str:
    kept, position = [], 0
    for start, end in sorted(set(spans)):
        if start >= position:
            kept += [text[position:start], mark]
            position = end
    return "".join(kept) + text[position:] if kept else text


def _fold(text: str) -> str:
    """Lower-case a text without changing its length. (The lower case of some characters is two characters long.)"""
    low = text.lower()
    return low if len(low) == len(text) else "".join(letter.lower()[0] for letter in text)
