"""Modes: the types of observations, and the wording in which a model is asked for them. Each is a TOML file."""

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
_TEXTS = ("role", "focus", "measure")
_TABLES = ("types", "concepts")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
#: Maximum characters of a mode. They are sent with every round.
MAX_CHARS = 20_000


class BadMode(BadSetting):
    """The mode cannot be used."""

    hint = "Correct the file, or run `backstory config unset mode`. Until then the mode `code` is used."


@dataclass(frozen=True, slots=True)
class Mode:
    """What the observer looks for."""

    name: str
    role: str
    focus: str
    measure: str
    types: Mapping[str, str]
    concepts: Mapping[str, str]


def load(name: str, folder: Path) -> Mode:
    """Load a mode by its name: the user's file in `folder`, else the one that ships with backstory."""
    if not _NAME.fullmatch(name):
        raise BadMode(f"`{name[:80]}` is not the name of a mode.")
    own = folder / f"{name}.toml"
    try:
        text = own.read_text("utf-8") if own.is_file() else _shipped(name, folder)
        content = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise BadMode(f"The mode file {own} cannot be read: {error}.") from None
    if (parent := content.pop("extends", None)) is not None:
        if parent != DEFAULT:
            raise BadMode(f"{own} extends {parent!r}. Only `{DEFAULT}` can be extended.")
        extended = tomllib.loads(_shipped(DEFAULT, folder))
        # Texts replace those of the mode that is extended. Types and concepts are added to its own.
        tables = {name: extended[name] | content[name] for name in _TABLES if isinstance(content.get(name), dict)}
        content = extended | content | tables
    return _validated(name, own, content)


def _shipped(name: str, folder: Path) -> str:
    file = files(__name__) / f"{name}.toml"
    if not file.is_file():
        known = (DEFAULT, *sorted(own.stem for own in folder.glob("*.toml")))
        hint = "A mode is a file modes/NAME.toml in the data directory, or `code`."
        raise BadMode(f"There is no mode `{name}`.", f"{near(name, known) or ''} {hint}".strip())
    return file.read_text("utf-8")


def _validated(name: str, own: Path, content: Mapping[str, Any]) -> Mode:
    if unknown := set(content) - {*_TEXTS, *_TABLES}:
        raise BadMode(f"{own} has `{min(unknown)}`, which is not part of a mode.")
    for key in _TEXTS:
        if not isinstance(content.get(key), str) or not content[key].strip():
            raise BadMode(f"{own} lacks the text `{key}`.")
    for table in _TABLES:
        rows = content.get(table)
        if not isinstance(rows, dict) or not rows or not all(isinstance(text, str) for text in rows.values()):
            raise BadMode(f'{own} lacks the table [{table}], with lines such as `name = "what it is"`.')
        if bad := [row for row in rows if not _NAME.fullmatch(row)]:
            raise BadMode(f"{own}: `{bad[0][:80]}` in [{table}] is not a name. Names have letters, digits and dashes.")
    if sum(len(str(value)) for value in content.values()) > MAX_CHARS:
        raise BadMode(f"{own} is longer than {MAX_CHARS:,} characters. It would be sent with every round.")
    role, focus, measure = (" ".join(content[key].split()) for key in _TEXTS)
    types, concepts = ({row.lower(): text for row, text in content[table].items()} for table in _TABLES)
    return Mode(name, role, focus, measure, types, concepts)
