"""Bench: what one hook costs an agent, beside a bare start of the same interpreter, interleaved in one run."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lab import MARK, Lab, end_gently, interpreter, lab, load, machine, ms, p50, percentile, say, table, tool_use

from backstory.prefilter import suspicious

WARM = 5
SMALL, LARGE = 3 << 10, 1 << 20
OBSERVATIONS = 100
PRIVATE = "<private>the door code is 4711</private>"
SECRET = "ghp" + "_" + "R4nd0mBenchT0kenThat0pensN0D00rAtAll"  # put together, so that no scanner takes it for one


@dataclass
class Variant:
    """One way to run it, and the times it took."""

    name: str
    words: list[str]
    env: dict[str, str]
    payload: bytes = b""
    stored: bool = False  #: each run is one more row in `events`
    after: Callable[[], None] = lambda: None
    times: list[float] = field(default_factory=list)


class Runner:
    """Starts programs with as little of its own in the time as can be."""

    def __init__(self, folder: Path) -> None:
        self._payload, self._number = folder / "payload.json", 0

    def run(self, variant: Variant) -> float:
        """Seconds from the start of a program to its end; its payload is a new tool use each time."""
        self._number += 1
        self._payload.write_bytes(variant.payload.replace(MARK, b"toolu_%016d" % self._number))
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, str(self._payload), os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
        ]
        began = time.perf_counter()
        pid = os.posix_spawn(variant.words[0], variant.words, variant.env, file_actions=actions)
        _, status = os.waitpid(pid, 0)
        took = time.perf_counter() - began
        if status:
            raise RuntimeError(f"{variant.name}: status {status}")
        variant.after()
        return took


def empty_spool(data: Path) -> None:
    """One event was left there, whole; away with it, so that each run finds the same."""
    spool = data / "spool"
    left = [file.name for file in spool.glob("[!.]*.json")]
    if len(left) != 1:
        raise RuntimeError(f"the spool holds {left}, not one event")
    shutil.rmtree(spool)


def variants(up: Lab, down: Lab) -> list[Variant]:
    there, away = up.install(), down.install()
    plain = interpreter(there)

    def tool(name: str, size: int, planted: str = "") -> Variant:
        payload = tool_use(up.project, size, planted)
        if suspicious(payload) != bool(planted):
            raise RuntimeError(f"{name}: the payload is not what its name says")
        return Variant(name, [str(there), "claude-code", "PostToolUse"], up.env, payload, stored=True)

    def spooled(name: str, size: int) -> Variant:
        words = [str(away), "claude-code", "PostToolUse"]
        return Variant(name, words, down.env, tool_use(down.project, size), after=lambda: empty_spool(down.data))

    start = {"session_id": "next", "cwd": str(up.project), "hook_event_name": "SessionStart", "source": "startup"}
    return [
        Variant("floor: `python -I -S -c pass`", [plain, "-I", "-S", "-c", "pass"], up.env),
        Variant("the same, by way of `sh`", ["/bin/sh", "-c", f"exec '{plain}' -I -S -c pass"], up.env),
        tool("PostToolUse 3 KB, worker up", SMALL),
        spooled("PostToolUse 3 KB, worker down (spool)", SMALL),
        tool("PostToolUse 3 KB, `<private>` stripped", SMALL, PRIVATE),
        tool("PostToolUse 3 KB, secret redacted", SMALL, f"github = {SECRET}\n"),
        tool("PostToolUse 1 MB, worker up", LARGE),
        spooled("PostToolUse 1 MB, worker down (spool)", LARGE),
        tool("PostToolUse 1 MB, `<private>` stripped", LARGE, PRIVATE),
        Variant(
            f"SessionStart, context of {OBSERVATIONS} observations",
            [str(there), "claude-code", "SessionStart"],
            up.env,
            json.dumps(start).encode(),
            # The same start twice within a moment is one event: it is not counted.
        ),
    ]


def measure(runs: int) -> str:
    with lab() as up, lab() as down, tempfile.TemporaryDirectory(prefix="backstory-bench-") as folder:
        chosen = variants(up, down)
        up.start()
        say(f"filling the memory with {OBSERVATIONS} observations")
        up.fill(OBSERVATIONS)
        filled, runner = up.count("events", "kind = 'tool'"), Runner(Path(folder))
        for number in range(WARM + runs):
            if number % 50 == 0:
                say(f"hook: round {number} of {WARM + runs}, {load()}")
            for variant in chosen:
                took = runner.run(variant)
                if number >= WARM:
                    variant.times.append(took)
        sent, stored = (WARM + runs) * sum(v.stored for v in chosen), up.count("events", "kind = 'tool'") - filled
        if stored != sent:
            raise RuntimeError(f"{sent} events were sent, {stored} are stored")
    return shown(chosen)


def shown(chosen: list[Variant]) -> str:
    floor = p50(chosen[0].times)
    rows = [
        [v.name, ms(p50(v.times)), ms(percentile(v.times, 0.99)), ms(min(v.times)), f"{p50(v.times) / floor:.2f}"]
        for v in chosen
    ]
    return table(["hook, ms from spawn to exit", "p50", "p99", "min", "p50 / floor"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="how often each variant runs")
    runs = parser.parse_args().runs
    end_gently()
    before = load()
    result = measure(runs)
    print(f"{machine()}. {runs} runs each, interleaved; {before} at the start, {load()} at the end.\n")
    print(result)
    print(
        "\nEvery tool use with the worker up was checked to be one row in `events`, every other one file in the spool."
    )


if __name__ == "__main__":
    main()
