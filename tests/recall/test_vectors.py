"""Search by meaning: the same promises on both engines, with the embedder that ships."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from box import rows_of

from backstory.recall import embed
from backstory.recall.vectors import Vectors
from backstory.store import sessions
from backstory.store.db import Store, Tx
from backstory.store.index import indexing, vectors
from backstory.store.index.hits import Filter, Hit, item_of
from backstory.store.migrate import migrate
from backstory.store.postgres import PostgresStore

TEXTS = {
    1: ("Shoppers were charged twice", "The customer paid two times for the same order; refunds were sent."),
    2: ("Log in fails after the password reset", "Users could not sign in with their new credentials."),
    3: ("Faster database", "An index was added, and the slow query over invoices takes milliseconds."),
    4: ("The cat picture on the landing page", "The image of the kitten was compressed."),
    5: ("Deploy to the cluster", "Kubernetes restarts the containers when the health probe fails."),
    6: ("Fix the date parser", "Weeks that begin on Sunday were off by one day."),
}
#: Asked without a word of the text that answers.
ASKED = [("double billing", 1), ("authentication problem", 2), ("SQL performance optimisation", 3), ("animal photo", 4)]
EVERY = ("observation", "summary", "prompt")


SESSION = """INSERT INTO sdk_sessions (id, content_session_id, agent, project, project_key, created_at, last_event_at)
VALUES ({n}, 's{n}', '{agent}', 'p{side}', 'k/p{side}', '', '');
"""
OBSERVATION = """INSERT INTO observations
  (id, session_id, prompt_number, memory_session_id, project, project_key, type, title, narrative, files_modified,
   concepts, observed_json, provider, created_at)
VALUES ({n}, {n}, 1, 'm', 'p{side}', 'k/p{side}', '{type}', '{title}', '{body}', '["src/part{n}/main.py"]',
  '["gotcha"]', '{{}}', 'test', '2026-0{n}-01T00:00:00.000Z');
"""


def fill(tx: Tx) -> None:
    for n, (title, body) in TEXTS.items():
        side, agent, type = n % 2, "codex" if n == 6 else "claude-code", "bugfix" if n < 3 else "change"
        tx.script((SESSION + OBSERVATION).format(n=n, side=side, agent=agent, type=type, title=title, body=body))
        say(tx, n, title, body)


def say(tx: Tx, n: int, title: str, body: str = "") -> None:
    session = sessions.get(tx, n)
    indexing.put_words(tx, item_of("observation", n, session, f"2026-0{n}-01T00:00:00.000Z"), title, body)


def ready(store: Store, name: str = "static") -> Vectors:
    """Vectors of everything."""
    made = Vectors(store, name)
    made.begin()
    while made.make_some() or made.settle():
        pass
    return made


def near(
    made: Vectors,
    query: str,
    kinds: Sequence[str],
    where: Filter,
    limit: int,
    weights: Mapping[str, float] = embed.NONE,
) -> list[Hit]:
    return made.find_each(query, (kinds,), where, limit, weights)[0]


def found(hits: list[Hit]) -> list[int]:
    return [hit.item_id for hit in hits]


def count(store: Store, name: str = "static") -> int:
    def work(tx: Tx) -> int:
        known = tx.one("embedder_by_name", name=name)
        found = tx.one("vectors_count", embedder_id=known["id"]) if known else None
        return found["count"] if found else 0

    return store.read(work)


def due(store: Store) -> int:
    return int((store.read(lambda tx: tx.one("vectors_due_count")) or {"count": -1})["count"])


@pytest.fixture
def row() -> Iterator[Callable[[str, Callable[[Sequence[str]], Any]], None]]:
    """Embedders of the test's own, as a row beside the others."""
    before = dict(embed.EMBEDDERS)

    def add(name: str, run: Callable[[Sequence[str]], Any]) -> None:
        embed.EMBEDDERS[name] = lambda model, url: lambda texts, weights: run(texts)

    yield add
    embed.EMBEDDERS.clear()
    embed.EMBEDDERS.update(before)


def letters(texts: Sequence[str]) -> Any:
    """An embedder that looks at letters only: 26 numbers."""
    return np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)


def test_v1_a_text_is_found_by_what_it_means(store: Store) -> None:
    """Without a shared word, the best answer first, the cosine as its score."""
    store.write(fill)
    made = ready(store)
    for query, best in ASKED:
        hits = near(made, query, EVERY, Filter(), 3)
        assert hits[0].item_id == best, query
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert 0.05 < scores[0] <= 1.001
    same = near(made, "\n".join(TEXTS[3]), EVERY, Filter(), 1)
    assert same[0].score == pytest.approx(1, abs=0.02)
    assert same[0] == Hit("observation", 3, 3, same[0].score, "2026-03-01T00:00:00.000Z")


def test_v13_a_rare_word_counts_more(store: Store) -> None:
    """What is asked for by a common and a rare word is what the rare one says; pieces count as the word they are of."""
    store.write(fill)
    made = ready(store)
    query = "the slow query over invoices and Kubernetes"
    assert found(near(made, query, EVERY, Filter(), 1)) == [3]
    assert found(near(made, query, EVERY, Filter(), 1, {"kubernetes": 9.0})) == [5]
    ours = embed.named("static")
    assert ours.embed(["Kubernetes"], {"kubernetes": 7.0}) == pytest.approx(ours.embed(["Kubernetes"]), abs=1e-3)
    assert ours.embed(["Ünïcödé 😀 __init__ \u0130"], {"init": 2.0}).any()


WHERES = [
    (Filter(), {1, 2, 3, 4, 5, 6}),
    (Filter(project="p1"), {1, 3, 5}),
    (Filter(project="k/p1"), {1, 3, 5}),
    (Filter(project="nowhere"), set()),
    (Filter(session_id=4), {4}),
    (Filter(agent="codex"), {6}),
    (Filter(type="bugfix"), {1, 2}),
    (Filter(type="bugfix", project="p0"), {2}),
    (Filter(concept="gotcha"), {1, 2, 3, 4, 5, 6}),
    (Filter(concept="gotch"), set()),
    (Filter(file="src/part3/main.py"), {3}),
    (Filter(file="part3/main.py"), {3}),
    (Filter(file="/Part3/Main.py"), {3}),
    (Filter(file="art3/main.py"), set()),
    (Filter(file="src/part3"), set()),
    (Filter(since="2026-05"), {5, 6}),
    (Filter(until="2026-02"), {1, 2}),
    (Filter(since="2026-02-01", until="2026-03-01T00"), {2, 3}),
    (Filter(since="soon"), set()),
]


def test_v2_filters(store: Store) -> None:
    """Project by name or key, session, agent, type, concept, file, time; kinds; and no more than was asked for."""
    store.write(fill)
    made = ready(store)
    for where, expected in WHERES:
        assert set(found(near(made, "customer", EVERY, where, 10))) == expected, where
    assert len(near(made, "customer", EVERY, Filter(), 2)) == 2
    assert len(near(made, "customer", EVERY, Filter(type="change"), 2)) == 2
    assert near(made, "customer", ("summary", "turn"), Filter(), 10) == []
    assert near(made, " ", EVERY, Filter(), 10) == near(made, "customer", (), Filter(), 10) == []
    store.write(lambda tx: tx.script("UPDATE sdk_sessions SET project_key = 'group:family' WHERE id = 6;"))
    assert found(near(made, "customer", EVERY, Filter(is_in_groups=True), 10)) == [6]
    assert set(found(near(made, "customer", EVERY, Filter(is_outside_groups=True), 10))) == {1, 2, 3, 4, 5}


def test_v3_what_changed_is_found_by_what_it_says_now(store: Store) -> None:
    """At once no more by what it said; soon by what it says."""
    store.write(fill)
    made = ready(store)
    assert found(near(made, "double billing", EVERY, Filter(), 1)) == [1]

    def edit(tx: Tx) -> None:
        tx.script("UPDATE observations SET title = 'Rain in Spain', narrative = 'It is wet' WHERE id = 1;")
        say(tx, 1, "Rain in Spain", "It is wet")

    store.write(edit)
    assert 1 not in found(near(made, "double billing", EVERY, Filter(), 10))
    while made.make_some():
        pass
    assert found(near(made, "bad weather", EVERY, Filter(), 1)) == [1]
    assert count(store) == 6


def test_v4_what_is_removed_is_gone_from_table_and_memory(store: Store) -> None:
    """Also what was only due."""
    store.write(fill)
    made = ready(store)
    near(made, "anything", EVERY, Filter(), 1)
    store.write(lambda tx: indexing.remove_words(tx, "observation", 2))
    made.forget()
    assert count(store) == 5
    if store.engine == "sqlite":
        assert made._index is not None
        assert len(made._index[1]) == 5
    assert found(near(made, "authentication problem", EVERY, Filter(), 10)).count(2) == 0
    store.write(lambda tx: say(tx, 3, "x", "y"))
    store.write(lambda tx: indexing.remove_words(tx, "observation", 3))
    assert (due(store), count(store)) == (0, 4)


@pytest.mark.parametrize("change", ["put", "remove"])
def test_v5_what_changes_while_it_is_embedded_keeps_no_vector_of_before(
    store: Store, row: Callable[..., None], change: str
) -> None:
    """The text was read, then changed or forgotten, then its vector was to be stored: it is not."""
    store.write(fill)
    made = ready(store)
    calls: list[int] = []

    def meddle(texts: Sequence[str]) -> Any:
        if not calls:
            act = {
                "put": lambda tx: say(tx, 4, "new", ""),
                "remove": lambda tx: indexing.remove_words(tx, "observation", 4),
            }[change]
            store.write(act)
        calls.append(len(texts))
        return letters(texts)

    row("meddle", meddle)
    made = Vectors(store, "meddle")
    made.begin()
    assert made.make_some() == 6
    assert (count(store, "meddle"), due(store)) == (5, 1 if change == "put" else 0)


def test_v6_another_embedder_takes_over_when_it_is_ready(store: Store, row: Callable[..., None]) -> None:
    """Until then the old one serves; a worker that starts in between goes on; then the old vectors are removed."""
    store.write(fill)
    old = ready(store)
    row("letters", letters)
    new = Vectors(store, "letters")
    new.begin()
    assert found(near(new, "double billing", EVERY, Filter(), 1)) == [1]
    assert store.read(new.status) == {
        "embedder": "static",
        "next": "letters",
        "vectors": 6,
        "due": 6,
        "problem": "",
    }
    new.make_some()
    assert found(near(new, "double billing", EVERY, Filter(), 1)) == [1]
    again = Vectors(store, "letters")
    again.begin()
    assert due(store) == 0, "what was made is not made again"
    while again.make_some() or again.settle():
        pass
    assert (count(store, "static"), count(store, "letters")) == (0, 6)
    assert store.read(again.status)["embedder"] == "letters"
    anagram = "".join(sorted("\n".join(TEXTS[5])))
    for made in (new, again, old):
        assert found(near(made, anagram, EVERY, Filter(), 1)) == [5]
    with pytest.raises(embed.EmbedderUnavailable, match="another embedder"):
        store.write(lambda tx: say(tx, 1, "x", ""))
        old.make_some()


def test_v7_back_to_the_old_embedder_before_the_new_one_was_ready(store: Store, row: Callable[..., None]) -> None:
    """Nothing of the new one is left, and coming to it again begins from the beginning."""
    store.write(fill)
    ready(store)
    row("letters", letters)
    half = Vectors(store, "letters")
    half.begin()
    half.make_some()
    ready(store)
    assert (count(store), count(store, "letters"), due(store)) == (6, 0, 0)
    made = ready(store, "letters")
    assert (count(store), count(store, "letters"), due(store)) == (0, 6, 0)
    assert len(near(made, "x", EVERY, Filter(), 9)) == 6


def test_v8_an_embedder_that_fails_leaves_everything_due(store: Store, row: Callable[..., None]) -> None:
    """One that can't be loaded, answers nonsense or breaks: no vector, no loss, and the next one makes them all."""

    def nonsense(texts: Sequence[str]) -> Any:
        return np.full((len(texts), 4), np.nan, dtype=np.float32)

    def missing(model: str, url: str) -> Any:
        raise ImportError("no such package")

    store.write(fill)
    row("nonsense", nonsense)
    embed.EMBEDDERS["missing"] = missing
    for name in ("nonsense", "missing"):
        made = Vectors(store, name)
        made.begin()
        with pytest.raises(embed.EmbedderUnavailable):
            made.make_some()
        assert near(made, "customer", EVERY, Filter(), 9) == []
        assert due(store) == 6
    assert found(near(ready(store), "double billing", EVERY, Filter(), 1)) == [1]


def test_v9_a_text_that_an_embedder_refuses_holds_nobody_up(store: Store, row: Callable[..., None]) -> None:
    """The others of its batch get their vectors; if it refuses all, all stay due."""

    def picky(texts: Sequence[str]) -> Any:
        if any("kitten" in text for text in texts):
            raise embed.TextRefused("not this one")
        return letters(texts)

    def never(texts: Sequence[str]) -> Any:
        raise embed.TextRefused("no such model")

    store.write(fill)
    row("never", never)
    made = Vectors(store, "never")
    made.begin()
    with pytest.raises(embed.EmbedderUnavailable):
        made.make_some()
    assert due(store) == 6
    row("picky", picky)
    ready(store, "picky")
    assert (count(store, "picky"), due(store)) == (5, 0)


def test_v10_everything_anew_while_the_old_serves(store: Store) -> None:
    """Each vector is replaced by one of the same; none is there twice."""
    store.write(fill)
    made = ready(store)
    before = near(made, "double billing", EVERY, Filter(), 6)
    vectors.mark_all_due(store)
    assert due(store) == 6
    assert near(made, "double billing", EVERY, Filter(), 6) == before
    while made.make_some():
        pass
    assert near(made, "double billing", EVERY, Filter(), 6) == before
    assert (count(store), due(store)) == (6, 0)


def indexes(url: str) -> list[str]:
    sql = "SELECT indexname FROM pg_indexes WHERE indexdef LIKE ? ORDER BY 1"
    return [row["indexname"] for row in rows_of(url, sql, "%hnsw%")]


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Store]:
    store = PostgresStore(database_url, tmp_path)
    migrate(store)
    yield store
    store.close()


def test_v11_an_index_in_the_database_answers_the_same(
    server: Store, database_url: str, row: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL gets one once it is worth it, and loses it with its embedder; filters find behind it."""
    store = server
    store.write(fill)
    before = [near(ready(store), query, EVERY, Filter(), 6) for query, _ in ASKED]
    monkeypatch.setattr("backstory.recall.vectors.MIN_INDEXED", 6)
    made = ready(store)
    assert indexes(database_url) == ["vectors_near_1"]
    assert [near(made, query, EVERY, Filter(), 6) for query, _ in ASKED] == before
    for where, expected in WHERES:
        assert set(found(near(made, "customer", EVERY, where, 10))) == expected, where
    row("letters", letters)
    ready(store, "letters")
    assert indexes(database_url) == ["vectors_near_2"]


def test_v12_a_server_without_pgvector_is_searched_by_words(server: Store, database_url: str) -> None:
    """Nothing fails; what stands in the way is said. Once it has it, everything is embedded."""
    with psycopg.connect(database_url) as connection:
        connection.execute("ALTER TABLE vectors ALTER COLUMN vector TYPE text")  # as the migration makes it there
        connection.execute("DROP EXTENSION vector")
    server.write(fill)
    made = ready(server)
    assert near(made, "double billing", EVERY, Filter(), 1) == []
    assert "pgvector" in server.read(made.status)["problem"]
    assert due(server) == 6
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE EXTENSION vector")
    assert found(near(ready(server), "double billing", EVERY, Filter(), 1)) == [1]


def test_damaged_vectors_are_passed_over(store: Store) -> None:
    """Of the wrong length, or no vectors at all: the others are found. Where the database compares, words answer."""
    store.write(fill)
    made = ready(store)
    best = found(near(made, "authentication problem", EVERY, Filter(), 10))
    assert len(best) > 3
    odd = "x'0102'" if store.engine == "sqlite" else "'[1,2]'"
    damage = f"UPDATE vectors SET vector = {odd} WHERE item_id = {best[0]};"  # noqa: S608 - our own words
    store.write(lambda tx: tx.script(damage))
    hits = found(near(Vectors(store, "static"), "authentication problem", EVERY, Filter(), 10))
    assert hits == ([number for number in best if number != best[0]] if store.engine == "sqlite" else [])
    if store.engine == "sqlite":
        store.write(lambda tx: tx.script("UPDATE vectors SET vector = 'text', scale = 'none';"))
        assert near(Vectors(store, "static"), "authentication problem", EVERY, Filter(), 10) == []
