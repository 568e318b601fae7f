"""The agent of a group, in its sandbox, as the worker runs it."""

from __future__ import annotations

import json
import re
import shutil
import threading

import pytest
from box import until
from endpoint import Held, Request, Step, hang, tool_use
from office import Office, Ran, needs_sandbox, office_fixture, take

pytestmark = needs_sandbox
office = office_fixture


def test_the_four_lifecycles_of_a_session(office: Office) -> None:
    """New, active, clear and resume, with the real agent in bubblewrap. The requests are those of its tools."""
    let_go = threading.Event()
    said: list[Step] = ["It is blue.", "Still blue.", Held(let_go, "Cleared."), "Me.", "Going back.", "Blue, I said."]
    with office.model(said) as endpoint:
        office.box.start()
        office.create("dev-team")
        paths = office.paths("dev-team")
        # New: no session id goes in, and the one that comes out is the active one.
        new = office.run("dev-team", "What colour is the sky?")
        assert new.texts == ["It is blue."]
        assert new.of("started") == [{"session_id": new.session_id, "resumed": False}]
        assert new.ended == "done"
        assert office.active("dev-team") == new.session_id
        assert paths.transcript(new.session_id).exists()
        # Active: the same session, with all that was said.
        active = office.run("dev-team", "And now?")
        assert active.of("started") == [{"session_id": new.session_id, "resumed": True}]
        assert "What colour is the sky?" in endpoint.of()[-1].texts("user")
        # Clear: archived, out of the way, and the late answer does not bring it back.
        events = office.start("dev-team", "Clear this.")
        take(events, "started")
        office.ask("dev-team", "r1", type="clear_session", name="Sky")
        until(lambda: office.active("dev-team") is None, "the session to be cleared")
        let_go.set()
        assert Ran(list(events)).ended == "closed"
        assert office.active("dev-team") is None
        ((number, session_id, name),) = office.history("dev-team")
        assert (session_id, name) == (new.session_id, "Sky")
        (archive,) = paths.conversations.glob("*.md")
        assert "What colour is the sky?" in archive.read_text()
        fresh = office.run("dev-team", "Who are you?")
        assert fresh.session_id != new.session_id
        assert "What colour is the sky?" not in endpoint.of()[-1].texts("user")
        # Resume: the old session is active again, and the other one is in the history.
        events = office.start("dev-team", "Go back to the sky.")
        take(events, "started")
        office.ask("dev-team", "r2", type="resume_session", session_id=number, save_current_as="Who")
        assert Ran(list(events)).ended in ("closed", "done")
        assert office.active("dev-team") == new.session_id
        assert [(each, name) for _, each, name in office.history("dev-team")] == [(fresh.session_id, "Who")]
        resumed = office.run("dev-team", "Which colour was it?")
        assert resumed.of("started") == [{"session_id": new.session_id, "resumed": True}]
        assert "What colour is the sky?" in endpoint.of()[-1].texts("user")


def waiting_for(file: str, note: str) -> str:
    """A command that notes that it runs, and waits for a file."""
    return f"touch {note}; while [ ! -e {file} ]; do sleep 0.05; done"


def test_follow_ups_reach_the_agent_while_it_works(office: Office) -> None:
    """Those before it in its first prompt, those during it after the tool that it uses, what comes while it answers
    after that, and what comes while it ends in a query that goes on where it was. The archive has all of it."""
    let_go = threading.Event()
    ours, messages = office.paths("main").folder, office.paths("main").input
    bash = tool_use("Bash", {"command": waiting_for("go", "started"), "description": "Wait"})
    with office.model([bash, Held(let_go, "First."), "Second.", "Third."]) as endpoint:
        office.box.start()
        assert office.post("main", "messages", message="Left before.") == {"is_running": False}
        ending = {"type": "command", "command": waiting_for("gone", "ending"), "timeout": 60}
        office.paths("main").state.mkdir(parents=True)
        (office.paths("main").state / "settings.json").write_text(
            json.dumps({"hooks": {"SessionEnd": [{"hooks": [ending]}]}})
        )
        events = office.start("main", "Begin. <private>4711</private>")
        take(events, "tool")
        until((ours / "started").exists, "the tool to run")
        assert office.post("main", "messages", message="Use the other one.") == {"is_running": True}
        until(lambda: not list(messages.glob("*.json")), "the message to be sent")
        (ours / "go").touch()
        until(lambda: len(endpoint.of()) == 2, "the agent to answer")
        joined: list[Ran] = []
        other = threading.Thread(target=lambda: joined.append(office.run("main", "And another.")))
        other.start()
        until(lambda: "And another." in office.transcripts("main"), "the message to be sent")
        let_go.set()
        until((ours / "ending").exists, "the agent to end")
        assert office.post("main", "messages", message="Late.") == {"is_running": True}
        (ours / "gone").touch()
        ran = Ran(list(events))
        other.join()
        assert ran.texts == ["First.", "Second.", "Third."]
        assert ran.ended == "done"
        assert joined[0].texts[-2:] == ["Second.", "Third."]
        first, second, third, last = endpoint.of()
        assert first.texts("user")[-1] == "Left before.\nBegin. <private>4711</private>"
        assert "Use the other one." in json.dumps(second.body["messages"])
        assert third.texts("user")[-1] == "And another."
        assert last.texts("user")[-1] == "Late."
        assert goes_on_after(office, "Late.", "Second.")
        office.box.cli("groups", "clear", "main", "--name", "Talk")
        (archive,) = office.paths("main").conversations.glob("*.md")
        said = (
            "**User**: Left before.\nBegin.\n\n**User**: Use the other one.\n\n**Claude**: First.\n\n"
            "**User**: And another.\n\n**Claude**: Second.\n\n**User**: Late.\n\n**Claude**: Third.\n"
        )
        title = r"# Talk\n\nArchived: [A-Z][a-z]{2} \d{1,2}, \d{1,2}:\d\d [AP]M\n\n---\n\n"
        assert re.fullmatch(title + re.escape(said), archive.read_text())
        office.box.settle()
        prompts = [row["prompt"] for row in office.box.rows("SELECT prompt FROM user_prompts ORDER BY id")]
        assert prompts == ["Left before.\nBegin. ", "Use the other one.", "And another.", "Late."]


def goes_on_after(office: Office, prompt: str, reply: str) -> bool:
    """Whether a prompt has a reply above it, in the transcript of the active session."""
    lines = [json.loads(line) for line in office.transcripts("main").splitlines()]
    by_id = {line["uuid"]: line for line in lines if line.get("uuid")}
    above = next(line for line in lines if line.get("type") == "user" and line["message"]["content"] == prompt)
    while above and reply not in str(above.get("message")):
        above = by_id.get(above.get("parentUuid"), {})
    return bool(above)


def test_a_deleted_transcript_is_told_again(office: Office) -> None:
    """The group goes on in a new session that knows what was said, and says so. The lost one is in the history."""
    with office.model(["Noted.", "You are Ada.", "Still Ada."]) as endpoint:
        office.box.start()
        first = office.run("main", "I am Ada.").session_id
        place = office.paths("main").transcript(first)
        secret = office.box.root / "other.jsonl"
        secret.write_text(place.read_text().replace("I am Ada.", "I am Eve."))
        place.unlink()
        place.symlink_to(secret)  # as an agent could have placed it: it is as good as deleted
        ran = office.run("main", "Who am I?")
        (notice,) = ran.of("recovered")
        assert notice["reason"] == "deleted"
        assert "new session, which was told 2 messages" in notice["text"]
        assert ran.session_id != first
        assert office.active("main") == ran.session_id
        assert "I am Ada." in endpoint.of()[-1].texts("user")[-1]
        assert "I am Eve." not in json.dumps(endpoint.of()[-1].body)
        assert [(each, name) for _, each, name in office.history("main")] == [(first, "I am Ada.")]
        (archived,) = office.paths("main").conversations.glob("*-i-am-ada.md")
        assert archived.read_text().partition("---\n\n")[2] == "**User**: I am Ada.\n\n**Claude**: Noted.\n"
        # Without its own record either, it is told what is stored.
        office.box.settle()
        office.paths("main").transcript(ran.session_id).unlink()
        shutil.rmtree(office.box.data / "agent-sessions" / ran.session_id)
        again = office.run("main", "And now?")
        assert [notice["reason"] for notice in again.of("recovered")] == ["deleted"]
        assert "You are Ada." in endpoint.of()[-1].texts("user")[-1]
        office.box.cli("groups", "clear", "main")
        past = office.box.rows("SELECT name, created_at FROM session_history ORDER BY id")
        assert [row["name"] for row in past] == ["I am Ada."] * 3
        assert {row["created_at"][:19] for row in past} == {past[0]["created_at"][:19]}
        assert len(list(office.paths("main").conversations.glob("*-i-am-ada*.md"))) == 3


def test_a_compaction_is_archived_before(office: Office) -> None:
    """In the first archive stands what was said before it, in the next one what was said since."""
    with office.model(["Hello to you.", "I am still here."]):
        office.box.start()
        session_id = office.run("main", "Hello there.").session_id
        office.run("main", "/compact")
        (first,) = office.paths("main").conversations.glob("*.md")
        assert "**User**: Hello there.\n\n**Claude**: Hello to you.\n" in first.read_text()
        assert office.run("main", "And now?").session_id == session_id
        office.box.cli("groups", "clear", "main", "--name", "After")
        (second,) = [file for file in office.paths("main").conversations.glob("*.md") if file != first]
        assert "And now?" in second.read_text()
        assert "Hello" not in second.read_text()


def test_what_the_agent_is_told_and_what_its_commands_see(office: Office) -> None:
    """The shared memory as it is now, except in the main group; instructions of the group; no credentials."""

    def script(request: Request) -> Step:
        last = request.body["messages"][-1]
        if "Look." in json.dumps(last) and "tool_result" not in json.dumps(last):
            return tool_use("Bash", {"command": "env; echo >> /workspace/global/x", "description": "Look"})
        return "Done."

    with office.model(script) as endpoint:
        office.box.start()
        office.create("ours")
        for words in ("Be brief.", "Be kind."):
            shared = office.paths("ours").shared / "CLAUDE.md"
            shared.parent.mkdir(parents=True, exist_ok=True)
            shared.write_text(words)
            office.run("ours", "Hello.")
            assert words in json.dumps(endpoint.of()[-1].body["system"])
        (office.paths("ours").folder / "CLAUDE.md").write_text("We sell tea.")
        ran = office.run("ours", "Look.")
        assert ran.of("tool")[0]["name"] == "Bash"
        seen = json.dumps(endpoint.of()[-1].body)
        assert "HOME=/home/node" in seen
        assert "Read-only file system" in seen
        assert "ANTHROPIC_API_KEY" not in seen
        assert "We sell tea." in seen
        office.run("main", "Hello.")
        assert "Be kind." not in json.dumps(endpoint.of()[-1].body["system"])


def test_what_is_observed_in_a_group_is_told_to_its_next_session(office: Office) -> None:
    """It is told to no other group. A clear by command ends the agent that works."""
    let_go = threading.Event()
    said = "Decision: prices are stored in cents as integers, because floats lose pennies."
    with office.model([said, Held(let_go, "Late."), "Hello again.", "Hello.", "I go on."]) as endpoint:
        office.box.start()
        office.create("ours", "theirs")
        first = office.run("ours", "How do we store prices? Decide it.").session_id
        office.box.settle()
        events = office.start("ours", "Go on.")
        take(events, "started")
        office.box.cli("groups", "clear", "ours", "--name", "Prices")
        let_go.set()
        assert Ran(list(events)).ended == "closed"
        assert office.active("ours") is None
        assert office.run("ours", "What do you know?").session_id != first
        told = json.dumps(endpoint.of()[-1].body["messages"])
        assert "Notes on ours" in told
        assert "floats lose pennies" in told
        office.run("theirs", "What do you know?")
        assert "pennies" not in json.dumps(endpoint.of()[-1].body)
        office.box.settle()
        (found, *_) = office.box.client.get("/api/groups/ours/search", query="pennies")["items"]
        assert found["name"] == "Prices"
        assert not office.box.client.get("/api/groups/theirs/search", query="pennies")["items"]
        # What is forgotten leaves the archive and the transcript, which can still be resumed.
        assert "pennies" in office.paths("ours").transcript(first).read_text()
        for row in office.box.client.get("/api/observations", project="group:ours")["items"]:
            if "pennies" in json.dumps(row):
                office.box.client.delete(f"/api/observations/{row['id']}")
        assert "pennies" not in office.paths("ours").transcript(first).read_text()
        assert "pennies" not in "".join(file.read_text() for file in office.paths("ours").conversations.iterdir())
        office.post("ours", "resume", id=office.history("ours")[0][0])
        assert office.run("ours", "Go on.").of("started") == [{"session_id": first, "resumed": True}]
        told = json.dumps(endpoint.of()[-1].body["messages"])
        assert "How do we store prices?" in told
        assert "pennies" not in told


@pytest.mark.parametrize(("setting", "reason"), [("GROUP_IDLE_MINUTES", "idle"), ("GROUP_RUN_MINUTES", "timeout")])
def test_an_agent_that_takes_too_long_is_ended(office: Office, setting: str, reason: str) -> None:
    office.box.settings[f"BACKSTORY_{setting}"] = "0.05"
    with office.model(lambda _: hang()):
        office.box.start()
        assert office.run("main", "Think.").ended == reason
        office.until_no_agent_runs()


def test_an_agent_can_be_ended_and_waits_for_a_slot(office: Office) -> None:
    """One agent at a time, by the setting. The one that works is ended at once, and the next one gets its turn. A group
    is deleted while its agent works, or waits. The worker ends all of them when it stops."""
    office.box.settings["BACKSTORY_GROUP_LIMIT"] = "1"

    def script(request: Request) -> Step:
        return hang() if "Think." in request.texts("user")[-1] else "Done."

    with office.model(script):
        worker = office.box.start()
        office.create("ours", "waits", "works")
        first = office.start("main", "Think.")
        take(first, "started")
        waiting = office.start("waits", "Hello.")
        take(waiting, "waiting")
        office.box.client.delete("/api/groups/waits")
        assert Ran(list(waiting)).ended == "closed"
        second = office.start("ours", "Hello.")
        take(second, "waiting")
        assert office.post("main", "close", now=True) == {"is_running": True}
        assert Ran(list(first)).ended == "closed"
        assert take(second, "result")["text"] == "Done."
        assert Ran(list(second)).ended == "done"
        assert office.post("main", "close") == {"is_running": False}
        working = office.start("works", "Think.")
        take(working, "started")
        office.box.client.delete("/api/groups/works")
        assert Ran(list(working)).ended == "closed"
        for folder in (office.paths("works").folder, office.paths("works").state, office.paths("works").ipc):
            assert not folder.exists()
        last = office.start("ours", "Think.")
        take(last, "started")
        office.box.stop(worker)
        assert Ran(list(last)).ended == "stopped"
        office.until_no_agent_runs()


def test_a_killed_worker_takes_its_agents_along(office: Office) -> None:
    """Also in the middle of a command. The next worker goes on with the session."""
    ours = office.paths("main").folder

    def script(request: Request) -> Step:
        if "Go on." in request.texts("user")[-1]:
            return "Done."
        return tool_use("Bash", {"command": "touch /workspace/group/started; sleep 300", "description": "Wait"})

    with office.model(script):
        worker = office.box.start()
        events = office.start("main", "Work.")
        session_id = take(events, "started")["session_id"]
        until((ours / "started").exists, "the command to run")
        # The agent writes its transcript late. A conversation without one would go on in a new session.
        transcript = office.paths("main").transcript(session_id)
        until(lambda: transcript.exists() and "sleep 300" in transcript.read_text(), "the transcript to be written")
        assert office.agents()
        office.box.kill(worker)
        office.until_no_agent_runs()
        office.box.start()
        assert office.run("main", "Go on.").session_id == session_id
        assert not list((office.box.data / "agent-runs").glob("launch-*"))
