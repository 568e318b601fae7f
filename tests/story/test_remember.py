"""What people add by hand, what lay around it, and how much there is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import shared_box
import test_spine
from box import Box
from test_private import assert_nowhere

from backstory.text import tokens

shared, replayed = shared_box.shared, test_spine.replayed


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
    assert [(s["content_session_id"], s["status"]) for s in session] == [("manual:shop", "completed")]
    assert "active" not in running.cli("sessions").stdout
    assert session[0]["memory_session_id"] == row["memory_session_id"]
    source = running.rows("SELECT event_id, kind, status, payload FROM events WHERE kind = 'memory'")
    assert [(s["event_id"], s["status"]) for s in source] == [(row["event_ids"][0], "done")]
    assert json.loads(source[0]["payload"])["text"] == "Prices are kept in cents; never floats."
    assert "#" in running.cli("show", str(row["id"])).stdout


def test_what_is_remembered_is_stripped(shared: Box) -> None:
    """Private parts and secrets are gone before anything is written; what is wholly private is refused."""
    token, before = "ghp_" + "a1B2" * 9, len(shared.rows("SELECT 1 FROM observations"))
    shown = shared.cli("remember", f"Use <private>canary77</private> the token {token} here").stdout
    assert "canary77" not in shown
    refused = shared.cli("remember", "<private>canary77</private>", check=False)
    assert refused.returncode == 1
    assert "Nothing is left" in refused.stderr
    assert_nowhere(shared, "canary77", token)
    assert len(shared.rows("SELECT 1 FROM observations")) == before + 1


def test_a_memory_goes_where_it_is_meant(shared: Box) -> None:
    """To the directory's project, a named one, or a new one; two projects of a name stay apart."""
    for folder in ("one/api", "two/api"):
        (shared.root / folder).mkdir(parents=True)
        shared.cli("remember", f"Made in {folder}", cwd=shared.root / folder)
    shared.cli("remember", "Named by hand", "--project", "elsewhere")
    rows = shared.rows(
        "SELECT o.project_key, s.content_session_id AS name FROM observations o "
        "JOIN sdk_sessions s ON s.id = o.session_id WHERE o.project IN ('api', 'elsewhere') ORDER BY o.id"
    )
    keys = [str(shared.root / "one/api"), str(shared.root / "two/api"), "elsewhere"]
    assert [r["project_key"] for r in rows] == keys
    assert [r["name"] for r in rows] == ["manual:api", f"manual:{keys[1]}", "manual:elsewhere"]
    told = shared.client.get("/api/context/inject", project=keys[0])
    assert "one/api" in told and "two/api" not in told


def test_a_memory_sent_twice_is_one(shared: Box) -> None:
    """The same event id changes nothing and answers with the same row."""
    body = {"text": "once", "project": "twice", "event_id": "mine"}
    rows = "SELECT 1 FROM observations WHERE project = 'twice'"
    first = shared.client.post("/api/memories", body)
    assert shared.client.post("/api/memories", body) == first
    assert len(shared.rows(rows)) == 1
    shared.cli("forget", str(first["id"]), "--yes")
    assert shared.http("POST", "/api/memories", body).status == 400
    assert shared.rows(rows) == []


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


def test_a_timeline_shows_what_lay_around(replayed: Box) -> None:
    """Prompts, observations and summaries in the order of time, as many as asked for, the anchor marked."""
    found = replayed.client.get("/api/timeline", anchor=3)
    items = found["items"]
    assert [i["created_at"] for i in items] == sorted(i["created_at"] for i in items)
    assert {i["kind"] for i in items} == {"prompt", "observation", "summary"}
    assert [i["id"] for i in items if i["is_anchor"]] == [3]
    assert items[0]["kind"] == "prompt"
    at = next(n for n, i in enumerate(items) if i["is_anchor"])
    near = replayed.client.get("/api/timeline", anchor="#3", before=1, after=2)["items"]
    assert [(i["kind"], i["id"]) for i in near] == [(i["kind"], i["id"]) for i in items[at - 1 : at + 3]]
    assert [line[0] for line in timeline(replayed, "3", "--before", "1", "--after", "0")] == [" ", ">"]
    assert "JPY" in "\n".join(timeline(replayed, "--query", "JPY", "--before", "0", "--after", "0"))


def test_a_timeline_stays_in_its_project_and_refuses_clearly(replayed: Box) -> None:
    """No neighbour of another project; an unknown id is 404, no match an empty list."""
    replayed.cli("remember", "zebra", "--project", "other")
    alone = replayed.client.get("/api/timeline", query="zebra")["items"]
    assert [i["title"] for i in alone] == ["zebra"]
    assert "zebra" in "\n".join(timeline(replayed, "--query", "zebra", "--all-projects"))
    assert "Nothing was found" in timeline(replayed, "--query", "zebra")[0], "words are looked for in this project"
    assert replayed.client.get("/api/timeline", query="nosuchword") == {"anchor": None, "items": [], "next": None}
    assert replayed.http("GET", "/api/timeline?anchor=4711").status == 404
    assert replayed.http("GET", "/api/timeline?anchor=x").status == 400
    assert replayed.http("GET", "/api/timeline").status == 400
    assert replayed.http("GET", "/api/timeline?anchor=1&before=100000").status == 400
    assert replayed.cli("timeline", "1", "--query", "zebra", check=False).returncode == 1


def test_without_an_anchor_a_timeline_shows_the_newest_of_its_project(replayed: Box) -> None:
    """As many as asked for, the last one at the end."""
    replayed.cli("remember", "okapi", "--project", "other")
    for number in range(25):
        replayed.cli("remember", f"The shelf has {number} boards.")
    assert replayed.cli("timeline", "--project", "other").stdout.count("okapi") == 1
    assert "okapi" in "\n".join(timeline(replayed, "--all-projects", "--before", "100"))
    assert "okapi" not in "\n".join(timeline(replayed, "--before", "100"))
    assert len(timeline(replayed)) == 20 and "24 boards" in timeline(replayed)[-1]
    assert len(timeline(replayed, "--before", "10")) == 10


def test_stored_text_can_not_drive_the_terminal(shared: Box) -> None:
    """Control characters of what is shown are escaped."""
    row = shared.client.post("/api/memories", {"text": "esc \x1b[31mred\x07", "project": "p\x1b[2J"})
    for command in (["timeline", str(row["id"])], ["stats"], ["forget", "--matching", "esc"]):
        out: subprocess.CompletedProcess[str] = shared.cli(*command)
        assert "\x1b" not in out.stdout and "\x07" not in out.stdout, command
        assert "p\\x1b" in out.stdout or "esc" in out.stdout, command


def test_stats_count_what_is_there(replayed: Box) -> None:
    """Counts equal the rows, sizes the files, and the estimates say that they are estimates."""
    replayed.cli("remember", "More", "--project", "other")
    found = json.loads(replayed.cli("stats", "--json").stdout)
    counts = found["counts"]
    one = {
        name: replayed.rows(f"SELECT COUNT(*) AS n FROM {table}")[0]["n"]  # noqa: S608 - our own tables
        for name, table in (
            ("sessions", "sdk_sessions"),
            ("prompts", "user_prompts"),
            ("summaries", "session_summaries"),
        )
    }
    assert {name: counts[name] for name in one} == one
    assert sum(counts["events"].values()) == replayed.rows("SELECT COUNT(*) AS n FROM events")[0]["n"]
    types = replayed.rows("SELECT type, COUNT(*) AS n FROM observations GROUP BY type")
    assert counts["observations"] == {row["type"]: row["n"] for row in types}
    assert found["sizes"]["database"] >= (replayed.data / "backstory.db").stat().st_size
    assert found["tables"].get("events", 1) > 0
    shop, other = sorted(found["projects"], key=lambda p: -p["observations"])
    assert (shop["name"], other["name"]) == ("shop", "other")
    told = replayed.client.get("/api/context/inject", project="shop").replace("~/.backstory/bin/", "")
    assert shop["context_tokens_estimate"] == tokens(told)
    raw = "".join(r["payload"] for r in replayed.rows("SELECT payload FROM events WHERE kind <> 'memory'"))
    assert 0.8 < shop["events_tokens_estimate"] / tokens(raw) < 1.2
    only = replayed.client.get("/api/stats", project="other")
    assert only["counts"]["sessions"] == 1
    assert [p["name"] for p in only["projects"]] == ["other"]
    assert "about" in replayed.cli("stats").stdout
    namesake = replayed.root / "elsewhere" / "shop"
    namesake.mkdir(parents=True)
    replayed.cli("remember", "Twice", cwd=namesake)
    shown = " ".join(replayed.cli("stats").stdout.split())
    assert f"shop ({namesake}): 1 session" in shown, "a name that two projects have is not enough"
    assert "other: 1 session" in shown


def test_answers_over_tcp_are_not_held_back(shared: Box) -> None:
    """A small answer is sent at once: without TCP_NODELAY each would wait 40 ms for its own acknowledgement."""
    import http.client
    import time

    connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=120)
    headers = {"Authorization": f"Bearer {shared.token}"}
    times = []
    for _ in range(20):
        began = time.perf_counter()
        connection.request("GET", "/api/context/inject?project=shop", headers=headers)
        connection.getresponse().read()
        times.append(time.perf_counter() - began)
    connection.close()
    assert min(times[1:]) < 0.035


def test_words_of_a_summary_that_was_replaced_are_gone(shared: Box, tmp_path: Path) -> None:
    """A later summary of a round takes the place of the earlier one in the index, too."""
    for words in ("zebra", "giraffe"):
        shared.client.post(
            "/api/sessions/observations",
            {
                "sessionId": "x",
                "tool_name": "Bash",
                "project": "p",
                "tool_input": {"command": "make"},
                "tool_response": "ok",
            },
        )
        shared.client.post(
            "/api/sessions/summarize", {"sessionId": "x", "last_assistant_message": f"The {words} is done."}
        )
        shared.settle()
    assert len(shared.rows("SELECT 1 FROM session_summaries")) == 1
    found = shared.client.get("/api/search", query="giraffe", kind="summaries")["items"]
    assert len(found) == 1
    held = "SELECT (SELECT COUNT(*) FROM words) AS words, (SELECT COUNT(*) FROM word_rows) AS items"
    assert [row["words"] - row["items"] for row in shared.rows(held)] == [0]


def test_an_observation_can_be_made_to_say_something_else(shared: Box) -> None:
    """Only what is named changes, the words follow, and an older export does not bring the old one back beside it."""
    row = shared.client.post("/api/memories", {"text": "zebra stripes", "title": "Zebra", "project": "edits"})
    kept = shared.root / "kept.jsonl"
    shared.cli("export", "--output", str(kept))
    path = f"/api/observations/{row['id']}"
    edited = shared.http("PATCH", path, {"title": "Giraffe", "narrative": "long <private>canary3</private> necks"}).json
    assert edited["title"] == "Giraffe"
    assert edited["type"] == row["type"]
    assert "canary3" not in edited["narrative"]
    assert not shared.client.get("/api/search", query="zebra", kind="observations")["items"]
    assert shared.client.get("/api/search", query="necks")["items"]
    shared.cli("import", "backstory", str(kept))
    titles = shared.rows("SELECT title FROM observations WHERE project = 'edits'")
    assert [r["title"] for r in titles] == ["Giraffe"]
    assert shared.http("PATCH", "/api/observations/4711", {"title": "x"}).status == 404
    assert shared.http("PATCH", path, {"title": ""}).status == 400
