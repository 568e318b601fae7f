"""A search finds what passes its filter, and nothing else, whichever way its words are looked up; on both engines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_forgetting import work

from backstory.store.confined import ConfinedStore, confined_to
from backstory.store.db import Store, Tx
from backstory.store.index import indexing, match, reindex, search, word_index
from backstory.store.index.hits import KINDS, Filter, Hit, IndexedItem, named

#: Rows that do not pass the filter. They are the newest.
OTHERS = 60
#: Hits that are asked for.
LIMIT = 8
ITEM = IndexedItem(
    "observation", 0, 1, "2026-03-01", "shop", "/shop", "codex", "decision", ("how-it-works",), ("/src/cart.py",)
)
GROUP: dict[str, object] = {"project": "group:family", "project_key": "group:family"}
MEMORY = ("observation", "summary", "prompt")
#: A filter, and how a row differs that does not pass.
FILTERS: dict[str, tuple[Filter, dict[str, object]]] = {
    "project": (Filter("shop"), {"project": "till", "project_key": "/till"}),
    "key": (Filter("/shop"), {"project_key": "/other/shop"}),
    "session": (Filter(session_id=1), {"session_id": 2}),
    "agent": (Filter(agent="codex"), {"agent": "claude-code"}),
    "type": (Filter(type="decision"), {"type": "change"}),
    "concept": (Filter(concept="how-it-works"), {"concepts": ()}),
    "file": (Filter(file="cart.py"), {"files": ("/src/till.py",)}),
    "since": (Filter(since="2026-03"), {"at": "2026-02-01"}),
    "until": (Filter(until="2026-03"), {"at": "2026-04-01"}),
    "kind": (Filter(), {"kind": "turn"}),
    "outside groups": (named(""), GROUP),
    "in groups": (Filter(is_in_groups=True), GROUP),
}
#: Every row has the words `lion` and `tiger`. Only the oldest one that passes has `zebra`. Without words, the newest
#: rows are asked for.
QUERIES = ("", "lion", "lion tiger", "zebra lion", "zebra lion tiger", "lion nothing")


def fill(tx: Tx, own: IndexedItem, other: IndexedItem, count: int, has_title: bool) -> None:
    for number in range(1, count + OTHERS + 1):
        item = replace(own if number <= count else other, id=number)
        title, body = ("lion tiger", "") if has_title else ("", "lion tiger")
        indexing.put_words(tx, item, title, f"{body} filler{number} {'zebra' if number == 1 else ''}")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that all rows have is too common to look up by itself."""
    monkeypatch.setattr(word_index, "BUDGET", {"sqlite": 8, "postgres": 8})
    monkeypatch.setattr(match, "WINDOW", 1)


def found(store: Store, query: str, where: Filter) -> list[int]:
    def ask(tx: Tx) -> list[Hit]:
        return search.by_words(tx, query, MEMORY, where, LIMIT) if query else search.newest(tx, MEMORY, where, LIMIT)

    return [hit.item_id for hit in store.read(ask)]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("has_title", [True, False], ids=["title", "text"])
@pytest.mark.parametrize("count", [6, 12], ids=["few", "many"])
@pytest.mark.parametrize("name", FILTERS)
def test_only_and_all_that_passes_a_filter_is_found(store: Store, name: str, count: int, has_title: bool) -> None:
    """However old it is, and however many rows pass."""
    where, differs = FILTERS[name]
    items = [ITEM, replace(ITEM, **differs)]  # type: ignore[arg-type]
    own, other = reversed(items) if where.is_in_groups else items
    store.write(lambda tx: fill(tx, own, other, count, has_title))
    answers = {query: found(store, query, where) for query in QUERIES}
    wrong = {query: max(answer, default=0) for query, answer in answers.items() if max(answer, default=0) > count}
    assert wrong == {}
    assert {query: len(answer) for query, answer in answers.items()} == dict.fromkeys(QUERIES, min(count, LIMIT))
    assert {answer[0] for query, answer in answers.items() if "zebra" in query} == {1}


@pytest.mark.usefixtures("small")
def test_a_caller_of_a_group_finds_what_common_words_say_there(store: Store) -> None:
    """And nothing of others."""
    own, confined = replace(ITEM, **GROUP), ConfinedStore(store)  # type: ignore[arg-type]

    def put(tx: Tx) -> None:
        for number, project in ((1, "group:family"), (2, "shop")):
            tx.script(
                "INSERT INTO sdk_sessions (id, content_session_id, project, project_key, created_at, last_event_at) "  # noqa: S608 - constants only
                f"VALUES ({number}, 's{number}', '{project}', '{project}', '', '');"
            )
        fill(tx, own, replace(ITEM, session_id=2), 12, has_title=False)

    store.write(put)
    with confined_to("family"):
        for query in ("lion", "lion tiger", "zebra lion"):
            assert len(found(confined, query, Filter("group:family"))) == LIMIT, query
            assert max(found(confined, query, Filter()), default=0) <= 12, query


def test_rebuilding_the_index_includes_groups(store: Store) -> None:
    """What belongs to a group is left out of lists, but not of the index."""
    work(store, "one", "quokka")

    def move(tx: Tx) -> None:
        for table in ("sdk_sessions", "observations", "session_summaries"):
            tx.script(f"UPDATE {table} SET project = 'group:family', project_key = 'group:family';")  # noqa: S608 - constants only
        for row in tx.all("word_rows_of_session", session_id=1):
            indexing.remove_words(tx, row["kind"], row["item_id"])
        reindex.begin(tx)

    store.write(move)
    while store.write(reindex.go_on):
        pass
    rows = store.read(lambda tx: tx.all("word_rows_of_session", session_id=1))
    assert {row["kind"] for row in rows} == set(KINDS)
    assert store.read(lambda tx: search.newest(tx, MEMORY, Filter("group:family"), 9))
