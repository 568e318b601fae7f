"""`groups run`, `groups chat` and the Python API talk to the agent of a group."""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest
from box import COMMAND, until
from claude import Claude
from endpoint import Held, Request, Step, error, hang
from office import Office, needs_sandbox, office_fixture
from terminal import PATIENCE, terminal

from backstory import groups
from backstory.errors import BackstoryError

pytestmark = needs_sandbox
office = office_fixture


def script(request: Request) -> Step:
    asked = request.texts("user")[-1]
    return error(400) if "Fail." in asked else f"You said: {asked}"


def test_the_command_and_the_api_pass_on_what_was_said(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    with office.model(script):
        office.box.settings |= office.env
        del office.box.settings["ANTHROPIC_API_KEY"]
        office.box.start()
        refused = office.box.cli("groups", "run", "main", "Hello.", check=False)
        assert refused.returncode == 1
        assert refused.stderr.startswith(
            "backstory: The agent has no credentials for its model.\nSet ANTHROPIC_API_KEY"
        )
        office.box.settings |= office.env
        assert office.box.cli("groups", "run", "main", "Hello.").stdout == "You said: Hello.\n"
        events = office.box.cli("groups", "run", "main", "-", "--json", input="From a pipe.").stdout.splitlines()
        assert [json.loads(line)["event"] for line in events] == ["started", "text", "result", "ended"]
        failed = office.box.cli("groups", "run", "main", "Fail.", check=False)
        assert failed.returncode == 1
        assert "backstory: The agent stopped with an error: " in failed.stderr
        said = office.box.cli("groups", "chat", "main", input="One.\n\nTwo.\n/exit\nThree.\n").stdout
        assert said == "You said: One.\nYou said: Two.\n"
        environment = office.box.env
        for name in [name for name in os.environ if name != "PYTEST_CURRENT_TEST"]:
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        answer = groups.run("main", "And you?")
        assert answer.text == "You said: And you?"
        assert answer.session_id == office.active("main")
        assert answer.ended == "done"
        assert not groups.send("main", "Later.")
        assert groups.run("main", "Now.").text == "You said: Later.\nNow."
        assert not groups.close("main")
        with pytest.raises(BackstoryError, match="There is no group"):
            groups.run("nobody", "Hello.")


def test_a_line_that_is_typed_while_the_agent_works_is_a_follow_up(office: Office) -> None:
    """In a terminal. Ctrl-C ends the agent, and the chat goes on."""
    let_go = threading.Event()
    with office.model([Held(let_go, "The first."), "The second.", hang(), "The third."]) as endpoint:
        office.box.start()
        client = Claude(office.box.home, office.box.project, endpoint, env=office.box.env | office.env)
        with terminal(client, program=[str(COMMAND), "groups", "chat", "main"]) as shown:
            shown.wait(">")
            shown.type("One.")
            endpoint.wait(1)
            shown.type("Two.")
            until(lambda: "Two." in office.transcripts("main"), "the follow-up")
            let_go.set()
            shown.wait("The second.")
            assert endpoint.of()[-1].texts("user")[-1] == "Two."
            shown.type("Think.")
            endpoint.wait(3)
            shown.process.send_signal(signal.SIGINT)
            shown.wait("The agent was ended.")
            shown.type("Three.")
            shown.wait("The third.")
            shown.type("/exit")
            assert shown.process.wait(PATIENCE) == 0


def test_variables_are_taken_over_the_socket_only(office: Office) -> None:
    office.box.start()
    body = {"message": "Hello.", "env": {"ANTHROPIC_API_KEY": "x"}}
    assert office.box.http("POST", "/api/groups/main/run", body).status == 403
    answer = office.box.http("POST", "/api/groups/main/run", {"message": "Hello."})
    assert (answer.status, answer.json["error"]) == (400, "The agent has no credentials for its model.")
    assert office.box.http("POST", "/api/groups/nobody/close", {}).status == 404
