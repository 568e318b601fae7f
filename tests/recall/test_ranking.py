"""Ranking: words and meaning together, on both engines, over a small history that was made up for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from backstory.recall import embed, fuse, signals
from backstory.recall.search import MemorySearch, Query
from backstory.recall.signals import NOWHERE, WorkPlace
from backstory.recall.vectors import Vectors
from backstory.store import sessions as stored
from backstory.store.db import Row, Store, Tx
from backstory.store.index import indexing
from backstory.store.index.hits import Filter, Hit, item_of

#: session -> day and what was said, the user first
TALKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "payments": ("2026-01-02", ("Shoppers were charged twice", "Fixed retry_charge in billing/charge.py")),
    "login": ("2026-01-03", ("Users can't sign in after a password reset", "AuthSession.refresh kept a stale token")),
    "gym-old": ("2026-01-04", ("My gym class with Dana is on Tuesday evening now", "Noted, Tuesday it is")),
    "gym-new": ("2026-03-09", ("My gym class with Dana is on Friday evening from now on", "Good, Friday then")),
    "garden": ("2026-02-01", ("What is the name of the tall plant?", "It was a foxglove", "Water it once a week")),
}
SESSION = """INSERT INTO sdk_sessions (id, content_session_id, agent, project, project_key, created_at, last_event_at)
VALUES ({n}, '{name}', 'claude-code', 'life', 'k/life', '{day}T00:00:00.000Z', '{day}T00:00:09.000Z');
"""
TURN = """INSERT INTO turns (id, session_id, number, role, text, at)
VALUES ({id}, {n}, {number}, '{role}', '{text}', '{day}T00:00:0{number}.000Z');
"""


def fill(tx: Tx) -> None:
    for n, (name, (day, said)) in enumerate(TALKS.items(), 1):
        tx.script(SESSION.format(n=n, name=name, day=day))
        session = stored.get(tx, n)
        for number, text in enumerate(said):
            role, quoted = ("user", "assistant")[number % 2], text.replace("'", "''")
            tx.script(TURN.format(id=n * 10 + number, n=n, number=number, role=role, text=quoted, day=day))
            item = item_of("turn", n * 10 + number, session, f"{day}T00:00:0{number}.000Z")
            indexing.put_words(tx, item, "", text)


@pytest.fixture
def finder(store: Store) -> MemorySearch:
    store.write(fill)
    vectors = Vectors(store, embed.name_of("static"))
    vectors.begin()
    while vectors.make_some() or vectors.settle():
        pass
    return MemorySearch(store, vectors)


def sessions(finder: MemorySearch, query: str, explain: bool = False) -> list[Row]:
    return finder.find(Query(query, "session", Filter(project="life"), 5, explain))


def first(finder: MemorySearch, query: str) -> str:
    found = sessions(finder, query)
    return str(found[0]["session"]) if found else ""


def test_an_identifier_is_found_by_its_letters(finder: MemorySearch) -> None:
    """A name out of code leads to the session that has it, whole or in part."""
    assert first(finder, "retry_charge") == first(finder, "billing/charge.py") == "payments"
    assert first(finder, "AuthSession.refresh") == "login"


def test_what_is_quoted_must_be_there(finder: MemorySearch) -> None:
    """Meaning adds nothing to a phrase in quotes or to a single name; to plain words it does."""
    assert [row["session"] for row in sessions(finder, '"password reset"')] == ["login"]
    assert [row["session"] for row in sessions(finder, "AuthSession.refresh")] == ["login"]
    assert sessions(finder, '"login trouble"') == []


def test_a_paraphrase_is_found_by_its_meaning(finder: MemorySearch) -> None:
    """Not one word of the query was said."""
    assert first(finder, "login trouble") == "login"


def test_of_two_that_say_the_like_the_newer_comes_first(finder: MemorySearch) -> None:
    """A fact that changed is told as it is now, and what it was comes right behind."""
    found = [row["session"] for row in sessions(finder, "Which day is my gym class with Dana on?")]
    assert found[:2] == ["gym-new", "gym-old"]


def test_an_answer_need_not_repeat_the_question(finder: MemorySearch) -> None:
    """A short turn is found by the one that it answers, under the number that it has in its session."""
    found = finder.find(Query("name of the tall plant", "turn", Filter(project="life"), 2))
    assert [(row["session"], row["turn"]) for row in found] == [("garden", 0), ("garden", 1)]


def names(finder: MemorySearch, query: str, place: WorkPlace = NOWHERE) -> list[str]:
    return [row["session"] for row in finder.find(Query(query, "session", Filter(project="life"), 5, place=place))]


def test_a_prompt_without_content_falls_back_on_branch_files_and_time(finder: MemorySearch, store: Store) -> None:
    """`Fix the tests` says nothing: the sessions of this branch come first, then those of the changed files, then the
    newest. With words of its own a query is answered by them."""
    assert (
        names(finder, "continue")
        == names(finder, "ok, go on please")
        == ["gym-new", "garden", "gym-old", "login", "payments"]
    )
    store.write(lambda tx: tx.script("UPDATE sdk_sessions SET git_branch = 'fix/sign-in' WHERE id = 2;"))
    assert names(finder, "fix the tests", WorkPlace("fix/sign-in"))[:2] == ["login", "gym-new"]
    assert names(finder, "who was charged twice", WorkPlace("fix/sign-in"))[0] == "payments"
    session = store.read(lambda tx: stored.get(tx, 1))
    at, file = "2026-01-02T00:00:00.000Z", "billing/charge.py"
    item = replace(item_of("observation", 1, session, at), files=(file,))
    store.write(lambda tx: indexing.put_words(tx, item, "", "charged"))
    found = names(finder, "address the comments", WorkPlace("fix/sign-in", (file,)))
    assert found.index("payments") < found.index("gym-old"), "it changed a file that has uncommitted changes"


def test_a_branch_of_many_sessions_tells_little(finder: MemorySearch, store: Store) -> None:
    """All work is on `main`, so `main` raises nothing; a branch with one session raises that one most."""
    store.write(lambda tx: tx.script("UPDATE sdk_sessions SET git_branch = 'main' WHERE id > 1;"))
    where = Filter(project="life")
    rare, common = (store.read(lambda tx, b=b: signals.on_branch(tx, where, b)) for b in ("new", "main"))  # type: ignore[misc]
    assert rare == ([], 1) and common[1] < 0.2
    assert store.read(lambda tx: signals.branch_words(tx, where, "dana/new-thing")) == "dana new-thing"
    assert store.read(lambda tx: signals.branch_words(tx, where, "main")) == ""


def test_a_date_in_a_query_counts(finder: MemorySearch) -> None:
    """What was done then comes first, as git or people write the date. A date in a long text is just text."""
    for query in (
        "what was done on 2026-01-03",
        "Date: Sat Jan 3 00:00:00 2026 +0000",
        "what happened on January 3rd, 2026?",
    ):
        assert first(finder, query) == "login", query
    assert first(finder, "the gym on 4 January 2026") == "gym-old"
    assert first(finder, "the gym on 9 March 2026") == "gym-new"
    turns = finder.find(Query("gym class, 4 January 2026", "turn", Filter(project="life"), 1))
    assert turns[0]["session"] == "gym-old"


def test_nothing_found_is_an_empty_list(finder: MemorySearch) -> None:
    """Any two texts are a little alike; that is no match. No text is an error."""
    assert not sessions(finder, "zqxvkj_wwfp") and not sessions(finder, "")
    for odd in ('"', '%_*"', "foo::bar->baz", "😀", "日本語", "x" * 10_000, "AND OR NOT ("):
        for kind in ("memory", "all", "turn", "session"):
            assert isinstance(finder.find(Query(odd, kind, explain=True)), list)


def test_reasons_are_told(finder: MemorySearch) -> None:
    """With explain: what words and meaning gave, their ranks, and how the query looked; else not."""
    why = sessions(finder, "retry_charge in billing", explain=True)[0]["why"]
    assert why["adds"]["words"] > 0 and why["rank"]["words"] == 1 and why["look"]["meaning"] == fuse.MEANING
    assert "why" not in sessions(finder, "retry_charge")[0]


def test_meaning_counts_more_where_people_talk_of_themselves() -> None:
    """The same two lists: letters decide for a name, meaning for plain words."""
    words, near = [Hit("turn", 1, 1, 9.0, ""), Hit("turn", 2, 2, 3.0, "")], [Hit("turn", 2, 2, 0.8, "")]
    near.append(Hit("turn", 1, 1, 0.4, ""))
    best = {
        query: fuse.ordered(fuse.merge(words, near, fuse.query_style(query)).values())[0].id
        for query in ("fix load_rows in store/db.py", "what did I say about my holidays")
    }
    assert list(best.values()) == [1, 2]


def test_words_alone_answer_while_there_are_no_vectors(store: Store) -> None:
    """From the first second."""
    store.write(fill)
    assert first(MemorySearch(store, Vectors(store, embed.name_of("static"))), "password reset") == "login"


def test_a_query_is_embedded_once_whatever_is_looked_at(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint would be asked, and paid, for each time: sessions are looked for in three lists."""
    store.write(fill)
    asked: list[str] = []
    static = embed.EMBEDDERS["static"]

    def counting(model: str, url: str) -> embed.Run:
        real = static(model, url)

        def run(texts: Sequence[str], weights: Mapping[str, float]) -> embed.Matrix:
            asked.extend(texts)
            return real(texts, weights)

        return run

    monkeypatch.setitem(embed.EMBEDDERS, "static", counting)
    vectors = Vectors(store, embed.name_of("static"))
    vectors.begin()
    while vectors.make_some() or vectors.settle():
        pass
    asked.clear()
    assert first(MemorySearch(store, vectors), "password reset") == "login"
    assert asked == ["password reset"]


def test_whoever_goes_on_with_the_work_is_given_the_newer() -> None:
    """Of two as good the newer comes first where somebody talks of the work; a mere look-up has no such wish."""
    for query, share in (("please go on with the cart", fuse.RECENT), ("cart totals", 0.0)):
        old, new = (fuse.Candidate("session", n, n, f"2026-01-0{n}", {"words": 1.0}) for n in (1, 2))
        fuse.add_recency([new, old], fuse.query_style(query).recency)
        assert round(new.score - old.score, 6) == share
    assert fuse.RECENT > 0
