"""The feed, sources and merged observations, on both engines."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from backstory import ids, project
from backstory.errors import BadInput, NotFound
from backstory.model import ContentId, Event, Observation, Reply, Report, Round, Summary
from backstory.project import Project
from backstory.store import events, feed, hidden, merge, observations, prompts, queries, sessions, sources
from backstory.store.db import Row, Store, Tx
from backstory.store.feed import FeedFilter, Newest
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore

ALL = FeedFilter()
SHOP, API = Project("shop", "key/shop", "main"), Project("api", "key/api", "fix")


def work(tx: Tx, name: str, where: Project, at: str, agent: str = "claude-code", type: str = "decision") -> Row:
    """A session with a prompt, an observation and a summary, all of the same moment."""
    report = Report(agent, "prompt", ContentId(name), ids.new_event_id(), at, cwd="/nowhere")
    session = sessions.get_or_create(tx, report, where)
    number = sessions.add_prompt(tx, session, f"Ask {name}", at).number
    payload = {"tool_input": {"path": f"{name}.py"}, "tool_response": "x" * 50_000}
    tool = Report(agent, "tool", session.content_session_id, ids.new_event_id(), at, tool_name="Read", payload=payload)
    added = events.add(tx, sessions.get(tx, session.id), tool)
    event = Event(added.id, session.id, number, "tool", at, "Read", None, payload)
    whole = Round(session.id, session.content_session_id, None, agent, where.name, "", number, "", (event,))
    seen = Observation(
        type, f"Title {name}", narrative=f"Text {name}", facts=(f"Fact {name}",), files_modified=("cart.py",)
    )
    stored = observations.store(tx, whole, observations.Stored(Reply((seen,), Summary(f"Sum {name}")), "offline"))
    return {"session": session.id, "observation": stored.observation_ids[0], "summary": stored.summary_id}


def walk(store: Store, where: FeedFilter = ALL, limit: int = 2) -> list[Row]:
    """Every page of the feed, one after the other."""
    found: list[Row] = []
    cursor = ""
    while True:
        page = store.read(lambda tx, cursor=cursor: feed.listed(tx, where, feed.parse_place(cursor), limit))  # type: ignore[misc]
        if not page:
            return found
        found += page
        cursor = str(feed.FeedPlace(page[-1]["created_at"], page[-1]["kind"], page[-1]["id"]))


@pytest.fixture
def rows(store: Store) -> dict[str, Row]:
    def fill(tx: Tx) -> dict[str, Row]:
        return {
            "one": work(tx, "one", SHOP, "2026-01-01T10:00:00.000Z"),
            "two": work(tx, "two", SHOP, "2026-01-01T10:00:00.000Z", type="bugfix"),
            "three": work(tx, "three", API, "2026-01-03T10:00:00.000Z", agent="codex"),
            "four": work(tx, "four", project.of_group("family"), "2026-01-04T10:00:00.000Z"),
        }

    return store.write(fill)


def test_the_feed_has_every_entry_once_and_the_newest_first(store: Store, rows: dict[str, Row]) -> None:
    """Whatever the size of a page, also where many entries have the same time."""
    whole = walk(store, limit=50)
    assert len(whole) == 9
    assert len({(row["kind"], row["id"]) for row in whole}) == 9
    assert [row["created_at"] for row in whole] == sorted((row["created_at"] for row in whole), reverse=True)
    for limit in (1, 2, 3, 4):
        assert walk(store, limit=limit) == whole
    first = whole[0]
    assert (first["kind"], first["project"], first["branch"], first["agent"]) == ("summary", "api", "fix", "codex")
    observation = next(row for row in whole if row["id"] == rows["one"]["observation"] and row["kind"] == "observation")
    assert (observation["title"], observation["text"], observation["pinned"]) == ("Title one", "Text one", False)


def test_the_filters_of_the_feed_and_what_belongs_to_a_group(store: Store, rows: dict[str, Row]) -> None:
    def names(**about: str) -> set[str]:
        return {f"{row['kind'][0]}:{row['project']}" for row in walk(store, FeedFilter(**about), 3)}

    assert names(project="shop") == names(project="key/shop") == {"o:shop", "p:shop", "s:shop"}
    assert names(branch="fix") == names(agent="codex") == {"o:api", "p:api", "s:api"}
    assert names(kind="prompt") == {"p:shop", "p:api"}
    assert names(type="bugfix") == {"o:shop"}
    assert names(type="bugfix", kind="prompt") == set()
    assert names(since="2026-01-02") == {"o:api", "p:api", "s:api"}
    assert names(until="2026-01-02") == {"o:shop", "p:shop", "s:shop"}
    assert names(project="group:family") == {"o:group:family", "p:group:family", "s:group:family"}
    assert names(project="family") == names(project="nobody") == set()
    assert feed_branches(store, "") == ["fix", "main"] and feed_branches(store, "group:family") == []


def feed_branches(store: Store, project: str) -> list[str]:
    return store.read(lambda tx: feed.branches(tx, project, 9))


def test_what_is_hidden_private_or_forgotten_is_not_told(store: Store, rows: dict[str, Row]) -> None:
    def change(tx: Tx) -> None:
        list(hidden.hide_observation(tx, rows["one"]["observation"]))
        hidden.hide_session(tx, rows["three"]["session"])
        session = sessions.get(tx, rows["two"]["session"])
        sessions.add_prompt(tx, session, "", "2026-01-05T10:00:00.000Z")  # all of it was private

    store.write(change)
    shown = walk(store)
    assert {row["project"] for row in shown} == {"shop"}
    assert ("observation", rows["one"]["observation"]) not in {(row["kind"], row["id"]) for row in shown}
    assert (shown[0]["is_private"], shown[0]["text"]) == (True, "")
    told = store.read(lambda tx: feed.stored_since(tx, Newest(), 99))
    assert {row["project"] for row in told} == {"shop", "group:family"}
    private = next(row for row in told if row["is_private"])
    assert private["prompt"] is None
    assert store.read(lambda tx: prompts.shown(tx, private["id"]))["prompt"] is None  # type: ignore[index]


def test_rows_are_told_that_were_stored_after_some(store: Store, rows: dict[str, Row]) -> None:
    newest = store.read(feed.newest)
    assert newest == Newest(rows["four"]["observation"], rows["four"]["summary"], newest.prompt)
    assert store.read(lambda tx: feed.stored_since(tx, newest, 99)) == []
    before = replace(newest, observation=rows["two"]["observation"])
    told = store.read(lambda tx: feed.stored_since(tx, before, 99))
    assert [row["id"] for row in told] == [rows["three"]["observation"], rows["four"]["observation"]]
    assert {"kind", "text", "branch", "pinned", "facts", "content_session_id"} <= set(told[0])
    assert len(store.read(lambda tx: feed.stored_since(tx, Newest(), 5))) == 5


@pytest.mark.parametrize(
    "cursor", ["x", "1_2", "2026_observation_-1", "2026_turn_1", "_observation_1", "2026_prompt_" + "9" * 19, "9" * 99]
)
def test_a_cursor_of_somebody_else_is_refused(cursor: str) -> None:
    with pytest.raises(BadInput):
        feed.parse_place(cursor)


def test_an_observation_has_its_sources(store: Store, rows: dict[str, Row]) -> None:
    """Events with their input, cut if they are long; what was said; what it replaced and what replaced it."""
    one, two = rows["one"]["observation"], rows["two"]["observation"]
    store.write(lambda tx: observations.supersede(tx, one, two))
    found = store.read(lambda tx: sources.of_observation(tx, one))
    (event,) = found["events"]
    assert (event["tool_name"], event["tool_input"]) == ("Read", {"path": "one.py"})
    assert len(event["tool_response"]) <= sources.MAX_PAYLOAD + 100 and "characters cut" in event["tool_response"]
    assert found["prompt"]["prompt"] == "Ask one"
    assert found["turns"][0] | {"at": ""} == {"number": 0, "role": "user", "speaker": None, "text": "Ask one", "at": ""}
    assert found["replaced_by"]["id"] == two and found["replaces"] == []
    assert [row["id"] for row in store.read(lambda tx: sources.of_observation(tx, two))["replaces"]] == [one]
    with pytest.raises(NotFound):
        store.read(lambda tx: sources.of_observation(tx, 4711))


def test_merged_observations_are_one_with_the_facts_of_all(store: Store, rows: dict[str, Row]) -> None:
    """The first stands, the other points to it, and what is forgotten with it is forgotten whole."""
    one, two, three = (rows[name]["observation"] for name in ("one", "two", "three"))
    store.write(lambda tx: observations.pin(tx, two, True))
    assert store.write(lambda tx: merge.merge(tx, [one, two, two], "Both")) == one
    row = store.read(lambda tx: observations.decode(observations.get(tx, one)))
    assert (row["title"], row["facts"]) == ("Both", ["Title one", "Fact one", "Title two", "Fact two"])
    assert row["pinned_at"] and row["edited_at"]
    assert store.read(lambda tx: observations.get(tx, two))["superseded_by"] == one
    assert len(store.read(lambda tx: sources.of_observation(tx, one))["events"]) == 2
    for wrong in ([one], [one, one], [one, three], [two, one]):
        with pytest.raises(BadInput):
            store.write(lambda tx, wrong=wrong: merge.merge(tx, wrong))  # type: ignore[misc]
    with pytest.raises(NotFound):
        store.write(lambda tx: merge.merge(tx, [one, 4711]))
    assert store.read(lambda tx: observations.get(tx, three))["superseded_by"] is None


PLANS = {
    "feed_observations": "observations_by_moment",
    "feed_summaries": "session_summaries_by_moment",
    "feed_prompts": "user_prompts_by_time",
    "feed_observations_of_project": "observations_by_time",
    "feed_summaries_of_project": "session_summaries_by_time",
}


def test_a_page_of_the_feed_is_read_along_an_index(tmp_path: Path) -> None:
    """Without sorting, so that it is as quick in a large store as in a small one."""
    store = SqliteStore(tmp_path / "backstory.db")
    migrate(store)
    store.close()
    names = ("at", "before", "since", "type", "agent", "branch", "limit", "project_key")
    with sqlite3.connect(tmp_path / "backstory.db") as database:
        for name, index in PLANS.items():
            text = "EXPLAIN QUERY PLAN " + queries.load("sqlite")[name]
            plan = " ".join(row[3] for row in database.execute(text, dict.fromkeys(names, "")))
            assert index in plan and "TEMP B-TREE" not in plan, (name, plan)
    database.close()
