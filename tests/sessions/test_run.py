"""Runs of an agent with the real SDK and the real `claude` on a scripted endpoint: its session, from start to end."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest
from box import Box
from claude import binary
from claude_agent_sdk import ClaudeAgentOptions, ResultError
from desk import Desk, Finished, at
from endpoint import Reply, Request, Step, error, hang, text, tool_use

from backstory.errors import BackstoryError, ImpossibleMove, NotFound
from backstory.sessions import execute, history, restore

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")


@pytest.fixture
def desk(box: Box, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A machine whose worker runs."""
    box.start()
    machine = at(box, monkeypatch)
    yield machine
    machine.until_no_agent_runs()


def test_a_new_session_is_captured_and_kept(desk: Desk) -> None:
    """Its id is that of the transcript. session.json has every message, and the worker the same totals."""
    note = desk.box.project / "note.txt"
    note.write_text("The price is 12.")
    steps: list[Step] = [[text("I look."), tool_use("Read", {"file_path": str(note)})], "It is 12."]
    with desk.model(steps):
        done = desk.run("What is the price?")
    assert desk.transcript(done.id).stat().st_size > 0
    assert done.run.turns.current_turn == 2
    file = desk.box.data / "agent-sessions" / done.id / "session.json"
    content = json.loads(file.read_text())
    assert content["id"] == done.id
    told = [(message["role"], [block["type"] for block in message["content"]]) for message in content["messages"]]
    assert told == [
        ("user", ["text"]),
        ("assistant", ["text", "tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["text"]),
    ]
    assert all(message["timestamp"] for message in content["messages"])
    use = content["messages"][1]["content"][1]["tool_use"]
    result = content["messages"][2]["content"][0]["tool_result"]
    assert (use["name"], use["id"]) == ("Read", result["tool_use_id"])
    assert "The price is 12." in json.dumps(result["content"])
    about = desk.about(done.id)
    assert (about.status, about.last_stop_reason, about.message_count, about.turn_count) == (
        "completed",
        "end_turn",
        4,
        2,
    )
    assert about.cwd == str(desk.box.project)
    kept = desk.kept(done.id)
    assert {name: kept[name] for name in ("status", "message_count", "turn_count", "model", "cost_micros")} == {
        "status": "completed",
        "message_count": 4,
        "turn_count": 2,
        "model": about.model,
        "cost_micros": about.cost_micros,
    }
    assert about.model
    moves = desk.moves(done.id)
    assert [status for status, _ in moves] == ["created", "active", "completed"]
    assert (moves[0][1], moves[-1][1]) == ("start", "end_turn")


def test_a_session_goes_on(desk: Desk) -> None:
    """The model sees what was said before, under the same id. A completed session is opened again."""
    with desk.model(["Hello Ada.", "Ada."]) as endpoint:
        first = desk.run("I am Ada.")
        second = desk.run("Who am I?", first.id)
        seen = endpoint.of()[-1].texts()
    assert second.id == first.id
    assert not second.notices
    assert any("I am Ada." in words for words in seen)
    assert desk.texts(first.id) == ["I am Ada.", "Hello Ada.", "Who am I?", "Ada."]
    assert [status for status, _ in desk.moves(first.id)] == ["created", "active", "completed", "active", "completed"]
    assert desk.leaves(first.id) == 1


def test_a_session_goes_on_in_its_own_directory(desk: Desk) -> None:
    """Wherever its caller is by then."""
    with desk.model(["One.", tool_use("Bash", {"command": "pwd", "description": "Where"}), "Two."]):
        first = desk.run("Begin.")
        desk.patch.chdir(desk.box.home)
        desk.run("Where are you?", first.id, cwd=None)
    results = [block["tool_result"] for m in history(first.id) for block in m.content if block["type"] == "tool_result"]
    assert [result["content"] for result in results] == [str(desk.box.project)]


def test_without_a_history_a_session_is_a_new_one(desk: Desk) -> None:
    """The one that was named is its parent."""
    with desk.model(["Hello Ada.", "I do not know."]) as endpoint:
        first = desk.run("I am Ada.")
        second = desk.run("Who am I?", first.id, conversation_history=[])
        seen = endpoint.of()[-1].texts()
    assert second.id != first.id
    assert not any("I am Ada." in words for words in seen)
    assert desk.about(second.id).parent_id == first.id
    sql = "SELECT p.content_session_id AS parent FROM sdk_sessions s JOIN sdk_sessions p ON p.id = s.parent_id"
    assert desk.box.rows(f"{sql} WHERE s.content_session_id = ?", second.id) == [{"parent": first.id}]


NOTHING = {"command": "true", "description": "Do nothing"}


def test_a_session_pauses_expires_and_is_restored(desk: Desk) -> None:
    """The turn limit ends a run and leaves the session active. The clock is moved, not waited for."""
    with desk.model([tool_use("Bash", NOTHING), "One.", tool_use("Bash", NOTHING), "Two."]):
        with pytest.raises(ResultError):
            desk.run("Begin.", max_turns=1, max_continuations=0)
        (session_id,) = (path.name for path in (desk.box.data / "agent-sessions").iterdir())
        assert desk.about(session_id).status == "active"

        desk.sweep(6)
        assert desk.about(session_id).status == desk.kept(session_id)["status"] == "paused"
        assert desk.run("Go on.", session_id).id == session_id
        assert desk.about(session_id).status == "completed"

        with pytest.raises(ResultError):
            desk.run("Begin again.", session_id, max_turns=1, max_continuations=0)
        desk.sweep(31)
        assert desk.about(session_id).status == desk.kept(session_id)["status"] == "expired"
        with pytest.raises(ImpossibleMove, match="expired"):
            desk.run("Go on.", session_id)
        asyncio.run(restore(session_id))
        assert desk.about(session_id).status == desk.kept(session_id)["status"] == "active"
        assert desk.run("Go on.", session_id).id == session_id
    assert desk.texts(session_id) == ["Begin.", "Go on.", "One.", "Begin again.", "Go on.", "Two."]
    expected = ["created", "active", "paused", "active", "completed", "active", "paused", "expired", "active"]
    assert [status for status, _ in desk.moves(session_id)] == [*expected, "completed"]


def test_an_unknown_session_cannot_be_restored(desk: Desk) -> None:
    with pytest.raises(NotFound):
        asyncio.run(restore("unknown"))


def test_an_error_passes_through_and_the_next_prompt_tries_again(desk: Desk) -> None:
    """The session has failed until then."""

    def script(request: Request) -> Step:
        last = request.texts("user")[-1]
        return "Two." if "Try again." in last else error(400) if "Go on." in last else "One."

    with desk.model(script):
        first = desk.run("Begin.")
        with pytest.raises(ResultError) as caught:
            desk.run("Go on.", first.id)
        assert caught.value.terminal_reason == "api_error"
        assert desk.about(first.id).status == desk.kept(first.id)["status"] == "failed"
        assert desk.run("Try again.", first.id).id == first.id
    assert desk.about(first.id).status == "completed"
    assert desk.texts(first.id) == ["Begin.", "One.", "Go on.", "Try again.", "Two."]


def test_an_error_before_any_message_passes_through(desk: Desk) -> None:
    with pytest.raises(Exception, match="does not exist"):
        desk.run("Begin.", cwd=desk.box.root / "nowhere")
    assert not list((desk.box.data / "agent-runs").glob("line-*"))


def test_cost_is_the_total_of_the_sdk_and_tokens_are_the_sum_of_the_turns(desk: Desk) -> None:
    """After three resumes. The SDK's cost is cumulative, its tokens are not."""
    replies: list[Step] = [Reply([text(f"{n}.")], input_tokens=1000 + n, output_tokens=10 + n) for n in range(4)]
    with desk.model(replies):
        done: list[Finished] = []
        for number in range(4):
            done.append(desk.run(f"Say {number}.", done[0].id if done else None, model="claude-sonnet-4-5"))
    session_id = done[0].id
    about, last = desk.about(session_id), done[-1].result
    assert about.cost_micros == round(last.total_cost_usd * 1_000_000) > 0
    assert last.total_cost_usd > done[0].result.total_cost_usd > 0
    assert about.output_tokens == 10 + 11 + 12 + 13
    assert about.input_tokens == 1000 + 1001 + 1002 + 1003
    assert sum(one.result.usage["input_tokens"] for one in done) == about.input_tokens
    kept = desk.kept(session_id)
    assert (kept["cost_micros"], kept["input_tokens"]) == (about.cost_micros, about.input_tokens)
    assert (about.turn_count, about.message_count) == (4, 8)


def test_work_that_the_turn_limit_stops_goes_on_by_itself(desk: Desk) -> None:
    steps: list[Step] = [tool_use("Bash", NOTHING) for _ in range(4)]
    with desk.model([*steps, "Done."]):
        done = desk.run("Do it.", max_turns=2)
    assert [one.subtype for one in done.of("ResultMessage")] == ["error_max_turns", "error_max_turns", "success"]
    assert {one.session_id for one in done.of("ResultMessage")} == {done.id}
    assert (done.run.turns.continuations, done.run.turns.current_turn) == (2, 1)
    about = desk.about(done.id)
    assert (about.status, about.turn_count) == ("completed", 5)
    assert desk.texts(done.id) == ["Do it.", *["Go on from where you stopped."] * 2, "Done."]
    assert desk.leaves(done.id) == 1


def test_an_agent_that_loops_is_stopped_at_the_limit(desk: Desk) -> None:
    seen: list[Any] = []

    async def collect() -> None:
        run = execute(desk.options("Do it.", max_turns=2, max_continuations=2))
        async with aclosing(run):
            async for message in run:
                seen.append(message)

    def endless(request: Request) -> Step:
        return tool_use("Bash", NOTHING)

    with desk.model(endless), pytest.raises(ResultError) as caught:
        asyncio.run(collect())
    assert caught.value.subtype == "error_max_turns"
    results = [one for one in seen if type(one).__name__ == "ResultMessage"]
    assert [one.subtype for one in results] == ["error_max_turns"] * 3
    about = desk.about(results[0].session_id)
    assert (about.status, about.turn_count) == ("active", 6)


def test_an_agent_that_says_too_much_is_ended(desk: Desk) -> None:
    """What is too much is not kept. In a sandbox, any program can write to the agent's output."""
    steps: list[Step] = [[text("I look."), tool_use("Bash", {"command": "echo ok"})], "x" * 60_000, "Never said."]
    with desk.model(steps), pytest.raises(BackstoryError, match="more than is kept"):
        desk.run("Talk.", max_output=80_000)
    desk.until_no_agent_runs()
    (folder,) = (desk.box.data / "agent-sessions").iterdir()
    kept = (folder / "session.json").read_text()
    assert "I look." in kept
    assert "xxx" not in kept


def test_the_agent_inherits_only_what_is_allowed(desk: Desk) -> None:
    desk.patch.setenv("DATABASE_PASSWORD", "not-for-the-agent")
    with desk.model([tool_use("Bash", {"command": "env", "description": "Show"}), "Done."]):
        done = desk.run("Show it.", env={"GIVEN": "to-the-agent"})
    shown = json.dumps([block for message in history(done.id) for block in message.content])
    assert "GIVEN=to-the-agent" in shown
    assert "DATABASE_PASSWORD" not in shown
    assert "not-for-the-agent" not in shown
    assert "BACKSTORY_PIPE" not in shown


def test_a_tool_that_is_not_allowed_is_refused(desk: Desk) -> None:
    with desk.model([tool_use("Bash", {"command": "touch made", "description": "Make"}), "It was refused."]):
        done = desk.run("Make it.", allowed_tools=["Read"])
    assert not (desk.box.project / "made").exists()
    results = [block["tool_result"] for m in history(done.id) for block in m.content if block["type"] == "tool_result"]
    assert [result["is_error"] for result in results] == [True]


def test_a_caller_may_leave_with_the_result(desk: Desk) -> None:
    """The agent still writes its transcript: nothing is missing when the session goes on."""

    async def leave(prompt: str, session_id: str | None = None) -> str | None:
        async with execute(desk.options(prompt, session_id)) as run:
            async for message in run:
                if type(message).__name__ == "ResultMessage":
                    break
        return run.session_id

    with desk.model(["One.", "Two.", "Three."]):
        session_id = asyncio.run(leave("Begin."))
        for _ in range(2):
            assert asyncio.run(leave("Go on.", session_id)) == session_id
    assert session_id
    assert desk.texts(session_id) == ["Begin.", "One.", "Go on.", "Two.", "Go on.", "Three."]
    assert desk.leaves(session_id) == 1


def test_a_caller_that_leaves_early_takes_the_agent_along(desk: Desk) -> None:
    """The session can be taken at once, and the conversation goes on."""

    async def leave() -> str | None:
        run = execute(desk.options("Begin."))
        async for _ in run:
            break
        await run.aclose()
        return run.session_id

    def script(request: Request) -> Step:
        return "Two." if any("Go on." in words for words in request.texts("user")) else hang()

    with desk.model(script):
        session_id = asyncio.run(leave())
        desk.until_no_agent_runs()
        assert session_id
        done = desk.run("Go on.", session_id)
    assert desk.texts(done.id)[-1] == "Two."


def test_what_is_private_is_not_kept(desk: Desk) -> None:
    with desk.model(["Noted."]):
        done = desk.run("The code is <private>4711</private>, keep it.")
    content = (desk.box.data / "agent-sessions" / done.id / "session.json").read_text()
    assert "4711" not in content
    assert "keep it." in content


def stored(box: Box) -> dict[str, Any]:
    """What became memory of the only session."""
    box.settle()
    kinds = [row["kind"] for row in box.rows("SELECT kind FROM events WHERE status <> 'tombstone' ORDER BY id")]
    prompts = [row["prompt"] for row in box.rows("SELECT prompt FROM user_prompts ORDER BY id")]
    turns = [row["text"] for row in box.rows("SELECT text FROM turns ORDER BY number")]
    return {"prompts": prompts, "turns": turns, "tools": kinds.count("tool"), "stops": kinds.count("stop")}


@pytest.mark.parametrize("hooks", ["absent", "installed"])
def test_a_session_becomes_memory_once(desk: Desk, hooks: str) -> None:
    """Also where the user's own hooks are loaded and report the same."""
    if hooks == "installed":
        desk.box.cli("install", "--agent", "claude-code")
    note = desk.box.project / "note.txt"
    note.write_text("The price is 12.")
    with desk.model([tool_use("Read", {"file_path": str(note)}), "The price is 12."]):
        done = desk.run("What is the price?")
    told = stored(desk.box)
    assert told == {
        "prompts": ["What is the price?"],
        "turns": ["What is the price?", "The price is 12."],
        "tools": 1,
        "stops": 1,
    }
    (session,) = desk.box.rows("SELECT content_session_id, status FROM sdk_sessions")
    assert session == {"content_session_id": done.id, "status": "completed"}
    (summary,) = desk.box.rows("SELECT request FROM session_summaries")
    assert "price" in summary["request"]


def test_without_a_worker_the_session_goes_on(
    box: Box, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so once, and the worker learns everything with the next run."""
    desk = at(box, monkeypatch)
    box.data.mkdir(mode=0o700)
    config = box.data / "config.toml"
    config.write_text("this is not TOML")  # no worker starts with this
    with desk.model(["One.", "Two.", "Three."]), caplog.at_level(logging.WARNING, "backstory.sessions"):
        first = desk.run("Begin.")
        assert [record.name for record in caplog.records].count("backstory.sessions") == 1
        assert desk.run("Go on.", first.id).id == first.id
        assert desk.about(first.id).status == "completed"
        config.unlink()
        done = desk.run("Go on again.", first.id)
    about, kept = desk.about(done.id), desk.kept(done.id)
    assert (kept["turn_count"], kept["message_count"], kept["status"]) == (3, 6, "completed")
    assert kept["input_tokens"] == about.input_tokens
    assert stored(box)["prompts"] == ["Begin.", "Go on.", "Go on again."]
    assert not box.spooled()


def test_a_fork_is_a_session_of_its_own(desk: Desk) -> None:
    with desk.model(["Hello Ada.", "Ada, I think."]) as endpoint:
        first = desk.run("I am Ada.")
        fork = desk.run("Who am I?", first.id, sdk=ClaudeAgentOptions(fork_session=True))
        assert any("I am Ada." in words for words in endpoint.of()[-1].texts())
    assert fork.id != first.id
    assert desk.about(fork.id).parent_id == first.id
    assert desk.texts(fork.id) == ["I am Ada.", "Hello Ada.", "Who am I?", "Ada, I think."]
    assert desk.texts(first.id) == ["I am Ada.", "Hello Ada."]


def test_clear_begins_a_session_of_its_own(desk: Desk) -> None:
    """The one before it has ended. The new one has no history, so the next prompt begins another."""
    with desk.model(["Hello Ada.", "I do not know."]) as endpoint:
        first = desk.run("I am Ada.")
        cleared = desk.run("/clear", first.id)
        assert cleared.id != first.id
        assert (desk.texts(cleared.id), desk.texts(first.id)) == ([], ["I am Ada.", "Hello Ada."])
        assert [desk.about(one).status for one in (first.id, cleared.id)] == ["completed", "created"]
        assert desk.about(cleared.id).parent_id == first.id
        second = desk.run("Who am I?", cleared.id)
        assert not any("I am Ada." in words for words in endpoint.of()[-1].texts())
    assert desk.about(second.id).parent_id == cleared.id


def test_a_session_goes_on_after_a_compaction(desk: Desk) -> None:
    """Under the same id, and nothing counts as lost."""
    with desk.model(["Hello Ada.", "Ada."]):
        first = desk.run("I am Ada.")
        for prompt in ("/compact", "Who am I?"):
            done = desk.run(prompt, first.id)
            assert done.id == first.id
            assert not done.notices
            assert desk.about(first.id).status == "completed"


def test_tools_that_run_at_once_are_one_message(desk: Desk) -> None:
    calls = [tool_use("Bash", {"command": f"echo {number}", "description": "Say"}) for number in range(3)]
    with desk.model([[text("All of them."), *calls], "Done.", "More."]):
        first = desk.run("Begin.")
        second = desk.run("Go on.", first.id)
    assert not second.notices
    kinds = [[block["type"] for block in message.content] for message in history(first.id)]
    assert kinds[1] == ["text", "tool_use", "tool_use", "tool_use"]
    assert kinds[2:5] == [["tool_result"]] * 3
    assert desk.about(first.id).turn_count == 3


def test_a_changed_system_prompt_holds_when_a_session_goes_on(desk: Desk) -> None:
    with desk.model(["One.", "Two."]) as endpoint:
        first = desk.run("Begin.", system_prompt="You are terse.")
        desk.run("Go on.", first.id, system_prompt="You are verbose.")
        asked = [json.dumps(request.body["system"]) for request in endpoint.of()]
    assert ["You are terse." in asked[0], "You are verbose." in asked[1]] == [True, True]
