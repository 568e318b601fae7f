"""Requests of an agent in its sandbox, carried out by the host: real store, real transcripts, real files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import until
from house import House

from backstory.groups import ipc, mcp_server, snapshots
from backstory.groups.ipc_files import IpcFiles
from backstory.groups.snapshots import CurrentTask
from backstory.store.migrate import migrate
from backstory.store.sqlite import SqliteStore


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    store = SqliteStore(tmp_path / "backstory.db")
    migrate(store)
    yield House(tmp_path, store)
    store.close()


def test_clear_archives_answers_and_ends_the_run(house: House) -> None:
    """The list is current at once, and the answer is there before the run ends."""

    async def story() -> None:
        paths = house.group("alpha")
        first = await house.talk(paths, "a trip to Japan")
        answer = await house.ask(paths, {"type": "clear_session", "name": "  Travel\nplanning "})
        assert answer == {"text": 'Archived as number 1, "Travel planning". The next message starts a new session.'}
        assert await house.state("alpha") == (None, {1: first})
        assert (paths.input / "_close").exists()
        (archived,) = paths.conversations.glob("*-travel-planning.md")
        assert "**User**: a trip to Japan\n" in archived.read_text()
        listed = json.loads((paths.ipc / "session_history.json").read_text())
        assert [(entry["id"], entry["name"], entry["session_id"]) for entry in listed] == [
            (1, "Travel planning", first)
        ]
        for odd, name in (("\ud800Sky\x00", "Sky"), ("\ud800", "Conversation")):  # what a database rejects
            await house.talk(paths, "the sky")
            await house.ask(paths, {"type": "clear_session", "name": odd})
            assert (await house.pointers.history("alpha"))[0].name == name
        assert "text" in await house.ask(paths, {"type": "search_sessions", "query": "\ud800Sky\x00"})
        (paths.input / "_close").unlink()
        assert "no active session" in (await house.ask(paths, {"type": "clear_session"}))["error"]
        assert not (paths.input / "_close").exists()

    asyncio.run(story())


def test_resume_saves_what_is_current_first(house: House) -> None:
    async def story() -> None:
        paths = house.group("alpha")
        first = await house.talk(paths, "a trip to Japan")
        await house.ask(paths, {"type": "clear_session"})
        second = await house.talk(paths, "taxes")
        answer = await house.ask(paths, {"type": "resume_session", "session_id": 1, "save_current_as": "Taxes"})
        assert answer == {"text": "The next message continues the session that you chose."}
        assert await house.state("alpha") == (first, {2: second})
        assert (await house.search("alpha", "Taxes"))[0]["id"] == 2
        for number in (1, 99):
            answer = await house.ask(paths, {"type": "resume_session", "session_id": number})
            assert f"There is no session {number} in the history of alpha." in answer["error"]
        assert await house.state("alpha") == (first, {2: second})

    asyncio.run(story())


def test_search_returns_lines_of_json(house: House) -> None:
    async def story() -> None:
        paths = house.group("alpha")
        await house.talk(paths, "taxes")
        await house.ask(paths, {"type": "clear_session", "name": "Taxes"})
        (paths.input / "_close").unlink()
        assert await house.ask(paths, {"type": "search_sessions", "query": "Tax"}) == {
            "text": '{"id": 1, "name": "Taxes"}'
        }
        assert await house.ask(paths, {"type": "search_sessions", "query": "Japan"}) == {"text": "Nothing was found."}
        assert not (paths.input / "_close").exists()

    asyncio.run(story())


def test_the_main_group_lists_and_resumes_the_sessions_of_others(house: House) -> None:
    """Each becomes the active one of its own group, and the run of the main group goes on. Nobody else can."""

    async def story() -> None:
        main, alpha, beta = (house.group(name) for name in ("main", "alpha", "beta"))
        first = await house.talk(alpha, "a trip to Japan")
        await house.pointers.clear("alpha", "Travel")
        second = await house.talk(alpha, "taxes")
        own = await house.talk(main, "something of main")
        await house.pointers.clear("main", "Mine")
        active = await house.talk(main, "more of main")
        for paths, seen in ((main, ["Mine", "Travel"]), (beta, []), (alpha, ["Travel"])):
            listed = await house.pointers.resumable(paths.group)
            snapshots.write_history(IpcFiles(paths), listed)
            shown = mcp_server.METHODS["tools/call"]({"name": "list_sessions"}, paths.ipc)["content"][0]["text"]
            assert [json.loads(line)["name"] for line in shown.splitlines() if line.startswith("{")] == seen
        number = next(entry.id for entry in await house.pointers.history("alpha"))
        request = {"type": "resume_session", "session_id": number, "save_current_as": "Taxes"}
        refused = await house.ask(beta, request | {"group": "main", "is_main": True})
        assert "There is no session" in refused["error"]
        answer = await house.ask(main, request, (await house.pointers.get("main")).generation)
        assert answer == {"text": "The next message to the group alpha continues the session that you chose."}
        assert not (main.input / "_close").exists()
        assert (await house.pointers.get("alpha")).session_id == first
        assert [each.name for each in await house.pointers.history("alpha")] == ["Taxes"]
        names = [entry["name"] for entry in json.loads((main.ipc / "session_history.json").read_text())]
        assert names == ["Taxes", "Mine"]
        mine = next(entry.id for entry in await house.pointers.history("main"))
        await house.ask(main, {"type": "resume_session", "session_id": mine})
        assert (await house.pointers.get("main")).session_id == own
        assert (main.input / "_close").exists()
        assert {active, second} <= {entry.session_id for entry in await house.pointers.resumable("main")}

    asyncio.run(story())


def test_identity_is_the_directory_never_the_payload(house: House) -> None:
    """What a request claims changes nothing: not by a group, not by another one's number, not by a request id."""

    async def story() -> None:
        alpha, beta = house.group("alpha"), house.group("beta")
        theirs = await house.talk(beta, "SECRET of beta")
        await house.ask(beta, {"type": "clear_session", "name": "SECRET of beta"})
        current = await house.talk(beta, "more of beta")
        own = await house.talk(alpha, "something of alpha")
        (beta.input / "_close").unlink()
        before = await house.state("beta")
        assert before == (current, {1: theirs})
        claims = {"group": "beta", "group_folder": "beta", "groupFolder": "beta", "is_main": True, "isMain": True}
        claims |= {"requestId": "../../beta/responses/x", "request_id": "../../beta/responses/x"}
        for forged in (
            {"type": "resume_session", "session_id": 1},
            {"type": "resume_session", "session_id": 1, "save_current_as": "x"},
            {"type": "search_sessions", "query": "SECRET"},
            {"type": "clear_session"},
        ):
            answer = await house.ask(alpha, forged | claims)
            assert "SECRET" not in json.dumps(answer)
            assert await house.state("beta") == before
        assert await house.state("alpha") == (None, {2: own})  # the last one cleared its own
        assert list(beta.responses.iterdir()) != []  # of its own clear
        assert [file.name for file in beta.responses.iterdir() if file.name.startswith("x")] == []
        assert not (beta.input / "_close").exists()

    asyncio.run(story())


BAD = (
    "not json",
    "[]",
    '"clear_session"',
    "[" * 100_000,
    '{"type": "no_such"}',
    '{"type": ["clear_session"]}',
    '{"type": "clear_session", "name": 5}',
    json.dumps({"type": "clear_session", "name": "n" * 201}),
    '{"type": "resume_session"}',
    '{"type": "resume_session", "session_id": "1 OR 1=1"}',
    '{"type": "resume_session", "session_id": true}',
    '{"type": "resume_session", "session_id": 1.5}',
    '{"type": "resume_session", "session_id": 99999999999999999999999}',
    '{"type": "search_sessions", "query": ""}',
    json.dumps({"type": "search_sessions", "query": "q" * 1001}),
)


def test_a_bad_request_is_kept_aside_and_answered(house: House) -> None:
    """The next one is carried out all the same. A name that is no id is not answered."""

    async def story() -> None:
        paths = house.group("alpha")
        own = await house.talk(paths, "something")
        for bad in BAD:
            assert (await house.ask(paths, bad))["error"]
        (paths.tasks / "a b;.json").write_text('{"type": "clear_session"}')
        await house.requests(paths).carry_out()
        aside = [file.name for file in paths.errors.iterdir()]
        assert len(aside) == len(BAD) + 1
        assert all(name.startswith("alpha.") for name in aside)
        assert len(list(paths.responses.iterdir())) == len(BAD)
        assert await house.state("alpha") == (own, {})
        assert "text" in await house.ask(paths, {"type": "clear_session"})

    asyncio.run(story())


def test_an_agent_whose_session_was_cleared_clears_no_other(house: House) -> None:
    """The agent was started for a generation. Somebody cleared its session, and the next one is not its own."""

    async def story() -> None:
        paths = house.group("alpha")
        await house.talk(paths, "the first")
        seen = (await house.pointers.get("alpha")).generation
        await house.pointers.clear("alpha")
        second = await house.talk(paths, "the second")
        for late in ({"type": "clear_session"}, {"type": "resume_session", "session_id": 1}):
            assert "moved on" in (await house.ask(paths, late, seen))["error"]
        assert (await house.state("alpha"))[0] == second
        assert not (paths.input / "_close").exists()

    asyncio.run(story())


def test_requests_are_carried_out_while_an_agent_runs(house: House) -> None:
    """Through the server of the sandbox. A request that is left when the agent ends is carried out, too."""

    async def story() -> None:
        paths = house.group("alpha")
        own = await house.talk(paths, "something")
        files = IpcFiles(paths)
        async with ipc.serving(files, house.pointers, house.search):
            said = await asyncio.to_thread(mcp_server.ask, paths.ipc, {"type": "search_sessions", "query": "x"})
            assert said == "Nothing was found."
            with pytest.raises(mcp_server.Failed, match="There is no session 7"):
                await asyncio.to_thread(mcp_server.ask, paths.ipc, {"type": "resume_session", "session_id": 7})
            # The directory is taken away and comes back: the host goes on.
            paths.tasks.rmdir()
            await asyncio.to_thread(until, paths.tasks.exists, "the folder to be made anew")
            await asyncio.to_thread(mcp_server.ask, paths.ipc, {"type": "search_sessions", "query": "x"})
            assert not list(paths.responses.iterdir())
            (paths.tasks / "left.json").write_text('{"type": "clear_session"}')
        assert await house.state("alpha") == (None, {1: own})
        assert json.loads((paths.responses / "left.json").read_text())["text"]

    asyncio.run(story())


def test_snapshots_show_a_group_its_own_and_main_everything(house: House) -> None:
    async def story() -> None:
        tasks = [CurrentTask("alpha", "2026-11-16T10:00:00Z", "s1"), CurrentTask("beta", "2026-11-16T11:00:00Z")]
        seen = {}
        for name in ("main", "alpha"):
            paths = house.group(name)
            await house.talk(paths, f"SECRET of {name}")
            await house.pointers.clear(name)
            (paths.ipc / "available_groups.json").symlink_to(house.data / "backstory.db")
            history = await house.pointers.history(name)
            snapshots.write(IpcFiles(paths), history, tasks, ["main", "alpha", "beta"])
            seen[name] = {file.stem: json.loads(file.read_text()) for file in paths.ipc.glob("*.json")}
        assert [task["group"] for task in seen["main"]["current_tasks"]] == ["alpha", "beta"]
        assert [task["group"] for task in seen["alpha"]["current_tasks"]] == ["alpha"]
        assert [group["name"] for group in seen["main"]["available_groups"]] == ["main", "alpha", "beta"]
        assert sorted(seen["alpha"]) == ["current_tasks", "session_history"]
        assert [entry["name"] for entry in seen["alpha"]["session_history"]] == ["SECRET of alpha"]
        assert [entry["transcript_available"] for entry in seen["main"]["session_history"]] == [True]

    asyncio.run(story())
