"""`backstory search` and `show`, as people use them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from box import Box
from terminal import in_terminal


def say(box: Box, session: str, prompt: str, reply: str, **more: Any) -> None:
    box.hook("UserPromptSubmit", {"session_id": session, "prompt": prompt, **more})
    box.hook("Stop", {"session_id": session, "last_assistant_message": reply, **more})


@pytest.fixture
def told(running: Box) -> Box:
    """Two projects: this one is `shop`, the other one `till`."""
    till = running.root / "till"
    till.mkdir()
    running.hook("UserPromptSubmit", {"session_id": "a", "prompt": "The discount is taken off twice, mend it."})
    file = {"file_path": str(running.project / "src" / "cart.py"), "old_string": "a", "new_string": "b"}
    edit = {"tool_name": "Edit", "tool_input": file, "tool_response": {"filePath": file["file_path"]}}
    running.hook("PostToolUse", {"session_id": "a", "tool_use_id": "t1", **edit})
    cause = "Cause: `apply_discount` in `src/cart.py` took the discount off on every call. It keeps the codes now."
    running.hook("Stop", {"session_id": "a", "last_assistant_message": cause})
    say(running, "b", "Print receipts in landscape.", "The receipts are printed in landscape now.", cwd=str(till))
    running.settle()
    return running


def found(box: Box, *words: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(box.cli("search", *words, "--json").stdout)["items"]
    return items


def test_this_project_is_searched_and_others_are_named(told: Box) -> None:
    """By default, by name and everywhere. A directory that memory does not know searches everything."""
    assert {item["project"] for item in found(told, "discount")} == {"shop"}
    assert re.fullmatch(
        r"Nothing was found in shop\. Other projects have \d results?: add --all-projects\.\n",
        told.cli("search", "receipts").stdout,
    )
    assert {item["project"] for item in found(told, "receipts", "--all-projects")} == {"till"}
    assert {item["project"] for item in found(told, "receipts", "--project", "till")} == {"till"}
    everywhere = told.cli("search", "receipts", "--json", cwd=told.home).stdout
    assert {item["project"] for item in json.loads(everywhere)["items"]} == {"till"}
    for words, said in (
        (("--project", "tilll"), "There is no project `tilll`. Did you mean `till`?"),
        (("--project", "zzz"), "There is no project `zzz`. Memory has till, shop."),
        (("--type", "bugfx"), "There is no type `bugfx`. Did you mean `bugfix`?"),
        (("--concept", "gotchas"), "There is no concept `gotchas`. Did you mean `gotcha`?"),
        (("--session", "99"), "There is no session 99."),
        (("--since", "someday"), "`someday` is not a time."),
    ):
        run = told.cli("search", "receipts", *words, check=False)
        assert run.returncode == 1 and said in run.stderr, run
    assert "Did you mean `till`?" in told.cli("sessions", "--project", "tilll", check=False).stderr
    assert "Did you mean `till`?" in told.cli("stats", "--project", "tilll", check=False).stderr


def test_a_round_is_one_result_and_every_id_can_be_shown(told: Box) -> None:
    """A prompt and its summary are one. `show` takes what search prints."""
    items = found(told, "discount", "--kind", "all")
    rounds = [item["prompt_number"] for item in items if item["kind"] != "observation"]
    assert len(rounds) == len(set(rounds)) == 1
    marks = re.findall(r"^ *(#\d+|S\d+) ", told.cli("search", "discount", "--kind", "all").stdout, re.MULTILINE)
    assert {mark[0] for mark in marks} == {"#", "S"}
    shown = told.cli("show", *marks).stdout
    assert "Session S1 of shop" in shown and "Asked:" in shown and "Cause:" in shown
    assert [("prompts" in row) for row in json.loads(told.cli("show", *marks, "--json").stdout)] == [
        mark[0] == "S" for mark in marks
    ]
    assert "S1 is a session" in told.cli("pin", "S1", check=False).stderr
    assert told.cli("sessions", "show", "S1").stdout == told.cli("sessions", "show", "1").stdout


def test_quotes_of_the_shell_make_no_phrase(told: Box) -> None:
    """A phrase needs quotes of its own."""
    assert found(told, "call every discount") == found(told, "call", "every", "discount") != []
    assert found(told, '"on every call"')
    assert not found(told, '"call every discount"')


def test_filters_need_no_words_and_times_are_local(told: Box) -> None:
    """The newest come first. Days are those of the user's clock, not of the worker's."""
    (item, *_) = found(told, "--file", "cart.py")
    assert item["kind"] == "observation" and not found(told, "--file", "nothing.py")
    assert found(told, "--since", "1h") and not found(told, "--until", "yesterday")
    assert "Nothing to search for" in told.cli("search", check=False).stderr
    # Fourteen hours ahead, and twelve behind: one of both has another day than UTC.
    for zone in ("Pacific/Kiritimati", "Etc/GMT+12"):
        told.settings["TZ"] = zone
        assert found(told, "discount", "--since", "today"), zone
        assert not found(told, "discount", "--until", "yesterday"), zone
        assert told.cli("sessions", "search", "discount", "--since", "today").stdout.startswith("   S1 ")


@pytest.mark.parametrize("words", [("discount",), ("receipts", "--all-projects")])
def test_most_of_a_line_is_text(told: Box, words: tuple[str, ...]) -> None:
    """At 80 columns, at least 60."""
    shown = in_terminal(told, "search", *words).replace("\r", "").splitlines()
    assert shown
    for line in shown:
        mark = re.match(r" *[#S]\d+ +(?:now|\d+[mhdwy]) (\w+ +)?", line)
        assert mark and len(mark[0]) <= 20 and len(line) <= 80, line


def test_what_is_stored_nowhere_is_not_found(running: Box) -> None:
    """Parts of a name that stand apart are not the name. One wrong letter is forgiven."""
    for text in ("The secret is in the vault.", "A round of the observer ends with Stop.", "We keep prices in cents."):
        running.client.post("/api/memories", {"text": text, "project": "shop", "cwd": str(running.project)})
    for number in range(12):
        running.client.post("/api/memories", {"text": f"Note {number} about the shop.", "project": "shop"})
    for words in ("secret-round", "kubernetes ingress", "cart_total", "terraform state of the zebra"):
        assert not found(running, words, "--all-projects"), words
    for words in ("prices", "prises", "secret vault", "how do we keep our prices", "observer rounds"):
        assert found(running, *words.split(), "--all-projects"), words
