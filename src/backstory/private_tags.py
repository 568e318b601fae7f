"""Private tags: what stands between them is removed from a document, in whichever of its fields the tag is closed.

`privacy` uses this, in the worker and in the hook, where both are bare modules without the package around them.
"""

from __future__ import annotations

import re
from functools import lru_cache  # comes with re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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

# How a tag may be written: `<` and `>` also as entities (`&lt;`, `&#60;`, `&amp;lt;`), all of it also in the wide forms
# of East Asian keyboards, and `private` also with characters between its letters that nobody sees.
_UNSEEN = "\u00ad"  # stands for all of them
_UNSEEN_CODES = (
    *(0x34F, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070)),
    *(*range(0xFE00, 0xFE10), 0xFEFF),
)
#: Each sign as a tag is looked for, one for one, so that what is found stands at the same place in the text.
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
#: An opening tag hides from its name on, so its ">" need not be found. With a space before its name it must be whole,
#: for `a < private` is code. A closing tag counts only when it is whole.
_TAG = (
    rf"(?:{_UNSEEN}*+({_NAMES})(?![\w-]|{_HEADER})|{_SPACE}({_PRIVATE}){_SPACE}{_GT}"
    rf"|\\{{0,16}}{_SPACE}/{_SPACE}({_NAMES})(?:\s|{_UNSEEN}|\\++[nrt])*+{_GT})"
)
#: Characters as JSON may escape them, once or over and over: those that are printable, but not the quote and the
#: backslash, which keep an inner document in shape; and the others that a tag may be written with.
_ESCAPE = (
    r"\\u(00(?!22|5[cC]|7[fF])[2-7][0-9a-fA-F]|00[aA][0dD]|034[fF]|061[cC]|180[eE]|200[b-fB-F]|202[a-eA-E]"
    r"|206[0-9a-fA-F]|3000|[fF][eE]0[0-9a-fA-F]|[fF][eE]6[45]|[fF][eE][fF]{2}|[fF]{2}[0-5][0-9a-fA-F])"
)


@lru_cache(128)
def compiled(source: str) -> re.Pattern[str]:
    return re.compile(source, re.ASCII)


def unescape(text: str) -> str:
    if "\\u" not in text:
        return text
    kept, position = [], 0
    # The pattern begins with plain characters, which are found fast; the backslashes before them are taken here.
    for found in compiled(_ESCAPE).finditer(text):
        start = found.start()
        while start > position and text[start - 1] == "\\":
            start -= 1
        kept += [text[position:start], chr(int(found[1], 16))]
        position = found.end()
    return "".join(kept) + text[position:] if kept else text


def _pattern(text: str) -> re.Pattern[str]:
    """For the tags in a text. A pattern that begins with a plain sign is several times as fast."""
    has_entities = "&" in text and compiled(f"(?i)&{_ENTITY}").search(text)
    return compiled(f"(?i){_LT_OR_ENTITY if has_entities else '<'}{_TAG}")


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
        plain = unescape(text)
        folded = plain
        if not plain.isascii() and any(sign in plain for sign in _FOLD):
            folded = plain.translate(_FOLDING)
        if "<" not in folded and "&" not in folded:
            return "" if self.hidden else text
        met, kept, position = self.met, [], 0
        for tag in _pattern(folded).finditer(folded):
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
        name = (tag[1] or tag[2] or tag[3]).lower().replace(_UNSEEN, "")
        if tag[1] or tag[2] or self.final:
            self.opened += 1
            self.open[name] = self.open.get(name, 0) + 1
        elif name in self.open:
            self.open[name] -= 1
            if not self.open[name]:
                del self.open[name]


def untag(value: Any, keep: frozenset[str]) -> Any:
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
        name = free_key(tags.apart(key) if top else tags.visible(key), key, shown, value)
        if top and key in keep and not isinstance(item, dict | list):
            shown[name] = tags.apart(item) if isinstance(item, str) else item
        else:
            shown[name] = _show(item, tags, keep)
    return shown


def free_key(name: str, key: str, taken: dict[str, Any], source: dict[str, Any]) -> str:
    """A changed key must not take another's place."""
    free, number = name, len(taken) + 1
    while free in taken or (free != key and free in source):
        free, number = f"{name}#{number}", number + 1
    return free
