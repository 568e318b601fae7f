"""An export as lines of JSON: a heading, a line a row, and an end that counts them, so that a cut file is noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from backstory.errors import BackstoryError

#: What a reader must understand; it grows when an older reader would misread a newer file.
FORMAT = 1


class NotAnExport(BackstoryError):
    """The file is not an export of backstory."""

    hint = "`backstory export --output FILE` makes one."


class CutShort(BackstoryError):
    """The file is cut short or damaged, so nothing was imported."""

    hint = "Make the export again, or copy it again."


def heading(version: str, at: str) -> str:
    return _dump({"backstory": "export", "format": FORMAT, "version": version, "exported_at": at})


def line(table: str, row: dict[str, Any]) -> str:
    """One row, the same bytes for the same row whatever store it comes from."""
    return f'{{"table":"{table}","row":{_dump(row)}}}'


def ending(counts: dict[str, int]) -> str:
    return _dump({"end": {name: count for name, count in sorted(counts.items()) if count}})


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_text)


def _text(value: Any) -> str:
    """Bytes, which somebody has put where a text belongs: SQLite keeps them."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@dataclass(slots=True)
class Reader:
    """Reads an export line by line, and knows at its end whether it was whole."""

    head: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    is_whole: bool = False

    def read(self, lines: Iterator[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The rows; raises where the file is foreign or cut."""
        try:
            self.head = _object(next(lines, b""))
        except ValueError:
            raise NotAnExport from None
        if self.head.get("backstory") != "export" or not isinstance(self.head.get("format"), int):
            raise NotAnExport
        if self.head["format"] > FORMAT:
            raise NotAnExport("The file was made by a newer backstory.", "Update backstory, then import it.")
        for raw in lines:
            if self.is_whole:
                raise CutShort
            found = self._row(raw)
            if found:
                yield found
        if not self.is_whole:
            raise CutShort

    def _row(self, raw: bytes) -> tuple[str, dict[str, Any]] | None:
        try:
            value = _object(raw)
        except ValueError:
            raise CutShort from None
        if "end" in value:
            if value["end"] != self.counts:
                raise CutShort
            self.is_whole = True
            return None
        table, row = value.get("table"), value.get("row")
        if not isinstance(table, str) or not isinstance(row, dict):
            raise CutShort
        self.counts[table] = self.counts.get(table, 0) + 1
        return table, row


def _object(raw: bytes) -> dict[str, Any]:
    value = json.loads(raw)
    if not isinstance(value, dict):
        raise ValueError
    return value
