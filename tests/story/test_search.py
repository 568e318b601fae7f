"""Search from outside, on both engines: filters, any query at all, and an index that can be made anew."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import psycopg
import pytest
from box import Box, until

WEIRD = [
    *(
        '"',
        '""',
        "AND OR NOT",
        "a* ^b",
        "NEAR(x, y)",
        '%_*"',
        "foo::bar->baz",
        "🎉",
        "日本語",
        "検索エンジン",
        "x" * 10_000,
    ),
    *(
        "word " * 2000,
        "-",
        "{title} : x",
        "(((",
        "'; DROP TABLE words; --",
        "a:*b & !c | <->",
        "\\",
        "\x00",
        "p=1",
        "%(x)s",
    ),
]


@pytest.fixture
def box(box: Box, engine: str, request: pytest.FixtureRequest) -> Box:
    """A machine with its memory in the one engine or the other."""
    if engine == "postgres":
        box.settings["BACKSTORY_DATABASE_URL"] = request.getfixturevalue("database_url")
    return box


def remember(box: Box, text: str, **more: object) -> int:
    return int(box.client.post("/api/memories", {"text": text, "project": "shop", **more})["id"])


def change(box: Box, sql: str) -> None:
    if url := box.settings.get("BACKSTORY_DATABASE_URL"):
        with psycopg.connect(url) as server:
            server.execute(sql)
    else:
        with contextlib.closing(sqlite3.connect(box.data / "backstory.db")) as file:
            file.execute(sql)
            file.commit()


def found(box: Box, query: str, **filters: object) -> list[int]:
    return [item["id"] for item in box.client.get("/api/search", query=query, **filters)["items"]]


def test_search_takes_filters_and_any_query(running: Box) -> None:
    """Each filter holds; a kind or a time that is none is refused in a sentence; no query is ever an error."""
    first = remember(running, "zebra crossing", type="decision", concepts=["gotcha"])
    other = remember(running, "zebra stripes", type="bugfix", project="till")
    assert set(found(running, "zebra")) == {first, other}
    assert found(running, "zebra", project="shop") == found(running, "zebra", type="decision") == [first]
    assert found(running, "zebra", concept="gotcha") == [first]
    edit = {"tool_name": "Edit", "tool_input": {"file_path": "/x/src/cart.py", "old_string": "a", "new_string": "b"}}
    running.client.post("/api/sessions/observations", {"sessionId": "x", "tool_response": "ok", **edit})
    running.client.post("/api/sessions/summarize", {"sessionId": "x", "last_assistant_message": "The cart is done."})
    running.settle()
    assert found(running, "cart", file="src/cart.py") == found(running, "cart", kind="observations") != []
    assert found(running, "cart", file="art.py") == found(running, "zebra", file="cart.py") == []
    session = running.client.get(f"/api/observations/{other}")
    for name in (session["session_id"], session["content_session_id"]):
        assert found(running, "zebra", session=name) == [other]
    assert found(running, "zebra", session="nobody's") == []
    assert set(found(running, "zebra", agent="backstory", since="2026")) == {first, other}
    assert found(running, "zebra", agent="codex") == found(running, "zebra", until="2020-01-01 10:00") == []
    assert found(running, "zebra", kind="prompts") == found(running, "zebra", kind="turn") == []
    assert set(found(running, "zebra", kind="observation")) == set(found(running, "zebra", kind="all"))
    for wrong in ({"kind": "animals"}, {"since": "yesterday"}):
        refused = running.http("GET", "/api/search?query=zebra&" + "&".join(f"{k}={v}" for k, v in wrong.items()))
        assert refused.status == 400 and refused.json["hint"]
    for query in WEIRD:
        assert isinstance(found(running, query), list)
    told = running.cli("search", "zebra", "--type", "bugfix", "--since", "2026-01", "--json").stdout
    assert [item["id"] for item in json.loads(told)["items"]] == [other]


def test_the_index_is_made_anew(running: Box) -> None:
    """By the command, and by a worker that starts where one before it was broken off. What has no row goes."""
    # In quotes: by its letters only, not by what it means.
    numbers = {remember(running, f"zebra {number}") for number in range(30)}
    running.client.post("/api/reindex", {})
    assert len(found(running, '"zebra"', limit=100)) == 30  # meanwhile
    until(lambda: not running.client.get("/api/reindex")["left"], "the index")
    worker = running.processes[-1]
    running.stop(worker)
    change(running, "DELETE FROM words")
    change(running, "UPDATE word_rows SET item_id = -1 WHERE item_id = (SELECT MAX(item_id) FROM word_rows)")
    running.start()
    assert found(running, '"zebra"') == []
    assert "made anew" in running.cli("reindex").stdout
    assert set(found(running, '"zebra"', limit=100)) == numbers
    assert running.rows("SELECT COUNT(*) AS n FROM word_rows") == running.rows("SELECT COUNT(*) AS n FROM words")
    running.stop(running.processes[-1])
    change(running, "DELETE FROM words")
    change(running, f"INSERT INTO rebuilds (step, before_id) VALUES ('observations', {max(numbers)})")  # noqa: S608
    running.start()
    until(lambda: len(found(running, '"zebra"', limit=100)) == 29, "all but the newest, from where it was broken off")
