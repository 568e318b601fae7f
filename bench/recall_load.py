"""Bench: hooks, search and context at 100 to 1,000,000 observations, each beside a floor, and where the bytes are."""

from __future__ import annotations

import argparse
import itertools
import json
import keyword
import os
import random
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from urllib.parse import quote

from lab import Lab, Wire, end_gently, lab, load, machine, ms, p50, percentile, say, table, timed

from backstory import ids
from backstory.errors import StoreUnavailable
from backstory.model import CONCEPTS, TYPES, ContentId, Observation, Report, Session, Summary
from backstory.project import Project
from backstory.recall import context
from backstory.recall.prompt_context import PromptQuestion, for_prompt
from backstory.settings import Tuning
from backstory.store import backups, events, observations, queries, sessions
from backstory.store.db import Row, Store, Tx
from backstory.store.index import match, search, tokens, word_index
from backstory.store.index.hits import Filter, item_of
from backstory.store.index.indexing import index, put_fts5
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore
from backstory.store.tool_copies import shorten_response

SIZES = (100, 10_000, 100_000, 1_000_000)
#: Queries whose first ten are compared with those of a search without bounds. 40 of them vary by five points.
SAMPLE = 120
#: Observations a session; one project has most of them, as a person's main work does.
SESSION = 30
MAIN, OTHERS = "shop", ("till", "stock", "web")
BUDGET = 4000
#: Observations that have their event, prompts and summaries. The others have none: filling would take hours.
WHOLE = 100_000
#: Seconds for the context of a prompt.
PROMPT_S = Tuning().prompt_seconds
#: Words of a long prompt.
PROMPT_WORDS = 50


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

    def fields(self) -> dict[str, str | tuple[str, ...]]:
        """The texts of an observation."""
        pick = self.dice
        return {
            "type": pick.choice(TYPES),
            "title": self.say(pick.randint(5, 12)),
            "subtitle": self.say(8),
            "narrative": self.say(pick.randint(20, 90)),
            "facts": tuple(self.say(10) for _ in range(pick.randint(1, 4))),
            "concepts": (pick.choice(CONCEPTS),),
            "files_read": (pick.choice(self.files),),
            "files_modified": tuple(pick.sample(self.files, pick.randint(0, 2))),
        }

    def observation(self, event_id: int) -> Observation:
        return Observation(**self.fields(), event_ids=(event_id,))  # type: ignore[arg-type]


class Filling:
    """Sessions with observations, stored and indexed by the store itself."""

    def __init__(self, words: Words, key: str) -> None:
        self.words, self.keys = words, {MAIN: key}
        self.asked: list[str] = []  #: a few words of some observations
        self.prompts: list[str] = []  #: more words of some observations of the main project
        self._defaults = {name: column.default for name, column in queries.owned()["observations"].columns.items()}

    def to(self, store: Store, total: int) -> None:
        have = store.read(lambda tx: (tx.one("last_observations") or {}).get("last") or 0)
        self.words.dice.seed(have)  # a store that was kept goes on with other words than it began with
        while have < total:
            end = min(have + 20 * SESSION, total)
            store.write(lambda tx, have=have, end=end: self._sessions(tx, have, end))  # type: ignore[misc]
            have = end

    def _sessions(self, tx: Tx, have: int, end: int) -> None:
        for number in range(have, end, SESSION):
            self._session(tx, number, min(SESSION, end - number))

    def _session(self, tx: Tx, number: int, count: int) -> None:
        name = MAIN if self.words.dice.random() < 0.7 else self.words.dice.choice(OTHERS)
        at = ids.from_ms(ids.now_ms() - 200 * 86_400_000 + number * 10_000)
        content_id = ContentId(f"bench-{number}")
        start = Report("claude-code", "session_start", content_id, f"e{number}", at)
        session = sessions.get_or_create(tx, start, Project(name, self.keys.get(name, name)))
        for step in range(count):
            is_whole = number < WHOLE
            if is_whole and step % 5 == 0:
                prompt = sessions.add_prompt(tx, session, self.words.say(20), at).number
                told = Summary(self.words.say(10), "", self.words.say(20), self.words.say(25), self.words.say(12))
                observations.put_summary(tx, session, prompt, told, "offline", "bench", at)
            event_id, source = self._event(tx, session, f"e{number}.{step}", at) if is_whole else (0, {})
            self._observation(tx, session, number + step + 1, event_id, source, at)
        tx.script(f"UPDATE events SET status = 'done', observed_at = '{at}' WHERE session_id = {session.id};")  # noqa: S608

    def _event(self, tx: Tx, session: Session, name: str, at: str) -> tuple[int, Row]:
        """An event, and what its observation repeats of it."""
        tool_input, response = {"file_path": self.words.dice.choice(self.words.files)}, self.words.say(60)
        payload = {"tool_input": tool_input, "tool_response": response}
        report = Report("claude-code", "tool", session.content_session_id, name, at, tool_name="Edit", payload=payload)
        told = {"tool_input_json": json.dumps(tool_input), "tool_response_text": shorten_response(response)}
        return events.add(tx, session, report).id, told | {"tool_name": "Edit"}

    def _observation(self, tx: Tx, session: Session, number: int, event_id: int, source: Row, at: str) -> None:
        fields = self.words.fields()
        lists = {name: json.dumps(value) for name, value in fields.items() if isinstance(value, tuple)}
        row = self._defaults | fields | lists | {"id": number, "session_id": session.id, "prompt_number": 1}
        row |= {"project": session.project, "project_key": session.project_key, "provider": "offline"}
        row |= {"memory_session_id": f"offline-{session.id}", "compressed_observation": "", "created_at": at}
        row |= {"importance": self.words.dice.randint(1, 99)} | source
        tx.run("insert_observations", **row)
        if event_id:
            tx.run("observation_from_event", observation_id=number, event_id=event_id)
        if event_id or tx.engine == "postgres":
            observations.index_row(tx, "observation", row, session, index)
        else:
            self._index(tx, session, number, fields, at)
        self._ask(" ".join((str(fields["title"]), str(fields["narrative"]), *fields["facts"])).split(), session)

    def _index(self, tx: Tx, session: Session, number: int, fields: dict[str, str | tuple[str, ...]], at: str) -> None:
        """The same rows as the store makes, from words that are split once: a million would take an hour."""
        files = (*fields["files_read"], *fields["files_modified"])
        item = item_of("observation", number, session, at)
        item = replace(item, type=str(fields["type"]), concepts=tuple(fields["concepts"]), files=files)
        text = " ".join((str(fields["subtitle"]), str(fields["narrative"]), *fields["facts"], *files))
        title, body = (" ".join(map(_tokens, each.split())) for each in (str(fields["title"]), text))
        about = {"kind": "observation", "item_id": number, "session_id": session.id, "at": at}
        put = tx.one("word_row_put", **about, project=session.project, project_key=session.project_key)
        put_fts5(tx, put["words_rowid"] if put else 0, title, body, " ".join(match.marks_of(item)))

    def _ask(self, said: list[str], session: Session) -> None:
        """What people ask: two to eight words of something that was there, half of the time in a row."""
        dice = self.words.dice
        if dice.random() < 0.02 and len(self.asked) < 3000:
            count = dice.randint(2, 8)
            at = dice.randrange(max(1, len(said) - count))
            self.asked.append(" ".join(said[at : at + count] if dice.random() < 0.5 else dice.sample(said, count)))
            if session.project == MAIN:
                self.prompts.append(" ".join([*dice.sample(said, 15), *self.words.say(PROMPT_WORDS - 15).split()]))


@cache
def _tokens(word: str) -> str:
    return tokens.of_text(word)


class Plain:
    """The floor of searching: the texts of observations in an FTS5 table with nothing around it."""

    def __init__(self, store: SqliteStore, path: Path) -> None:
        path.unlink(missing_ok=True)
        self.db = sqlite3.connect(path)
        self.db.execute("PRAGMA synchronous = OFF")
        self.db.execute("CREATE VIRTUAL TABLE texts USING fts5 (title, body, tokenize = 'porter unicode61')")
        with closing(sqlite3.connect(store.path)) as source:
            rows = source.execute("SELECT title, subtitle || ' ' || narrative || ' ' || facts FROM observations")
            self.db.executemany("INSERT INTO texts VALUES (?, ?)", rows)
        self.db.commit()

    def ask(self, query: str) -> object:
        told = " OR ".join(f'"{word}"' for word in dict.fromkeys(re.findall(r"\w+", query.lower())))
        sql = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts, 3.0, 1.0) LIMIT 20"
        return self.db.execute(sql, (told,)).fetchall()


def row(name: str, times: Sequence[float], floor: Sequence[float] = (), note: str = "") -> list[str]:
    share = f"{p50(times) / p50(floor):.2f}" if floor else ""
    return [name, ms(p50(times)), ms(percentile(times, 0.95)), ms(max(times)), share, note]


class Hooks:
    """Hooks of sessions in the main project, over the worker's socket."""

    def __init__(self, here: Lab, wire: Wire) -> None:
        self._here, self._wire, self.answered = here, wire, 0

    def ask(self, event: str, **payload: str) -> None:
        about = {"session_id": ids.new_event_id(), "cwd": str(self._here.project), "hook_event_name": event}
        answer = self._wire.call("POST", f"/hooks/claude-code/{event}", json.dumps(about | payload).encode())
        self.answered += b"additionalContext" in answer

    def prompt(self, text: str) -> None:
        self.ask("UserPromptSubmit", prompt=text)

    def start(self, _: str) -> None:
        self.ask("SessionStart", source="startup")


def agreement(store: Store, asked: Sequence[str]) -> float:
    """How much of the first ten is the same as when every match is weighed, however many there are."""
    bounded, same, total = dict(word_index.BUDGET), 0, 0
    for query in asked:
        few = _first(store, query)
        word_index.BUDGET.update(dict.fromkeys(bounded, 10**9))
        whole = _first(store, query)
        word_index.BUDGET.update(bounded)
        same, total = same + len(few & whole), total + len(whole)
    return same / max(1, total)


def _first(store: Store, query: str) -> set[tuple[str, int]]:
    hits = store.read(lambda tx: search.by_words(tx, query, limit=10))
    return {(hit.kind, hit.item_id) for hit in hits}


def hooks(here: Lab, prompts: Sequence[str], common: Sequence[str], size: str) -> Iterator[list[str]]:
    here.settings |= {"BACKSTORY_EMBEDDER": "off", "BACKSTORY_PROMPT_TOKENS": "0"}
    here.start()
    try:
        with closing(Wire(here)) as wire:
            floor = timed(prompts, Hooks(here, wire).prompt)
    finally:
        here.stop()
    del here.settings["BACKSTORY_PROMPT_TOKENS"]
    yield row(f"{size}: UserPromptSubmit without context", floor, floor)
    here.start()
    try:
        with closing(Wire(here)) as wire:
            start = Hooks(here, wire)
            yield row(f"{size}: SessionStart", timed(prompts, start.start), floor)
            for name, asked in (("15 words of an observation", prompts), ("any words", common)):
                told = Hooks(here, wire)
                times = timed(asked, told.prompt)
                note = f"{told.answered / len(asked):.0%} with lines"
                yield row(f"{size}: UserPromptSubmit, {name}", times, floor, note)
    finally:
        here.stop()


def routes(here: Lab, asked: Sequence[str], size: str, floor: Sequence[float]) -> Iterator[list[str]]:
    here.start()
    try:
        with closing(Wire(here)) as wire:

            def get(path: str) -> Callable[[str], object]:
                return lambda query: wire.call("GET", path + quote(query))

            yield row(f"{size}: search", timed(asked, get("/api/search?query=")), floor)
            yield row(f"{size}: search in a project", timed(asked, get(f"/api/search?project={MAIN}&query=")), floor)
            times = timed(asked, lambda _: wire.call("GET", f"/api/context/inject?project={MAIN}"))
            yield row(f"{size}: context", times)
    finally:
        here.stop()


def filled(here: Lab, filling: Filling, size: int, keep: Path | None) -> SqliteStore:
    """A store of this size: the kept one, or the last one with more observations."""
    path = here.data / "backstory.db"
    if keep and (kept := keep / f"{size}.db").exists():
        say(f"recall: taking {kept}")
        for file in (path, *backups.companions(path)):
            file.unlink(missing_ok=True)
        shutil.copyfile(kept, path)
        filling.asked, filling.prompts = json.loads(kept.with_suffix(".json").read_text())
        return SqliteStore(path)
    store = SqliteStore(path)
    migrate(store)
    say(f"recall: filling up to {size:,} observations, {load()}")
    filling.to(store, size)
    if keep:
        store.close()
        (keep / f"{size}.json").write_text(json.dumps([filling.asked, filling.prompts]))
        shutil.copyfile(path, keep / "part.db")
        (keep / "part.db").rename(keep / f"{size}.db")
        store = SqliteStore(path)
    return store


def measure(here: Lab, store: SqliteStore, filling: Filling, size: int, calls: int) -> Iterator[list[str]]:
    dice, name = random.Random(size), f"{size:,}"
    asked = dice.choices(filling.asked or [filling.words.say(3)], k=calls + 5)
    prompts = dice.choices(filling.prompts or [filling.words.say(PROMPT_WORDS)], k=calls + 5)
    common = [filling.words.say(PROMPT_WORDS) for _ in range(calls + 5)]
    plain = Plain(store, here.home / "plain.db")
    say(f"recall: measuring, {load()}")
    with closing(plain.db):
        floor = timed(asked, plain.ask)
    yield row(f"{name}: plain FTS5, first 20", floor, floor)
    found = timed(asked, lambda q: store.read(lambda tx: search.by_words(tx, q)))
    note = f"{agreement(store, asked[: min(calls, SAMPLE)]):.0%} of the unbounded"
    yield row(f"{name}: words, first 20", found, floor, note)
    project = Filter(project=MAIN)
    found = timed(asked, lambda q: store.read(lambda tx: search.by_words(tx, q, where=project)))
    yield row(f"{name}: words in a project", found, floor)
    yield from hooks(here, prompts, common, name)
    yield from routes(here, asked, name, floor)


def sizes(store: SqliteStore, size: int) -> str:
    """Bytes on disk for an observation, by table and index."""
    store.vacuum()
    with closing(sqlite3.connect(store.path)) as db:
        found = db.execute("SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE ORDER BY pgsize DESC").fetchall()
    parts = ", ".join(f"{name} {pages / size:.0f}" for name, pages in found if pages / size >= 30)
    return f"{size:,}: {sum(pages for _, pages in found) / size:,.0f} bytes an observation: {parts}"


def measure_postgres(size: int, calls: int) -> Iterator[list[str]]:
    """The same on the other engine, without its fsync, which searching does not need."""
    sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
    from postgres import Server

    from backstory.store.postgres import PostgresStore

    server = Server()
    store = PostgresStore(server.make(), Path(tempfile.gettempdir()))
    filling, name = Filling(Words(), MAIN), f"{size:,} on PostgreSQL"
    try:
        migrate(store)
        say(f"recall: filling PostgreSQL up to {size:,} observations, {load()}")
        filling.to(store, size)
        store.scrub()
        asked = random.Random(size).choices(filling.asked, k=calls + 5)
        found = timed(asked, lambda q: store.read(lambda tx: search.by_words(tx, q)))
        yield row(f"{name}: words, first 20", found, (), f"{agreement(store, asked[:SAMPLE]):.0%} of the unbounded")
        found = timed(asked, lambda q: store.read(lambda tx: search.by_words(tx, q, where=Filter(project=MAIN))))
        yield row(f"{name}: words in a project", found)
        for kind in ("15 words of an observation", "any words"):
            told = filling.prompts if kind[0] == "1" else [filling.words.say(PROMPT_WORDS) for _ in range(calls)]
            times = timed([*told, *told][: calls + 5], lambda q: _ask(store, q))
            yield row(f"{name}: context of a prompt, {kind}", times)
        found = timed(asked, lambda _: store.read(lambda tx: context.for_start(tx, MAIN, MAIN, BUDGET)))
        yield row(f"{name}: context", found)
    finally:
        store.close()
        server.remove()


def _ask(store: Store, prompt: str) -> object:
    question = PromptQuestion(prompt, MAIN, 0)
    try:
        return store.read(lambda tx: for_prompt(tx, question, BUDGET, "backstory"), PROMPT_S)
    except StoreUnavailable:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200, help="how often each is asked")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="how many observations")
    parser.add_argument("--postgres", type=int, default=100_000, help="how many on PostgreSQL; 0 for none")
    parser.add_argument("--keep", type=Path, help="a folder with the filled stores: missing ones are filled and kept")
    parser.add_argument("--fill", action="store_true", help="only fill the stores of --keep")
    options = parser.parse_args()
    end_gently()
    before = load()
    rows: list[list[str]] = []
    bytes_: list[str] = []
    with nullcontext(_kept(options.keep)) if options.keep else lab() as here:
        here.data.mkdir(mode=0o700, exist_ok=True)
        filling = Filling(Words(), str(here.project))
        for size in options.sizes:
            with closing(filled(here, filling, size, options.keep)) as store:
                if not options.fill:
                    rows += measure(here, store, filling, size, options.calls)
                    bytes_ += [sizes(store, size)] if size <= WHOLE else []
    if options.fill:
        return
    if options.postgres:
        rows += measure_postgres(options.postgres, options.calls)
    print(f"{machine()}. {options.calls} calls each; {before} at the start, {load()} at the end.\n")
    print(table(["observations: what is asked, ms", "p50", "p95", "max", "p50 / floor", ""], rows))
    print("\n" + "\n\n".join(bytes_))


def _kept(folder: Path) -> Lab:
    folder.mkdir(parents=True, exist_ok=True)
    return Lab(folder.resolve())


if __name__ == "__main__":
    main()
