"""The format of an export, lines of JSON: a header, one line per row, and a last line with the counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from backstory.errors import BackstoryError

#: Version of the format. It grows if an older reader would misread a newer file.
FORMAT = 1


class NotAnExport(BackstoryError):
    """The file is not an export of backstory."""

    hint = "Make one with `backstory export --output FILE`."


class IncompleteExport(BackstoryError):
    """The file is cut short or damaged, so nothing was imported."""

    hint = "Export or copy the file again."


def header(version: str, at: str) -> str:
    return _dump({"backstory": "export", "format": FORMAT, "version": version, "exported_at": at})


def line(table: str, row: dict[str, Any]) -> str:
    """The line of a row. The same row gives the same bytes from every engine."""
    return f'{{"table":"{table}","row":{_dump(row)}}}'


def ending(counts: dict[str, int]) -> str:
    return _dump({"end": {name: count for name, count in sorted(counts.items()) if count}})


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_text)


def _text(value: Any) -> str:
    """A value that JSON has no form for, such as bytes that somebody wrote into a text column of SQLite."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@dataclass(slots=True)
class Reader:
    """Reads an export line by line, and checks at the end that it is complete."""

    counts: dict[str, int] = field(default_factory=dict)
    is_complete: bool = False

    def read(self, lines: Iterator[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the rows. Raises an error if the file is not an export, or is incomplete."""
        try:
            header = _object(next(lines, b""))
        except ValueError:
            raise NotAnExport from None
        if header.get("backstory") != "export" or not isinstance(header.get("format"), int):
            raise NotAnExport
        if header["format"] > FORMAT:
            raise NotAnExport("The file was made by a newer backstory.", "Update backstory, then import it.")
        for raw in lines:
            if self.is_complete:
                raise IncompleteExport
            if row := self._row(raw):
                yield row
        if not self.is_complete:
            raise IncompleteExport

    def _row(self, raw: bytes) -> tuple[str, dict[str, Any]] | None:
        try:
            value = _object(raw)
        except ValueError:
            raise IncompleteExport from None
        if "end" in value:
            if value["end"] != self.counts:
                raise IncompleteExport
            self.is_complete = True
            return None
        table, row = value.get("table"), value.get("row")
        if not isinstance(table, str) or not isinstance(row, dict):
            raise IncompleteExport
        self.counts[table] = self.counts.get(table, 0) + 1
        return table, row


def _object(raw: bytes) -> dict[str, Any]:
    value = json.loads(raw)
    if not isinstance(value, dict):
        raise ValueError
    return value
