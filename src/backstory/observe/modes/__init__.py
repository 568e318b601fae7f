"""Modes: which kinds of observations there are, and in which words a model is asked for them; a TOML file each."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from backstory.errors import BadSetting
from backstory.settings import near

DEFAULT = "code"
_WORDS = ("role", "focus", "measure")
_TABLES = ("types", "concepts")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
#: What the words of a mode may come to: they are sent with every round.
LONGEST = 20_000


class BadMode(BadSetting):
    """The mode can not be used."""

    hint = "Mend the file, or `backstory config unset mode`; until then the mode `code` is used."


@dataclass(frozen=True, slots=True)
class Mode:
    """What to look for."""

    name: str
    role: str
    focus: str
    measure: str
    types: Mapping[str, str]
    concepts: Mapping[str, str]


def load(name: str, folder: Path) -> Mode:
    """A mode by its name: the user's own, else one that ships."""
    if not _NAME.fullmatch(name):
        raise BadMode(f"`{name[:80]}` is no name of a mode.")
    own = folder / f"{name}.toml"
    try:
        text = own.read_text("utf-8") if own.is_file() else _shipped(name, folder)
        told = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise BadMode(f"The mode file {own} can not be read: {error}.") from None
    parent = told.pop("extends", None)
    if parent is not None:
        told = _over(_told_of(parent, own), told)
    return _mode(name, own, told)


def _shipped(name: str, folder: Path) -> str:
    file = files(__name__) / f"{name}.toml"
    if not file.is_file():
        known = (DEFAULT, *sorted(own.stem for own in folder.glob("*.toml")))
        hint = "Modes are files modes/NAME.toml in the data directory, and `code`."
        raise BadMode(f"There is no mode `{name}`.", f"{near(name, known) or ''} {hint}".strip())
    return file.read_text("utf-8")


def _told_of(parent: Any, own: Path) -> dict[str, Any]:
    if parent != DEFAULT:
        raise BadMode(f"{own} extends {parent!r}; what can be extended is `{DEFAULT}`.")
    return tomllib.loads(_shipped(DEFAULT, own.parent))


def _over(told: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """A child's words take the place of its parent's, its types and concepts stand beside them."""
    tables = {name: told[name] | more[name] for name in _TABLES if isinstance(more.get(name), dict)}
    return told | more | tables


def _mode(name: str, own: Path, told: Mapping[str, Any]) -> Mode:
    if unknown := set(told) - {*_WORDS, *_TABLES}:
        raise BadMode(f"{own} has `{min(unknown)}`, which no mode has.")
    for word in _WORDS:
        if not isinstance(told.get(word), str) or not told[word].strip():
            raise BadMode(f"{own} lacks the text `{word}`.")
    for table in _TABLES:
        rows = told.get(table)
        if not isinstance(rows, dict) or not rows or not all(isinstance(text, str) for text in rows.values()):
            raise BadMode(f'{own} lacks the table [{table}], with lines such as `name = "what it is"`.')
        if bad := [row for row in rows if not _NAME.fullmatch(row)]:
            raise BadMode(f"{own}: `{bad[0][:80]}` in [{table}] is no name; names have letters, digits and dashes.")
    if sum(len(str(value)) for value in told.values()) > LONGEST:
        raise BadMode(f"{own} is longer than {LONGEST:,} characters, and would be sent with every round.")
    role, focus, measure = (" ".join(told[word].split()) for word in _WORDS)
    types, concepts = ({row.lower(): text for row, text in told[table].items()} for table in _TABLES)
    return Mode(name, role, focus, measure, types, concepts)
