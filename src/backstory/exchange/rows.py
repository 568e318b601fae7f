"""Validates the rows of an import by the type and the name of each column."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any, get_args

from backstory.errors import BadInput
from backstory.gate import ODD
from backstory.model import ClaimMark, Kind
from backstory.store.db import Row
from backstory.store.tables import Column, Table

#: Numbers must be smaller.
NUMBER_LIMIT = 2**62
#: Maximum characters of an id, a name or a path.
MAX_NAME_CHARS = 4096
#: The years in which a time must be.
FIRST_YEAR = 1970
LAST_YEAR = 2999
_LISTS = frozenset({"facts", "concepts", "files_read", "files_modified"})
_MARKS = frozenset(ClaimMark)
_OBJECTS = frozenset({"payload", "compressed_observation"})
#: Single words. They are shown in one line and compared with others.
_WORDS = frozenset({"agent", "kind", "type", "provider", "memory_provider", "instead_of", "source", "role", "status"})
_WORDS |= {"from_status", "to_status", "cause", "start_source", "tool_name", "model", "day", "reason", "end_reason"}
_NAMES = frozenset({"content_session_id", "memory_session_id", "event_id", "tool_use_id", "prompt_id", "mark"})
_NAMES |= {"project", "project_key", "cwd", "git_branch", "transcript_path", "path", "speaker", "group_folder", "name"}
_NAMES |= {"root", "part"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_KINDS = frozenset(get_args(Kind))


class BadRow(BadInput):
    """A row of the file is not valid."""


def checked(table: Table, values: dict[str, Any]) -> Row:
    """Return a complete, valid row. Columns that an older file lacks get their defaults."""
    row: Row = {}
    for column in table.columns.values():
        value = values.get(column.name, column.default)
        if problem := _problem(column, value):
            raise BadRow(f"`{table.name}.{column.name}` {problem}")
        row[column.name] = value
    if table.name == "events" and row["kind"] not in _KINDS:
        raise BadRow("`events.kind` is not a kind of event")
    return row


def _problem(column: Column, value: Any) -> str:
    """What is wrong with a value. The message does not quote it."""
    if value is None:
        return "is missing" if column.is_required else ""
    if column.is_number:
        fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < NUMBER_LIMIT
        return "" if fits else "is not a whole number from 0 on"
    if not isinstance(value, str):
        return "is not a text"
    if column.choices and value not in column.choices:
        return f"is not one of {', '.join(column.choices)}"
    return _text_problem(column.name, value)


def _text_problem(name: str, value: str) -> str:
    if name == "at" or name.endswith("_at"):
        return "" if _is_time(value) else "is not a time"
    if name in _LISTS:
        return "" if _is_list(value) else "is not a list of texts in JSON"
    if name == "fact_marks":
        return "" if _is_list(value) and _MARKS.issuperset(_parsed(value)) else "is not a list of marks in JSON"
    if name in _OBJECTS:
        return "" if isinstance(_parsed(value), dict) else "is not an object in JSON"
    if name in _WORDS | _NAMES and (problem := _name_problem(name, value)):
        return problem
    return "has characters that no database accepts" if ODD.search(value) else ""


def _name_problem(name: str, value: str) -> str:
    if len(value) > MAX_NAME_CHARS:
        return f"is longer than {MAX_NAME_CHARS} characters"
    if name in _WORDS and _CONTROL.search(value):
        return "has control characters"
    return "" if value or name not in ("content_session_id", "memory_session_id") else "is empty"


def _is_time(value: str) -> bool:
    try:
        return len(value) <= 40 and FIRST_YEAR <= datetime.fromisoformat(value).year <= LAST_YEAR
    except ValueError:
        return False


def _is_list(value: str) -> bool:
    items = _parsed(value)
    return isinstance(items, list) and all(isinstance(item, str) for item in items)


def _parsed(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None
