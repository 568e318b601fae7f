"""Privacy: what lies between private tags is removed and known secrets are redacted, before anything leaves or is kept.

Both the worker and the hook import this, the hook as a bare module without the package around it. Patterns are
compiled only when `glance` has seen their beginning, so that an import costs little and clean text next to nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache  # comes with re

try:
    from . import glance
    from .secret_kinds import SECRETS, START
except ImportError:  # the hook starts with nothing but this folder on its path
    import glance  # type: ignore[no-redef,import-not-found]
    from secret_kinds import SECRETS, START  # type: ignore[no-redef,import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_DEPTH = 64  # containers inside one another; `strip_json` raises ValueError beyond
MAX_TAGS = 100  # opening tags in a payload; beyond, everything from the first on is hidden
ROUNDS = 4  # taking a tag out can put a new one together; after so many rounds the first hides all that follows

#: Fields the agent writes about itself: without them an event belongs to nobody, so a tag left open elsewhere does not
#: hide them. Tags and secrets inside them are stripped all the same.
KEEP = frozenset(
    (
        *("session_id", "sessionId", "content_session_id", "contentSessionId", "claude_session_id", "claudeSessionId"),
        *("tool_use_id", "tool_name", "hook_event_name", "event_id", "prompt_id", "promptNumber", "agent_id"),
        *("transcript_path", "cwd", "project"),
    )
)

_NAMES = "private|claude-mem-context|backstory-context"
#: An opening tag hides from its name on, so its ">" need not be found; a closing tag counts only when it is whole.
_TAG = rf"<(?:({_NAMES})(?![\w-])|\\{{0,16}}/({_NAMES})(?:\s|\\++[nrt])*+>)"
#: Printable characters as JSON may escape them, once or over and over; not the quote and the backslash, which keep an
#: inner document in shape.
_ESCAPE = r"\\u00(?!22|5c|5C|7f|7F)([2-7][0-9a-fA-F])"

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
    return str(_untag(text, frozenset())) if _seen(text) & {"<"} else text


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
        return _untag(value, keep)
    seen = _seen("\n".join(_texts(value)))
    if "<" in seen:
        value = _untag(value, keep)
        seen = _seen("\n".join(_texts(value)))
    return _redact_all(value, seen) if seen else value


def strip_bytes(data: bytes, secrets: bool = True) -> bytes:
    """A payload as the hook got it. What is not JSON is stripped as text; whatever comes, something comes back."""
    import json

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
        seen |= glance.hints(_unescape(text).encode(errors="surrogatepass"))
        seen.discard("\\u")
    return frozenset(seen)


@lru_cache(128)
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source, re.ASCII)


def _unescape(text: str) -> str:
    if "\\u00" not in text:
        return text
    kept, position = [], 0
    # The pattern begins with plain characters, which are found fast; the backslashes before them are taken here.
    for found in _pattern(_ESCAPE).finditer(text):
        start = found.start()
        while start > position and text[start - 1] == "\\":
            start -= 1
        kept += [text[position:start], chr(int(found[1], 16))]
        position = found.end()
    return "".join(kept) + text[position:] if kept else text


# Tags


class _Tags:
    """Which tags are open at a point of a document."""

    def __init__(self, final: bool = False) -> None:
        self.open: dict[str, int] = {}
        self.met = 0  # tags of any kind
        self.opened = 0
        self.final = final  # nothing is closed any more, and the first tag hides all that follows

    @property
    def hidden(self) -> bool:
        return bool(self.open)

    def visible(self, text: str) -> str:
        """The part of the next string that may be seen."""
        plain = _unescape(text)
        if "<" not in plain:
            return "" if self.hidden else text
        met, kept, position = self.met, [], 0
        for tag in _pattern("(?i)" + _TAG).finditer(plain):
            if not self.hidden:
                kept.append(plain[position : tag.start()])
            self._turn(tag)
            position = tag.end()
        if met == self.met:
            return "" if self.hidden else text
        return "".join(kept) + ("" if self.hidden else plain[position:])

    def apart(self, text: str) -> str:
        """The same for a string that a tag left open elsewhere does not hide."""
        outside, self.open = self.open, {}
        text = self.visible(text)
        self.open = {name: outside.get(name, 0) + self.open.get(name, 0) for name in outside | self.open}
        return text

    def _turn(self, tag: re.Match[str]) -> None:
        self.met += 1
        name = (tag[1] or tag[2]).lower()
        if tag[1] or self.final:
            self.opened += 1
            self.open[name] = self.open.get(name, 0) + 1
        elif name in self.open:
            self.open[name] -= 1
            if not self.open[name]:
                del self.open[name]


def _untag(value: Any, keep: frozenset[str]) -> Any:
    for _ in range(ROUNDS):
        tags = _Tags()
        shown = _show(value, tags, keep, top=True)
        if not tags.met:
            return value
        if tags.opened > MAX_TAGS:
            break
        value = shown
    return _show(value, _Tags(final=True), keep, top=True)


def _show(value: Any, tags: _Tags, keep: frozenset[str], top: bool = False) -> Any:
    if isinstance(value, str):
        return tags.visible(value)
    if isinstance(value, list):
        return [_show(item, tags, keep) for item in value]
    if not isinstance(value, dict):
        return None if tags.hidden else value
    shown: dict[str, Any] = {}
    for key, item in value.items():
        # The outermost keys are the agent's own words, too: without them nobody knows what is missing.
        name = _free(tags.apart(key) if top else tags.visible(key), key, shown, value)
        if top and key in keep and not isinstance(item, dict | list):
            shown[name] = tags.apart(item) if isinstance(item, str) else item
        else:
            shown[name] = _show(item, tags, keep)
    return shown


def _free(name: str, key: str, taken: dict[str, Any], source: dict[str, Any]) -> str:
    """A changed key must not take another's place."""
    free, number = name, len(taken) + 1
    while free in taken or (free != key and free in source):
        free, number = f"{name}#{number}", number + 1
    return free


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
        name = _free(_redact(key, seen), key, clean, value)
        clean[name] = _redact_named(key, _redact_all(item, seen), seen)
    return clean


def _redact_named(key: str, value: Any, seen: frozenset[str]) -> Any:
    """A value whose key says that it is a secret: to the patterns, key and value read as one line."""
    naming = seen & _NAMING
    if not naming or not isinstance(value, str) or len(value) < 8:
        return value
    quote = next((mark for mark in "\"'`" if mark not in value), '"')
    head = _unescape(key)[-60:].translate(_NO_SEPARATOR) + quote + ": " + quote
    clean = _redact(head + value + quote, naming)
    return clean[len(head) : -1]


def _redact(text: str, seen: frozenset[str]) -> str:
    if not seen or len(text) < 8:
        return text
    plain = before = _unescape(text)
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
        behind = (clean[found.end() - 1 : found.end() + 80] for found in _pattern(_REDACTED).finditer(clean))
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
    pattern, kept, position = _pattern(START + source if bounded else source), [], 0
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
    return not _pattern(_ABOUT).search(tail)


def _looks_secret(found: re.Match[str], name: str) -> bool:
    value = found["quoted"] or found["plain"]
    if value[0] in "[{<$%&*@(/~." or "://" in value or "${" in value or "{{" in value:
        return False
    if len(set(value)) < 3 or _pattern(_STAND_IN).match(value):
        return False
    if value.isdigit():
        return name.startswith("pass")
    digit = not _DIGITS.isdisjoint(value)
    if found["quoted"]:
        return digit or name.startswith(("pass", "secret"))
    if found["name"].isupper() and found["sep"] == "=":
        return True
    # Without quotes, in code, it is rather another name.
    return digit and not set("_.").intersection(value) and not _pattern(_TYPE).match(value)
