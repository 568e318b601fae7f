"""Bench: search at 10,000, 100,000 and 1,000,000 observations, beside plain FTS5's OR query over the same texts."""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from lab import end_gently, load, machine, ms, p50, percentile, say, table, timed
from recall_load import MAIN, OTHERS, SESSION, Words

from backstory import ids
from backstory.model import ContentId, Report, Session
from backstory.project import Project
from backstory.recall.search import MemorySearch, Query
from backstory.recall.vectors import Vectors
from backstory.settings import spare_cores
from backstory.store import observations, queries, sessions, turns
from backstory.store.db import Store, Tx
from backstory.store.index import chunks, search, word_index
from backstory.store.index.hits import KINDS, Filter
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore

SIZES = (10_000, 100_000, 1_000_000)
#: The words that plain FTS5 is not asked for, as a simple search would leave them out.
STOP = frozenset(
    "a an and are as at be but by did do does for from had has have he her him his how i in is it its me my of on or "  # noqa: SIM905 - a list of words reads as one
    "our she so that the their them they this to was we were what when where which who why will with you your".split()
)


class Plain:
    """The floor: the same texts in an FTS5 table with nothing around it."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path)
        self.db.execute("PRAGMA synchronous = OFF")
        self.db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5 (text, tokenize = 'porter unicode61')")

    def add(self, texts: Sequence[str]) -> None:
        self.db.executemany("INSERT INTO texts VALUES (?)", ((text,) for text in texts))
        self.db.commit()

    def ask(self, query: str) -> list[Any]:
        words = re.findall(r"\w+", query.lower())
        told = " OR ".join(f'"{word}"' for word in dict.fromkeys([w for w in words if w not in STOP] or words))
        sql = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts) LIMIT 20"
        return self.db.execute(sql, (told,)).fetchall()


class Filling:
    """Observations, and a few turns of the session that each is in, stored and indexed by the store itself."""

    def __init__(self, words: Words) -> None:
        self.words, self.have = words, 0
        self.asked: list[str] = []
        self.session: Session

    def to(self, store: Store, total: int, plain: Plain | None = None) -> float:
        """Up to so many; the seconds that indexing took of it."""
        began = time.perf_counter()
        while self.have < total:
            texts: list[str] = []
            count = min(600, total - self.have)
            store.write(lambda tx, texts=texts, count=count: self._some(tx, count, texts))  # type: ignore[misc]
            if plain:
                plain.add(texts)
        return time.perf_counter() - began

    def _some(self, tx: Tx, count: int, texts: list[str]) -> None:
        dice = self.words.dice
        for _ in range(count):
            at = ids.from_ms(1_760_000_000_000 + self.have * 100_000)
            if self.have % SESSION == 0:
                name = MAIN if dice.random() < 0.7 else dice.choice(OTHERS)
                start = Report("claude-code", "session_start", ContentId(f"b{self.have}"), f"e{self.have}", at)
                self.session = sessions.get_or_create(tx, start, Project(name, name))
                self._talk(tx, at)
            self.have += 1
            seen, where = self.words.observation(0), self.session
            row = {column.name: column.default for column in queries.owned()["observations"].columns.values()} | {
                **{name: getattr(seen, name) for name in ("type", "title", "subtitle", "narrative")},
                **{n: json.dumps(getattr(seen, n)) for n in ("facts", "concepts", "files_read", "files_modified")},
                **{name: getattr(where, name) for name in ("project", "project_key")},
                **{"id": self.have, "session_id": where.id, "prompt_number": 1, "memory_session_id": "bench"},
                **{"compressed_observation": "{}", "provider": "offline", "created_at": at},
            }
            tx.run("insert_observations", **row)
            observations.index_row(tx, "observation", row, where)
            text = "\n".join((seen.title, seen.subtitle, seen.narrative, *seen.facts, *seen.files_modified))
            texts.append(text)
            if dice.random() < 0.01 and len(self.asked) < 2000:
                self.asked.append(self._query(text))

    def _talk(self, tx: Tx, at: str) -> None:
        """What was said in the session: one turn for ten observations, and the chunks made of them."""
        for number in range(SESSION // 10):
            say = turns.add_reply if number % 2 else turns.add_prompt
            say(tx, self.session, 1, self.words.say(60), at, turns.TurnDetails(number=number))
        chunks.extend(tx, self.session)

    def _query(self, text: str) -> str:
        """What people ask: two to eight words of something that was there, half of the time in a row."""
        dice, said = self.words.dice, text.split()
        count = dice.randint(2, 8)
        if dice.random() < 0.5:
            at = dice.randrange(max(1, len(said) - count))
            return " ".join(said[at : at + count])
        return " ".join(dice.sample(said, min(count, len(said))))


def row(name: str, times: Sequence[float], floor: Sequence[float] = ()) -> list[str]:
    share = f"{percentile(times, 0.95) / percentile(floor, 0.95):.2f}" if floor else ""
    return [name, ms(p50(times)), ms(percentile(times, 0.95)), share]


def agreement(store: Store, asked: Sequence[str]) -> str:
    """How much of the first ten is the same as when every match is weighed roughly, however many there are."""
    bounded = dict(word_index.BUDGET)
    same = 0
    for query in asked:
        few = {hit.item_id for hit in store.read(lambda tx, q=query: search.by_words(tx, q, limit=10))}  # type: ignore[misc]
        word_index.BUDGET.update(dict.fromkeys(bounded, 10**9))
        whole = {hit.item_id for hit in store.read(lambda tx, q=query: search.by_words(tx, q, limit=10))}  # type: ignore[misc]
        word_index.BUDGET.update(bounded)
        same += len(few & whole)
    return f"{same / (10 * len(asked)):.0%}"


def embedded(store: Store) -> Vectors:
    """Everything has its vector, made as the worker makes it."""
    made = Vectors(store, "static")
    made.begin()
    while made.make_some() or made.settle():
        pass
    made.find_each("what is loaded with the first search", (KINDS,))
    return made


def measure(store: Store, asked: Sequence[str], size: int, floor: Sequence[float]) -> Iterator[list[str]]:
    name = f"{size:,}" + (" on PostgreSQL" if store.engine == "postgres" else "")
    say(f"search: embedding, {load()}")
    made = embedded(store)

    def words(query: str, where: Filter) -> object:
        return store.read(lambda tx: search.by_words(tx, query, KINDS, where))

    def meaning(query: str, where: Filter) -> object:
        return made.find_each(query, (KINDS,), where)[0]

    both = MemorySearch(store, made)

    def hybrid(query: str, where: Filter) -> object:
        """What the route answers with: both, fused, and the rows to show."""
        return both.find(Query(query, "memory", where))

    def for_turns(query: str, where: Filter) -> object:
        return both.find(Query(query, "turn", where))

    def for_sessions(query: str, where: Filter) -> object:
        """The most that can be asked for: turns, chunks and memory."""
        return both.find(Query(query, "session", where))

    for ask in (words, meaning, hybrid, for_turns, for_sessions):
        for place, where in (("", Filter()), (" in a project", Filter(project=MAIN))):
            times = timed(asked, lambda q, a=ask, w=where: a(q, w))  # type: ignore[misc]
            yield row(f"{name}: {ask.__name__.replace('_', ' ')}{place}", times, floor)


def filled(root: Path, size: int) -> tuple[SqliteStore, Plain, list[str]]:
    """A store of so many observations; one that was kept is as good."""
    folder = root / str(size)
    done = folder / "asked.json"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    store, plain = SqliteStore(folder / "backstory.db"), Plain(folder / "plain.db")
    if not done.exists():
        migrate(store)
        filling = Filling(Words())
        took = filling.to(store, size, plain)
        say(f"search: {size:,} filled in {took:.0f} s, embedding, {load()}")
        embedded(store)
        done.write_text(json.dumps(filling.asked))
    return store, plain, json.loads(done.read_text())


def on_sqlite(root: Path, size: int, calls: int) -> tuple[list[list[str]], str]:
    say(f"search: {size:,}, {load()}")
    store, plain, told = filled(root, size)
    with closing(store), closing(plain.db):
        asked = random.Random(7).sample(told, min(calls + 5, len(told)))
        floor = timed(asked, plain.ask)
        rows = [row(f"{size:,}: plain FTS5, OR", floor, floor), *measure(store, asked, size, floor)]
        memory = peak_mb()  # before every match is held at once, to compare with
        return rows, f"{size:,}: {agreement(store, asked[:50])}, {memory:.0f} MB"


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def on_postgres(size: int, calls: int) -> list[list[str]]:
    sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
    from postgres import Server

    from backstory.store.postgres import PostgresStore

    server = Server()
    store = PostgresStore(server.make(), Path(tempfile.gettempdir()))
    try:
        migrate(store)
        say(f"search: filling PostgreSQL up to {size:,}, {load()}")
        filling = Filling(Words())
        filling.to(store, size)
        store.scrub()
        asked = random.Random(7).sample(filling.asked, min(calls + 5, len(filling.asked)))
        return list(measure(store, asked, size, ()))
    finally:
        store.close()
        server.remove()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200, help="how often each is asked")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="how many observations")
    parser.add_argument("--postgres", type=int, default=100_000, help="how many on PostgreSQL; 0 for none")
    parser.add_argument("--keep", type=Path, help="a folder for the filled stores, which another run goes on with")
    options = parser.parse_args()
    end_gently()
    spare_cores()  # as the worker does
    before, rows, notes = load(), [], []
    with tempfile.TemporaryDirectory(prefix="backstory-bench-") as root:
        for size in options.sizes:
            more, note = on_sqlite(options.keep or Path(root), size, options.calls)
            rows += more
            notes.append(note)
    if options.postgres:
        rows += on_postgres(options.postgres, options.calls)
    print(f"{machine()}. {options.calls} calls each; {before} at the start, {load()} at the end.\n")
    print(table(["observations: first 20, ms", "p50", "p95", "p95 / plain"], rows))
    print("\nOf the first ten by words, the same as when every match is weighed; the most memory until then:")
    print(f"{'; '.join(notes)}.")


if __name__ == "__main__":
    main()
