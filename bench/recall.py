"""Bench: does search find it? Four sets of questions, loaded and asked through the product, beside plain FTS5 (an index
for each set), vectors alone and both fused with equal weights. A fifth set, `amended.jsonl`, is part of this repo:
of two statements about one thing, is the newer one found first?

The sets are not part of this repository: `--data` names the folder (its README says what is in it).
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import math
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from lab import COMMAND, Lab, Wire, end_gently, lab, load, say, table

from backstory.recall import embed, fuse
from backstory.recall.search import DEPTH, MEMORY
from backstory.recall.vectors import Vectors
from backstory.store.db import Store, Tx
from backstory.store.index import search
from backstory.store.index.hits import Filter
from backstory.store.postgres import PostgresStore
from backstory.store.sqlite import SqliteStore

SETS = ("claude-code", "locomo", "longmemeval-s", "longmemeval-pooled")
#: set, what is asked for, kind of question ("" is all), metric, what it should reach
WANTED = (
    ("claude-code", "sessions", "commit-to-session", "any@5", 70),
    ("claude-code", "sessions", "session-start", "any@5", 70),
    ("locomo", "turns", "", "ndcg@10", 50),
    ("locomo", "sessions", "", "rec@10", 95),
    ("longmemeval-s", "sessions", "", "any@5", 97),
    ("longmemeval-s", "sessions", "", "all@5", 84),
    ("longmemeval-pooled", "sessions", "", "rec@10", 90),
    ("longmemeval-pooled", "turns", "", "rec@10", 75),
    ("longmemeval-pooled", "sessions", "", "newest first", 85),
)
#: set, what is asked for, kind of question, whose figures are printed beside those of FTS5
MEASURED = (
    ("claude-code", "sessions", "commit-to-session"),
    ("claude-code", "sessions", "session-start"),
    ("claude-code", "sessions", "session-start, branch known"),
    *((name, level, "") for name in SETS[1:] for level in ("sessions", "turns")),
    ("longmemeval-pooled", "sessions", "knowledge-update"),
)
METRICS = ("any@1", "any@5", "MRR", "rec@10", "ndcg@10")
AMENDED = Path(__file__).with_name("amended.jsonl")
COMMON = frozenset(
    "a an and are as at be but by did do does for from had has have he her him his how i in is it its me my of on or "  # noqa: SIM905 - a list of words reads as one
    "our she so that the their them they this to was we were what when where which who why will with you your".split()
)
Ranked = Callable[[dict[str, Any], str], list[str]]  #: a question and what is asked for -> names, best first


def measured(ranked: Sequence[str], question: dict[str, Any], level: str) -> dict[str, float]:
    """A question's figures; the same as the sets' own scorer has."""
    if question.get("before") is not None:
        known = set(question["before"])
        ranked = [name for name in ranked if name in known]
    ranked, gold = list(dict.fromkeys(ranked)), set(question[level])
    hits = [name in gold for name in ranked]
    gain = sum(1 / math.log2(at + 2) for at, hit in enumerate(hits[:10]) if hit)
    ideal = sum(1 / math.log2(at + 2) for at in range(min(10, len(gold))))
    first = next((at for at, hit in enumerate(hits, 1) if hit), math.inf)
    made: dict[str, float] = {
        "any@1": any(hits[:1]),
        "any@5": any(hits[:5]),
        "all@5": sum(hits[:5]) >= min(5, len(gold)),
        "MRR": 1 / first,
        "rec@10": sum(hits[:10]) / len(gold),
        "ndcg@10": gain / ideal,
    }
    if level == "sessions" and question.get("newest"):
        found = [name for name in ranked if name in gold]
        made["newest first"] = bool(found) and found[0] == question["newest"]
    return made


def score(questions: Iterable[dict[str, Any]], level: str, ranked: Ranked) -> dict[str, dict[str, float]]:
    """Per cent by kind of question and metric."""
    every: dict[str, list[dict[str, float]]] = defaultdict(list)
    for question in questions:
        if question.get(level):
            one = measured(ranked(question, level), question, level)
            every[""].append(one)
            every[question["kind"]].append(one)
    return {
        kind: {
            name: 100 * sum(one[name] for one in many if name in one) / sum(name in one for one in many)
            for name in dict.fromkeys(name for one in many for name in one)
        }
        for kind, many in every.items()
    }


class Plain:
    """FTS5 as it comes, an index for each set: turns for turns, pieces of about 900 characters for sessions; ties in no
    order of ours."""

    def __init__(self, store: Store, set_of: dict[str, str]) -> None:
        """`set_of` says to which set a project belongs."""
        self.set_of = set_of
        self.indexes: dict[str, sqlite3.Connection] = {}
        self.names: dict[int, tuple[str, str]] = {}
        self.turns: dict[int, str] = {}
        store.read(self._read)

    def _read(self, tx: Tx) -> None:
        number = 0
        while session := tx.one("session_by_id", id=(number := number + 1)):
            project, name = self.names.setdefault(number, (session["project"], session["content_session_id"]))
            for turn in tx.all("turns_of_session", session_id=number, after=-1, limit=100_000):
                self.turns[turn["id"]] = f"{name}#{turn['number']}"
                self._put("turns", project, self.turns[turn["id"]], turn["text"])
            for chunk in tx.all("chunks_from", session_id=number, number=0):
                self._put("sessions", project, name, chunk["text"])

    def _index(self, project: str) -> sqlite3.Connection:
        name = self.set_of.get(project, "")
        if name not in self.indexes:
            self.indexes[name] = sqlite3.connect(":memory:", check_same_thread=False)
            for level in ("turns", "sessions"):
                columns = "project UNINDEXED, name UNINDEXED, text, tokenize='porter unicode61'"
                self.indexes[name].execute(f"CREATE VIRTUAL TABLE {level} USING fts5({columns})")
        return self.indexes[name]

    def _put(self, level: str, project: str, *values: str | None) -> None:
        self._index(project).execute(f"INSERT INTO {level} VALUES (?, ?, ?)", (project, *values))  # noqa: S608 - our words

    def ranked(self, question: dict[str, Any], level: str) -> list[str]:
        words = re.findall(r"\w+", question["query"][:1500].lower())
        asked = " OR ".join(f'"{word}"' for word in dict.fromkeys(words) if word not in COMMON) or '""'
        order = f"ORDER BY bm25({level}) LIMIT 1500"
        query = f"SELECT name FROM {level} WHERE {level} MATCH ? AND project = ? {order}"  # noqa: S608 - our words
        found = self._index(question["project"]).execute(query, (asked, question["project"]))
        return list(dict.fromkeys(row[0] for row in found))


@dataclass(frozen=True)
class Ways:
    """The ways to answer that are held against each other."""

    here: Lab
    plain: Plain
    vectors: Vectors

    def product(self, question: dict[str, Any], level: str) -> list[str]:
        asked = {"query": question["query"], "project": question["project"], "kind": level, "limit": 50}
        asked |= {"branch": question["branch"]} if question.get("branch") else {}
        with closing(Wire(self.here)) as wire:
            items = json.loads(wire.call("GET", f"/api/search?{urlencode(asked)}"))["items"]
        return [name_of(item, level) for item in items]

    def near(self, question: dict[str, Any], level: str) -> list[str]:
        kinds = ("turn",) if level == "turns" else ("turn", "chunk")
        hits = self.vectors.find_each(question["query"], (kinds,), Filter(project=question["project"]), 400)[0]
        if level == "turns":
            return [self.plain.turns[hit.item_id] for hit in hits]
        return list(dict.fromkeys(self.plain.names[hit.session_id][1] for hit in hits))

    def equal(self, question: dict[str, Any], level: str) -> list[str]:
        """Reciprocal ranks, as everybody does it."""
        made: dict[str, float] = defaultdict(float)
        for ranked in (self.plain.ranked(question, level), self.near(question, level)):
            for rank, name in enumerate(ranked):
                made[name] += 1 / (60 + rank)
        return sorted(made, key=lambda name: -made[name])


def made_of(store: Store, vectors: Vectors, names: dict[int, tuple[str, str]], *families: tuple[str, ...]) -> Ranked:
    """Sessions by some of what is indexed only, fused as the product does."""

    def ranked(question: dict[str, Any], level: str) -> list[str]:
        look, where = fuse.query_style(question["query"]), Filter(project=question["project"])
        told = re.findall(r"[^\W_]+", question["query"].lower())
        weights = store.read(lambda tx: search.rarity(tx, told, where))
        lists = []
        for kinds in families:
            hits = store.read(lambda tx, kinds=kinds: search.by_words(tx, question["query"], kinds, where, DEPTH))  # type: ignore[misc]
            near = vectors.find_each(question["query"], (kinds,), where, DEPTH, weights)[0]
            lists.append(fuse.merge(hits, near, look))
        best = fuse.ordered(fuse.by_session(lists, {}).values())
        return [names[item.id][1] for item in best]

    return ranked


def load_sets(here: Lab, data: Path, sets: Sequence[str]) -> None:
    for name in sets:
        began = time.perf_counter()
        words = ["claude-code", data / name / "transcripts"]
        if (corpus := data / name / "corpus.jsonl.gz").exists():
            words = ["conversations", corpus]
        take(here, *map(str, words))
        say(f"{name} loaded in {time.perf_counter() - began:.0f} s")
    amended = here.home / "amended.jsonl"
    amended.write_text("".join(json.dumps(line) + "\n" for line in amended_turns()))
    take(here, "conversations", str(amended))
    with closing(Wire(here)) as wire:
        wait_for_vectors(wire)


def take(here: Lab, *words: str) -> None:
    subprocess.run([COMMAND, "import", *words], env=here.env, check=True, capture_output=True, cwd=here.home)
    here.settle()


def amended_pairs() -> list[dict[str, Any]]:
    """Pairs of an older and a newer talk, which turn of them states the fact, and a question. Of the kind `apart` they
    are about different things, or the question asks for what was before: there the older one is right."""
    return [json.loads(line) for line in AMENDED.read_text().splitlines()]


def amended_turns() -> Iterator[dict[str, Any]]:
    """The talks as `import conversations` reads them. The newer ones are told half a year after the older ones."""
    for number, pair in enumerate(amended_pairs()):
        for age, month in (("old", 1), ("new", 7)):
            for turn, (role, text) in enumerate(zip(("user", "assistant"), pair[age], strict=True)):
                at = f"2026-{month + number % 3:02}-{1 + number % 28:02}T10:{number:02}:{turn:02}.000Z"
                place = {"project": "amended", "session": f"{age}-{number}", "turn": turn}
                yield place | {"role": role, "text": text, "at": at}


def amended_first(here: Lab) -> dict[str, dict[str, float]]:
    """By kind of pair and what is asked for: in how many per cent the right one of a pair is found, and first. What
    observations state was told by `remember`, the older half first."""
    pairs, right = amended_pairs(), defaultdict[str, dict[str, list[bool]]](lambda: defaultdict(list))
    with closing(Wire(here)) as wire:
        said: dict[tuple[str, str], str] = {}
        for age, (number, pair) in itertools.product(("old", "new"), enumerate(pairs)):
            body = {"text": pair[age][pair["stated"]], "type": "discovery", "project": "remembered"}
            row = json.loads(wire.call("POST", "/api/memories", json.dumps(body).encode()))
            for level, name in (("sessions", f"{age}-{number}"), ("turns", f"{age}-{number}#{pair['stated']}")):
                said[level, name] = f"{age}-{number}"
            said["observations", str(row["id"])] = f"{age}-{number}"
        wait_for_vectors(wire)
        for number, pair in enumerate(pairs):
            for level in ("sessions", "turns", "observations"):
                asked = {"query": pair["query"], "kind": level, "limit": 50}
                asked["project"] = "remembered" if level == "observations" else "amended"
                items = json.loads(wire.call("GET", f"/api/search?{urlencode(asked)}"))["items"]
                names = [said.get((level, name_of(item, level)), "") for item in items]
                own = [name for name in names if name.endswith(f"-{number}")]
                right[pair["kind"]][level].append(
                    own[:1] == [f"{'old' if pair['kind'] == 'apart' else 'new'}-{number}"]
                )
    return {
        kind: {level: 100 * sum(found) / len(found) for level, found in levels.items()}
        for kind, levels in right.items()
    }


def name_of(item: dict[str, Any], level: str) -> str:
    names = {"sessions": item["session"], "turns": f"{item['session']}#{item.get('turn')}"}
    return str(names.get(level, item["id"]))


def wait_for_vectors(wire: Wire) -> None:
    while json.loads(wire.call("GET", "/api/vectors"))["due"]:
        time.sleep(0.5)


def questions_of(data: Path, name: str, every: int) -> list[dict[str, Any]]:
    """The questions of a set. Those of a session that starts are also asked with the branch on which it started."""
    asked = [json.loads(line) for line in (data / name / "queries.jsonl").read_text().splitlines()][::every]
    starts = [question for question in asked if question["kind"] == "session-start"]
    for question in starts:
        (file,) = (data / name / "transcripts").glob(f"{question['id'].partition('-')[2]}*.jsonl.gz")
        with gzip.open(file, "rt") as lines:
            branches = (json.loads(line).get("gitBranch") for line in lines)
            branch = next(filter(None, branches), "")
        asked.append(question | {"kind": "session-start, branch known", "branch": branch})
    return asked


def report(data: Path, sets: Sequence[str], ways: Ways, observed: Sequence[tuple[str, Ranked]], every: int) -> None:
    systems: dict[str, Ranked] = {
        "product": ways.product,
        "FTS5": ways.plain.ranked,
        "vectors": ways.near,
        "equal": ways.equal,
    }
    asked = {name: questions_of(data, name, every) for name in sets}
    took: list[float] = []
    found: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    for name in sets:
        for level in ("sessions", "turns"):
            for system, ranked in systems.items():
                began = time.perf_counter()
                found[name, level, system] = score(asked[name], level, ranked)
                if system == "product":
                    took.append((time.perf_counter() - began) / max(1, len(asked[name])))
            say(f"{name}: {level} asked")
    rows = []
    for name, level, kind, metric, aim in WANTED:
        if name in sets:
            values = [found[name, level, system].get(kind, {}).get(metric, math.nan) for system in systems]
            rows.append([f"{name} {kind or level} {metric}", *(f"{value:.1f}" for value in values), str(aim)])
    print(table(["per cent", *systems, "at least"], rows))
    rows = []
    for name, level, kind in MEASURED:
        both = [found[name, level, system].get(kind, {}) for system in ("product", "FTS5")] if name in sets else []
        if all(both) and both:
            cells = (" / ".join(f"{one[metric]:.1f}" for one in both) for metric in METRICS)
            rows.append([f"{name} {kind or level}", *cells])
    print(f"\nEvery set, product / FTS5:\n\n{table(['per cent', *METRICS], rows)}")
    rows = [[kind, *(f"{value:.1f}" for value in one.values())] for kind, one in amended_first(ways.here).items()]
    print("\nOf two statements about one thing, the newer one first (`apart`: the older one, which is asked for):\n")
    print(table(["per cent", "sessions", "turns", "observations"], rows))
    if "claude-code" in sets:
        commits = [question for question in asked["claude-code"] if question["kind"] == "commit-to-session"]
        rows = []
        for label, ranked in observed:
            one = score(commits, "sessions", ranked)[""]
            rows.append([label, *(f"{one[metric]:.1f}" for metric in ("any@5", "rec@10", "ndcg@10"))])
        print(f"\nWhich session made this commit, by what was indexed ({len(commits)} questions):\n")
        print(table(["indexed", "any@5", "rec@10", "ndcg@10"], rows))
    print(f"\nUp to {max(took) * 1000:.0f} ms a question, on average over a set; {load()}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=SETS, metavar="SET", help=f"of {', '.join(SETS)}")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("BACKSTORY_RECALL_SETS", "../shared/data")))
    parser.add_argument("--engine", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--every", type=int, default=1, help="of the questions, each so many-th (1)")
    options = parser.parse_args()
    if not options.data.is_dir():
        say(f"the sets are not here: {options.data}")
        sys.exit(0)
    end_gently()
    with ExitStack() as stack:
        here = stack.enter_context(lab())
        store: Store
        if options.engine == "postgres":
            sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
            from postgres import Server

            server = Server()
            stack.callback(server.remove)
            here.settings["BACKSTORY_DATABASE_URL"] = server.make()
        here.start()
        load_sets(here, options.data.resolve(), options.sets)
        url = here.settings.get("BACKSTORY_DATABASE_URL")
        store = PostgresStore(url, here.data) if url else SqliteStore(here.data / "backstory.db")
        stack.callback(store.close)
        vectors = Vectors(store, embed.name_of("static"))
        asked = {name: questions_of(options.data, name, 1) for name in options.sets}
        set_of = {question["project"]: name for name, questions in asked.items() for question in questions}
        ways = Ways(here, Plain(store, set_of), vectors)
        indexed: dict[str, tuple[tuple[str, ...], ...]] = {
            "observations": (("observation",),),
            "observations, summaries, prompts": (MEMORY,),
            "raw chunks": (("chunk",),),
            "both": (MEMORY, ("chunk",)),
        }
        observed = [(label, made_of(store, vectors, ways.plain.names, *parts)) for label, parts in indexed.items()]
        print(f"{options.engine}, one configuration, no model.\n")
        report(options.data, options.sets, ways, observed, options.every)


if __name__ == "__main__":
    main()
