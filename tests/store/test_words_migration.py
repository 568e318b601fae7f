"""I17: a database from before the words' rows were known keeps all it had, and its words can be taken out."""

from __future__ import annotations

from pathlib import Path

from backstory import ids
from backstory.store import queries, search
from backstory.store.backups import copies
from backstory.store.db import Tx
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore

_OLD = """
INSERT INTO words (title, body, kind, item_id, project_key, project) VALUES ('first', 'zebra', 'summary', 1, 'k', 'p');
INSERT INTO words (title, body, kind, item_id, project_key, project) VALUES ('second', 'lion', 'summary', 1, 'k', 'p');
INSERT INTO words (title, body, kind, item_id, project_key, project) VALUES ('other', 'tiger', 'summary', 2, 'k', 'p');
INSERT INTO word_rows (kind, item_id, words_rowid) VALUES ('summary', 1, -1), ('summary', 2, -1);
"""


def found(store: SqliteStore, word: str) -> list[int]:
    terms = f'["{word}"]'
    hits = store.read(lambda tx: tx.all("words_find", terms=terms, every=0, project="p", kind="", limit=9, skip=0))
    return [hit["item_id"] for hit in hits]


def test_i17_words_indexed_twice_are_once_there_and_can_be_removed(tmp_path: Path) -> None:
    """The last of an item's words stays, the one it replaced goes, and a backup was taken before."""
    store = SqliteStore(tmp_path / "backstory.db")
    version, name, first = queries.migrations("sqlite")[0]

    def before(tx: Tx) -> None:
        tx.run("schema_versions_exist")
        tx.script(first + _OLD)
        tx.run("migration_done", version=version, name=name, at=ids.now())

    store.write(before)
    assert migrate(store)
    assert migrate(store) == []
    assert copies(store.path)
    assert [found(store, word) for word in ("zebra", "lion", "tiger")] == [[], [1], [2]]
    store.write(lambda tx: search.remove_words(tx, "summary", 2))
    store.write(lambda tx: search.put_words(tx, "summary", 1, "third", "panther", "p", "k"))
    assert [found(store, word) for word in ("lion", "tiger", "panther")] == [[], [], [1]]
    store.close()
