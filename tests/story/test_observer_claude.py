"""The observer on the Claude Agent SDK: the real worker, SDK and `claude`, with a scripted endpoint for the model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from box import Box, until
from claude import binary
from endpoint import Endpoint, Fault, Reply, Request, Step, hang, text

pytestmark = pytest.mark.skipif(binary() is None, reason="this platform's wheel has no claude inside")


@dataclass
class Model:
    """Answers each round with one observation, which names what it was asked about; or with what it is told to."""

    instead: list[Fault] = field(default_factory=list)
    processes: Callable[[], list[str]] = list
    costs: int | None = None
    at_once: list[int] = field(default_factory=list)  #: how many clients ran when it was asked

    def __call__(self, request: Request) -> Step:
        self.at_once.append(sum("launch.py" not in command for command in self.processes()))
        if self.instead:
            return self.instead.pop(0)
        asked = request.texts("user")[-1]
        mark = re.findall(r'<memory round="(\w+)">', asked)[-1]
        seen = re.findall(r"note-[\w-]+", asked.partition("</previous>")[2] or asked)
        told = (
            f'<memory round="{mark}"><observation><type>change</type><title>Saw {seen[0]}</title><facts><fact>It was '
            f"{len(seen)} times.</fact></facts></observation><summary><request>{seen[0]}</request></summary></memory>"
        )
        return Reply([text(told)], self.costs)


@dataclass
class Shop:
    """A machine whose observer asks `claude`; every start of that is written down."""

    box: Box
    model: Model
    endpoint: Endpoint

    def round(self, note: str, session: str = "content-1", settle: bool = True) -> None:
        """A prompt, a tool use and their end."""
        use = {"tool_name": "Read", "tool_use_id": f"use-{note}", "tool_input": {"file_path": f"{note}.py"}}
        self.tell("UserPromptSubmit", session, prompt=f"Look at {note}.")
        self.tell("PostToolUse", session, tool_response="found", **use)
        self.tell("Stop", session, last_assistant_message=f"{note} is fine.")
        if settle:
            self.box.settle()

    def tell(self, event: str, session: str = "content-1", **payload: Any) -> None:
        """What a hook sends."""
        told = {"session_id": session, "cwd": str(self.box.project)} | payload
        self.box.client.post(f"/hooks/claude-code/{event}", told)

    @property
    def runs(self) -> list[str]:
        """The words of each run so far, and who it was told to go on with."""
        log = self.box.home / "runs"
        return [line for line in log.read_text().splitlines() if "--version" not in line] if log.exists() else []

    @property
    def resumed(self) -> list[str | None]:
        return [found[1] if (found := re.search(r"--resume=(\S+)", run)) else None for run in self.runs]

    def memory_id(self, session: str = "content-1") -> str:
        rows = self.box.rows("SELECT memory_session_id FROM sdk_sessions WHERE content_session_id = ?", session)
        return str(rows[0]["memory_session_id"])

    @property
    def transcripts(self) -> list[Path]:
        return sorted((self.box.home / ".claude" / "projects").glob("*/*.jsonl"))

    def processes(self) -> list[str]:
        """Whatever of the observer's runs, by the mark that it carries."""
        home, found = f"HOME={self.box.home}\0".encode(), []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environ = (process / "environ").read_bytes()
                if home in environ and b"BACKSTORY_OBSERVER=" in environ:
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


@pytest.fixture
def shop(box: Box) -> Iterator[Shop]:
    model = Model()
    with Endpoint(model) as endpoint:
        own = box.root / "bin" / "claude"
        own.parent.mkdir()
        own.write_text(f'#!/bin/sh\necho "$*" | tr "\\n" " " >>~/runs\necho >>~/runs\nexec {binary()} "$@"\n')
        own.chmod(0o755)
        box.settings |= {
            "PATH": f"{own.parent}:{box.env['PATH']}",
            "ANTHROPIC_BASE_URL": endpoint.url,
            "ANTHROPIC_API_KEY": "made-up",
            "BACKSTORY_PROVIDER": "claude",
        }
        shop = Shop(box, model, endpoint)
        model.processes = shop.processes
        yield shop
        box.clean_up()


def all_is_well(shop: Shop) -> None:
    """Of whatever happened: each event once, nobody's orphan, never the agent's id, and nobody observed us."""
    box = shop.box
    assert {row["status"] for row in box.rows("SELECT status FROM events")} <= {"done", "tombstone"}
    doubled = (
        "SELECT 1 FROM observation_events o JOIN events e ON e.id = o.event_id WHERE e.kind = 'tool' GROUP BY e.id"
    )
    assert box.rows(doubled + " HAVING COUNT(*) > 1") == []
    orphans = "SELECT o.* FROM observations o LEFT JOIN sdk_sessions s ON o.memory_session_id = s.memory_session_id"
    assert box.rows(orphans + " WHERE s.id IS NULL") == []
    mixed = "SELECT 1 FROM observations o JOIN sdk_sessions s ON s.id = o.session_id"
    assert box.rows(mixed + " WHERE o.memory_session_id <> s.memory_session_id") == []
    assert not [run for run in shop.runs if "content-" in run]
    sessions = {row["content_session_id"] for row in box.rows("SELECT content_session_id FROM sdk_sessions")}
    assert all(name.startswith("content-") for name in sessions), sessions
    until(lambda: not shop.processes(), "the process of the last call to end")


def titles(shop: Shop, session: str = "content-1") -> list[str]:
    """What was observed of a session, found as people are told to: by the observer's id."""
    rows = shop.box.rows(
        "SELECT o.title FROM observations o JOIN sdk_sessions s ON o.memory_session_id = s.memory_session_id "
        "WHERE s.content_session_id = ? AND o.provider = 'claude' ORDER BY o.id",
        session,
    )
    return [row["title"] for row in rows]


def test_captured_gone_on_with_and_fresh_after_a_start(shop: Shop) -> None:
    """NULL, then the id of the first message; `--resume` of it from the second prompt on; a worker that starts begins
    anew, its id replaces the old one everywhere, and is gone on with in turn, until the conversation has grown."""
    worker = shop.box.start()
    shop.box.hook("SessionStart", {"session_id": "content-1", "source": "startup"})
    assert shop.box.rows("SELECT memory_session_id FROM sdk_sessions") == [{"memory_session_id": None}]
    shop.round("note-1")
    first = shop.memory_id()
    assert str(UUID(first)) == first
    assert [file.stem for file in shop.transcripts] == [first]
    shop.round("note-2")
    assert shop.resumed == [None, first]
    assert shop.memory_id() == first
    before = "".join(shop.endpoint.requests[1].texts())
    assert "note-1" in before and "note-2" in before  # it knows what it was told

    shop.box.kill(worker)
    shop.box.start()
    assert shop.transcripts == []  # none of before is ever gone on with
    shop.round("note-3")
    second = shop.memory_id()
    assert second != first
    shop.model.costs = 20_000
    shop.round("note-4")
    shop.round("note-5")
    assert shop.resumed == [None, first, None, second, None]
    assert "note-1" not in "".join(shop.endpoint.requests[3].texts())
    assert titles(shop) == [f"Saw note-{number}" for number in range(1, 6)]
    assert len(shop.endpoint.requests) == 5  # one call a round
    all_is_well(shop)


def test_a_conversation_that_is_gone_is_begun_anew_and_nothing_is_lost(shop: Shop) -> None:
    """Its file was deleted: the same round, at once, with a fresh one. And what is forgotten (I16) is in no file of the
    observer's, nor in what the next round is told."""
    shop.box.start()
    shop.round("note-1")
    first = shop.memory_id()
    for file in shop.transcripts:
        file.unlink()
    shop.round("note-2")
    second = shop.memory_id()
    assert shop.resumed == [None, first, None]
    assert titles(shop) == ["Saw note-1", "Saw note-2"]
    assert shop.box.rows("SELECT 1 FROM events WHERE last_error IS NOT NULL") == []
    shop.box.client.post("/api/forget", {"matching": "note-2"})
    assert shop.transcripts == []
    shop.round("note-3")
    assert shop.resumed == [None, first, None, None]
    assert shop.memory_id() not in (first, second)
    assert "note-2" not in "".join(shop.endpoint.requests[-1].texts())
    assert titles(shop) == ["Saw note-1", "Saw note-3"]
    all_is_well(shop)


def test_a_made_up_id_is_never_gone_on_with_after_a_change_of_provider(shop: Shop) -> None:
    """From the rules to Claude, and back, and again: only an id that Claude gave is ever passed to it."""
    del shop.box.settings["BACKSTORY_PROVIDER"]
    shop.box.start()
    shop.round("note-1")
    made_up = shop.memory_id()
    assert made_up.startswith("offline-")
    shop.box.cli("config", "set", "provider", "claude")
    shop.round("note-2")
    real = shop.memory_id()
    assert real != made_up
    assert shop.resumed == [None]
    shop.box.cli("config", "set", "provider", "offline")
    shop.round("note-3")
    assert shop.memory_id() == real
    shop.box.cli("config", "set", "provider", "claude")
    shop.round("note-4")
    shop.round("note-5")
    assert set(shop.resumed) <= {None, real, shop.memory_id()}
    assert made_up not in " ".join(shop.runs)
    assert titles(shop) == ["Saw note-2", "Saw note-4", "Saw note-5"]
    all_is_well(shop)


def test_sessions_at_the_same_time_stay_apart(shop: Shop) -> None:
    """Each has its conversation, and hears nothing of the other. No more run at once than are allowed."""
    shop.box.tuning["observers"] = 1
    at_once = shop.model.at_once
    worker = shop.box.start()
    for number in (1, 2):
        for session in "ab":
            shop.round(f"note-{session}-{number}", f"content-{session}", settle=False)
        shop.box.settle()
    ids = {session: shop.memory_id(f"content-{session}") for session in "ab"}
    assert len(set(ids.values())) == 2
    assert sorted(filter(None, shop.resumed)) == sorted(ids.values())
    for session in "ab":
        assert titles(shop, f"content-{session}") == [f"Saw note-{session}-1", f"Saw note-{session}-2"]
    for request in shop.endpoint.requests:
        assert len(set(re.findall(r"note-(\w)-\d", "".join(request.texts("user"))))) == 1
    assert set(at_once) == {1}
    all_is_well(shop)
    shop.box.stop(worker)
    assert list((shop.box.home / ".claude" / "projects").iterdir()) == []  # and nothing is left among the user's


def test_i13_our_own_sessions_are_never_observed(shop: Shop) -> None:
    """With our hooks in the user's settings, by reading transcripts behind them, and by an import of all there is; nor
    are those of another data directory."""
    shop.box.cli("install")
    shop.box.start()
    shop.round("note-1")
    (own,) = shop.transcripts
    theirs = own.parent.with_name("-home-somebody--backstory-observer--backstory-observer") / own.name
    renamed = own.parent.with_name("renamed") / own.name
    for file in (theirs, renamed):
        file.parent.mkdir()
        file.write_bytes(own.read_bytes().replace(str(shop.box.data).encode(), b"/home/somebody/.backstory"))
    for file in (own, theirs, renamed):
        shop.tell("Stop", transcript_path=str(file), last_assistant_message="x")
    until(lambda: shop.box.rows("SELECT 1 FROM transcripts"), "a look at the one that can't be told by its folder")
    told = json.loads(shop.box.cli("import", "claude-code", str(own.parent.parent), "--json").stdout)
    assert told["added"] == 0
    shop.box.settle()
    assert not [row for row in shop.box.rows("SELECT path FROM transcripts") if "observer" in row["path"]]
    all_is_well(shop)


def killed_in_the_middle(shop: Shop, times: int) -> None:
    """The model does not answer, and the worker goes: by kill -9, and every third time by being told to."""
    worker = shop.box.start()
    for number in range(times):
        shop.model.instead = [hang()]
        arrived = len(shop.endpoint.requests)
        shop.round(f"note-{number}", settle=False)
        shop.endpoint.wait(arrived + 1)
        assert shop.processes()
        if number % 3 == 2:
            shop.box.stop(worker)
            assert shop.processes() == []
        else:
            shop.box.kill(worker)
            until(lambda: not shop.processes(), "nothing of it to run", 5)
        worker = shop.box.start()
        shop.box.settle()
    assert titles(shop) == [f"Saw note-{number}" for number in range(times)]
    all_is_well(shop)


@pytest.mark.timeout(240)
def test_i11_kill_9_in_the_middle_of_a_call_leaves_no_process_and_loses_nothing(shop: Shop) -> None:
    """Nothing runs on for more than five seconds; every event is observed once."""
    killed_in_the_middle(shop, 3)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_i11_at_full_size(shop: Shop) -> None:
    """Thirty times."""
    killed_in_the_middle(shop, 30)
