"""Hiding takes items out of the index and the context, and brings them back; on both engines."""

from __future__ import annotations

import pytest
from test_forgetting import everything, report, work

from backstory.errors import NotFound
from backstory.project import Project
from backstory.recall import context, embed
from backstory.recall.search import MemorySearch, Query
from backstory.recall.vectors import Vectors
from backstory.store import hidden, sessions, turns
from backstory.store.db import Store, Tx
from backstory.store.index import chunks, reindex
from backstory.store.index.hits import Filter


def found(store: Store, word: str) -> set[str]:
    """The kinds of items that words or vectors find, those that were made anew included."""
    vectors = Vectors(store, embed.name_of("static"))
    vectors.begin()
    while vectors.make_some() or vectors.settle():
        pass
    finder = MemorySearch(store, vectors)
    queries = [f"{word}prompt", f"{word}narrated", f"{word}learned", f"I mended {word}reply"]
    hits = [
        hit
        for kind in ("observation", "summary", "prompt", "turn", "session")
        for query in queries
        for hit in finder.find(Query(query, kind, Filter(project="shop")))
    ]
    return {hit["kind"] for hit in hits if word in str(hit)}


def told(store: Store) -> str:
    return str(store.read(lambda tx: context.for_start(tx, "shop", "shop", 2000)))


def reindexed(store: Store) -> None:
    store.write(reindex.begin)
    while store.write(reindex.go_on):
        pass


def test_a_hidden_observation_is_in_no_context_and_no_search_until_it_is_shown(store: Store) -> None:
    """Rebuilding the index, new words around it and a new embedder do not bring it back. Its round stays."""
    work(store, "one", "quokka")
    before = list(everything(store))
    assert "observation" in found(store, "quokka") and "#1 " in told(store)
    assert [row["id"] for row in store.write(lambda tx: hidden.hide_observation(tx, 1))] == [1]
    reindexed(store)
    store.write(lambda tx: hidden.hide_observation(tx, 1))
    assert found(store, "quokka") == {"summary", "prompt", "turn", "session"}
    assert "#1 " not in told(store) and "quokkanext" in told(store)
    rows, whole = store.read(lambda tx: hidden.listed(tx, "shop", 9))
    assert [row["id"] for row in rows] == [1] and whole == []
    store.write(lambda tx: hidden.show_observation(tx, 1))
    assert "observation" in found(store, "quokka") and "#1 " in told(store)
    assert list(everything(store)) == before
    with pytest.raises(NotFound):
        store.write(lambda tx: hidden.hide_observation(tx, 9))


def test_a_hidden_session_is_hidden_whole_and_stays_so_when_it_goes_on(store: Store) -> None:
    """Prompts, turns, chunks, summaries, observations; also what comes later. The other session stays."""
    work(store, "one", "quokka")
    work(store, "two", "wombat")
    before = list(everything(store))

    def go_on(tx: Tx) -> None:
        session = sessions.get(tx, 1)
        turns.add_reply(tx, session, 1, "More quokkalater", session.created_at)
        chunks.extend(tx, session)

    store.write(lambda tx: hidden.hide_session(tx, 1))
    reindexed(store)
    store.write(go_on)
    assert found(store, "quokka") == set() and "quokka" not in told(store)
    assert found(store, "wombat") == {"observation", "summary", "prompt", "turn", "session"}
    store.write(lambda tx: hidden.hide_observation(tx, 1))
    store.write(lambda tx: hidden.show_session(tx, 1))
    assert found(store, "quokka") == {"summary", "prompt", "turn", "session"}
    store.write(lambda tx: hidden.show_observation(tx, 1))
    assert found(store, "quokka") == {"observation", "summary", "prompt", "turn", "session"}
    assert "quokka" in told(store) and set(before) <= set(everything(store))


def test_what_a_later_session_says_again_is_hidden_too(store: Store) -> None:
    work(store, "one", "quokka")
    store.write(lambda tx: hidden.hide_observation(tx, 1))
    work(store, "two", "quokka")
    rows, _ = store.read(lambda tx: hidden.listed(tx, "", 9))
    assert [row["id"] for row in rows] == [2, 1]
    assert "observation" not in found(store, "quokka")


def test_what_is_hidden_in_a_group_is_listed_for_who_names_it(store: Store) -> None:
    group = Project("group:family", "group:family")
    session = store.write(lambda tx: sessions.get_or_create(tx, report("session_start", "in-group"), group))
    store.write(lambda tx: hidden.hide_session(tx, session.id))
    assert store.read(lambda tx: hidden.listed(tx, "", 9)) == ([], [])
    assert len(store.read(lambda tx: hidden.listed(tx, "group:family", 9))[1]) == 1
