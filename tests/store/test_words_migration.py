"""I17: a database whose words were cut up in another way keeps all it had; its words are made anew from the rows."""

from __future__ import annotations

from pathlib import Path

from backstory import ids
from backstory.store import queries
from backstory.store.backups import copies
from backstory.store.db import Tx
from backstory.store.index import reindex, search
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore

_OLD = """
INSERT INTO sdk_sessions (id, content_session_id, project, project_key, created_at, last_event_at)
VALUES (1, 's', 'p', 'k', '', '');
INSERT INTO session_summaries (id, session_id, prompt_number, project, project_key, request, provider, created_at)
VALUES (1, 1, 1, 'p', 'k', 'second lion', 'offline', '2026-01-01'),
  (2, 1, 2, 'p', 'k', 'other tiger', 'offline', '2026-01-02');
INSERT INTO user_prompts (id, session_id, prompt_number, prompt, created_at)
VALUES (1, 1, 1, 'panther', ''), (2, 1, 2, NULL, '');
INSERT INTO observations (id, session_id, prompt_number, memory_session_id, project, project_key, type, title,
  compressed_observation, provider, created_at)
VALUES (7, 1, 1, 'm', 'p', 'k', 'bugfix', 'leopard', '{}', 'offline', '2026-01-03');
INSERT INTO words (title, body, kind, item_id, project_key, project) VALUES ('first', 'zebra', 'summary', 1, 'k', 'p');
INSERT INTO word_rows (kind, item_id, words_rowid) VALUES ('summary', 1, 1);
"""


def found(store: SqliteStore, word: str) -> list[tuple[str, int]]:
    return [(hit.kind, hit.item_id) for hit in store.read(lambda tx: search.by_words(tx, word))]


def test_i17_an_older_index_is_made_anew_from_the_rows(tmp_path: Path) -> None:
    """A backup is taken before; words that no row has are gone, every row is found, and can be taken out again."""
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
    assert store.read(reindex.progress)
    while store.write(reindex.go_on):
        pass
    assert store.read(reindex.progress) == []
    looked = [found(store, word) for word in ("zebra", "lion", "tiger", "panther", "leopard")]
    prompt = [("chunk", 1), ("turn", 1), ("prompt", 1)]  # and its conversation, which nobody had kept as one
    assert looked == [[], [("summary", 1)], [("summary", 2)], prompt, [("observation", 7)]]
    store.write(lambda tx: search.remove_words(tx, "summary", 2))
    assert found(store, "tiger") == []
    store.write(reindex.begin)
    while store.write(reindex.go_on):
        pass
    assert found(store, "tiger") == [("summary", 2)]
    store.close()
