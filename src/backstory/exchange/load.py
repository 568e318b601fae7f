"""Imports the rows of an export: each once, under an id that is free in this store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from backstory import gate, ids
from backstory.errors import BadInput
from backstory.exchange.rows import BadRow, checked
from backstory.model import Session
from backstory.store import (
    events,
    forget,
    forget_rows,
    forgotten,
    kept,
    marked,
    observations,
    queries,
    sessions,
    table_rows,
    titles,
    turns,
)
from backstory.store.db import Row, Tx
from backstory.store.index import chunks
from backstory.store.payloads import read_or_nothing
from backstory.store.tables import Table

_INDEXED = {"observations": "observation", "session_summaries": "summary", "user_prompts": "prompt"}
#: Tables of a session that go with it.
_OF_SESSION = frozenset({"session_titles", "session_tags", "kept_transcripts", "contexts", "session_usage"})
#: Columns that identify a row.
_IDS = frozenset({"content_session_id", "memory_session_id", "event_id", "tool_use_id", "prompt_id", "mark"})


class UnknownColumn(BadInput):
    """The file has a table or a column that this version of backstory does not know."""

    hint = "Update backstory, then import it."


@dataclass(slots=True)
class Loaded:
    """What was imported, and what was refused."""

    added: int = 0
    refused: dict[int, str] = field(default_factory=dict)  #: position of a row -> why it was refused


class Load:
    """The import of one file. The new ids of its rows are kept in the store, so that memory use stays constant."""

    def __init__(self, import_id: str, key: bytes = b"") -> None:
        self._key = key
        self._tables, self._import_id = queries.owned(), gate.identifier(import_id)
        self._parent_tables = {c.parent for table in self._tables.values() for c in table.columns.values() if c.parent}

    def rows(self, tx: Tx, given: Sequence[tuple[str, dict[str, Any]]]) -> Loaded:
        """Import rows, parents before children. An invalid row is refused, and the others are imported."""
        loaded, talked = Loaded(), set()
        for position, (name, values) in enumerate(given):
            table = self._tables.get(name)
            if table is None or not values.keys() <= table.columns.keys():
                raise UnknownColumn
            try:
                row = (strip_entry if name == "transcript_entries" else strip)(checked(table, values))
                if name == "observations" and "mark" not in values:  # an earlier version wrote the file
                    row = marked.converted(row)
            except BadRow as error:
                loaded.refused[position] = str(error)
                continue
            if self._row(tx, table, row):
                loaded.added += 1
                if name in ("turns", "user_prompts"):
                    talked.add(row["session_id"])
        for number in talked:
            chunks.extend(tx, sessions.get(tx, number))
            observations.reindex_session(tx, number)
        table_rows.advance_sequences(tx)
        return loaded

    def finish(self, tx: Tx) -> None:
        """Link rows that came before their parents, and remove what was kept for this import."""
        for table in self._tables.values():
            for column in table.own_parents:
                for old_ids in table_rows.import_keys(tx, self._import_id, f"{table.name}_{column}"):
                    child, parent = (self._new_id(tx, table.name, old_id) for old_id in old_ids)
                    if child and parent:
                        table_rows.link(tx, table, column, child, parent)
        table_rows.clear_import_keys(tx, self._import_id)

    def _row(self, tx: Tx, table: Table, row: Row) -> int:
        old_id = row.get("id")
        if not self._translate_parents(tx, table, row, old_id):
            return 0  # its parent was forgotten here
        if same := self._same(tx, table, row):
            if table.name == "sdk_sessions":
                sessions.raise_prompt_counter(tx, same["id"], row["prompt_counter"])
            self._remember(tx, table, old_id, same.get("id"))
            return 0
        if not self._may_add(tx, table, row):
            return 0
        if old_id is not None:
            row["id"] = table_rows.free_id(tx, table, old_id)
        table_rows.add(tx, table, row)
        self._remember(tx, table, old_id, row.get("id"))
        if kind := _INDEXED.get(table.name):
            observations.index_row(tx, kind, row, sessions.get(tx, row["session_id"]))
        if table.name == "session_titles":
            titles.show(tx, row["session_id"])
        if table.name == "turns":
            turns.index(tx, sessions.get(tx, row["session_id"]), turns.from_row(row))
        if table.name == "user_prompts":
            # Its turn is in the file, too, if the other store kept turns.
            session = sessions.get(tx, row["session_id"])
            turns.add_prompt(tx, session, row["prompt_number"], row["prompt"], row["created_at"])
        return 1

    def _translate_parents(self, tx: Tx, table: Table, row: Row, old_id: Any) -> bool:
        """Replace the ids of a row's parents by their ids here. Returns False if one of them is missing."""
        for column in table.columns.values():
            value = row[column.name]
            if column.parent is None or value is None:
                continue
            row[column.name] = self._new_id(tx, column.parent, value)
            if row[column.name] is None:
                if column.parent != table.name:
                    return False
                # The parent may come later in the file. `finish` links it.
                table_rows.put_import_key(tx, self._import_id, f"{table.name}_{column.name}", old_id, value)
        return True

    def _same(self, tx: Tx, table: Table, row: Row) -> Row | None:
        if table.name == "turns":
            return turns.same(tx, row)
        same = table_rows.same(tx, table, row)
        if same is None and table.name == "events" and row["tool_use_id"]:
            event = events.by_tool_use(tx, row["session_id"], row["tool_use_id"])
            same = {"id": event.id} if event else None
        return same

    def _may_add(self, tx: Tx, table: Table, row: Row) -> bool:
        """Whether to add a new row. What was forgotten here is added without its text, or not at all."""
        if table.name == "sdk_sessions":
            memory_id = row["memory_session_id"]
            if memory_id and sessions.has_memory_id(tx, memory_id):
                row["memory_session_id"] = f"{memory_id}-{ids.new_event_id()}"
            row["force_init"] = int(bool(memory_id))  # the observer's conversation belongs to the other store
            for name in ("title", "first_user_prompt"):
                row[name] = self._left(tx, row[name], row["created_at"])
            return True
        if "session_id" not in row or table.columns["session_id"].parent is None:
            return True
        session = sessions.get(tx, row["session_id"])
        is_gone = session.forgotten_at is not None
        if table.name in _OF_SESSION:
            return not is_gone and not self._is_refused(tx, table, row, session)
        if table.name == "observations":
            texts = {name: row[name] for name in forget_rows.OBSERVED}
            is_said = forgotten.without(tx, self._key, texts, row["created_at"]) is not texts
            return not (is_gone or is_said or forget.is_forgotten_observation(tx, row))
        if table.name == "session_summaries":
            mark = f"{row['prompt_number']}:{row['source']}"
            row.update({name: self._left(tx, row[name], row["created_at"]) or "" for name in forget_rows.SUMMARY})
            return not is_gone and not forget.is_forgotten(tx, row["session_id"], "summary", mark)
        if table.name == "user_prompts" and is_gone:
            row["prompt"] = None
        if table.name == "turns":
            turns.fit_in(tx, session, row)
        if table.name == "events" and (is_gone or self._holds_forgotten(tx, row)):
            row.update(status="tombstone", payload=None, reason="forgotten")
        self._cut(tx, table, row)
        return True

    def _left(self, tx: Tx, text: str | None, at: str) -> str | None:
        """Return a text without what was forgotten here."""
        if not text or self._is_forgotten(tx, text, at):
            return None
        return forgotten.cut(tx, self._key, text, at) or None

    def _cut(self, tx: Tx, table: Table, row: Row) -> None:
        """Remove texts and sentences that were forgotten here."""
        if table.name == "user_prompts":
            row["prompt"] = self._left(tx, row["prompt"], row["created_at"])
        elif table.name == "turns":
            row["text"] = self._left(tx, row["text"], row["at"])
        elif table.name == "events" and row["payload"] and row["kind"] not in ("tool", "tool_failure"):
            payload = read_or_nothing(row["payload"])
            left = forgotten.redacted(tx, self._key, payload, row["occurred_at"])
            if left is not payload:
                row["payload"] = json.dumps(left, ensure_ascii=False)

    def _is_refused(self, tx: Tx, table: Table, row: Row, session: Session) -> bool:
        """Whether a transcript, a title or a tag would bring back what was forgotten here."""
        if table.name in ("contexts", "session_usage"):
            return False  # numbers
        if table.name == "kept_transcripts":
            return kept.is_refused(tx, session)
        text = row["title"] if table.name == "session_titles" else row["tag"]
        return self._is_forgotten(tx, text, session.created_at)

    def _is_forgotten(self, tx: Tx, text: str | None, at: str) -> bool:
        return bool(text) and forgotten.has(tx, self._key, text or "", at)

    def _holds_forgotten(self, tx: Tx, row: Row) -> bool:
        payload = read_or_nothing(row["payload"]) if row["payload"] else {}
        return forgotten.without(tx, self._key, payload, row["occurred_at"]) is not payload

    def _remember(self, tx: Tx, table: Table, old_id: Any, new_id: Any) -> None:
        if table.name in self._parent_tables and old_id is not None:
            table_rows.put_import_key(tx, self._import_id, table.name, old_id, new_id)

    def _new_id(self, tx: Tx, name: str, old_id: int) -> int | None:
        return table_rows.import_key(tx, self._import_id, name, old_id)


def strip(row: Row) -> Row:
    """Strip private text and secrets from a row. Exports have none, but anybody may have written the file."""
    return {name: _strip(name, value) if isinstance(value, str) else value for name, value in row.items()}


def strip_entry(row: Row) -> Row:
    """The same for an entry of a transcript, which must keep its ids and signatures."""
    return row | {"mark": gate.identifier(row["mark"]), "payload": kept.clean(row["payload"])}


def _strip(name: str, text: str) -> str:
    if name in _IDS:
        return gate.identifier(text)
    if text[:1] in ("{", "["):
        try:
            value = json.loads(text)
            clean = gate.document(value)
        except (ValueError, RecursionError):
            return gate.text(text)
        return text if clean == value else json.dumps(clean, ensure_ascii=False)
    return gate.text(text)
