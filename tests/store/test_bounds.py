"""What somebody waits for stays small, however large the memory is."""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from backstory.errors import StoreUnavailable
from backstory.settings import Settings
from backstory.store import backups, open_store, queries
from backstory.store.db import Store, Tx
from backstory.store.index import indexing, pairs, related, search, word_index
from backstory.store.index.hits import IndexedItem
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore
from backstory.worker.jobs.maintenance import Maintenance

#: A query that does not end by itself.
ENDLESS = {
    "sqlite": "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n;",
    "postgres": "SELECT pg_sleep(60);",
}
#: Rows that have the common words.
MANY = 450


def put(tx: Tx, number: int, title: str, body: str, key: str = "k") -> None:
    item = IndexedItem("observation", number, 1, "2026-01-01", "p", key, "claude-code")
    indexing.put_words(tx, item, title, body)


def fill(tx: Tx) -> None:
    tx.script(
        "INSERT INTO sdk_sessions (id, content_session_id, project, project_key, created_at, last_event_at) "
        "VALUES (1, 's', 'p', 'k', '', '');"
    )
    for number in range(1, MANY + 1):
        tx.script(
            "INSERT INTO observations (id, session_id, prompt_number, memory_session_id, project, project_key, type, "  # noqa: S608 - numbers only
            f"title, observed_json, provider, created_at) "
            f"VALUES ({number}, 1, 1, 'm', 'p', 'k', 'change', 't', '', 'x', '');"
        )
        others = {7: "leopard tiger cheetah", 8: "leopard"}.get(number, "")
        put(tx, number, "", f"basket price {'round' if number % 3 == 0 else ''} filler{number} {others}")
    put(tx, MANY + 1, "", "leopard tiger cheetah of another project", "other")


def test_a_read_with_a_limit_is_interrupted(store: Store) -> None:
    """And the next read is not."""
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        store.read(lambda tx: tx.script(ENDLESS[tx.engine]), 0.05)
    assert time.monotonic() - began < 30
    assert store.read(lambda tx: tx.all("migrations_list"))


def test_a_prompt_is_answered_by_rare_words(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its own project. A word of many rows finds nothing, and its rows are not read."""
    monkeypatch.setattr(related, "MAX_ROWS", 100)
    store.write(fill)
    found = store.read(lambda tx: related.find(tx, "Is the basket's price near the leopard, tiger or cheetah?", "k"))
    assert list(found.observation_ids) == [7, 8]
    assert set(found.weights) == {"leopard", "tiger", "cheetah"}
    assert found.weights["tiger"] == 1 > found.weights["leopard"] > 0.8
    assert not store.read(lambda tx: related.find(tx, "basket price round", "k")).observation_ids


def test_common_words_are_not_counted_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one prompt learned, the next one knows."""
    monkeypatch.setattr(related, "MAX_ROWS", 100)
    monkeypatch.setattr(related, "COUNTED", {"sqlite": 2, "postgres": 2})
    store.write(fill)
    prompt, common = "basket price leopard tiger cheetah", set[str]()
    found = [store.read(lambda tx: related.find(tx, prompt, "k", common)) for _ in range(2)]
    assert common == {"basket", "price"}
    assert [list(each.observation_ids) for each in found] == [[7, 8], [7, 8]]
    common.add("leopard")
    assert list(store.read(lambda tx: related.find(tx, prompt, "k", common)).observation_ids) == [7]


def test_rows_with_two_common_words_are_found(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However old they are, although neither word is looked for by itself."""
    monkeypatch.setattr(word_index, "BUDGET", {"sqlite": 40, "postgres": 40})
    monkeypatch.setattr(pairs, "TITLES", 5)
    store.write(fill)
    hits = store.read(lambda tx: search.by_words(tx, "price round", limit=150))
    assert {hit.item_id for hit in hits} == set(range(3, MANY + 1, 3))


def test_statistics_read_indexes_and_no_rows(tmp_path: Path) -> None:
    """Rows of events and observations are most of a large database, and are not in memory."""
    with closing(SqliteStore(tmp_path / "backstory.db")) as store:
        migrate(store)
    sql, is_full = queries.load("sqlite"), re.compile(r"SCAN (?:events|observations|session_summaries)(?! USING)")
    names = [name for name in sql if name.startswith(("stats_", "hours_of_"))]
    assert len(names) > 8
    with closing(sqlite3.connect(tmp_path / "backstory.db")) as db:
        for name in set(names) - {"stats_sample"}:  # it reads the latest ones
            values = dict.fromkeys(re.findall(r":(\w+)", sql[name]), "")
            plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql[name]}", values)]
            assert plan and not [step for step in plan if is_full.search(step)], (name, plan)


def test_a_backup_waits_until_nobody_writes(tmp_path: Path) -> None:
    """Not at the start of a worker, and not while a session writes. One that is not due is not taken either."""
    settings = Settings(data_dir=tmp_path)
    store = open_store(settings)
    try:
        Maintenance(settings, store)._check()
        assert backups.listed(settings.paths.backups) == []
        often = Maintenance(Settings(data_dir=tmp_path, backup_hours=0.0002), store)
        while store.idle_s() < often._quiet_s(60):
            time.sleep(0.05)
        often._check()
        assert len(backups.listed(settings.paths.backups)) == 1
        store.write(lambda tx: tx.all("migrations_list"))
        often._check()
        assert len(backups.listed(settings.paths.backups)) == 1
    finally:
        store.close()
