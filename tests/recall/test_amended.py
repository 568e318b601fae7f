"""Of two statements about one thing the newer one is found first, in code and in prose; of two things it is not."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from backstory.recall import embed, newest
from backstory.recall.fuse import Candidate, query_style
from backstory.recall.search import MemorySearch, Query
from backstory.recall.vectors import Vectors
from backstory.store import sessions
from backstory.store.db import Tx
from backstory.store.index import indexing
from backstory.store.index.hits import Filter, item_of
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore

PAIRS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent.parent.parent / "bench" / "amended.jsonl").read_text("utf-8").splitlines()
]
SESSION = """INSERT INTO sdk_sessions (id, content_session_id, agent, project, project_key, created_at, last_event_at)
VALUES ({id}, '{age}-{number}', 'claude-code', 'life', 'k/life', '{at}', '{at}');
"""
TURN = """INSERT INTO turns (id, session_id, number, role, text, at)
VALUES ({id}, {session}, {turn}, '{role}', '{text}', '{at}');
"""
OBSERVATION = """INSERT INTO observations (id, session_id, prompt_number, memory_session_id, project, project_key, type,
  title, narrative, observed_json, provider, created_at)
VALUES ({id}, {id}, 1, 'm', 'life', 'k/life', 'discovery', '{text}', '', '{{}}', 'test', '{at}');
"""


def fill(tx: Tx) -> None:
    """Two talks for each pair, half a year apart, and an observation of what each states."""
    for number, pair in enumerate(PAIRS):
        for age, month in (("old", 1), ("new", 7)):
            id = 1 + 2 * number + (age == "new")
            at = f"2026-{month + number % 3:02}-{1 + number % 28:02}T10:00:0{{turn}}.000Z"
            tx.script(SESSION.format(id=id, age=age, number=number, at=at.format(turn=0)))
            session = sessions.get(tx, id)
            for turn, text in enumerate(pair[age]):
                role, quoted, moment = ("user", "assistant")[turn], text.replace("'", "''"), at.format(turn=turn)
                place = {"session": id, "turn": turn, "role": role, "text": quoted, "at": moment}
                tx.script(TURN.format(id=10 * id + turn, **place))
                indexing.put_words(tx, item_of("turn", 10 * id + turn, session, moment), "", text)
            stated = pair[age][pair["stated"]]
            tx.script(OBSERVATION.format(id=id, text=stated.replace("'", "''"), at=at.format(turn=1)))
            indexing.put_words(tx, item_of("observation", id, session, at.format(turn=1)), stated, "")


def test_the_amended_statement_comes_before_the_superseded_one(tmp_path: Path) -> None:
    """In nine of ten pairs, whatever is searched. The older one follows; where it is asked for, it stays first."""
    store = SqliteStore(tmp_path / "backstory.db")
    migrate(store)
    store.write(fill)
    vectors = Vectors(store, embed.name_of("static"))
    vectors.begin()
    while vectors.make_some() or vectors.settle():
        pass
    finder = MemorySearch(store, vectors)
    for kind in ("session", "turn", "observation"):
        right: Counter[str] = Counter()
        for number, pair in enumerate(PAIRS):
            rows = finder.find(Query(pair["query"], kind, Filter(project="life"), 50))
            rows = [row for row in rows if kind != "turn" or row["turn"] == pair["stated"]]
            own = [row["session"] for row in rows if row["session"].partition("-")[2] == str(number)]
            right[pair["kind"]] += own[:1] == [f"{'old' if pair['kind'] == 'apart' else 'new'}-{number}"]
        pairs = Counter(pair["kind"] for pair in PAIRS)
        assert right["code"] + right["prose"] >= 0.9 * (pairs["code"] + pairs["prose"]), (kind, right)
        assert right["apart"] >= 0.9 * pairs["apart"], (kind, right)
    store.close()


def found(id: int, score: float, day: int, session: int = 0) -> Candidate:
    return Candidate("turn", id, session or id, f"2026-01-{day:02}", {"words": score})


def order(best: list[Candidate], texts: dict[int, str], query: str) -> list[int]:
    tokens = {("turn", number): text.split() for number, text in texts.items()}
    weights = dict.fromkeys(query.split(), 1.0)
    return [item.id for item in newest.newest_first(best, tokens, weights)]


def test_newest_first_is_a_tie_break() -> None:
    """A newer result passes an older one if it says as much about the query and is nearly as good, and only then."""
    texts = {1: "retry limit is 3", 2: "retry limit is 5", 3: "limit of disk is 9"}
    assert order([found(1, 1.0, 1), found(2, 0.9, 2)], texts, "retry limit") == [2, 1]
    assert order([found(2, 1.0, 2), found(1, 0.9, 1)], texts, "retry limit") == [2, 1], "the older one stays behind"
    assert order([found(1, 1.0, 1), found(2, 0.5, 2)], texts, "retry limit") == [1, 2], "it is much worse"
    assert order([found(1, 1.0, 1), found(3, 0.9, 2)], texts, "retry limit") == [1, 3], "it is about something else"
    assert order([found(1, 1.0, 1), found(2, 0.9, 2, 1)], texts, "retry limit") == [1, 2], "one session, in its order"
    changed = texts | {2: "retry limit is now 5"}
    assert order([found(1, 1.0, 1), found(2, 0.7, 2)], changed, "retry limit") == [2, 1], "it says that it changed"


def test_who_asks_for_how_it_was_gets_the_older() -> None:
    for query in ("which broker did we use before?", "What was my rent originally"):
        assert query_style(query).is_former and not query_style(query).recency
    assert not query_style("which broker do we use").is_former
    assert not query_style("Where does my former colleague work now?").is_former


def test_only_a_question_for_a_state_has_a_newest_answer() -> None:
    for query in ("What is the retry limit?", "How long have I had my cat?", "Did we finish the migration?"):
        assert newest.asks_for_state(query), query
    for query in ("What did Ana say about retries?", "Who was on call?", "Why had the job failed?", "retry limit"):
        assert not newest.asks_for_state(query), query
