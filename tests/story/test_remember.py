"""What people add by hand, what lay around it, and how much there is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from box import Box
from test_private import assert_nowhere
from test_spine import replay

from backstory.text import tokens


def test_what_is_remembered_is_told_and_found_at_once(running: Box) -> None:
    """It is an observation of the session `manual:{project}`, with an event as its source."""
    row = json.loads(
        running.cli(
            "remember", "Prices are kept in cents; never floats.", "--title", "Cents", "--concept", "gotcha", "--json"
        ).stdout
    )
    assert (row["type"], row["title"], row["project"], row["concepts"]) == ("decision", "Cents", "shop", ["gotcha"])
    assert "Cents" in running.told()
    found = running.client.get("/api/search", query="floats")["items"]
    assert [(hit["kind"], hit["id"]) for hit in found] == [("observation", row["id"])]
    session = running.rows("SELECT * FROM sdk_sessions WHERE agent = 'backstory'")
    assert [s["content_session_id"] for s in session] == ["manual:shop"]
    assert session[0]["memory_session_id"] == row["memory_session_id"]
    source = running.rows("SELECT event_id, kind, status, payload FROM events WHERE kind = 'memory'")
    assert [(s["event_id"], s["status"]) for s in source] == [(row["event_ids"][0], "done")]
    assert json.loads(source[0]["payload"])["text"] == "Prices are kept in cents; never floats."
    assert "#" in running.cli("show", str(row["id"])).stdout


def test_what_is_remembered_is_stripped(running: Box) -> None:
    """Private parts and secrets are gone before anything is written; what is wholly private is refused."""
    token = "ghp_" + "a1B2" * 9
    shown = running.cli("remember", f"Use <private>canary77</private> the token {token} here").stdout
    assert "canary77" not in shown
    refused = running.cli("remember", "<private>canary77</private>", check=False)
    assert refused.returncode == 1
    assert "Nothing is left" in refused.stderr
    assert_nowhere(running, "canary77", token)
    assert len(running.rows("SELECT 1 FROM observations")) == 1


def test_a_memory_goes_where_it_is_meant(running: Box) -> None:
    """To the directory's project, a named one, or a new one; two projects of a name stay apart."""
    for folder in ("one/api", "two/api"):
        (running.root / folder).mkdir(parents=True)
        running.cli("remember", f"Made in {folder}", cwd=running.root / folder)
    running.cli("remember", "Named by hand", "--project", "elsewhere")
    rows = running.rows(
        "SELECT o.project_key, s.content_session_id AS name FROM observations o "
        "JOIN sdk_sessions s ON s.id = o.session_id ORDER BY o.id"
    )
    keys = [str(running.root / "one/api"), str(running.root / "two/api"), "elsewhere"]
    assert [r["project_key"] for r in rows] == keys
    assert [r["name"] for r in rows] == ["manual:api", f"manual:{keys[1]}", "manual:elsewhere"]
    told = running.client.get("/api/context/inject", project=keys[0])
    assert "one/api" in told and "two/api" not in told


def test_a_memory_sent_twice_is_one(running: Box) -> None:
    """The same event id changes nothing and answers with the same row."""
    body = {"text": "once", "project": "p", "event_id": "mine"}
    first = running.client.post("/api/memories", body)
    assert running.client.post("/api/memories", body) == first
    assert len(running.rows("SELECT 1 FROM observations")) == 1
    running.cli("forget", str(first["id"]), "--yes")
    assert running.http("POST", "/api/memories", body).status == 400
    assert running.rows("SELECT 1 FROM observations") == []


def test_a_forgotten_project_takes_memories_again(running: Box) -> None:
    """What people add is no conversation that stays closed."""
    running.cli("remember", "before")
    running.cli("forget", "--project", "shop", "--yes")
    assert "none" in running.told()
    running.cli("remember", "afterwards")
    assert "afterwards" in running.told()


def test_an_excluded_project_is_not_remembered_by_hand_either(box: Box) -> None:
    """One clear sentence, and no row."""
    box.settings["BACKSTORY_EXCLUDE_PROJECTS"] = "shop"
    box.start()
    refused = box.cli("remember", "something", check=False)
    assert refused.returncode == 1
    assert "excluded" in refused.stderr
    assert box.rows("SELECT 1 FROM events") == []


def timeline(box: Box, *words: str) -> list[str]:
    return box.cli("timeline", *words).stdout.splitlines()


def test_a_timeline_shows_what_lay_around(running: Box) -> None:
    """Prompts, observations and summaries in the order of time, as many as asked for, the anchor marked."""
    replay(running)
    found = running.client.get("/api/timeline", anchor=3)
    items = found["items"]
    assert [i["created_at"] for i in items] == sorted(i["created_at"] for i in items)
    assert {i["kind"] for i in items} == {"prompt", "observation", "summary"}
    assert [i["id"] for i in items if i["is_anchor"]] == [3]
    assert items[0]["kind"] == "prompt"
    at = next(n for n, i in enumerate(items) if i["is_anchor"])
    near = running.client.get("/api/timeline", anchor="#3", before=1, after=2)["items"]
    assert [(i["kind"], i["id"]) for i in near] == [(i["kind"], i["id"]) for i in items[at - 1 : at + 3]]
    assert [line[0] for line in timeline(running, "3", "--before", "1", "--after", "0")] == [" ", ">"]
    assert "JPY" in "\n".join(timeline(running, "--query", "JPY", "--before", "0", "--after", "0"))


def test_a_timeline_stays_in_its_project_and_refuses_clearly(running: Box) -> None:
    """No neighbour of another project; an unknown id is 404, no match an empty list."""
    replay(running)
    running.cli("remember", "zebra", "--project", "other")
    alone = running.client.get("/api/timeline", query="zebra")["items"]
    assert [i["title"] for i in alone] == ["zebra"]
    assert running.client.get("/api/timeline", query="nosuchword") == {"anchor": None, "items": [], "next": None}
    assert running.http("GET", "/api/timeline?anchor=4711").status == 404
    assert running.http("GET", "/api/timeline?anchor=x").status == 400
    assert running.http("GET", "/api/timeline").status == 400
    assert running.http("GET", "/api/timeline?anchor=1&before=100000").status == 400
    assert running.cli("timeline", check=False).returncode == 1


@pytest.mark.parametrize("command", [["timeline", "1"], ["stats"], ["forget", "--matching", "esc"]])
def test_stored_text_can_not_drive_the_terminal(running: Box, command: list[str]) -> None:
    """Control characters of what is shown are escaped."""
    running.client.post("/api/memories", {"text": "esc \x1b[31mred\x07", "project": "p\x1b[2J"})
    out: subprocess.CompletedProcess[str] = running.cli(*command)
    assert "\x1b" not in out.stdout and "\x07" not in out.stdout
    assert "p\\x1b" in out.stdout or "esc" in out.stdout


def test_stats_count_what_is_there(running: Box) -> None:
    """Counts equal the rows, sizes the files, and the estimates say that they are estimates."""
    replay(running)
    running.cli("remember", "More", "--project", "other")
    found = json.loads(running.cli("stats", "--json").stdout)
    counts = found["counts"]
    one = {
        name: running.rows(f"SELECT COUNT(*) AS n FROM {table}")[0]["n"]  # noqa: S608 - our own tables
        for name, table in (
            ("sessions", "sdk_sessions"),
            ("prompts", "user_prompts"),
            ("summaries", "session_summaries"),
        )
    }
    assert {name: counts[name] for name in one} == one
    assert sum(counts["events"].values()) == running.rows("SELECT COUNT(*) AS n FROM events")[0]["n"]
    types = running.rows("SELECT type, COUNT(*) AS n FROM observations GROUP BY type")
    assert counts["observations"] == {row["type"]: row["n"] for row in types}
    assert found["sizes"]["database"] >= (running.data / "backstory.db").stat().st_size
    assert found["tables"].get("events", 1) > 0
    shop, other = sorted(found["projects"], key=lambda p: -p["observations"])
    assert (shop["name"], other["name"]) == ("shop", "other")
    told = running.client.get("/api/context/inject", project="shop").replace("~/.backstory/bin/", "")
    assert shop["context_tokens_estimate"] == tokens(told)
    raw = "".join(r["payload"] for r in running.rows("SELECT payload FROM events WHERE kind <> 'memory'"))
    assert 0.8 < shop["events_tokens_estimate"] / tokens(raw) < 1.2
    only = running.client.get("/api/stats", project="other")
    assert only["counts"]["sessions"] == 1
    assert [p["name"] for p in only["projects"]] == ["other"]
    assert "about" in running.cli("stats").stdout


def test_answers_over_tcp_are_not_held_back(running: Box) -> None:
    """A small answer is sent at once: without TCP_NODELAY each would wait 40 ms for its own acknowledgement."""
    import http.client
    import time

    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=120)
    headers = {"Authorization": f"Bearer {running.token}"}
    times = []
    for _ in range(20):
        began = time.perf_counter()
        connection.request("GET", "/api/context/inject?project=shop", headers=headers)
        connection.getresponse().read()
        times.append(time.perf_counter() - began)
    connection.close()
    assert min(times[1:]) < 0.035


def test_words_of_a_summary_that_was_replaced_are_gone(running: Box, tmp_path: Path) -> None:
    """A later summary of a round takes the place of the earlier one in the index, too."""
    for words in ("zebra", "giraffe"):
        running.client.post(
            "/api/sessions/observations",
            {
                "sessionId": "x",
                "tool_name": "Bash",
                "project": "p",
                "tool_input": {"command": "make"},
                "tool_response": "ok",
            },
        )
        running.client.post(
            "/api/sessions/summarize", {"sessionId": "x", "last_assistant_message": f"The {words} is done."}
        )
        running.settle()
    assert len(running.rows("SELECT 1 FROM session_summaries")) == 1
    found = running.client.get("/api/search", query="giraffe", kind="summaries")["items"]
    assert len(found) == 1
    held = "SELECT (SELECT COUNT(*) FROM words) AS words, (SELECT COUNT(*) FROM word_rows) AS items"
    assert [row["words"] - row["items"] for row in running.rows(held)] == [0]


def test_an_observation_can_be_made_to_say_something_else(running: Box) -> None:
    """Only what is named changes, the words follow, and an older export does not bring the old one back beside it."""
    row = running.client.post("/api/memories", {"text": "zebra stripes", "title": "Zebra", "project": "p"})
    kept = running.root / "kept.jsonl"
    running.cli("export", "--output", str(kept))
    path = f"/api/observations/{row['id']}"
    edited = running.http(
        "PATCH", path, {"title": "Giraffe", "narrative": "long <private>canary3</private> necks"}
    ).json
    assert edited["title"] == "Giraffe"
    assert edited["type"] == row["type"]
    assert "canary3" not in edited["narrative"]
    assert not running.client.get("/api/search", query="zebra", kind="observations")["items"]
    assert running.client.get("/api/search", query="necks")["items"]
    running.cli("import", "backstory", str(kept))
    assert [r["title"] for r in running.rows("SELECT title FROM observations")] == ["Giraffe"]
    assert running.http("PATCH", "/api/observations/4711", {"title": "x"}).status == 404
    assert running.http("PATCH", path, {"title": ""}).status == 400
