"""Our hooks in the text of an agent's JSON settings: cut in and cut out, with every other character left alone.

Parsing a file and writing it anew would lose its indentation, the look of its numbers, its escapes and its doubled
keys, so only the values are parsed, for where they begin and end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from backstory.errors import SettingsUnreadable

Ours = Callable[[str], bool]

BLANK = " \t\r\n"  # the only white space that JSON knows
SPACE = re.compile(r"\ufeff?[ \t\r\n]*")  # a byte order mark can only stand at the very beginning


@dataclass(frozen=True, slots=True)
class Hook:
    """A command that the agent runs on an event."""

    command: str
    timeout: int
    matcher: str | None = None

    @property
    def entry(self) -> dict[str, Any]:
        return {"type": "command", "command": self.command, "timeout": self.timeout}

    @property
    def group(self) -> dict[str, Any]:
        return ({} if self.matcher is None else {"matcher": self.matcher}) | {"hooks": [self.entry]}


def number(literal: str) -> tuple[str, float]:
    """A number as an agent written in JavaScript sees it, and never equal to true or false as in Python."""
    return ("number", float(literal))


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


DECODER = json.JSONDecoder(parse_int=number, parse_float=number, parse_constant=refuse_constant)


def value_of(text: str) -> Any:
    """What the text means; ValueError if it is not JSON. An empty text means no settings."""
    return {} if is_blank(text) else DECODER.decode(text.removeprefix("\ufeff"))


def is_blank(text: str) -> bool:
    return not text.removeprefix("\ufeff").strip(BLANK)


def text_of(path: Path, before: bytes | None) -> str:
    """The file's text, known to be JSON; an empty one stands for no settings."""
    try:
        text = (before or b"").decode()
        value_of(text)
    except UnicodeDecodeError as error:
        raise SettingsUnreadable(f"{path} is not UTF-8 text, so nothing was changed.") from error
    except ValueError as error:
        where = isinstance(error, json.JSONDecodeError) and f"{error.msg} at line {error.lineno}, column {error.colno}"
        hint = "Settings are plain JSON, without comments and without a comma before a closing bracket."
        raise SettingsUnreadable(f"{path} is not JSON ({where or error}), so nothing was changed.", hint) from error
    return "{}\n" if is_blank(text) else text


def odd_shape(value: Any) -> str | None:
    """Why hooks cannot be added to these settings. Odd things deeper down are tolerated: they are not in our way."""
    if not isinstance(value, dict):
        return "holds something other than a JSON object"
    hooks = value.get("hooks", {})
    if not isinstance(hooks, dict):
        return 'has a "hooks" that is not an object'
    odd = [event for event, groups in hooks.items() if not isinstance(groups, list)]
    return f"has hooks for {json.dumps(odd[0])} that are not a list" if odd else None


def containers(value: Any) -> frozenset[str | None]:
    """What stays even when it is empty, because it was there before us: the events, and None for "hooks" itself."""
    hooks = value.get("hooks") if isinstance(value, dict) else None
    return frozenset({None, *hooks}) if isinstance(hooks, dict) else frozenset()


def with_hooks(text: str, hooks: Mapping[str, Hook], ours: Ours, kept: frozenset[str | None]) -> str:
    """The settings with exactly these entries of ours. One that is there already stays where it is."""
    text, there = only_wanted(text, hooks, ours, kept)
    for event, hook in hooks.items():
        if event not in there:
            text = add_group(text, event, hook.group)
    return text


def without_hooks(text: str, ours: Ours, kept: frozenset[str | None]) -> str:
    """The settings without our entries, and without the containers that held nothing else, but for those `kept`."""
    return only_wanted(text, {}, ours, kept)[0]


def only_wanted(text: str, hooks: Mapping[str, Hook], ours: Ours, kept: frozenset[str | None]) -> tuple[str, set[str]]:
    """Mends or cuts every entry of ours that is not as wanted, one at a time, since each edit moves the rest."""
    while True:
        there: set[str] = set()
        for place in places(text, ours):
            hook = hooks.get(place.event)
            if hook is None or not place.live or place.matcher != hook.matcher or place.event in there:
                text = cut_out(text, place, kept)
                break
            there.add(place.event)
            if place.entry.value != DECODER.decode(json.dumps(hook.entry)):
                text = replace(text, place.entry, hook.entry)
                break
        else:
            return text, there


# Where things stand in the text


@dataclass(frozen=True, slots=True)
class JsonItem:
    """A member of an object or an element of a list: it begins at `start`, its value at `at`."""

    key: str | None
    start: int
    at: int
    end: int
    value: Any


@dataclass(frozen=True, slots=True)
class EntryPlace:
    """Where one of our entries stands: its containers from the inside out, each with the index taken in it."""

    event: str
    matcher: Any
    entry: JsonItem
    steps: tuple[tuple[int, int], ...]
    live: bool  # of doubled keys an agent reads only the last


def skip(text: str, at: int) -> int:
    space = SPACE.match(text, at)
    return space.end() if space else at


def items(text: str, at: int, opener: str = "{[") -> list[JsonItem]:
    """What the container at `at` holds; nothing if it is not of the kind asked for."""
    found: list[JsonItem] = []
    if text[at] not in opener:
        return found
    here = skip(text, at + 1)
    while text[here] not in "]}":
        start, key = here, None
        if text[at] == "{":
            key, here = DECODER.raw_decode(text, here)
            here = skip(text, skip(text, here) + 1)
        value, end = DECODER.raw_decode(text, here)
        found.append(JsonItem(key, start, here, end, value))
        here = skip(text, end)
        here = skip(text, here + 1) if text[here] == "," else here
    return found


def members(text: str, at: int, key: str | None = None) -> Iterator[tuple[int, JsonItem, bool]]:
    """The members of an object, or those of one name, each with its index and whether an agent would read it."""
    inside = items(text, at, "{")
    last = {item.key: index for index, item in enumerate(inside)}
    for index, item in enumerate(inside):
        if key in (None, item.key):
            yield index, item, last[item.key] == index


def places(text: str, ours: Ours) -> Iterator[EntryPlace]:
    root = skip(text, 0)
    for h, hooks, hooks_live in members(text, root, "hooks"):
        for e, event, event_live in members(text, hooks.at):
            for g, group in enumerate(items(text, event.at, "[")):
                for _, inner, inner_live in members(text, group.at, "hooks"):
                    for n, entry in enumerate(items(text, inner.at, "[")):
                        command = entry.value.get("command") if isinstance(entry.value, dict) else None
                        if isinstance(command, str) and ours(command):
                            steps = ((inner.at, n), (event.at, g), (hooks.at, e), (root, h))
                            live = hooks_live and event_live and inner_live
                            yield EntryPlace(str(event.key), group.value.get("matcher"), entry, steps, live)


# Edits


def cut_out(text: str, place: EntryPlace, kept: frozenset[str | None]) -> str:
    """Without the entry, and without every container around it that is empty now and was not there before us."""
    stays = (False, place.event in kept, None in kept, True)
    for (at, index), stay in zip(place.steps, stays, strict=True):
        text = cut(text, at, index)
        if stay or items(text, at):
            break
    return text


def cut(text: str, at: int, index: int) -> str:
    """The container without one item, the exact reverse of `add` where that came last."""
    inside = items(text, at)
    if index > 0:
        start, end = inside[index - 1].end, inside[index].end
    elif len(inside) > 1:
        start, end = inside[0].start, inside[1].start
    else:
        start, end = at + 1, skip(text, inside[0].end)
    return text[:start] + text[end:]


def add_group(text: str, event: str, group: dict[str, Any]) -> str:
    root = skip(text, 0)
    hooks = [item for _, item, live in members(text, root, "hooks") if live]
    if not hooks:
        return add(text, root, {event: [group]}, "hooks")
    groups = [item for _, item, live in members(text, hooks[0].at, event) if live]
    return add(text, groups[0].at, group) if groups else add(text, hooks[0].at, [group], event)


def add(text: str, at: int, value: Any, key: str | None = None) -> str:
    """The container with one more item at its end, laid out as the item before it or, in an empty one, as the file."""
    style = Style.of(text)
    inside = items(text, at)
    if not inside:
        outer = indent_at(text, at)
        pad = None if style.unit is None else outer + style.unit
        before, after = ("", "") if pad is None else (style.newline + pad, style.newline + outer)
        return text[: at + 1] + before + style.render(value, pad, key) + after + text[skip(text, at + 1) :]
    last = inside[-1]
    head = text[: last.start]
    gap = head[len(head.rstrip(BLANK)) :]
    pad = indent_at(text, last.start) if "\n" in gap else None
    if pad is None and len(inside) == 1:
        gap = style.space
    return f"{text[: last.end]},{gap}{style.render(value, pad, key)}{text[last.end :]}"


def replace(text: str, item: JsonItem, value: Any) -> str:
    pad = indent_at(text, item.at) if "\n" in text[item.at : item.end] else None
    return text[: item.at] + Style.of(text).render(value, pad) + text[item.end :]


def indent_at(text: str, at: int) -> str:
    """The white space that the line of this place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


@dataclass(frozen=True, slots=True)
class Style:
    """How a file is laid out, as its first member and its characters show."""

    unit: str | None  # None: all in one line
    newline: str
    space: str  # what follows a colon
    ascii_only: bool

    @classmethod
    def of(cls, text: str) -> Style:
        unit: str | None = "  "
        space = " "
        if first := items(text, root := skip(text, 0))[:1]:
            unit = indent_at(text, first[0].start) if "\n" in text[root : first[0].start] else None
            space = " " if text[first[0].at - 1] in BLANK else ""
        return cls(unit, "\r\n" if "\r\n" in text else "\n", space, text.isascii() and "\\u" in text)

    def render(self, value: Any, pad: str | None, key: str | None = None) -> str:
        """JSON in this style: indented, with lines after the first beginning with `pad`, or with None in one line."""
        indent = None if pad is None else "  " if self.unit is None else self.unit
        marks = (f",{self.space}" if pad is None else ",", f":{self.space}")
        dumped = json.dumps(value, indent=indent, separators=marks, ensure_ascii=self.ascii_only)
        name = "" if key is None else json.dumps(key, ensure_ascii=self.ascii_only) + marks[1]
        return name + dumped.replace("\n", self.newline + (pad or ""))
