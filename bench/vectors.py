"""Bench: search by meaning at 10,000, 100,000 and 1,000,000 vectors, and how much of the truth it finds."""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import os
import random
import re
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from lab import end_gently, load, machine, ms, p50, percentile, say, table

from backstory.recall import embed
from backstory.recall.vectors import Vectors
from backstory.settings import spare_cores
from backstory.store.db import Store
from backstory.store.index.hits import Filter
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

SIZES = (10_000, 100_000, 1_000_000)
#: Of so many first ones it is looked how many are the truth's.
FIRST = 10
#: Vectors in a session, and sessions in each of ten projects in turn.
SESSION = 50
EVERY = ("observation",)
SESSION_ROW = (
    "INSERT INTO sdk_sessions (id, content_session_id, project, project_key, created_at, last_event_at) "
    "VALUES (?1, ?2, ?3, ?3, '', '')"
)
VECTOR_ROW = (
    "INSERT INTO vectors (embedder_id, kind, item_id, session_id, at, vector, scale) "
    "VALUES (1, 'observation', ?, ?, '2026-01-01T00:00:00.000Z', ?, ?)"
)
_END = re.compile(r"(?<=[.!?])\s+|\n+")


def memory_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def held_mb(made: Vectors) -> float:
    """What the vectors in memory take."""
    blocks = made._index[1]._blocks if made._index else ()
    parts = [getattr(block, field.name) for block in blocks for field in fields(block)]
    return float(sum(part.nbytes for part in parts if part is not None)) / 1e6


def sentences(folder: Path | None) -> list[str]:
    """Real ones: of conversations as `import conversations` reads them, or of the standard library's docstrings."""
    texts: list[str] = []
    if folder:
        for file in sorted(folder.glob("*/corpus.jsonl.gz")):
            with gzip.open(file, "rt", encoding="utf-8") as lines:
                texts += [json.loads(line)["text"] for line in lines]
    else:
        for file in sorted(Path(os.__file__).parent.rglob("*.py"))[:1500]:
            texts += _docstrings(file)
    found = dict.fromkeys(s.strip() for text in texts for s in _END.split(text) if 30 <= len(s.strip()) <= 300)
    return random.Random(7).sample(list(found), min(30_000, len(found)))


def _docstrings(file: Path) -> Iterator[str]:
    try:
        tree = ast.parse(file.read_text("utf-8"))
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (told := ast.get_docstring(node)):
            yield told


class Corpus:
    """Texts of two to five of these sentences each. The mean of a text's words is the mean of its sentences', so that
    their vectors need not be made one by one."""

    def __init__(self, texts: Sequence[str]) -> None:
        import numpy as np

        self.texts, self._dice = texts, np.random.default_rng(7)
        self._made = embed.named("static").embed(texts) * np.array([[len(text)] for text in texts], dtype=np.float32)

    def some(self, number: int) -> Matrix:
        import numpy as np

        chosen = self._dice.integers(0, len(self.texts), (number, 5))
        used = np.arange(5) < self._dice.integers(2, 6, (number, 1))
        made = np.einsum("nsd,ns->nd", self._made[chosen], used.astype(np.float32))
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), dtype=np.float32)

    def query(self) -> str:
        """A sentence, or some words of one."""
        words = self.texts[int(self._dice.integers(len(self.texts)))].split()
        return " ".join(words[: int(self._dice.integers(4, 16))])


class Filling:
    """Vectors as the worker keeps them, and beside them as they were made, to know the truth by."""

    def __init__(self, path: Path, corpus: Corpus, made: Vectors) -> None:
        self._path, self._corpus, self._made = path, corpus, made
        self._truth = path.with_name("truth.f32")
        self.have = 0

    def to(self, total: int) -> None:
        with closing(sqlite3.connect(self._path, timeout=60)) as db, self._truth.open("ab") as truth:
            while self.have < total:
                some = self._corpus.some(min(5000, total - self.have))
                self._put(db, some)
                some.tofile(truth)
                self.have += len(some)

    def _put(self, db: sqlite3.Connection, some: Matrix) -> None:
        first = self.have // SESSION
        sessions = [(n + 1, f"s{n}", f"p{n % 10}") for n in range(first, first + len(some) // SESSION)]
        db.executemany(SESSION_ROW, sessions)
        forms = enumerate(self._made._as_stored(some), self.have)
        db.executemany(VECTOR_ROW, ((n + 1, n // SESSION + 1, form, scale) for n, (form, scale) in forms))
        db.commit()

    def nearest(self, asked: Matrix) -> set[int]:
        """The truth: every vector compared, as it was made."""
        import numpy as np

        whole = np.memmap(self._truth, dtype=np.float32, mode="r").reshape(-1, asked.shape[0])
        scores = np.concatenate([whole[at : at + 50_000] @ asked for at in range(0, len(whole), 50_000)])
        return set((np.argpartition(-scores, FIRST)[:FIRST] + 1).tolist())


def measure(store: Store, corpus: Corpus, filling: Filling, calls: int) -> list[list[str]]:
    made = Vectors(store, "static")
    made.begin()
    made.find_each("warm", (EVERY,))  # the weights are loaded
    size = f"{filling.have:,}"
    fresh = Vectors(store, "static")
    began = time.perf_counter()
    fresh.find_each("first", (EVERY,))
    loading, held = time.perf_counter() - began, held_mb(fresh)
    asked = [corpus.query() for _ in range(calls)]
    rows = []
    wheres = {"all": Filter(), "in a project, a tenth": Filter(project="p3"), "in a session": Filter(session_id=7)}
    for label, where in wheres.items():
        times = []
        for query in asked:
            began = time.perf_counter()
            fresh.find_each(query, (EVERY,), where)
            times.append(time.perf_counter() - began)
        rows.append([f"{size}: {label}", ms(p50(times)), ms(percentile(times, 0.95)), "", "", ""])
    ours = embed.named("static")
    same = 0
    for query in asked[:50]:
        found = {hit.item_id for hit in fresh.find_each(query, (EVERY,), Filter(), FIRST)[0]}
        same += len(found & filling.nearest(ours.embed([query])[0]))
    rows[0][3:] = [f"{same / (len(asked[:50]) * FIRST):.1%}", f"{loading:.2f} s", f"{held:.0f} MB"]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200, help="how often each is asked")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="how many vectors")
    parser.add_argument("--data", type=Path, help="a folder with */corpus.jsonl.gz to take sentences from")
    options = parser.parse_args()
    end_gently()
    spare_cores()  # as the worker does
    before, bare, rows = load(), memory_mb(), []
    corpus = Corpus(sentences(options.data))
    with tempfile.TemporaryDirectory(prefix="backstory-bench-") as root:
        path = Path(root) / "backstory.db"
        store = SqliteStore(path)
        migrate(store)
        made = Vectors(store, "static")
        made.begin()
        with closing(store):
            filling = Filling(path, corpus, made)
            for size in options.sizes:
                say(f"vectors: filling up to {size:,}, {load()}")
                filling.to(size)
                rows += measure(store, corpus, filling, options.calls)
    print(f"{machine()}. {options.calls} calls each; {before} at the start, {load()} at the end.")
    print(f"{len(corpus.texts):,} sentences. Without numpy, weights and vectors this process held {bare:.0f} MB.\n")
    heads = ["vectors: first 20, ms", "p50", "p95", f"of the true {FIRST}", "loaded in", "memory"]
    print(table(heads, rows))


if __name__ == "__main__":
    main()
