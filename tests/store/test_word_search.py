"""Search by words: the same promises, and the same best answers, on both engines."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backstory.store import repeated
from backstory.store.db import Row, Store, Tx
from backstory.store.index import indexing, search, word_index
from backstory.store.index.hits import ANYWHERE, KINDS, Filter, IndexedItem
from backstory.store.migrate import migrate
from backstory.store.postgres import PostgresStore
from backstory.store.sqlite import SqliteStore
from backstory.text import words_of

TEXTS = {
    1: ("Fix the discount of `Cart.apply_discount`", "shop/cart.py: a code that was used twice was counted twice."),
    2: ("Commit cf17253 on main", "Discounts, discounts and more discounts were discounted in the cart page."),
    3: ("Parse dates by ISO week", "src/dates.py: parseWeekDate reads week_numbers; the café menu uses it too."),
    4: ("Why the cache expires late", "RedisCache keeps <checkout> pages; see https://example.org/cache?ttl=60."),
    5: ("Tests run again", "pytest: 3 passed. The test of the running tests runs; nothing about the till."),
    6: ("日本語 の 検索", "Ünïcödé stays findable; v2.10.1 and user@example.org do too."),
}
#: What is asked, and which text is the best answer; None if there is none.
ASKED = [
    ("discount", 1),
    ("apply_discount", 1),
    ("applyDiscount", 1),
    ("discounting the cart page", 2),
    ("parseWeekDate", 3),
    ("week date", 3),
    ("numbers", 3),
    ("dates.py", 3),
    ("src/dates.py", 3),
    ("cafe", 3),
    ("CAFÉ", 3),
    ("cf17253", 2),
    ("why is the cache so late?", 4),
    ("checkout", 4),
    ("rediscache", 4),
    ("example.org ttl", 4),
    ("tests that run", 5),
    ("passing", 5),
    ("日本語", 6),
    ("unicode", 6),
    ("Ünïcödé", 6),
    ("2.10.1", 6),
    ('"used twice"', 1),
    ('"twice used"', None),
    ("zebra", None),
    ("the", 3),
]


def prompt(number: int) -> IndexedItem:
    return IndexedItem("prompt", number, number, "", f"p{number % 2}", f"k/p{number % 2}", "claude-code")


def fill(tx: Tx) -> None:
    for number, (title, body) in TEXTS.items():
        tx.script(
            f"INSERT INTO sdk_sessions (id, content_session_id, project, project_key, created_at, last_event_at) "  # noqa: S608 - numbers only
            f"VALUES ({number}, 's{number}', 'p{number % 2}', 'k/p{number % 2}', '', '');\n"
            f"INSERT INTO user_prompts (id, session_id, prompt_number, prompt, created_at) "
            f"VALUES ({number}, {number}, 1, 'x', '');"
        )
        indexing.put_words(tx, prompt(number), title, body)


def put_all(tx: Tx, texts: Mapping[int, str]) -> None:
    for number, text in texts.items():
        indexing.put_words(tx, prompt(number), "", text)


def found(store: Store, query: str, **more: str) -> list[int]:
    return [row["id"] for row in store.read(lambda tx: search.find(tx, query, **more))]  # type: ignore[arg-type]


def test_w1_the_best_answer_comes_first(store: Store) -> None:
    """Stems, identifiers whole and in parts, paths, accents, phrases, and rare words before common ones."""
    store.write(fill)
    wrong = {}
    for query, best in ASKED:
        answers = found(store, query)
        first = answers[0] if answers else None
        if first != best and not (query == "the" and answers):
            wrong[query] = answers
    assert wrong == {}


def test_w2_filters_pages_and_scores(store: Store) -> None:
    """By project's name or key and by kind; pages do not overlap; scores fall."""
    store.write(fill)
    assert set(found(store, "the", project="p1")) == set(found(store, "the", project="k/p1")) <= {1, 3, 5}
    assert found(store, "discount", kind="observation") == []
    query = "cart discount week cache tests"
    rows = store.read(lambda tx: search.find(tx, query))
    scores = [row["score"] for row in rows]
    assert scores == sorted(scores, reverse=True) and scores[-1] > 0
    first = store.read(lambda tx: search.find(tx, query, limit=2))
    rest = store.read(lambda tx: search.find(tx, query, limit=11))[2:]
    assert [r["id"] for r in first + rest] == [r["id"] for r in rows]


def test_w3_words_that_were_taken_out_are_not_found(store: Store) -> None:
    """Indexed anew, an item is found by its new words only; removed, by none."""
    store.write(fill)
    store.write(lambda tx: indexing.put_words(tx, prompt(1), "", "zebra"))
    assert found(store, "zebra") == [1] and 1 not in found(store, "discount")
    store.write(lambda tx: indexing.remove_words(tx, "prompt", 1))
    assert found(store, "zebra") == []


@pytest.mark.parametrize("text", ["x" * 30_000, "é" * 30_000, "a " * 10_000, "日" * 3000, "<b" * 5000, "\\" * 3000])
def test_w4_any_text_can_be_kept_and_looked_for(store: Store, text: str) -> None:
    """However long its words are."""
    store.write(fill)
    store.write(lambda tx: indexing.put_words(tx, prompt(2), text, text + " zebra"))
    assert isinstance(found(store, text), list)
    assert found(store, "discount")


def hits(
    store: Store, query: str, where: Filter = ANYWHERE, kinds: Sequence[str] = KINDS, limit: int = 20
) -> list[int]:
    return [hit.item_id for hit in store.read(lambda tx: search.by_words(tx, query, kinds, where, limit))]


def test_w5_filters_hold_each_and_together(store: Store) -> None:
    """Project by name or key, session, agent, type, concept, file by the end of its path, and times with their ends."""

    def put(tx: Tx) -> None:
        for number in range(1, 7):
            item = IndexedItem(
                "observation" if number % 2 else "summary",
                number,
                session_id=number // 3,
                at=f"2026-02-0{number}T10:00:00.000Z",
                project="shop" if number < 4 else "till",
                project_key=f"host/{number % 2}",
                agent="codex" if number == 5 else "claude-code",
                type="bugfix" if number < 3 else "decision",
                concepts=("gotcha",) if number == 3 else (),
                files=(f"/home/me/src/cart_{number}.py",),
            )
            indexing.put_words(tx, item, "", "a zebra")

    store.write(put)
    for where, wanted in (
        (Filter(project="shop"), {1, 2, 3}),
        (Filter(project="host/1"), {1, 3, 5}),
        (Filter(session_id=1), {3, 4, 5}),
        (Filter(agent="codex"), {5}),
        (Filter(type="bugfix"), {1, 2}),
        (Filter(concept="gotcha"), {3}),
        (Filter(file="src/CART_4.py"), {4}),
        (Filter(file="cart_4.py"), {4}),
        (Filter(file="art_4.py"), set()),
        (Filter(since="2026-02-03"), {3, 4, 5, 6}),
        (Filter(until="2026-02-03"), {1, 2, 3}),
        (Filter(since="2026-02-03T10", until="2026-02-03T10:00"), {3}),
        (Filter(project="till", agent="claude-code", since="2026-02-05"), {6}),
        (Filter(project="nobody's"), set()),
        (Filter(project='"; DROP TABLE words; --'), set()),
    ):
        assert set(hits(store, "zebra", where)) == wanted, where
    assert set(hits(store, "zebra", kinds=("summary",))) == {2, 4, 6}
    assert set(hits(store, "zebra", Filter(session_id=1), ("observation",))) == {3, 5}


def test_w6_phrases_beginnings_signs_and_slips(store: Store) -> None:
    """A phrase in its order; the beginning of a word; two signs and one; a letter wrong where nothing else is found."""
    texts = {
        1: "checkout of the cart",
        2: "cart of the checkout",
        3: "configuration of CheckoutFlow",
        4: "東京都の検索",
    }
    store.write(lambda tx: put_all(tx, texts))
    assert hits(store, '"checkout of the cart"') == [1]
    assert hits(store, '"cart of the checkout"') == [2]
    assert hits(store, "conf*") == [3]
    assert set(hits(store, "check*")) == {1, 2, 3}
    assert hits(store, "京都") == hits(store, "東京") == hits(store, '"都"') == hits(store, "検索") == [4]
    assert hits(store, "大阪") == []
    assert set(hits(store, "chekcout")) == set(hits(store, "checkuot")) == set(hits(store, "chekout")) == {1, 2, 3}
    assert hits(store, "xyzzyplugh") == []


WEIRD = [
    *('"', '""', "AND OR NOT", "a* ^b", "NEAR(x, y)", '%_*"', "foo::bar->baz", "🎉", "", " ", "日本語", "検索エンジン"),
    *(
        "x" * 10_000,
        "word " * 2000,
        "-",
        "title:x",
        "{title} : x",
        "*",
        "(((",
        "'; DROP TABLE words; --",
        "a:*b & !c | <->",
    ),
    *(
        "\\",
        "\x00",
        "\ud800",
        "p=1",
        "k=prompt",
        "ﷺ",
        "i̇",
        "\u200b",
        "é" * 5000,
        "a'b\"c",
        "NULL",
        "%(x)s",
        ":name",
        "$$",
    ),
]


def test_w7_any_query_is_safe(store: Store) -> None:
    """Operators of either engine, quotes, signs, emptiness and length: results or an empty list, never an error."""
    store.write(fill)
    for query in WEIRD:
        assert isinstance(hits(store, query), list)
        assert isinstance(store.read(lambda tx, q=query: search.find(tx, q, every=True)), list)  # type: ignore[misc]
        for name in ("project", "agent", "type", "concept", "file"):
            assert hits(store, "discount", Filter(**{name: query or "x"})) == []  # type: ignore[arg-type]


def test_w8_common_words_are_found_however_many_there_are(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what an engine may look at: the oldest item with such a word in its title, the oldest that has them all,
    the newest; a rare word beside common ones decides; and with a filter nothing is left out."""
    monkeypatch.setattr(word_index, "BUDGET", {"sqlite": 40, "postgres": 40})

    def put(tx: Tx) -> None:
        for number in range(1, 301):
            body = f"lion {'tiger' if number == 2 else 'leopard'} {'zebra' if number == 150 else ''} filler{number}"
            indexing.put_words(tx, prompt(number), "lion" if number == 1 else "", body)
        tx.one("words_last")

    store.write(put)
    assert hits(store, "lion")[0] == 1
    assert hits(store, "lion tiger")[0] == 2
    assert hits(store, "lion zebra")[0] == 150
    assert 300 in hits(store, "lion leopard")
    assert hits(store, "lion leopard", Filter(session_id=77)) == [77]
    assert len(hits(store, "lion leopard", limit=200)) >= 40
    assert set(hits(store, "lion", Filter(until="0"), limit=300)) == set(range(1, 301))


def test_w9_both_engines_answer_alike(tmp_path: Path, database_url: str) -> None:
    """The same texts and a hundred questions: the same items in the same order."""
    dice = random.Random(5)
    source = (Path(os.__file__).parent / "argparse.py").read_text("utf-8").split("\n\n")
    said = [word for text in source for word in text.split()]
    asked = [" ".join(dice.sample(said, dice.randint(1, 6))) for _ in range(100)]
    answers = []
    for engine in (SqliteStore(tmp_path / "backstory.db"), PostgresStore(database_url, tmp_path)):
        migrate(engine)
        engine.write(lambda tx: put_all(tx, dict(enumerate(source[:400], 1))))
        answers.append([hits(engine, query, limit=10) for query in asked])
        engine.close()
    assert sum(map(len, answers[0])) > 500
    assert answers[0] == answers[1]


def test_a_commit_is_found_by_any_length_of_its_hash(store: Store) -> None:
    """Git prints seven characters or forty; either finds the other."""
    whole = "cf17253ab" + "0" * 31
    store.write(lambda tx: put_all(tx, {1: "committed cf17253", 2: f"reverted {whole}", 3: "cf17999 is another"}))
    for query in ("cf17253", "cf17253ab", whole):
        assert set(hits(store, query)) == {1, 2}, query


def test_of_a_long_query_the_rarest_words_count(store: Store) -> None:
    """Wherever they stand in it: what is pasted at the beginning does not push them out."""
    common = [f"common{number}" for number in range(60)]
    texts = {number: " ".join(common) for number in range(1, 20)} | {20: "the zebra"}
    store.write(lambda tx: put_all(tx, texts))
    assert 20 in hits(store, " ".join((*common, '"common1 common2"', "zebra")))


def test_w10_rarity(store: Store) -> None:
    """A word that few items have says more than one that many have; one that none has says the most."""
    store.write(fill)
    found = store.read(lambda tx: search.rarity(tx, ["the", "discounts", "zebra", "🎉"]))
    assert found["zebra"] > found["discounts"] > found["the"] > 0
    assert "🎉" not in found


class Watched:
    """A transaction, and what was counted in it."""

    def __init__(self, tx: Tx) -> None:
        self._tx, self.engine = tx, tx.engine
        self.one, self.run, self.script = tx.one, tx.run, tx.script
        self.counted: list[str] = []

    def all(self, name: str, /, **values: Any) -> list[Row]:
        if name == "words_counts":
            self.counted += json.loads(values["matches"])
        return self._tx.all(name, **values)


def test_w11_nothing_is_counted_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """By searches that share their counts; and what is everywhere is counted again only when much was added."""
    monkeypatch.setattr(word_index, "BUDGET", {"sqlite": 40, "postgres": 40})
    monkeypatch.setattr(word_index, "COMMON", 1)

    def ask(known: word_index.Counts) -> list[str]:
        def work(tx: Tx) -> list[str]:
            watched = Watched(tx)
            for kinds in (("prompt",), ("prompt", "turn"), KINDS):
                assert search.by_words(watched, "lion zebra", kinds, Filter(project="p0"), known=known)
            assert search.rarity(watched, ["lion", "zebra"], Filter(project="p0"), known)
            return watched.counted

        return store.read(work)

    def put(first: int, last: int) -> None:
        store.write(lambda tx: put_all(tx, {n: f"lion {'' if n % 30 else 'zebra'}" for n in range(first, last)}))

    def about(word: str, counted: list[str]) -> list[str]:
        return [told for told in counted if word in told]

    put(1, 101)
    known = word_index.Counts()
    counted = ask(known)
    assert about("zebra", counted) and about("lion", counted) and len(counted) == len(set(counted))
    assert ask(known) == []
    known = known.lasting(store.engine)
    assert not about("lion", ask(known)) and about("zebra", ask(known.lasting(store.engine)))
    put(101, 103)
    assert not about("lion", ask(known))
    put(103, 120)
    assert about("lion", ask(known))


def test_every_title_with_most_of_the_words_is_found(store: Store) -> None:
    """Whatever names they contain, and in any script. Titles with few of the words are mostly not read."""
    bases = (
        "The `Cart.applyDiscount` of shop/cart.py counts a code twice because used_codes is never cleared",
        "Die Größe des Zwischenspeichers wird in `cache_size` gesetzt, sonst läuft der Prüflauf nicht",
        "Redis2Cache keeps HTTPServer v2.10.1 pages",
        "the proxy cuts",
        "接続は六十秒後に切断されるので、再試行が必要です",
        "缓存 过期 时间 设置 六十 秒",
    )
    chance = random.Random(7)
    titles = [*bases]
    for base in bases * 30:
        words = [word for word in base.split() if chance.random() > 0.2]
        titles.append(" ".join([*words, *chance.sample(["never", "README.md", "on_start", "Größe", "缓存"], 2)]))

    def fill(tx: Tx) -> None:
        for number, title in enumerate(titles, 1):
            indexing.put_words(tx, prompt(number), title, "")

    store.write(fill)
    read = 0
    for title in titles:
        similar = partial(search.similar_titles, words=words_of(title), share=0.6, kinds=("prompt",), where=ANYWHERE)
        found = store.read(lambda tx: similar(tx, limit=1000))  # noqa: B023 - it is called at once
        same = {number for number, other in enumerate(titles, 1) if repeated.is_same(title, other)}
        assert same <= set(found), title
        read += len(found)
    assert read < len(titles) ** 2 / 2


def test_w12_a_small_project_has_its_own_rare_words(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is common in it and rare elsewhere. In a larger one the words of the whole memory count."""
    own = {number: "melanie smiles" for number in range(2, 22, 2)} | {22: "pending smiles"}
    store.write(lambda tx: put_all(tx, own | {number: "pending smiles" for number in range(1, 25, 2)}))

    def first() -> int:
        hits = store.read(lambda tx: search.by_words(tx, "melanie pending", ("prompt",), Filter(project="p0")))
        return hits[0].item_id

    assert first() == 22
    monkeypatch.setattr(search, "FEW", len(own))
    assert first() != 22
