"""I17: a later migration loses nothing, and databases from before the first release open."""

from __future__ import annotations

from pathlib import Path

import pytest
from engines import Opener

from backstory.errors import StoreUnavailable
from backstory.store import queries
from backstory.store.backups import copies
from backstory.store.db import Store
from backstory.store.index import indexing, reindex, search
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore

_ROWS = """
INSERT INTO sdk_sessions (id, content_session_id, project, project_key, created_at, last_event_at)
VALUES (1, 's', 'p', 'k', '', '');
INSERT INTO session_summaries (id, session_id, prompt_number, project, project_key, request, provider, created_at)
VALUES (1, 1, 1, 'p', 'k', 'second lion', 'offline', '2026-01-01'),
  (2, 1, 2, 'p', 'k', 'other tiger', 'offline', '2026-01-02');
INSERT INTO user_prompts (id, session_id, prompt_number, prompt, created_at)
VALUES (1, 1, 1, 'panther', ''), (2, 1, 2, NULL, '');
INSERT INTO observations (id, session_id, prompt_number, memory_session_id, project, project_key, type, title,
  observed_json, provider, created_at)
VALUES (7, 1, 1, 'm', 'p', 'k', 'bugfix', 'leopard', '{}', 'offline', '2026-01-03');
INSERT INTO word_rows (words_rowid, kind, item_id, session_id, at, project, project_key)
VALUES (1, 'summary', 1, 1, '', 'p', 'k');
INSERT INTO words (rowid, title, body, marks) VALUES (1, 'zebra', '', '');
"""
#: What a migration says that changes how text is cut up.
_NEW_WORDS = """
INSERT INTO words (words) VALUES ('delete-all');
DELETE FROM word_texts;
DELETE FROM word_rows;
INSERT INTO rebuilds (step, before_id) VALUES ('observations', 4611686018427387904),
  ('summaries', 4611686018427387904), ('prompts', 4611686018427387904), ('chunks', 4611686018427387904);
"""
#: The steps of before the first release, as databases record them.
_UNRELEASED = """transcripts forgetting pins models turns words vectors - freshness conversations said prompt_ids
forgotten_texts"""


def found(store: SqliteStore, word: str) -> list[tuple[str, int]]:
    return [(hit.kind, hit.item_id) for hit in store.read(lambda tx: search.by_words(tx, word))]


def test_i17_an_older_index_is_made_anew_from_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup is taken before; words that no row has are gone, every row is found, and can be taken out again."""
    store = SqliteStore(tmp_path / "backstory.db")
    migrate(store)
    store.write(lambda tx: tx.script(_ROWS))
    assert found(store, "zebra")
    steps = (*queries.migrations("sqlite"), (9999, "new_words", _NEW_WORDS))
    monkeypatch.setattr(queries, "migrations", lambda engine: steps)
    assert migrate(store) == [9999]
    assert migrate(store) == []
    assert copies(store.path)
    assert store.read(reindex.progress)
    while store.write(reindex.go_on):
        pass
    assert store.read(reindex.progress) == []
    looked = [found(store, word) for word in ("zebra", "lion", "tiger", "panther", "leopard")]
    prompt = [("chunk", 1), ("turn", 1), ("prompt", 1)]  # and its conversation, which nobody had kept as one
    assert looked == [[], [("summary", 1)], [("summary", 2)], prompt, [("observation", 7)]]
    store.write(lambda tx: indexing.remove_words(tx, "summary", 2))
    assert found(store, "tiger") == []
    store.write(reindex.begin)
    while store.write(reindex.go_on):
        pass
    assert found(store, "tiger") == [("summary", 2)]
    store.close()


def record_unreleased(store: Store, last: int) -> None:
    """Make the schema that of the first step, and record the steps of unreleased versions."""
    known = queries.migrations
    queries.owned()  # is cached, and must not be that of the first step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "migrations", lambda engine: known(engine)[:1])
        migrate(store)
    for version, name in enumerate(_UNRELEASED.split(), 2):
        if version <= last and name != "-":
            store.write(lambda tx, v=version, n=name: tx.run("migration_add", version=v, name=n, at=""))  # type: ignore[misc]


def test_i17_a_database_of_the_last_unreleased_version_opens(open_again: Opener) -> None:
    """Its schema is that of the first step, so the record of its steps is replaced, and the later steps are taken."""
    store = open_again()
    record_unreleased(store, 14)
    taken = migrate(store)
    assert taken == [version for version, _, _ in queries.migrations("sqlite") if version > 1]
    assert [row["version"] for row in store.read(lambda tx: tx.all("migrations_list"))] == [1, *taken]


def test_a_database_of_an_earlier_unreleased_version_is_refused(open_again: Opener) -> None:
    """Its schema lacks tables, and the steps that would add them are gone."""
    store = open_again()
    record_unreleased(store, 13)
    with pytest.raises(StoreUnavailable, match="unreleased"):
        migrate(store)
    assert len(store.read(lambda tx: tx.all("migrations_list"))) == 12


def test_a_migration_has_the_next_number() -> None:
    """Numbers have no gaps, so that none is left out by mistake."""
    for engine in ("sqlite", "postgres"):
        versions = [version for version, _, _ in queries.migrations(engine)]
        assert versions == list(range(1, len(versions) + 1))
