"""What a model is asked: all that was said and done in a round, what came before it, and what it may replace."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from box import Box
from endpoint import Endpoint, Request, Step, answer
from test_model_observer import choose, work
from transcripts import Script

from backstory.model import ContentId, Event, Kind, MemoryId, Round, Turn
from backstory.observe import modes, prompts, replies

MODE = modes.load("code", Path("/nowhere"))
LONG = (
    "Session tokens are signed with the key of the region in which the user signed up, because the gateway of each "
    "region trusts no other, and rotates it every night"
)


def at(second: int) -> str:
    return f"2026-02-21T03:39:{second:02}.000Z"


def event(number: int, kind: Kind = "tool", tool: str = "Bash", **payload: Any) -> Event:
    return Event(number, 1, 2, kind, at(number), tool, f"t{number}", payload)


def said(second: int, text: str | None, number: int = 2, role: str = "assistant", mark: str | None = "m") -> Turn:
    return Turn(second, 1, second, number, role, None, text, at(second), mark)


def round_of(*events: Event, prompt: str = "Make it right", turns: tuple[Turn, ...] = ()) -> Round:
    return Round(1, ContentId("c"), None, "claude-code", "shop", "/home/me/shop", 2, prompt, events, turns=turns)


def asked(*events: Event, **more: Any) -> str:
    return prompts.question(round_of(*events, **more), MODE).ask.prompt


def reverted(talk: Script) -> None:
    talk.prompt("Mend the cart.")
    talk.says("I look at it first.", stop="tool_use")
    talk.uses("Bash", {"command": "pytest"}, "t1")
    talk.answers("t1", "1 failed")
    talk.says("The cause: `total` reads the cache before it is filled.", stop="tool_use")
    talk.uses("Edit", {"file_path": "/nowhere/reverted/cart.py", "old_string": "a", "new_string": "b"}, "t2")
    talk.answers("t2", "ok")
    talk.says("I take that back: it slows the checkout.", stop="tool_use")
    talk.uses("Bash", {"command": "git checkout cart.py"}, "t3")
    talk.answers("t3", "")
    talk.says("The cart is as it was.")


def interrupted(talk: Script) -> None:
    talk.prompt("Mend the cart.")
    talk.says("All of it will be mended.", stop="tool_use")
    talk.uses("Bash", {"command": "make"}, "t4")
    talk.answers("t4", "half")
    talk.prompt("Go on.")
    talk.says("It is mended.")


def agreed(talk: Script) -> None:
    talk.prompt("Where may the session id live?")
    talk.says("There are three ways. " * 100 + "Shall I move it to `session/`?")
    talk.prompt("Yes, do this.")
    talk.says("Moved.")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """name of a conversation -> the questions about it, which the worker reads from its transcript."""
    box = Box(tmp_path_factory.mktemp("shown"))
    box.home.mkdir()
    box.project.mkdir()
    box.tuning |= {"past_days": 0, "observers": 1}
    for number, tell in enumerate((reverted, interrupted, agreed)):
        talk = Script(str(UUID(int=number)), f"/nowhere/{tell.__name__}")
        tell(talk)
        talk.write(box.root / "old")
    try:
        with Endpoint(answer) as endpoint:
            choose(box, "anthropic", endpoint)
            box.start()
            box.cli("import", "claude-code", str(box.root / "old"))
            box.settle()
            questions = [request.texts("user")[-1] for request in endpoint.requests]
    finally:
        box.clean_up()
    return {
        tell.__name__: [question for question in questions if f'project="{tell.__name__}"' in question]
        for tell in (reverted, interrupted, agreed)
    }


def test_what_is_said_between_tool_uses_stands_in_its_place(shown: dict[str, list[str]]) -> None:
    """A diagnosis and the reason for a revert are in no tool's output and in no closing message."""
    (question,) = shown["reverted"]
    order = ["Mend the cart", "I look at it", '<event n="1"', "The cause:", '<event n="2"', "I take that back"]
    order += ['<event n="3"', '<said event="4" by="agent">\nThe cart is as it was.']
    places = [question.index(words) for words in order]
    assert places == sorted(places)
    assert question.count("The cart is as it was.") == question.count("The cause:") == 1


def test_a_text_from_before_the_last_tool_use_closes_nothing(shown: dict[str, list[str]]) -> None:
    """A round that was interrupted has no closing message, whatever its client reports as the last one."""
    first, second = shown["interrupted"]
    assert '<said event="2" by="agent"/>' in first and first.count("All of it will be mended.") == 1
    assert first.index("All of it") < first.index("<event")
    assert '<said event="1" by="agent">\nIt is mended.' in second


def test_a_text_of_the_round_before_closes_nothing() -> None:
    """A stale message that a hook reports is left out, also where it was stored as a turn of this round. The same words
    said again do close it, and so do words that no transcript has told yet."""
    stop = event(9, "stop", last_assistant_message="The port is 80.")
    before = said(1, "The port is 80.", number=1)
    for stale in ((before,), (before, said(9, "The port is 80.", mark=None))):
        question = asked(event(5), stop, turns=stale)
        assert '<said event="2" by="agent"/>' in question and question.count("The port is 80.") == 1
    for good in ((), (said(1, "Other", number=1),), (before, said(8, "The port is 80."))):
        assert '<said event="2" by="agent">\nThe port is 80.' in asked(event(5), stop, turns=good)
    silent = event(9, "stop", error="overloaded")
    assert '<said event="2" by="agent">\nIt was so.' in asked(event(5), silent, turns=(said(8, "It was so."),))


def test_a_part_of_a_round_has_what_was_said_in_it() -> None:
    """What came before was shown before, and what follows is shown later. The end has all of it."""
    turns = (said(2, "One."), said(4, "Two."), said(6, "Three."))
    whole = round_of(event(3), event(5), event(7), event(9, "stop"), turns=turns)
    part = replace(whole, earlier=whole.events[:1], events=whole.events[1:2])
    question = prompts.question(part, MODE).ask.prompt
    assert "Two." in question and "One." not in question and "Three." not in question
    question = prompts.question(replace(part, events=whole.events[1:]), MODE).ask.prompt
    assert all(words in question for words in ("One.", "Two.", "Three."))


def test_an_edit_is_a_diff() -> None:
    """The lines that changed and a few around them, for one edit, for several, and for a file that was written over."""
    old = "\n".join(f"line {n}" for n in range(300))
    new = old.replace("line 150", "line 150 is other")
    path = {"file_path": "/home/me/shop/a.py"}
    edits = {"edits": [{"old_string": old, "new_string": new}, {"old_string": "x", "new_string": ""}]}
    for given in ({"old_string": old, "new_string": new}, edits):
        question = asked(event(1, tool="Edit", tool_input=path | given, tool_response="ok"))
        assert "file_path: a.py" in question and "-line 150\n+line 150 is other\n line 151\n line 152\n" in question
        assert "line 147" not in question and "[…" not in question
    patch = {"structuredPatch": [{"lines": [" line 149", "-line 150", "+line 150 is other"]}]}
    question = asked(event(1, tool="Write", tool_input=path | {"content": new}, tool_response=patch))
    assert " line 149\n-line 150\n+line 150 is other" in question and "line 99" not in question


def test_the_errors_of_a_log_are_kept() -> None:
    """Its head, its tail, and what looks like an error between them, within the room that it has."""
    lines = [f"[{n}] compiling a module of the shop" for n in range(3000)]
    lines[1500] = "src/cart.py:77: error: `total` is not defined"
    for kind, key in (("tool", "tool_response"), ("tool_failure", "error")):
        log = {key: "\n".join(lines), "tool_input": {"command": "make"}}
        question = asked(event(1, kind, **log), event(2, "stop"))  # type: ignore[arg-type]
        assert "[0] compiling" in question and "cart.py:77: error" in question and "[2999] compiling" in question
        assert len(question) < 10_000


def test_the_longest_outputs_are_cut_first() -> None:
    """Prompt, closing message and short outputs are whole, however much a tool printed."""
    prompt, last = (f"{word} " * 1500 + f"{word}-end" for word in ("wish", "done"))
    uses = [event(n, tool_input={"command": "make"}, tool_response="x" * 200_000) for n in range(1, 50)]
    short = event(50, tool_input={"command": "cat notes"}, tool_response="note " * 60 + "noted")
    question = asked(*uses, short, event(51, "stop", last_assistant_message=last), prompt=prompt)
    assert prompt in question and last in question and "note " * 60 + "noted" in question
    assert question.count("[…") == 49 and len(question) < prompts.MAX_ROUND_CHARS
    huge = asked(*uses, event(51, "stop", last_assistant_message=last * 9), prompt=prompt * 9)
    assert len(huge) < prompts.MAX_ROUND_CHARS + 200 and "wish-end" in huge and "done-end" in huge


def test_an_answer_to_a_question_is_shown() -> None:
    """What the user chose when the agent asked."""
    given = {"questions": [{"question": "Which store?", "options": [{"label": "Redis"}, {"label": "Postgres"}]}]}
    told = 'User has answered your questions: "Which store?"="Postgres"'
    assert told in asked(event(1, tool="AskUserQuestion", tool_input=given, tool_response=told))


def test_the_round_before_tells_what_this_means(shown: dict[str, list[str]]) -> None:
    """Its prompt, the end of its last message and what was left open. A conversation that goes on knows them."""
    first, second = shown["agreed"]
    assert "<previous>" not in first
    before = second.partition("<previous>\n")[2].partition("\n</previous>")[0]
    assert before.startswith("asked: Where may the session id live?\nsaid at its end: ")
    assert before.endswith("Shall I move it to `session/`?") and len(before) < 800
    turns = (said(1, "Which way?", 1, "user"), said(2, "Shall I?", 1))
    known = replace(round_of(event(5), turns=turns), resume=MemoryId("m"))
    assert "<previous>" not in prompts.question(known, MODE, left_open="Write the docs").ask.prompt
    private = (said(1, "Not this.", 0), said(2, None, 1, "user"), said(3, None, 1))
    assert "<previous>" not in asked(event(5), turns=private)


def test_open_ends_are_carried_on(box: Box) -> None:
    """What the last summary left open is shown to the next question. The newest summary is the one that tells it."""
    left = iter(("Write the docs", "", "Publish"))

    def script(request: Request) -> Step:
        return answer(request).replace("</summary>", f"<next_steps>{next(left)}</next_steps></summary>")

    with Endpoint(script) as endpoint:
        choose(box, "openai", endpoint)
        box.start()
        for words in ("zebra", "gnu", "okapi"):
            work(box, "a", words)
            box.settle()
        first, second, third = (request.texts("user")[-1] for request in endpoint.requests)
    assert "left open" not in first and "left open" not in third
    assert "left open: Write the docs\n</previous>" in second
    rows = box.rows("SELECT next_steps FROM session_summaries ORDER BY prompt_number")
    assert [row["next_steps"] for row in rows] == ["", "", "Publish"]


def test_what_is_known_is_found_by_what_was_said_and_shown_whole(box: Box) -> None:
    """By the words between tool uses and by the files that were read, not only by the prompt; and not cut."""
    with Endpoint(answer) as endpoint:
        choose(box, "openai", endpoint)
        box.tuning |= {"past_days": 0}
        box.start()
        for text in (LONG, "Deploys are made on Fridays"):
            box.client.post("/api/memories", {"text": text, "cwd": str(box.project)})
        talk = Script(cwd=str(box.project))
        talk.now = talk.now.replace(year=2100)
        talk.prompt("Why does the login fail over there? " + "Please look closely and tell me all about it. " * 40)
        talk.says("Let me see how session tokens are signed for the region of the gateway.", stop="tool_use")
        talk.uses("Bash", {"command": "ls"}, "t1")
        talk.answers("t1", "a.py")
        talk.says("It is clear now.")
        box.cli("import", "claude-code", str(talk.write(box.root / "old")))
        box.settle()
        question = endpoint.requests[-1].texts("user")[-1]
    assert f"\n#1 decision: {LONG}\n</known>" in question


def test_a_model_replaces_what_it_wrote_rounds_ago_and_nothing_of_other_projects(box: Box) -> None:
    """In the same session and in a later one. A number of another project changes nothing."""
    titles = iter(
        (
            "Login sessions are cached in Redis",
            "Login sessions are cached in Memcached",
            "Login sessions live in Postgres",
            "Login sessions live in files",
        )
    )

    def script(request: Request) -> Step:
        title = f"<type>bugfix</type><title>{next(titles)}</title><replaces>1, 2, 3, 4</replaces>"
        return re.sub(r"<type>.*?</title>", title, answer(request), count=1)

    with Endpoint(script) as endpoint:
        choose(box, "openai", endpoint)
        box.start()
        for session, project in (("a", "shop"), ("t", "till"), ("a", "shop"), ("b", "shop")):
            work(box, session, "login sessions and where they are cached, or live", project=project)
            box.settle()
        questions = [request.texts("user")[-1] for request in endpoint.requests]
    assert [re.findall(r"^#(\d+) ", question, re.M) for question in questions] == [[], [], ["1"], ["3"]]
    rows = box.rows("SELECT superseded_by FROM observations ORDER BY id")
    assert [row["superseded_by"] for row in rows] == [3, None, 4, None]


def test_what_was_said_passes_the_gate() -> None:
    """Turns that an older version stored: a key or a private part of them is in no question."""
    key = "sk-" + "ant-" + "api03-" + "Zx9" * 31
    bad = f"The key is {key} <private>whisper</private> indeed"
    turns = (said(1, bad, 1, "user"), said(2, bad, 1), said(4, bad), said(8, bad))
    question = prompts.question(
        round_of(event(5), event(9, "stop"), turns=turns), MODE, left_open=f"Rotate {key}"
    ).ask.prompt
    assert question.count("indeed") == 4 and "left open: Rotate" in question
    assert key not in question and "whisper" not in question


def test_the_task_says_what_is_wanted() -> None:
    """Lengths, what a summary covers, how to replace, and no repetition: and answers are held to it."""
    task = prompts.task(MODE)
    assert "at most 140 characters" in task and "<replaces>" in task and "No field repeats another" in task
    assert "covers this round alone" in task and "carries on what earlier rounds left open" in task.replace("\n", " ")
    told = (
        "<observation><title>The port of the worker is 8080</title><subtitle>The worker's port is 8080</subtitle>"
        "<facts><fact>Port 8080 is the worker's</fact><fact>It was 80</fact></facts></observation>"
        f"<observation><title>{'word ' * 60}</title></observation>"
    )
    first, second = replies.parse_answer(told, round_of(event(5)), MODE).observations
    assert (first.subtitle, first.facts) == ("", ("It was 80",))
    assert len(second.title) <= 140 and second.title.endswith("word…")
