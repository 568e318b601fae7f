"""Bench: context and word search at 100, 10,000 and 100,000 observations, beside plain FTS5 over the same texts."""

from __future__ import annotations

import argparse
import itertools
import keyword
import os
import random
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from lab import Lab, Wire, end_gently, lab, load, machine, ms, p50, percentile, say, table, timed

from backstory import ids
from backstory.model import CONCEPTS, TYPES, ContentId, Event, Observation, Reply, Report, Round, Summary
from backstory.project import Project
from backstory.recall import context
from backstory.store import events, observations, sessions
from backstory.store.db import Store, Tx
from backstory.store.index import search
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore

SIZES = (100, 10_000, 100_000)
#: Observations a session; one project has most of them, as a person's main work does.
SESSION = 30
MAIN, OTHERS = "shop", ("till", "stock", "web")
BUDGET = 2000


class Words:
    """Text as observations have it: words of the standard library's own comments, its names, its files."""

    def __init__(self, seed: int = 7) -> None:
        self.dice = random.Random(seed)
        files = sorted(Path(os.__file__).parent.glob("*.py"))
        source = "\n".join(file.read_text("utf-8", "replace") for file in files)
        plain = re.findall(r"\b[a-z]{3,12}\b", " ".join(re.findall(r"#\s(.*)", source)))
        self.plain = [word for word in plain if not keyword.iskeyword(word)]
        self.names = sorted(set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b|\b[A-Z][a-z]+[A-Z]\w+\b", source)))
        names = itertools.islice(itertools.cycle(self.names), int(len(self.plain) * 0.15 / 0.85))
        self._said = [*self.plain, *names]  # of seven words one is a name
        self.files = [f"src/{self.dice.choice(self.names).lower()}/{file.name}" for file in files]

    def say(self, words: int) -> str:
        return " ".join(self.dice.choices(self._said, k=words))

    def observation(self, event_id: int) -> Observation:
        pick = self.dice
        return Observation(
            type=pick.choice(TYPES),
            title=self.say(pick.randint(5, 12)),
            subtitle=self.say(8),
            narrative=self.say(pick.randint(20, 90)),
            facts=tuple(self.say(10) for _ in range(pick.randint(1, 4))),
            concepts=(pick.choice(CONCEPTS),),
            files_read=(pick.choice(self.files),),
            files_modified=tuple(pick.sample(self.files, pick.randint(0, 2))),
            event_ids=(event_id,),
        )


def fill(store: Store, words: Words, total: int) -> None:
    """Sessions until there are so many observations, each with its event, through the store itself."""
    have = store.read(lambda tx: (tx.one("last_observations") or {}).get("last") or 0)
    start = ids.now_ms() - 200 * 86_400_000
    while have < total:
        count = min(SESSION, total - have)
        at = have
        store.write(lambda tx, at=at, count=count: _session(tx, words, at, count, start + at * 100_000))  # type: ignore[misc]
        have += count


def _session(tx: Tx, words: Words, number: int, count: int, began_ms: int) -> None:
    name = MAIN if words.dice.random() < 0.7 else words.dice.choice(OTHERS)
    content_id = ContentId(f"bench-{number}")
    start = Report("claude-code", "session_start", content_id, f"e{number}", ids.from_ms(began_ms))
    session = sessions.get_or_create(tx, start, Project(name, name))
    for at in range(0, count, 5):
        moment = ids.from_ms(began_ms + at * 60_000)
        prompt = sessions.add_prompt(tx, session, words.say(20), moment)
        session = sessions.get(tx, session.id)
        made = []
        for step in range(min(5, count - at)):
            event_id = f"e{number}.{at + step}"
            payload = {"tool_input": {"file_path": words.dice.choice(words.files)}, "tool_response": words.say(60)}
            report = Report("claude-code", "tool", content_id, event_id, moment, tool_name="Edit", payload=payload)
            added = events.add(tx, session, report)
            made.append(Event(added.id, session.id, prompt.number, "tool", moment, "Edit", None, payload))
        round = Round(session.id, content_id, None, "claude-code", name, "", prompt.number, "", tuple(made))
        told = Summary(words.say(10), "", words.say(20), words.say(25), words.say(12))
        observations.store(
            tx, round, observations.Stored(Reply(tuple(words.observation(event.id) for event in made), told), "offline")
        )
        which = {"session_id": session.id, "owner": "bench"}
        span = {"prompt_number": prompt.number, "first": made[0].id, "last": made[-1].id, "lease_until": 0}
        tx.run("round_lease", **which, **span)
        tx.run("round_finish", **which, at=moment)


def plain_index(store: SqliteStore, path: Path) -> sqlite3.Connection:
    """The floor: the same texts in an FTS5 table with nothing around it."""
    plain = sqlite3.connect(path)
    plain.execute(
        "CREATE VIRTUAL TABLE words USING fts5 (title, body, tokenize = 'porter unicode61 remove_diacritics 2')"
    )
    with closing(sqlite3.connect(store.path)) as source:
        plain.executemany("INSERT INTO words VALUES (?, ?)", source.execute("SELECT title, body FROM words"))
    plain.commit()
    return plain


def queries(words: Words, count: int) -> list[str]:
    """What people ask: one to three words, some common, some a name."""
    return [" ".join(words.say(1) for _ in range(words.dice.randint(1, 3))) for _ in range(count)]


def row(name: str, times: list[float], floor: float | None = None) -> list[str]:
    share = f"{p50(times) / floor:.2f}" if floor else ""
    return [name, ms(p50(times)), ms(percentile(times, 0.95)), ms(min(times)), share]


def match(query: str) -> str:
    """What the product looks for, as plain FTS5 is asked for it."""
    return " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query.replace("_", " ")))


def measure(here: Lab, store: SqliteStore, words: Words, size: int, calls: int) -> Iterator[list[str]]:
    say(f"recall: filling up to {size:,} observations, {load()}")
    fill(store, words, size)
    asked = queries(words, calls + 5)
    with closing(plain_index(store, here.home / f"plain-{size}.db")) as plain:
        sql = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words, 3.0, 1.0) LIMIT 20"
        floor = timed(asked, lambda q: plain.execute(sql, (match(q),)).fetchall())
    here.start()
    try:
        with closing(Wire(here)) as wire:
            yield row(f"{size:,}: plain FTS5, first 20", floor, p50(floor))
            found = timed(asked, lambda q: store.read(lambda tx: search.find(tx, q, limit=20)))
            yield row(f"{size:,}: search", found, p50(floor))
            found = timed(asked, lambda q: store.read(lambda tx: search.find(tx, q, MAIN, limit=20)))
            yield row(f"{size:,}: search in a project", found, p50(floor))
            found = timed(asked, lambda q: wire.call("GET", f"/api/search?query={quote(q)}"))
            yield row(f"{size:,}: search, over the socket", found, p50(floor))
            found = timed(asked, lambda _: store.read(lambda tx: context.for_start(tx, MAIN, MAIN, BUDGET)))
            yield row(f"{size:,}: context", found)
            found = timed(asked, lambda _: wire.call("GET", f"/api/context/inject?project={MAIN}"))
            yield row(f"{size:,}: context, over the socket", found)
    finally:
        here.stop()


def measure_postgres(words: Words, size: int, calls: int) -> Iterator[list[str]]:
    """The same on the other engine, without its fsync, which searching does not need."""
    sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
    from postgres import Server

    from backstory.store.postgres import PostgresStore

    server = Server()
    store = PostgresStore(server.make(), Path(tempfile.gettempdir()))
    try:
        migrate(store)
        say(f"recall: filling PostgreSQL up to {size:,} observations, {load()}")
        fill(store, words, size)
        store.scrub()
        asked = queries(words, calls + 5)
        found = timed(asked, lambda q: store.read(lambda tx: search.find(tx, q, limit=20)))
        yield row(f"{size:,} on PostgreSQL: search", found)
        found = timed(asked, lambda q: store.read(lambda tx: search.find(tx, q, MAIN, limit=20)))
        yield row(f"{size:,} on PostgreSQL: search in a project", found)
        found = timed(asked, lambda _: store.read(lambda tx: context.for_start(tx, MAIN, MAIN, BUDGET)))
        yield row(f"{size:,} on PostgreSQL: context", found)
    finally:
        store.close()
        server.remove()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200, help="how often each is asked")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="how many observations")
    options = parser.parse_args()
    end_gently()
    before = load()
    rows: list[list[str]] = []
    with lab() as here:
        here.data.mkdir(mode=0o700)
        store, words = SqliteStore(here.data / "backstory.db"), Words()
        migrate(store)
        try:
            for size in options.sizes:
                rows += measure(here, store, words, size, options.calls)
        finally:
            store.close()
    rows += measure_postgres(Words(), options.sizes[-1], options.calls)
    print(f"{machine()}. {options.calls} calls each; {before} at the start, {load()} at the end.\n")
    print(table(["observations: what is asked, ms", "p50", "p95", "min", "p50 / floor"], rows))


if __name__ == "__main__":
    main()
