"""Removes text between private tags from a JSON document. A tag may be closed in another field than it was opened.

`privacy` uses this in the worker and in the hook. In the hook, both are imported without the package around them.
"""

from __future__ import annotations

import re
from functools import lru_cache  # comes with re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_TAGS = 100  # opening tags in a payload; if there are more, everything after the first is hidden
ROUNDS = 4  # passes, as removing a tag can form a new one; after the last, everything behind the first tag is hidden

#: Fields that identify an event. An unclosed tag in another field does not hide them, because the event could not be
#: assigned to a session without them. Tags and secrets inside them are stripped nevertheless.
KEEP = frozenset(
    (
        *("session_id", "sessionId", "content_session_id", "contentSessionId", "claude_session_id", "claudeSessionId"),
        *("tool_use_id", "tool_name", "hook_event_name", "event_id", "prompt_id", "promptNumber", "agent_id"),
        *("transcript_path", "cwd", "project"),
    )
)

# Accepted spellings of a tag: `<` and `>` may be entities (`&lt;`, `&#60;`, `&amp;lt;`), all characters may be
# fullwidth, and invisible characters may separate the letters of `private`.
_UNSEEN = "\u00ad"  # replaces every invisible character before matching
_UNSEEN_CODES = (
    *(0x34F, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070)),
    *(*range(0xFE00, 0xFE10), 0xFEFF),
)
#: Replacements before matching. Each maps one character to one, so that positions stay the same.
_FOLD = {chr(code): _UNSEEN for code in _UNSEEN_CODES} | {"\u00a0": " ", "\u3000": " ", "\ufe64": "<", "\ufe65": ">"}
_FOLD |= {chr(ord(sign) + 0xFEE0): sign for sign in "<>/privatePRIVATE"}
_FOLDING = str.maketrans(_FOLD)
_ENTITY = r"(?:amp;){0,4}+(?:lt|#0{0,6}60|#x0{0,6}3c);"  # without its `&`
_LT_OR_ENTITY = rf"[<&](?:(?<!&)|{_ENTITY})"
_GT = r"(?:>|&(?:amp;){0,4}+(?:gt|#0{0,6}62|#x0{0,6}3e);)"
_SPACE = rf"[ {_UNSEEN}]*+"
_PRIVATE = rf"{_UNSEEN}*+".join("private")
_NAMES = f"{_PRIVATE}|claude-mem-context|backstory-context"
_HEADER = r"/[\w./+-]{1,200}\.h(?:pp|h|xx)?>"  # `#include <private/qobject_p.h>`
#: An opening tag hides everything after its name, so its `>` is not required. With a space before its name it is
#: required, because `a < private` is code. A closing tag always needs its `>`.
_TAG = (
    rf"(?:{_UNSEEN}*+({_NAMES})(?![\w-]|{_HEADER})|{_SPACE}({_PRIVATE}){_SPACE}{_GT}"
    rf"|\\{{0,16}}{_SPACE}/{_SPACE}({_NAMES})(?:\s|{_UNSEEN}|\\++[nrt])*+{_GT})"
)
#: JSON escapes to decode: of printable characters, and of the others that a tag may contain. Escaped quotes and
#: backslashes stay, because they belong to the syntax of a nested document.
_ESCAPE = (
    r"\\u(00(?!22|5[cC]|7[fF])[2-7][0-9a-fA-F]|00[aA][0dD]|034[fF]|061[cC]|180[eE]|200[b-fB-F]|202[a-eA-E]"
    r"|206[0-9a-fA-F]|3000|[fF][eE]0[0-9a-fA-F]|[fF][eE]6[45]|[fF][eE][fF]{2}|[fF]{2}[0-5][0-9a-fA-F])"
)


@lru_cache(128)
def compiled(source: str) -> re.Pattern[str]:
    return re.compile(source, re.ASCII)


def unescape(text: str) -> str:
    """Decode the escapes of `_ESCAPE`, also where they are escaped several times."""
    if "\\u" not in text:
        return text
    kept, position = [], 0
    # The pattern starts with a literal, which `re` searches fast. Further backslashes before it are skipped here.
    for match in compiled(_ESCAPE).finditer(text):
        start = match.start()
        while start > position and text[start - 1] == "\\":
            start -= 1
        kept += [text[position:start], chr(int(match[1], 16))]
        position = match.end()
    return "".join(kept) + text[position:] if kept else text


def _pattern(text: str) -> re.Pattern[str]:
    """Return the pattern for the tags in a text. One that starts with a literal is several times as fast."""
    has_entities = "&" in text and compiled(f"(?i)&{_ENTITY}").search(text)
    return compiled(f"(?i){_LT_OR_ENTITY if has_entities else '<'}{_TAG}")


class _Tags:
    """The tags that are open at the current position of a document."""

    def __init__(self, final: bool = False) -> None:
        self.open: dict[str, int] = {}
        self.seen = 0  # number of tags, opening or closing
        self.opened = 0  # number of opening tags
        self.final = final  # closing tags are ignored, so the first tag hides everything after it

    @property
    def hidden(self) -> bool:
        return bool(self.open)

    def visible(self, text: str) -> str:
        """Return the visible part of the next string."""
        plain = unescape(text)
        folded = plain
        if not plain.isascii() and any(char in plain for char in _FOLD):
            folded = plain.translate(_FOLDING)
        if "<" not in folded and "&" not in folded:
            return "" if self.hidden else text
        seen, kept, position = self.seen, [], 0
        for tag in _pattern(folded).finditer(folded):
            if not self.hidden:
                kept.append(plain[position : tag.start()])
            self._apply(tag)
            position = tag.end()
        if seen == self.seen:
            return "" if self.hidden else text
        return "".join(kept) + ("" if self.hidden else plain[position:])

    def visible_alone(self, text: str) -> str:
        """The same for a string that an unclosed tag in another field does not hide."""
        outside, self.open = self.open, {}
        text = self.visible(text)
        self.open = {name: outside.get(name, 0) + self.open.get(name, 0) for name in outside | self.open}
        return text

    def _apply(self, tag: re.Match[str]) -> None:
        self.seen += 1
        name = (tag[1] or tag[2] or tag[3]).lower().replace(_UNSEEN, "")
        if tag[1] or tag[2] or self.final:
            self.opened += 1
            self.open[name] = self.open.get(name, 0) + 1
        elif name in self.open:
            self.open[name] -= 1
            if not self.open[name]:
                del self.open[name]


def untag(value: Any) -> Any:
    """Return a document without the text between private tags."""
    for _ in range(ROUNDS):
        tags = _Tags()
        shown = _strip(value, tags, top=True)
        if not tags.seen:
            return value
        if tags.opened > MAX_TAGS:
            break
        value = shown
    return _strip(value, _Tags(final=True), top=True)


def _strip(value: Any, tags: _Tags, top: bool = False) -> Any:
    if isinstance(value, str):
        return tags.visible(value)
    if isinstance(value, list):
        return [_strip(item, tags) for item in value]
    if not isinstance(value, dict):
        return None if tags.hidden else value
    shown: dict[str, Any] = {}
    for key, item in value.items():
        # Top-level keys identify the fields of an event, so an unclosed tag does not hide them either.
        name = free_key(tags.visible_alone(key) if top else tags.visible(key), key, shown, value)
        if top and key in KEEP and not isinstance(item, dict | list):
            shown[name] = tags.visible_alone(item) if isinstance(item, str) else item
        else:
            shown[name] = _strip(item, tags)
    return shown


def free_key(name: str, key: str, taken: dict[str, Any], source: dict[str, Any]) -> str:
    """Return a key that is unique: a key that was changed must not replace another one."""
    free, number = name, len(taken) + 1
    while free in taken or (free != key and free in source):
        free, number = f"{name}#{number}", number + 1
    return free
