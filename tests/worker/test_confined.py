"""A caller that is confined to a group sees what is the group's, and nothing of another's: on every route."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import httpx2
import pytest
from test_principal import allowed, client, every_route

from backstory import ids, project
from backstory.errors import Forbidden
from backstory.model import ContentId, Event, Observation, Reply, Report, Round, Summary
from backstory.project import Project
from backstory.settings import Settings
from backstory.store import events, groups, observations, sessions, titles
from backstory.store.confined import ConfinedStore, confined_to
from backstory.store.db import Store, Tx
from backstory.store.index import chunks
from backstory.worker.app import App
from backstory.worker.principal import OWNER, Scope

#: Who -> a word that only it says.
WORDS = {"family": "zebra", "work": "walrus", "": "pangolin"}


def remember(tx: Tx, word: str, where: Project) -> dict[str, int]:
    """A session with a prompt, an observation, a summary and turns. Each says the word."""
    at = ids.now()
    report = Report("claude-code", "prompt", ContentId(f"id-of-{where.name}"), ids.new_event_id(), at, cwd="/nowhere")
    session = sessions.get_or_create(tx, report, where)
    sessions.add_prompt(tx, session, f"Tell me about the {word}", at)
    session = sessions.get(tx, session.id)
    tool = Report("claude-code", "tool", session.content_session_id, ids.new_event_id(), at, tool_name="Read")
    added = events.add(tx, session, tool)
    event = Event(added.id, session.id, 1, "tool", at, "Read", None, {})
    whole = Round(session.id, session.content_session_id, None, "claude-code", where.name, "", 1, "", (event,))
    seen = Observation(
        "decision", f"The {word} eats grass", narrative=f"A {word} was seen.", files_read=(f"{word}.md",)
    )
    reply = Reply((seen,), Summary(f"About the {word}", completed=f"The {word} is known"))
    stored = observations.store(tx, whole, observations.Stored(reply, "offline"))
    titles.rename(tx, session.id, f"Title of {word}")
    titles.tag(tx, session.id, [f"tag-{word}"], [])
    observations.pin(tx, stored.observation_ids[0], True)
    chunks.extend(tx, session)
    return {"session": session.id, "observation": stored.observation_ids[0]}


@pytest.fixture
def app(store: Store, tmp_path: Path) -> Iterator[App]:
    """A worker on either engine, which remembers something of each."""
    with (
        mock.patch.object(Path, "home", return_value=tmp_path),
        mock.patch("backstory.worker.app.open_store", return_value=store),
    ):
        yield App(Settings(data_dir=tmp_path / ".backstory", embedder="off"))


@pytest.fixture
def rows(app: App) -> dict[str, dict[str, int]]:
    def work(tx: Tx) -> dict[str, dict[str, int]]:
        places = {name: project.of_group(name) if name else Project("shop", "/shop") for name in WORDS}
        return {name: remember(tx, WORDS[name], where) for name, where in places.items()}

    return app.store.write(work)


async def ask(http: httpx2.AsyncClient, method: str, path: str, **values: Any) -> str:
    if method == "GET":
        answer = await http.get(path, params={name: str(value) for name, value in values.items()})
    else:
        answer = await http.request(method, path, content=json.dumps(values))
    assert answer.status_code != 500, (method, path, answer.text)
    return answer.text


def test_no_route_shows_a_caller_what_is_another_groups(app: App, rows: dict[str, dict[str, int]]) -> None:
    """Whatever it names: by number, by id, by project, by words."""

    async def test() -> None:
        for method, path, needs in await every_route(app):
            if needs is Scope.PUBLIC or path.endswith("/stream"):
                continue
            for name, word in WORDS.items():
                if name == "family":
                    continue
                own = rows[name]
                about: dict[str, Any] = {
                    "project": f"group:{name}",
                    "query": word,
                    "words": word,
                    "anchor": own["observation"],
                }
                about |= {"ids": list(range(1, 10)), "session": own["session"], "limit": 50, "kind": "all", "text": "x"}
                async with client(app, allowed(*Scope, group="family")) as http:
                    named = {"query": f"What did I tell you about the {word}?", "words": f"Title of {word}"}
                    for given in (about, named | {"kind": "sessions"}, {}):
                        for place in {
                            path,
                            path.replace("/1", f"/{own['session']}"),
                            path.replace("/1", f"/id-of-group:{name}"),
                        }:
                            assert word not in await ask(http, method, place, **given), (method, place)

    asyncio.run(test())
    # Nor was anything of theirs changed.
    for name, numbers in rows.items():
        kept = app.store.read(lambda tx, number=numbers["observation"]: observations.by_id(tx, number))  # type: ignore[misc]
        assert kept, name


def test_a_group_finds_its_own(app: App, rows: dict[str, dict[str, int]]) -> None:
    """Without naming itself; the main group and the owner find all by naming it."""

    async def test() -> None:
        own = rows["family"]
        async with client(app, allowed(Scope.READ, group="family")) as http:
            for path in ("/api/observations", "/api/summaries", "/api/prompts", "/api/sessions"):
                assert "zebra" in await ask(http, "GET", path), path
            for kind in ("", "all", "turns", "sessions", "observations"):
                asked = "What did I tell you about the zebra?"
                assert "zebra" in await ask(http, "GET", "/api/search", query=asked, kind=kind), kind
            for words in ("zebra", "Title of zebra", f"S{own['session']}"):
                assert "zebra" in await ask(http, "GET", "/api/sessions/search", words=words), words
            assert "zebra" in await ask(http, "GET", "/api/timeline", anchor=own["observation"])
            assert "zebra" in await ask(http, "GET", f"/api/sessions/{own['session']}")
            assert "zebra" in await ask(http, "GET", f"/api/sessions/{own['session']}/turns/text")
            assert "zebra" in await ask(http, "POST", "/api/observations/batch", ids=[own["observation"]])
            assert "zebra" in await ask(http, "GET", "/api/context/inject")
        # The tool of its agent finds no more, whatever it names.
        app.store.write(lambda tx: groups.create(tx, "family", "family"))
        assert [row["title"] for row in await app.group_memory.search("family", "zebra")] == ["Title of zebra"]
        for words in ("walrus", "Title of walrus", str(rows["work"]["session"]), "id-of-group:work", "grass"):
            found = await app.group_memory.search("family", words)
            assert "walrus" not in str(found) and "pangolin" not in str(found), words
        # That of the main group finds those of all groups, and nothing outside.
        for word, owner in (("zebra", "family"), ("walrus", "work")):
            row, *_ = await app.group_memory.search("main", f"Title of {word}")
            assert (row["title"], row["group"], row["id"]) == (f"Title of {word}", owner, None)
        assert "pangolin" not in str(await app.group_memory.search("main", "pangolin grass"))
        assert "zebra" in await app.group_memory.context("family")
        assert "walrus" not in await app.group_memory.context("family")
        for who in (OWNER, allowed(Scope.READ, group="main")):
            async with client(app, who) as http:
                assert "zebra" in await ask(http, "GET", "/api/search", query="zebra", project="group:family")
                assert "zebra" in await ask(http, "GET", f"/api/sessions/{own['session']}")

    asyncio.run(test())


def test_a_caller_uses_the_routes_of_its_own_group(app: App) -> None:
    """It neither lists nor names another; the main group and the owner may use all."""

    async def test() -> None:
        async with client(app, OWNER) as http:
            for name in ("family", "work"):
                assert (await http.post("/api/groups", json={"name": name})).status_code == 201
        async with client(app, allowed(*Scope, group="family")) as http:
            assert [row["name"] for row in (await http.get("/api/groups")).json()["items"]] == ["family"]
            assert (await http.get("/api/groups/family")).json()["session_id"] is None
            assert (await http.post("/api/groups/family/clear", json={})).status_code == 404
            for method, path in (
                *(("GET", each) for each in ("", "/history", "/search?query=x")),
                *(("POST", each) for each in ("/clear", "/resume", "/archive", "/run", "/messages", "/close")),
                ("DELETE", ""),
            ):
                for name in ("work", "WORK", "main", "../work", "nobody"):
                    answer = await http.request(method, f"/api/groups/{name}{path}", content=b'{"id": 1}')
                    assert answer.status_code in (403, 404), (method, name, path)
            assert (await http.post("/api/groups", json={"name": "more"})).status_code == 403
            assert (await http.delete("/api/groups/family")).status_code == 403
        async with client(app, allowed(Scope.READ, group="main")) as http:
            assert len((await http.get("/api/groups")).json()["items"]) == 3
            assert (await http.get("/api/groups/work")).status_code == 200

    asyncio.run(test())


def test_what_belongs_to_a_group_is_found_only_by_who_names_it(app: App, rows: dict[str, dict[str, int]]) -> None:
    """An agent outside of groups has the owner's rights, and searches everything."""

    async def test() -> None:
        async with client(app, OWNER) as http:
            for path in ("/api/observations", "/api/summaries", "/api/prompts", "/api/sessions", "/api/projects"):
                shown = await ask(http, "GET", path)
                assert ("pangolin" in shown or "shop" in shown) and "zebra" not in shown and "family" not in shown, path
            for words in (
                "zebra",
                "zebra pangolin",
                "tell about grass",
                f"S{rows['family']['session']}",
                "id-of-group:family",
            ):
                assert "zebra" not in json.dumps(
                    (await http.get("/api/search", params={"query": words})).json()["items"]
                )
                found = (await http.get("/api/sessions/search", params={"words": words})).json()["items"]
                assert "zebra" not in json.dumps(found), words
            assert "pangolin" in await ask(http, "GET", "/api/search", query="tell about grass")

    asyncio.run(test())


def test_a_confined_transaction_refuses_what_it_cannot_tell(store: Store) -> None:
    """Rows that do not say whose they are, and changes: a new query cannot be forgotten."""
    confined = ConfinedStore(store)
    with confined_to("family"):
        for work in (
            lambda tx: tx.one("count_sdk_sessions"),
            lambda tx: tx.run("sessions_force_init"),
            lambda tx: tx.script("SELECT 1"),
        ):
            with pytest.raises(Forbidden):
                confined.read(work)
    assert confined.read(lambda tx: tx.one("count_sdk_sessions")) is not None


def test_a_session_has_one_group(store: Store) -> None:
    """A report that names the session of another group is refused, from a group or from outside."""

    def report(tx: Tx, where: Project) -> int:
        made = Report("claude-code", "prompt", ContentId("same"), ids.new_event_id(), ids.now())
        return sessions.get_or_create(tx, made, where).id

    number = store.write(lambda tx: report(tx, project.of_group("family")))
    assert store.write(lambda tx: report(tx, project.of_group("family"))) == number
    assert store.write(lambda tx: report(tx, Project("", ""))) == number  # its project is not known
    for where in (project.of_group("work"), Project("shop", "/shop")):
        with pytest.raises(Forbidden):
            store.write(lambda tx, where=where: report(tx, where))  # type: ignore[misc]


def test_no_directory_passes_for_a_group(tmp_path: Path) -> None:
    (tmp_path / "group:family").mkdir()
    found = project.find(str(tmp_path / "group:family"))
    assert not found.name.startswith("group:")
    assert project.group_of(found.key) is None
