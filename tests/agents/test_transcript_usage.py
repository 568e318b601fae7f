"""What models used, as a transcript of Claude Code tells it: each message once, each part whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from transcripts import Script

from backstory.agents.claude_code.transcript import Transcript
from backstory.agents.transcripts import Mark
from backstory.model import Report

NAMES = ("input_tokens", "cached_tokens", "cache_5m_tokens", "cache_1h_tokens", "output_tokens", "cost_micros")


class Talk(Script):
    """A conversation whose messages have a model and a usage."""

    def spends(self, message: str, output: Any = 10, model: str = "claude-opus-5", **more: Any) -> str:
        """A line of a message, with a usage as the client writes it."""
        usage: dict[str, Any] = {"input_tokens": 3, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 50}
        usage |= {"cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 20}}
        uuid = self.says("…", message, **more)
        self.lines[-1]["message"] |= {"model": model, "usage": usage | {"output_tokens": output}}
        return uuid


def parts(path: Path, start: Mark | None = None, whole: bool = True) -> tuple[dict[str, list[Report]], Mark]:
    """The reports of usage by part, and where the pass ended."""
    reading = Transcript(path, start, whole)
    found: dict[str, list[Report]] = {}
    for report in reading:
        if report.kind == "usage":
            found.setdefault(report.payload["part"], []).append(report)
    return found, reading.mark


def used(report: Report) -> dict[str, tuple[int | None, ...]]:
    return {one["model"]: tuple(one.get(name) for name in NAMES) for one in report.payload["used"]}


def test_a_message_is_counted_once_with_its_last_usage(tmp_path: Path) -> None:
    """Each block is a line that repeats it, and the output is known only at the end. A subagent counts, too."""
    talk = Talk()
    first = talk.prompt("Add a discount")
    talk.spends("m1", output=1)
    talk.spends("m1", output=1)
    talk.uses("Read", {}, "t1", "m1")
    talk.lines[-1]["message"] |= {"model": "claude-opus-5", "usage": {"output_tokens": 173, "input_tokens": 3}}
    talk.answers("t1", "ok")
    talk.spends("m2", output=7)
    talk.spends("s1", output=5, model="claude-haiku-5-5", isSidechain=True)
    second = talk.prompt("And a test")
    talk.spends("m3", output=9, costUSD=0.25)
    found, _ = parts(talk.write(tmp_path))
    assert list(found) == [first, second]
    assert used(found[first][0]) == {
        "claude-opus-5": (6, 1000, 30, 20, 180, None),
        "claude-haiku-5-5": (3, 1000, 30, 20, 5, None),
    }
    assert used(found[second][0]) == {"claude-opus-5": (3, 1000, 30, 20, 9, 250_000)}


def test_passes_that_end_anywhere_find_what_one_pass_finds(tmp_path: Path) -> None:
    """Whoever keeps the largest of each part has counted every message once."""
    talk = Talk()
    for number in range(6):
        talk.prompt(f"Question {number}")
        for step in range(3):
            talk.spends(f"m{number}.{step}", output=1, stop="tool_use")
            talk.spends(f"m{number}.{step}", output=10 + step, stop="end_turn" if step == 2 else "tool_use")
        if number == 3:
            talk.compacts("What was said so far.")
            talk.spends("after", output=4)
    whole, _ = parts(talk.write(tmp_path, "whole.jsonl"))
    expected = {part: used(reports[0]) for part, reports in whole.items()}
    assert sum(models["claude-opus-5"][4] or 0 for models in expected.values()) == 6 * (10 + 11 + 12) + 4
    lines = talk.lines
    for first in range(1, len(lines), 3):
        for second in range(first + 1, len(lines), 4):
            kept: dict[str, Counter[str]] = {}
            mark: Mark | None = None
            for end in (first, second, len(lines)):
                talk.lines = lines[:end]
                found, mark = parts(talk.write(tmp_path), mark, end == len(lines))
                for part, reports in found.items():
                    (one,) = reports[0].payload["used"]
                    kept[part] = max(kept.get(part, Counter()), Counter(output=one["output_tokens"]), key=Counter.total)
            assert {part: one["output"] for part, one in kept.items()} == {
                part: models["claude-opus-5"][4] for part, models in expected.items()
            }


def test_what_the_client_counted_is_told_but_not_that_of_a_fork(tmp_path: Path) -> None:
    """A fork begins with a copy of the conversation, and its cost goes on from that."""
    cost = {"type": "cost-state", "sessionId": Script().session, "totalCostUSD": 0.07, "hasUnknownModelCost": False}
    talk = Talk()
    talk.prompt("Add a discount")
    talk.spends("m1")
    talk.lines += [cost | {"totalCostUSD": 0.03}, cost, cost | {"sessionId": "another", "totalCostUSD": 9}]
    found, _ = parts(talk.write(tmp_path))
    assert [report.payload["used"] for report in found[""]] == [[{"model": "", "cost_micros": 70_000}]]
    assert (
        "" not in parts(with_lines(talk, {"type": "queue-operation", "timestamp": "2026-02-01T00:00:00Z"}, tmp_path))[0]
    )
    for wrong in ({"hasUnknownModelCost": True}, {"totalCostUSD": "9"}, {"totalCostUSD": -1}, {"totalCostUSD": 1e300}):
        talk.lines[-3:] = [cost | wrong]
        assert "" not in parts(talk.write(tmp_path))[0], wrong
        talk.lines += [{}, {}]


def with_lines(talk: Talk, first: dict[str, Any], folder: Path) -> Path:
    """The conversation after a line that says when its file was started."""
    return type(talk)(lines=[first, *talk.lines]).write(folder, "fork.jsonl")


def test_what_is_damaged_counts_nothing(tmp_path: Path) -> None:
    """Nor does what the client writes in the model's name."""
    talk = Talk()
    asked = talk.prompt("Add a discount")
    talk.spends("m0", model="<synthetic>")
    numbers: tuple[Any, ...] = ("x", None, -1, True, 10**30, 1.5, [])
    for number, wrong in enumerate(numbers):
        talk.spends(f"m{number + 1}", output=wrong)
    damaged: tuple[dict[str, Any], ...] = ({"id": 5}, {"id": None}, {"model": None}, {"usage": []}, {"usage": None})
    for message in damaged:
        talk.spends("m20")
        talk.lines[-1]["message"] |= message
    talk.says("No usage at all.")
    talk.lines[-1]["message"]["usage"] = {"cache_creation": 7, "cache_creation_input_tokens": 5}
    talk.lines[-1]["message"]["model"] = "m" * 5000
    found, _ = parts(talk.write(tmp_path))
    models = used(found[asked][0])
    assert models.pop("m" * 200) == (0, 0, 5, 0, 0, None)
    assert models == {"claude-opus-5": (21, 7000, 210, 140, 0, None)}
