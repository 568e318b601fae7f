"""Search from outside, on both engines: filters, any query at all, and an index that can be made anew."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import psycopg
import pytest
from box import Box, until

WEIRD = (
    *("", " ", '"', '""', 'a "b', "AND OR NOT", "a* ^b", "NEAR(x, y)", '%_*"', "foo::bar->baz", "-", "+zebra", "((("),
    *("{title} : x", "a:*b & !c | <->", "'; DROP TABLE words; --", "\\", "p=1", "%(x)s", "the of and", "zebra*", "'s"),
    *(
        "🎉",
        "日本語",
        "検索エンジン",
        "中",
        "اللغة العربية",
        "𝕫𝕖𝕓𝕣𝕒",
        "\u0301" * 99,
        "\x00",
        "a\x00\x1b[31m\x7f",
        "\u202e",
    ),
    *("x" * 10_000, "検索" * 5000, "word " * 2000, "a/" * 3000, "aB" * 3000, '("' * 3000, "z" * 1_000_000),
)
HEAD = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
KINDS = ("", "observations", "summaries", "prompts", "turns", "sessions", "all")
#: What is refused, with a sentence.
REFUSED = (
    *("limit=-1", "limit=0", "limit=201", "limit=1.5", "limit=NaN", "limit=1e999", "limit=many", "limit=" + "9" * 30),
    *("kind=animals", "kind=s", "kind=%00", "since=someday", "since=2026-02-30", "since=2026-13"),
    *(
        "until=2026-02-21T25",
        "until=%00",
        "since=%D9%A2%D9%A0%D9%A2%D9%A6",
        "since=" + "2" * 50,
        "cursor=-1",
        "cursor=x",
        "explain=perhaps",
    ),
)


@pytest.fixture
def box(box: Box, engine: str, request: pytest.FixtureRequest) -> Box:
    """A machine with its memory in the one engine or the other."""
    if engine == "postgres":
        box.settings["BACKSTORY_DATABASE_URL"] = request.getfixturevalue("database_url")
    return box


def remember(box: Box, text: str, **more: object) -> int:
    return int(box.client.post("/api/memories", {"text": text, "project": "shop", **more})["id"])


def empty_index(box: Box) -> None:
    """Delete all words, but not what says where they are."""
    if "BACKSTORY_DATABASE_URL" in box.settings:
        change(box, "DELETE FROM words")
        return
    change(box, "INSERT INTO words (words) VALUES ('delete-all')")
    change(box, "DELETE FROM word_texts")


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


def test_search_takes_filters(running: Box) -> None:
    """Each filter holds, alone and with others."""
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
    told = running.cli("search", "zebra", "--type", "bugfix", "--since", "2026-01", "--json").stdout
    assert [item["id"] for item in json.loads(told)["items"]] == [other]


def test_any_query_is_safe(running: Box, engine: str) -> None:
    """Of every kind, whatever is asked: results or none, never an error; what can't be meant is refused in a sentence,
    and a filter that is odd finds nothing. The tools the same."""
    remember(running, "zebra crossing by foo::bar->baz, 日本語の検索エンジン")
    running.client.post("/api/sessions/init", {"sessionId": "x", "project": "shop", "userPrompt": "Mend the zebra"})
    running.client.post("/api/sessions/summarize", {"sessionId": "x", "last_assistant_message": "The zebra is mended."})
    running.settle()
    for number, kind in enumerate(KINDS):
        assert found(running, "zebra", kind=kind), kind
        # Kinds but for sessions are asked for in one way, so each has its share.
        for query in WEIRD if kind in ("all", "sessions") else WEIRD[number::5]:
            asked = {"query": query, "kind": kind}
            get, post = running.client.get, running.client.post
            page = get("/api/search", **asked) if len(query) < 9999 else post("/api/search", asked)
            assert isinstance(page["items"], list)
        half = running.http("GET", f"/api/search?query=zebra%ED%A0%80%FF&kind={kind}&explain=true")  # half an emoji
        assert half.status == 200 and half.json["items"], half
    for kind in ("all", "sessions"):
        assert found(running, "foo::bar->baz", kind=kind) and found(running, "検索エンジン", kind=kind)
        for wrong in (f"kind={kind}&{each}" if "kind" not in each else each for each in REFUSED):
            refused = running.http("GET", f"/api/search?query=zebra&{wrong}")
            assert refused.status == 400 and refused.json["error"] and refused.json["hint"], (wrong, refused)
        for odd in ("project=%00", "session=%00", "session=%25", "agent=%F0%9F%8E%89", "session=" + "9" * 30):
            assert running.http("GET", f"/api/search?query=zebra&kind={kind}&{odd}").json["items"] == [], odd
    long = running.http("GET", "/api/search?query=" + "z" * 1_000_000)
    assert long.status == 400 and "longer" in long.json["error"]
    for query in WEIRD:  # every engine has had them, so the tools are about their own way in
        for tool in ("search", "find_sessions") if engine == "sqlite" else ():
            params = {"name": tool, "arguments": {"query": query}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            answer = running.http("POST", "/mcp", body, HEAD)
            text = answer.json["result"]["content"][0]["text"]
            assert not answer.json["result"]["isError"] or "of length" in text, (query[:20], text)
    assert "ERROR" not in (running.data / "worker.log").read_text()


def test_the_index_is_made_anew(running: Box) -> None:
    """By the command, and by a worker that starts where one before it was broken off. What has no row goes."""
    # In quotes: by its letters only, not by what it means.
    numbers = {remember(running, f"zebra {number}") for number in range(30)}
    running.client.post("/api/reindex", {})
    assert len(found(running, '"zebra"', limit=100)) == 30  # meanwhile
    until(lambda: not running.client.get("/api/reindex")["left"], "the index")
    worker = running.processes[-1]
    running.stop(worker)
    empty_index(running)
    change(running, "UPDATE word_rows SET item_id = -1 WHERE item_id = (SELECT MAX(item_id) FROM word_rows)")
    running.start()
    assert found(running, '"zebra"') == []
    assert "was rebuilt" in running.cli("reindex").stdout
    assert set(found(running, '"zebra"', limit=100)) == numbers
    assert running.rows("SELECT COUNT(*) AS n FROM word_rows") == running.rows("SELECT COUNT(*) AS n FROM words")
    running.stop(running.processes[-1])
    empty_index(running)
    change(running, f"INSERT INTO rebuilds (step, before_id) VALUES ('observations', {max(numbers)})")  # noqa: S608
    running.start()
    until(lambda: len(found(running, '"zebra"', limit=100)) == 29, "all but the newest, from where it was broken off")
