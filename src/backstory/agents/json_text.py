"""Edits JSON as text: puts our hooks into settings and takes them out, and leaves every other character alone.

To parse a file and write it again would lose its indentation, the form of its numbers, its escapes and its duplicate
keys. So values are parsed only to learn where they begin and end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from backstory.errors import SettingsUnreadable

Ours = Callable[[str], bool]

#: The white space of JSON.
BLANK = " \t\r\n"
#: The same, after a byte order mark, which can only be at the very beginning.
SPACE = re.compile(r"\ufeff?[ \t\r\n]*")


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
    """Return a number as JavaScript reads it. The pair keeps 1 from being equal to True, as it is in Python."""
    return ("number", float(literal))


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


DECODER = json.JSONDecoder(parse_int=number, parse_float=number, parse_constant=refuse_constant)


def value_of(text: str) -> Any:
    """Return the value of a text; ValueError if it is not JSON. An empty text means no settings."""
    return {} if is_blank(text) else DECODER.decode(text.removeprefix("\ufeff"))


def is_blank(text: str) -> bool:
    return not text.removeprefix("\ufeff").strip(BLANK)


def text_of(path: Path, before: bytes | None) -> str:
    """Return the text of a file, checked to be JSON. An empty file means no settings."""
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
    """Return why hooks cannot be added to these settings. Odd values deeper down do not matter."""
    if not isinstance(value, dict):
        return "holds something other than a JSON object"
    hooks = value.get("hooks", {})
    if not isinstance(hooks, dict):
        return 'has a "hooks" that is not an object'
    odd = [event for event, groups in hooks.items() if not isinstance(groups, list)]
    return f"has hooks for {json.dumps(odd[0])} that are not a list" if odd else None


def containers(value: Any) -> frozenset[str | None]:
    """Return the containers that stay even if empty: the events that were there, and None for "hooks" itself."""
    hooks = value.get("hooks") if isinstance(value, dict) else None
    return frozenset({None, *hooks}) if isinstance(hooks, dict) else frozenset()


def with_hooks(text: str, hooks: Mapping[str, Hook], ours: Ours, kept: frozenset[str | None]) -> str:
    """Return the settings with exactly these entries of ours. One that is there already keeps its place."""
    while True:  # one correction at a time: each edit moves the rest
        there: set[str] = set()
        for place in places(text, ours):
            wanted = hooks.get(place.event)
            if wanted is None or not place.live or place.matcher != wanted.matcher or place.event in there:
                text = cut_out(text, place, kept)
                break
            there.add(place.event)
            if place.entry.value != DECODER.decode(json.dumps(wanted.entry)):
                text = replace(text, place.entry, wanted.entry)
                break
        else:
            break
    for event, hook in hooks.items():
        if event not in there:
            text = add_group(text, event, hook.group)
    return text


def without_hooks(text: str, ours: Ours, kept: frozenset[str | None]) -> str:
    """Return the settings without our entries and the containers that are then empty, except those `kept`."""
    return with_hooks(text, {}, ours, kept)


# Permission rules


def odd_rules(value: Any) -> str | None:
    """Return why rules cannot be added to these settings."""
    permissions = value.get("permissions", {}) if isinstance(value, dict) else {}
    if not isinstance(permissions, dict):
        return 'has "permissions" that are not an object'
    return None if isinstance(permissions.get("allow", []), list) else 'has "permissions.allow" that is not a list'


def rules_of(value: Any) -> dict[str, list[Any]]:
    """Return "permissions" of settings as far as lists of rules are in it."""
    permissions = value.get("permissions") if isinstance(value, dict) else None
    lists = permissions.items() if isinstance(permissions, dict) else ()
    return {name: rules for name, rules in lists if isinstance(rules, list)}


def with_rules(text: str, rules: Iterable[str]) -> str:
    """Return the settings with these rules among those that allow something."""
    for rule in rules:
        root = skip(text, 0)
        permissions = [item for _, item, live in members(text, root, "permissions") if live]
        if not permissions:
            text = add(text, root, {"allow": [rule]}, "permissions")
            continue
        allow = [item for _, item, live in members(text, permissions[0].at, "allow") if live]
        if not allow:
            text = add(text, permissions[0].at, [rule], "allow")
        elif rule not in allow[0].value:
            text = add(text, allow[0].at, rule)
    return text


def without_rules(text: str, rules: Collection[str], origin: Any) -> str:
    """Return the settings without these rules, and without the containers that are then empty and not in `origin`."""
    stays = (False, "allow" in rules_of(origin), isinstance(origin, dict) and "permissions" in origin)
    while steps := next(_places_of_rules(text, rules), None):
        for (at, index), stay in zip(steps, stays, strict=True):
            if stay:
                break
            text = cut(text, at, index)
            if items(text, at):
                break
    return text


def _places_of_rules(text: str, rules: Collection[str]) -> Iterator[tuple[tuple[int, int], ...]]:
    root = skip(text, 0)
    for p, permissions, _ in members(text, root, "permissions"):
        for a, allow, _ in members(text, permissions.at, "allow"):
            for r, rule in enumerate(items(text, allow.at, "[")):
                if isinstance(rule.value, str) and rule.value in rules:
                    yield (allow.at, r), (permissions.at, a), (root, p)


# Positions in the text


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
    """Where one of our entries is: its containers from the inside out, each with the index in it."""

    event: str
    matcher: Any
    entry: JsonItem
    steps: tuple[tuple[int, int], ...]
    live: bool  # of duplicate keys an agent reads only the last


def skip(text: str, at: int) -> int:
    space = SPACE.match(text, at)
    return space.end() if space else at


def items(text: str, at: int, opener: str = "{[") -> list[JsonItem]:
    """Return the items of the container at `at`; none if it is not of the kind asked for."""
    parsed: list[JsonItem] = []
    if text[at] not in opener:
        return parsed
    here = skip(text, at + 1)
    while text[here] not in "]}":
        start, key = here, None
        if text[at] == "{":
            key, here = DECODER.raw_decode(text, here)
            here = skip(text, skip(text, here) + 1)
        value, end = DECODER.raw_decode(text, here)
        parsed.append(JsonItem(key, start, here, end, value))
        here = skip(text, end)
        here = skip(text, here + 1) if text[here] == "," else here
    return parsed


def members(text: str, at: int, key: str | None = None) -> Iterator[tuple[int, JsonItem, bool]]:
    """Yield the members of an object, or those of one name, with their index and whether an agent reads them."""
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
    """Cut out the entry, and each container around it that is then empty and was not there before us."""
    stays = (False, place.event in kept, None in kept, True)
    for (at, index), stay in zip(place.steps, stays, strict=True):
        text = cut(text, at, index)
        if stay or items(text, at):
            break
    return text


def cut(text: str, at: int, index: int) -> str:
    """Cut one item out of a container: the exact reverse of `add` for the last item."""
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
    """Append an item to a container, in the layout of the item before it or, in an empty one, of the file."""
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
    """Return the white space at the beginning of the line of `at`."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


@dataclass(frozen=True, slots=True)
class Style:
    """The layout of a file, as its first member and its characters show."""

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
