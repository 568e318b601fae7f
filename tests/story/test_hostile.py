"""Everything goes wrong at once: hooks are lost, transcripts lag, the worker is killed, rounds are private, secrets are
printed. At the end the store is compared with what really happened, and every file and request is searched."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from box import COMMAND, Box, until
from endpoint import Endpoint, answer

SESSIONS = 6
#: What begins every private word; the rest of it says where it stood.
HUSH = "hushword"
#: What begins every secret that tools print, without the beginning by which its kind is known.
SECRET = "Zq7Xw9"
#: How often each hook is lost.
LOST = {"UserPromptSubmit": 0.25, "PostToolUse": 0.3, "Stop": 0.2}
#: How often a hook is killed while it works.
KILLED = 0.05


@dataclass
class Asked:
    """A prompt and what was really done for it."""

    text: str
    is_private: bool
    uses: list[str] = field(default_factory=list)
    said: str = ""


class Agent:
    """One session of a coding agent: it writes its transcript and calls the hooks, most of the time."""

    def __init__(self, box: Box, number: int, seed: int) -> None:
        self.box, self.id, self.dice = box, f"session-{number}", random.Random(f"{seed} {number}")
        #: Whether hooks and transcript carry ids of prompts. Older clients wrote none, and are read by the clock.
        self.hook_ids, self.line_ids = [(True, True), (True, True), (False, True), (False, False)][number % 4]
        self.path = box.home / ".claude" / "projects" / "shop" / f"{self.id}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text('{"type":"queue-operation"}\n')
        self.unwritten: list[str] = []
        self.asked: list[Asked] = []
        self.calls: Counter[str] = Counter()

    def work(self, going: threading.Event) -> None:
        while going.is_set():
            self.round(len(self.asked))
            # By the clock, two prompts without words must not be of one moment.
            time.sleep(self.dice.uniform(0.05, 0.4) + (0 if self.hook_ids else 1.5))
        self.flush()

    def round(self, number: int) -> None:
        dice, is_private = self.dice, self.dice.random() < 0.25
        if not self.hook_ids and any(asked.is_private for asked in self.asked[-2:]):
            is_private = False
        name = f"{self.id}x{number}x"
        word = f"{HUSH}{name}" if is_private else f"word{name}"
        text = f"<private>Do {word}</private>" if is_private else f"Do {word} <private>{HUSH}{name}</private> now"
        asked = Asked("" if is_private else f"Do {word}", is_private, said=f"Finished {word}.")
        self.asked.append(asked)
        prompt_id = f"prompt-{name}"
        self.line("user", prompt_id, {"role": "user", "content": text})
        self.hook("UserPromptSubmit", prompt_id, prompt=text)
        lags = self.hook_ids and dice.random() < 0.5
        for step in range(dice.randrange(4)):
            self.use(f"use-{name}{step}", word, prompt_id, lags)
            asked.uses.append(f"use-{name}{step}")
        said = [{"type": "text", "text": asked.said}]
        self.line("assistant", "", {"id": f"m-{name}", "role": "assistant", "content": said, "stop_reason": "end_turn"})
        if not lags or dice.random() < 0.5:
            self.flush()
        self.hook("Stop", prompt_id, last_assistant_message=asked.said)
        if dice.random() < 0.5:
            self.flush()

    def use(self, use: str, word: str, prompt_id: str, lags: bool) -> None:
        given = {"command": f"make {word}"}
        block = {"type": "tool_use", "id": use, "name": "Bash", "input": given}
        self.line("assistant", "", {"id": f"m-{use}", "role": "assistant", "content": [block]})
        if not lags:
            self.flush()
        secret = "ghp_" + SECRET + "".join(self.dice.choices("abcdefghijkmnpqrstuvwxyz23456789", k=30))
        output = {"stdout": f"made {word} with {secret}\n" + "x" * self.dice.randrange(1500), "stderr": ""}
        told = {"tool_name": "Bash", "tool_use_id": use, "tool_input": given, "tool_response": output}
        self.hook("PostToolUse", prompt_id, **told)
        result = {"type": "tool_result", "tool_use_id": use, "content": output["stdout"]}
        self.line("user", prompt_id, {"role": "user", "content": [result]}, toolUseResult=output)

    def line(self, kind: str, prompt_id: str, message: dict[str, Any], **more: Any) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"type": kind, "uuid": f"line-{self.id}-{time.time_ns()}", "sessionId": self.id, "timestamp": at}
        named = {"promptId": prompt_id} if self.line_ids and kind == "user" else {}
        self.unwritten.append(json.dumps(line | {"cwd": str(self.box.project), "message": message} | named | more))

    def flush(self) -> None:
        with self.path.open("a") as file:
            file.writelines(f"{line}\n" for line in self.unwritten)
        self.unwritten.clear()

    def hook(self, event: str, prompt_id: str, **payload: Any) -> None:
        chance = self.dice.random()
        if chance < LOST[event]:
            self.calls["lost"] += 1
            return
        payload |= {"session_id": self.id, "cwd": str(self.box.project), "transcript_path": str(self.path)}
        payload |= {"prompt_id": prompt_id} if self.hook_ids else {}
        is_killed = chance > 1 - KILLED
        self.calls["killed" if is_killed else "called"] += 1
        command = [str(self.box.shim), "claude-code", event]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(command, stdin=pipe, stdout=nothing, stderr=nothing, env=self.box.env) as run:
            assert run.stdin
            with contextlib.suppress(BrokenPipeError):
                run.stdin.write(json.dumps(payload).encode())
                run.stdin.close()
            if is_killed:
                time.sleep(self.dice.uniform(0, 0.05))
                run.kill()
            run.wait(30)


def kill_again_and_again(box: Box, times: int, dice: random.Random) -> int:
    """Kill whoever is the worker, at any moment of its life; hooks start it, too. How often."""
    for _ in range(times):
        quiet = subprocess.DEVNULL
        worker = subprocess.Popen([COMMAND, "worker"], env=box.env, cwd=box.home, stdout=quiet, stderr=quiet)
        box.processes.append(worker)
        time.sleep(dice.uniform(0, 1))
        # A worker that starts has no lock yet. Starting more of them would only make the machine busy.
        until(lambda: kill_worker(box), "a worker to kill", 60)
        worker.kill()
        worker.wait()
    return times


def kill_worker(box: Box) -> bool:
    """Kill the worker of this box, if there is one."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((box.data / "worker.lock").read_text() or 0)
        if pid and f"HOME={box.home}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes():
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def compare(box: Box, agents: list[Agent]) -> Counter[str]:
    """What the store says, against what happened; a count for each kind of difference."""
    wrong: Counter[str] = Counter()
    for agent in agents:
        (session,) = box.rows(f"SELECT id FROM sdk_sessions WHERE content_session_id = '{agent.id}'")  # noqa: S608
        of = f"WHERE session_id = {session['id']}"
        prompts = box.rows(f"SELECT * FROM user_prompts {of} ORDER BY created_at, id")  # noqa: S608
        told = Counter(" ".join((row["prompt"] or "").split()[:2]) for row in prompts)
        meant = Counter(asked.text for asked in agent.asked)
        wrong["prompts lost"] += sum((meant - told).values())
        wrong["prompts doubled"] += sum((told - meant).values())
        if wrong["prompts lost"] or wrong["prompts doubled"]:
            continue
        numbers = [row["prompt_number"] for row in prompts]
        events = box.rows(f"SELECT * FROM events {of}")  # noqa: S608
        turns = box.rows(f"SELECT * FROM turns {of} AND role = 'assistant'")  # noqa: S608
        told_of = [row["prompt_number"] for row in box.rows(f"SELECT prompt_number FROM observations {of}")]  # noqa: S608
        told_of += [row["prompt_number"] for row in box.rows(f"SELECT prompt_number FROM session_summaries {of}")]  # noqa: S608
        for number, asked in zip(numbers, agent.asked, strict=True):
            _compare_round(wrong, asked, number, events, turns)
            wrong["private rounds observed"] += asked.is_private and number in told_of
            wrong["rounds not observed"] += not asked.is_private and number not in told_of
        wrong["tool uses doubled"] += sum(row["tool_use_id"] is not None for row in events) - sum(
            len(asked.uses) for asked in agent.asked
        )
    return +wrong


def _compare_round(
    wrong: Counter[str], asked: Asked, number: int, events: list[dict[str, Any]], turns: list[dict[str, Any]]
) -> None:
    uses = {row["tool_use_id"]: row for row in events if row["tool_use_id"]}
    for use in asked.uses:
        row = uses.get(use)
        wrong["tool uses lost"] += row is None or (row["payload"] is None and not asked.is_private)
        wrong["tool uses under the wrong prompt"] += row is not None and row["prompt_number"] != number
        wrong["private events kept"] += row is not None and asked.is_private and row["payload"] is not None
        wrong["tool uses not observed"] += row is not None and row["status"] not in ("done", "tombstone")
    ends = [row for row in events if row["kind"] == "stop" and row["prompt_number"] == number]
    wrong["ends lost"] += not ends
    wrong["ends doubled"] += len(ends) > 1
    if not asked.is_private:
        wrong["ends of another round"] += any(asked.said not in (row["payload"] or "") for row in ends)
    said = [row["text"] for row in turns if row["prompt_number"] == number]
    wrong["replies wrong"] += said != [None if asked.is_private else asked.said]


def everything_goes_wrong(box: Box, kills: int, seed: int) -> None:
    with Endpoint(answer) as endpoint:
        model = {"provider": "openai", "model": "scripted", "api_key": "sk-test", "base_url": f"{endpoint.url}/v1"}
        box.settings |= {f"BACKSTORY_{name.upper()}": value for name, value in model.items()}
        box.cli("install")
        agents = [Agent(box, number, seed) for number in range(SESSIONS)]
        going = threading.Event()
        going.set()
        with ThreadPoolExecutor(SESSIONS) as pool:
            working = [pool.submit(agent.work, going) for agent in agents]
            try:
                killed = kill_again_and_again(box, kills, random.Random(seed))
            finally:
                going.clear()
            for future in working:
                future.result()
        read_to_the_end(box, agents)
        requests = json.dumps([request.body for request in endpoint.requests])
    wrong = compare(box, agents)
    rounds, calls = sum(len(agent.asked) for agent in agents), sum((agent.calls for agent in agents), Counter())
    print(f"seed {seed}: {killed} kills, {rounds} rounds, hooks {dict(calls)}, {len(endpoint.requests)} requests")
    assert not wrong, f"seed {seed}: {dict(wrong)}"
    box.cli("export", "--output", str(box.data / "export.jsonl"))  # what is packed in the database is plain there
    leaks = [file.name for file in box.data.rglob("*") if file.is_file() and _leaks(file.read_bytes())]
    assert not leaks, f"seed {seed}: private words or secrets in {leaks}"
    assert not _leaks(requests.encode()), f"seed {seed}: private words or secrets were sent"


def read_to_the_end(box: Box, agents: list[Agent]) -> None:
    """Let the worker read what is left; then once more, which must change nothing."""
    for agent in agents:
        # Nobody writes to it any more: the last round has ended.
        os.utime(agent.path, (time.time() - 3600, agent.path.stat().st_mtime - 3600))
    wanted = {(str(agent.path.resolve()), agent.path.stat().st_size) for agent in agents}

    def is_read() -> bool:
        rows = box.rows("SELECT path, size FROM transcripts WHERE reader = 'reconcile'")
        return wanted <= {(row["path"], row["size"]) for row in rows}

    for _ in range(2):
        kill_worker(box)
        box.start()
        until(is_read, "the transcripts to be read", 120)
        box.settle()
        until(lambda: not box.rows("SELECT 1 FROM erasures"), "what is private to be wiped", 60)


def _leaks(data: bytes) -> bool:
    return HUSH.encode() in data or SECRET.encode() in data


@pytest.mark.timeout(300)
def test_nothing_is_lost_doubled_misplaced_or_leaked(box: Box) -> None:
    """A few kills, and the same ones every time."""
    everything_goes_wrong(box, kills=6, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_nothing_is_lost_doubled_misplaced_or_leaked_at_full_size(box: Box) -> None:
    """Three hundred kills, other ones each time; a failure says its seed, and SEED=… repeats what agents do."""
    everything_goes_wrong(box, kills=300, seed=int(os.environ.get("SEED") or time.time()))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_nothing_is_lost_doubled_misplaced_or_leaked_on_postgres(box: Box, database_url: str) -> None:
    box.settings["BACKSTORY_DATABASE_URL"] = database_url
    everything_goes_wrong(box, kills=60, seed=int(os.environ.get("SEED") or time.time()))
