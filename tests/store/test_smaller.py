"""A database of an earlier version becomes smaller: nothing is lost, and what is forgotten later leaves no trace."""

from __future__ import annotations

import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from engines import Opener

from backstory.store import backups, forget, observations, packing, queries, smaller, tool_copies
from backstory.store.db import Store, Tx
from backstory.store.forget_rows import Forgotten
from backstory.store.index import indexing, match, reindex, search
from backstory.store.migrate import migrate
from backstory.store.packing import pack, unpack
from backstory.store.sqlite import SqliteStore

#: The last migration before rows became smaller.
BEFORE = 11
RESPONSE = "The first line.\n" + "word " * 300 + "heliotrope at the very end."
ROWS = """
INSERT INTO sdk_sessions (id, content_session_id, project, project_key, created_at, last_event_at)
VALUES (1, 's', 'p', 'k', '2026-01-01', '2026-01-01');
INSERT INTO events (id, event_id, session_id, kind, tool_name, tool_use_id, payload, occurred_at, created_at, status)
VALUES (1, 'e1', 1, 'tool', 'Bash', 't1', '{payload}', '2026-01-01', '2026-01-01', 'done');
INSERT INTO observations (id, session_id, prompt_number, memory_session_id, project, project_key, type, title,
  narrative, facts, tool_name, tool_input_json, tool_response_text, compressed_observation, provider, created_at)
VALUES (1, 1, 1, 'm', 'p', 'k', 'bugfix', 'Zebra "stripes" é', 'Line one.\nLine two.', '["a", "b\\n\\"c\\""]',
  'Bash', '{input}', '{response}', '{same}', 'offline', '2026-01-01T00:00:00.000Z'),
  (2, 1, 1, 'm', 'p', 'k', 'change', 'Lion', '', '[]', NULL, NULL, NULL, '{{"title": "Lion", "more": 1}}', 'claude',
  '2026-01-02T00:00:00.000Z');
INSERT INTO observation_events (observation_id, event_id) VALUES (1, 1);
"""
#: The JSON of the first observation, as earlier versions stored it.
SAME = {
    "type": "bugfix",
    "title": 'Zebra "stripes" é',
    "subtitle": "",
    "narrative": "Line one.\nLine two.",
    "facts": ["a", 'b\n"c"'],
    "concepts": [],
    "files_read": [],
    "files_modified": [],
}
#: The words of both, as FTS5 had them.
WORDS = """
INSERT INTO word_rows (words_rowid, kind, item_id, session_id, at, project, project_key)
VALUES (1, 'observation', 1, 1, '2026-01-01', 'p', 'k'), (2, 'observation', 2, 1, '2026-01-02', 'p', 'k');
INSERT INTO words (rowid, title, body, marks)
VALUES (1, 'zebra stripe', 'line one line two {more}', '{marks}'), (2, 'lion', '', '{marks}');
"""


MARKS = "k=observation s=1 p=00ff0a2000000000 f=0123456789abcdef"


def written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def fill(tx: Tx) -> None:
    payload = {"tool_input": {"command": "x" * 2000}, "tool_response": RESPONSE}
    tool_input = written(payload["tool_input"])
    tx.script(ROWS.format(payload=written(payload), input=tool_input, response=RESPONSE, same=written(SAME)))
    if tx.engine == "sqlite":
        tx.script(WORDS.format(more="stripe " * 200, marks=MARKS))


@pytest.fixture
def old(open_again: Opener) -> Store:
    """A database of an earlier version."""
    store, known = open_again(), queries.migrations
    queries.owned()  # is cached, and must be that of this version
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "migrations", lambda engine: known(engine)[:BEFORE])
        migrate(store)
    store.write(fill)
    return store


def convert(store: Store) -> None:
    migrate(store)
    while store.write(reindex.go_on):
        pass


def test_i17_rows_become_smaller_and_say_the_same(old: Store) -> None:
    """The JSON is the same text as before, also one that says more than the columns. The event has its response."""
    convert(old)
    first, second = (old.read(lambda tx, n=n: observations.get(tx, n)) for n in (1, 2))  # type: ignore[misc]
    assert first["compressed_observation"] == written(SAME)
    assert first["observed_json"] == ""
    assert second["compressed_observation"] == '{"title": "Lion", "more": 1}'
    assert first["tool_name"] == "Bash"
    assert len(first["tool_response_text"]) <= tool_copies.MAX_CHARS < len(RESPONSE)
    assert first["tool_response_text"].startswith("The first line.")
    assert len(json.loads(first["tool_input_json"])["command"]) <= tool_copies.MAX_CHARS
    payload = old.read(lambda tx: tx.one("event_payload", id=1)) or {}
    assert json.loads(payload["payload"])["tool_response"] == RESPONSE
    changed = old.write(lambda tx: observations.edit(tx, 2, {"title": "Tiger"}))
    assert json.loads(changed["compressed_observation"]) == {"title": "Tiger", "more": 1}
    old.write(lambda tx: observations.edit(tx, 1, {"title": "Horse"}))
    row = old.read(lambda tx: observations.get(tx, 1))
    assert (row["observed_json"], json.loads(row["compressed_observation"])) == ("", SAME | {"title": "Horse"})


def test_i16_what_a_converted_index_forgets_is_gone(tmp_path: Path) -> None:
    """Its words are found as before, and removed with their texts. Then the file gives its space back."""
    store, known = SqliteStore(tmp_path / "backstory.db"), queries.migrations
    queries.owned()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "migrations", lambda engine: known(engine)[:BEFORE])
        migrate(store)
    store.write(fill)
    convert(store)
    found = {word: store.read(lambda tx, w=word: search.by_words(tx, w)) for word in ("zebra", "lion")}  # type: ignore[misc]
    assert [[hit.item_id for hit in hits] for hits in found.values()] == [[1], [2]]
    store.write(lambda tx: tx.script("INSERT INTO words (words) VALUES ('integrity-check');"))
    with closing(sqlite3.connect(store.path)) as db:
        rows = db.execute("SELECT body, marks FROM word_texts ORDER BY words_rowid").fetchall()
        (payload,) = db.execute("SELECT payload FROM events").fetchone()
    assert [unpack(body) for body, _ in rows] == ["line one line two " + "stripe " * 200, ""]
    assert [match.unpack_marks(marks) for _, marks in rows] == [MARKS, MARKS]
    assert isinstance(payload, bytes) and payload[:2] != zlib.compress(b"")[:2]
    assert store.read(smaller.is_vacuum_due)
    store.write(lambda tx: forget.observation(tx, 1, Forgotten()))
    store.write(lambda tx: indexing.remove_words(tx, "observation", 2))
    assert not store.read(lambda tx: search.by_words(tx, "zebra")) + store.read(lambda tx: search.by_words(tx, "lion"))
    store.scrub()
    store.close()
    for copy in backups.copies(store.path):
        copy.unlink()
    for file in tmp_path.glob("backstory.db*"):
        raw = file.read_bytes()
        assert not any(word in raw for word in (b"stripe", b"heliotrope", b"xxxxx")), file


@pytest.mark.parametrize("length", [10, 200, 20_000])
def test_a_packed_text_reads_as_it_was(length: int) -> None:
    """Also one that was packed without a dictionary. One that is cut off is empty."""
    text = ("the session was started é " * 1000)[:length]
    assert unpack(pack(text)) == unpack(zlib.compress(text.encode())) == text
    assert unpack(zlib.compress(text.encode())[:-1]) == ""


def test_the_dictionary_never_changes() -> None:
    """Texts that were packed with it could not be read any more."""
    assert zlib.crc32(packing._DICTIONARY) == 0x3B71D89A
