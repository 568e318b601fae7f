"""Every event stands in its own round, whichever hooks arrive, whenever the transcript shows what happened.

A model of a session: rounds whose hooks are heard, lost or late, and a transcript that lags behind. At the end the
store must say what really happened: nothing lost, nothing twice, nothing under another prompt, nothing private.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from backstory import ids
from backstory.capture.reconcile import TranscriptRequest
from backstory.observe.offline import observe
from backstory.settings import Settings
from backstory.store import events, forget, forget_rows
from backstory.store.observations import Stored
from backstory.store.packing import unpack
from backstory.worker.app import App

SESSION = "11111111-2222-3333-4444-555555555555"
#: What becomes of a hook's call: it is lost, or delivered when the next round or the session is over.
HEARD, LOST, LATE = "heard", "lost", "late"
#: When the lines of a round reach the file: at once, before its Stop hook, after it, or with the next round.
AT_ONCE, BEFORE_STOP, AFTER_STOP, NEXT_ROUND = range(4)
#: Who tells the agent's ids of prompts; older clients wrote them nowhere, or into the transcript alone.
BOTH, NOBODY, TRANSCRIPT = "both", "nobody", "transcript"


@dataclass(frozen=True)
class Round:
    """A prompt and what was done for it."""

    prompt: str = HEARD
    tools: tuple[str, ...] = (HEARD,)
    stop: str = HEARD
    private: bool = False
    lag: int = AT_ONCE
    repeats: bool = False  #: asks in the same words as other rounds that repeat
    observed: bool = True  #: the observer looks before the next round
    restart: bool = False  #: the worker is started anew before it


@dataclass
class Day:
    """A session while it goes on."""

    root: Path
    ids: str
    now: int = field(default_factory=lambda: ids.now_ms() - 3_600_000)
    app: App = field(init=False)
    unwritten: list[dict[str, Any]] = field(default_factory=list)
    late: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  #: what the observer was shown

    def __post_init__(self) -> None:
        self.data = self.root / ".backstory"
        self.transcript = self.root / ".claude" / "projects" / "shop" / f"{SESSION}.jsonl"
        self.transcript.parent.mkdir(parents=True)
        self.transcript.write_text('{"type":"queue-operation"}\n')  # the client begins the file before it does anything
        self.open()
        record = self.app.settings.paths.installs / "claude-code-test.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text("{}")
        os.utime(record, (1, 1))

    def open(self) -> None:
        with mock.patch.object(Path, "home", return_value=self.root):
            self.app = App(Settings(data_dir=self.data, embedder="off"))
        self.app.intake.wipe = lambda: None  # `close` does it

    async def close(self) -> None:
        store = self.app.store
        if store.read(lambda tx: tx.all("erasures_open")):
            store.scrub()
        store.close()

    def tick(self, ms: int = 2000) -> int:
        self.now += ms
        return self.now

    def line(self, kind: str, prompt_id: str, message: dict[str, Any], **more: Any) -> None:
        at = ids.from_ms(self.tick())
        named = {"promptId": prompt_id} if self.ids in (BOTH, TRANSCRIPT) and kind == "user" else {}
        line = {"type": kind, "uuid": f"line-{self.now}", "sessionId": SESSION, "cwd": str(self.root), "timestamp": at}
        self.unwritten.append(line | named | {"message": message} | more)

    def flush(self) -> None:
        with self.transcript.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in self.unwritten)
        self.unwritten.clear()

    async def hook(self, fate: str, event: str, prompt_id: str, **payload: Any) -> None:
        payload |= {"session_id": SESSION, "cwd": str(self.root), "transcript_path": str(self.transcript)}
        payload |= {"prompt_id": prompt_id} if self.ids in (BOTH,) else {}
        name = f"{self.tick(150):013x}-{os.urandom(8).hex()}.claude-code.{event}.json"
        if fate == LATE:
            self.late.append((name, payload))
        elif fate == HEARD:
            await self.deliver(name, payload)

    async def deliver(self, name: str, payload: dict[str, Any]) -> None:
        spool = self.app.settings.paths.spool
        spool.mkdir(parents=True, exist_ok=True)
        (spool / name).write_text(json.dumps(payload))
        await self.app.spool.drain()
        if ".Stop." in name:
            await self.app.reconcile.read_now(TranscriptRequest("claude-code", self.transcript, 1))

    async def deliver_late(self, until: int) -> None:
        for name, payload in [one for one in self.late if int(one[0][:13], 16) < until]:
            self.late.remove((name, payload))
            await self.deliver(name, payload)

    async def observe(self) -> None:
        """Everything that is open, ended or not: earlier than the worker would."""
        store = self.app.store
        while claim := store.write(lambda tx: events.claim(tx, 60_000, long_ms=-60_000)):
            self.asked.append(repr(claim.round))
            reply = await observe(claim.round)
            store.write(partial(events.finish, claim=claim, stored=Stored(reply, "offline")))

    async def live(self, number: int, round: Round) -> None:
        if round.restart:
            await self.close()
            self.open()
        begun, prompt_id, word = self.now, f"prompt-{number}", word_of(number, round)
        asked = asked_in(number, round)
        self.line("user", prompt_id, {"role": "user", "content": asked})
        await self.hook(round.prompt, "UserPromptSubmit", prompt_id, prompt=asked)
        for step, fate in enumerate(round.tools):
            use, given = f"use-{number}-{step}", {"command": f"make {word}x{step}"}
            block = {"type": "tool_use", "id": use, "name": "Bash", "input": given}
            self.line("assistant", "", {"id": f"m-{use}", "role": "assistant", "content": [block]})
            if round.lag == AT_ONCE:
                self.flush()
            answer = {"stdout": f"made {word}x{step}", "stderr": ""}
            told = {"tool_name": "Bash", "tool_use_id": use, "tool_input": given, "tool_response": answer}
            await self.hook(fate, "PostToolUse", prompt_id, **told)
            result = {"type": "tool_result", "tool_use_id": use, "content": answer["stdout"]}
            self.line("user", prompt_id, {"role": "user", "content": [result]}, toolUseResult=answer)
        said = {"type": "text", "text": f"Finished {word}."}
        message = {"id": f"m-{number}", "role": "assistant", "content": [said], "stop_reason": "end_turn"}
        self.line("assistant", "", message)
        if round.lag <= BEFORE_STOP:
            self.flush()
        await self.hook(round.stop, "Stop", prompt_id, last_assistant_message=said["text"])
        if round.lag <= AFTER_STOP:
            self.flush()
        await self.deliver_late(begun)
        if round.observed:
            await self.observe()

    async def end(self) -> None:
        self.flush()
        await self.app.reconcile.read_now(TranscriptRequest("claude-code", self.transcript, 1))
        await self.deliver_late(self.now + 1)
        os.utime(self.transcript, (self.now / 1000, self.now / 1000))  # nobody writes to it any more
        await self.app.reconcile.read_now(TranscriptRequest("claude-code", self.transcript, 1))
        await self.observe()
        await self.close()


def word_of(number: int, round: Round) -> str:
    return f"{'hush' if round.private else 'word'}{number}"


def asked_in(number: int, round: Round) -> str:
    if round.private:
        return f"<private>Please make {word_of(number, round)}</private>"
    return "Go on." if round.repeats else f"Please make {word_of(number, round)}"


def live(ids: str, rounds: list[Round], installed_after_ms: int = 0) -> tuple[Day, dict[str, list[dict[str, Any]]]]:
    """A day, and what is stored of it in the end."""

    async def whole() -> None:
        for number, round in enumerate(rounds):
            await day.live(number, round)
        await day.end()

    with tempfile.TemporaryDirectory() as folder:
        day = Day(Path(folder), ids)
        if installed_after_ms:
            at = (day.now + installed_after_ms) / 1000
            os.utime(next(day.app.settings.paths.installs.iterdir()), (at, at))
        asyncio.run(whole())
        rows = dict(_rows(day))
        rows["files"] = [{"name": f.name, "bytes": f.read_bytes()} for f in day.data.rglob("*") if f.is_file()]
    return day, rows


def _rows(day: Day) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    connection = sqlite3.connect(day.data / "backstory.db")
    connection.row_factory = sqlite3.Row
    for table in ("user_prompts", "events", "observations", "session_summaries", "turns", "chunks"):
        rows = [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY id")]  # noqa: S608
        yield table, [row | {"payload": unpack(row["payload"])} if "payload" in row else row for row in rows]
    connection.close()


def check(ids: str, rounds: list[Round]) -> None:
    """The store says what really happened."""
    day, stored = live(ids, rounds)
    prompts = sorted(stored["user_prompts"], key=lambda row: row["created_at"])
    wanted = [None if r.private else asked_in(n, r) for n, r in enumerate(rounds)]
    assert [row["prompt"] for row in prompts] == wanted
    assert [bool(row["is_private"]) for row in prompts] == [r.private for r in rounds]
    for number, round in enumerate(rounds):
        check_round(number, round, prompts[number]["prompt_number"], stored)
    kinds = {"tool": sum(len(r.tools) for r in rounds), "stop": len(rounds)}
    assert {kind: Counter(row["kind"] for row in stored["events"])[kind] for kind in kinds} == kinds
    for file in stored["files"]:
        assert b"hush" not in file["bytes"], file["name"]
    if ids == BOTH or all(r.lag == AT_ONCE for r in rounds):
        assert "hush" not in "".join(day.asked)


def check_round(number: int, round: Round, place: int, stored: dict[str, list[dict[str, Any]]]) -> None:
    word = word_of(number, round)
    for step in range(len(round.tools)):
        (use,) = [row for row in stored["events"] if row["tool_use_id"] == f"use-{number}-{step}"]
        assert use["prompt_number"] == place, use
        assert (use["status"], use["payload"] is None) == (("tombstone", True) if round.private else ("done", False))
    (stop,) = [r for r in stored["events"] if r["kind"] == "stop" and r["prompt_number"] == place]
    assert (f"{word}." in (stop["payload"] or "")) is not round.private
    said = [r for r in stored["turns"] if r["prompt_number"] == place and r["role"] == "assistant"]
    assert [row["text"] for row in said] == [None if round.private else f"Finished {word}."]
    told = [row for row in stored["session_summaries"] if row["prompt_number"] == place]
    told += [row for row in stored["observations"] if row["prompt_number"] == place]
    assert bool(told) is not round.private
    for row in told:
        text = json.dumps(row).replace(f"{word}.", "").replace(f"{word}x", "").replace(f"make {word}", "")
        assert "word" not in text, row


def damaged(rounds: list[Round], damage: Callable[[Path], None], later: list[Round]) -> dict[int, dict[str, Any]]:
    """Live some rounds without ids of prompts, damage the transcript, and go on. Return the tool use of each round that
    is stored, with the words of the prompt of its number."""

    async def whole() -> None:
        for number, round in enumerate([*rounds, *later]):
            if number == len(rounds):
                damage(day.transcript)
            await day.live(number, round)
        await day.end()

    with tempfile.TemporaryDirectory() as folder:
        day = Day(Path(folder), NOBODY)
        asyncio.run(whole())
        stored = dict(_rows(day))
        assert not any(b"hush" in file.read_bytes() for file in day.data.rglob("*") if file.is_file())
    asked = {row["prompt_number"]: row["prompt"] for row in stored["user_prompts"]}
    for row in stored["turns"]:
        assert row["role"] == "user" or row["text"][-6:-1] in (asked[row["prompt_number"]] or ""), row
    uses = [row for row in stored["events"] if row["tool_use_id"]]
    return {int(row["tool_use_id"][4]): row | {"asked": asked.get(row["prompt_number"])} for row in uses}


def halve(transcript: Path) -> None:
    """Cut a transcript in the middle of a line, as a full disk or a kill does."""
    raw = transcript.read_bytes()
    middle = raw.index(b"\n", len(raw) // 2)
    transcript.write_bytes(raw[: middle - 50])


@pytest.mark.parametrize("prompt", [HEARD, LOST])
@pytest.mark.parametrize("before", [HEARD, LOST])
def test_the_prompt_after_a_cut_is_read(prompt: str, before: str) -> None:
    """The line of the prompt is appended to half a line. What was done for it never counts for one before the cut."""
    rounds = [Round(stop=before) for _ in range(4)] + [Round(stop=before, tools=(LOST,))]
    uses = damaged(rounds, halve, [Round(prompt, (LOST,), LOST), Round(prompt, (LOST,), LOST)])
    for number in (5, 6):
        assert uses[number]["asked"] == f"Please make word{number}"
        assert f"word{number}x" in uses[number]["payload"]


def blot_out(number: int) -> Callable[[Path], None]:
    """Make the line of a prompt unreadable."""

    def damage(transcript: Path) -> None:
        lines = transcript.read_bytes().splitlines(keepends=True)
        (at,) = [n for n, line in enumerate(lines) if re.search(rb"make (word|hush)%d[\"<]" % number, line)]
        lines[at] = lines[at][:60] + b"\n"
        transcript.write_bytes(b"".join(lines))

    return damage


def test_a_hook_tells_the_prompt_whose_line_cannot_be_read() -> None:
    rounds = [Round(), Round(), Round(HEARD, (LOST,), LOST, lag=BEFORE_STOP)]
    uses = damaged(rounds, blot_out(2), [Round()])
    assert [uses[number]["asked"] for number in range(4)] == [f"Please make word{number}" for number in range(4)]
    assert "word2x" in uses[2]["payload"]


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("stop", [HEARD, LOST])
def test_nobody_tells_a_prompt_and_its_events_are_held_back(private: bool, stop: str) -> None:
    """Its hook was lost, and its line cannot be read: it may have been private."""
    rounds = [Round(), Round(stop=stop), Round(LOST, (LOST,), LOST, private=private, lag=BEFORE_STOP)]
    uses = damaged(rounds, blot_out(2), [Round()])
    assert [uses[number]["asked"] for number in (0, 1, 3)] == [f"Please make word{number}" for number in (0, 1, 3)]
    assert (uses[2]["status"], uses[2]["reason"], uses[2]["payload"]) == ("tombstone", "untold", None)


# A day takes a third of a second: there are fewer than of other things, and a failing one is not made smaller.
EXAMPLES = settings().max_examples * 2 // 5
FATES = st.sampled_from([HEARD, HEARD, LOST, LATE])
ROUNDS = st.builds(
    Round,
    prompt=FATES,
    tools=st.lists(FATES, min_size=0, max_size=2).map(tuple),
    stop=FATES,
    private=st.sampled_from([False, False, True]),
    lag=st.sampled_from([AT_ONCE, AT_ONCE, BEFORE_STOP, AFTER_STOP, NEXT_ROUND]),
    repeats=st.booleans(),
    observed=st.booleans(),
    restart=st.sampled_from([False, False, False, True]),
)


@pytest.mark.parametrize("ids", [BOTH, NOBODY, TRANSCRIPT])
def test_the_stop_of_a_private_round_never_replaces_another_rounds_summary(ids: str) -> None:
    """The second round loses both hooks, the last is private and loses its prompt's."""
    check(ids, [Round(), Round(LOST, stop=LOST), Round(), Round(LOST, private=True)])


@pytest.mark.parametrize("ids", [BOTH, NOBODY, TRANSCRIPT])
def test_a_prompt_is_kept_once_when_its_transcript_is_read_before_the_spool(ids: str) -> None:
    check(ids, [Round(), Round(LATE), Round(LATE, repeats=True), Round(LATE, repeats=True)])


@pytest.mark.parametrize("ids", [BOTH, NOBODY, TRANSCRIPT])
def test_a_round_under_way_at_the_install_is_kept_without_its_prompt(ids: str) -> None:
    """Nothing from before the install is read, so nobody tells its prompt; what it does afterwards is whole."""
    _, stored = live(ids, [Round(LOST, (HEARD, LOST))], installed_after_ms=2100)
    assert stored["user_prompts"] == []
    rows = [row for row in stored["events"] if row["kind"] in ("tool", "stop")]
    assert {row["status"] for row in rows} == {"done"}
    assert len({row["prompt_number"] for row in rows}) == 1
    assert ["word0" in row["payload"] for row in rows] == [True] * 3


def test_what_was_held_back_and_then_forgotten_stays_away() -> None:
    """A session is forgotten before its transcript shows the prompt."""

    async def whole(day: Day) -> None:
        await day.live(0, Round())
        await day.live(1, Round(LOST, lag=NEXT_ROUND))
        await day.app.intake.write(lambda tx: forget.session(tx, 1, forget_rows.Forgotten()))
        await day.end()

    with tempfile.TemporaryDirectory() as folder:
        day = Day(Path(folder), BOTH)
        asyncio.run(whole(day))
        rows = dict(_rows(day))
    assert {row["payload"] for row in rows["events"]} == {None}
    assert rows["observations"] == rows["session_summaries"] == []


@pytest.mark.timeout(3600)
@settings(max_examples=EXAMPLES, phases=[Phase.explicit, Phase.generate])
@given(st.sampled_from([BOTH, NOBODY, TRANSCRIPT]), st.lists(ROUNDS, min_size=1, max_size=5))
@example(BOTH, [Round(), Round(LOST, (LATE,), LATE, lag=NEXT_ROUND), Round(LOST, private=True, lag=NEXT_ROUND)])
def test_every_event_stands_in_its_own_round(ids: str, rounds: list[Round]) -> None:
    check(ids, rounds)
